// sim: runs the simulated job for many seeds, or replays one.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "tests/sim/mutations.hpp"
#include "tests/sim/run.hpp"

namespace {

struct Options {
    std::uint64_t first = 1;
    std::uint64_t seeds = 5000;
    int jobs = 1;
    std::uint64_t replay = 0;
    bool with_trace = false;
    bool with_statistics = false;
    std::uint64_t failures_max = 5;
    std::string mutation;
    bool lists_mutations = false;
};

void report(const std::string& program, std::uint64_t seed, const std::string& violation) {
    fmt::print("seed {}: {}\n    replay: {} --replay {} --trace\n", seed, violation, program, seed);
    std::fflush(stdout);
}

struct Tally {
    std::uint64_t failures = 0;
    std::uint64_t events = 0;
    std::uint64_t values = 0;
    std::uint64_t recoveries = 0;
    std::map<std::string, std::uint64_t> ends;
};

std::string end_of(const sft::sim::Outcome& outcome) {
    static constexpr const char* kReasons[] = {"none",     "requested",   "nothing committed",
                                               "no spare", "copies lost", "past the end"};
    if (outcome.stage == sft::Stage::ended) {
        return std::string("ended: ") + kReasons[static_cast<std::size_t>(outcome.end_reason)];
    }
    return outcome.stage == sft::Stage::finished ? "finished" : outcome.is_stopped ? "stopped by a partition" : "all died";
}

// Every step-th seed from the offset on.
Tally run_share(const std::string& program, const Options& options, std::uint64_t offset, std::uint64_t step) {
    Tally tally;
    for (std::uint64_t i = offset; i < options.seeds && tally.failures < options.failures_max; i += step) {
        const std::uint64_t seed = options.first + i;
        const sft::sim::Outcome outcome = sft::sim::run_seed(seed, false);
        tally.events += outcome.statistics.events;
        tally.values += outcome.n_values;
        tally.recoveries += outcome.n_views;
        ++tally.ends[end_of(outcome)];
        if (!outcome.violation.empty()) {
            ++tally.failures;
            report(program, seed, outcome.violation);
        }
    }
    return tally;
}

void print(const Tally& tally, const Options& options) {
    if (options.with_statistics) {
        fmt::print("{} events, {} decisions, {} recoveries;", tally.events, tally.values, tally.recoveries);
        for (const auto& [end, n] : tally.ends) {
            fmt::print(" {} {},", n, end);
        }
        fmt::print("\n");
    }
    std::fflush(stdout);
}

int run_seeds(const std::string& program, const Options& options) {
    std::vector<pid_t> children;
    for (int job = 1; job < options.jobs; ++job) {
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            const Tally tally = run_share(program, options, static_cast<std::uint64_t>(job),
                                          static_cast<std::uint64_t>(options.jobs));
            print(tally, options);
            _exit(tally.failures == 0 ? 0 : 1);
        }
        children.push_back(child);
    }
    const Tally tally = run_share(program, options, 0, static_cast<std::uint64_t>(options.jobs));
    print(tally, options);
    bool is_good = tally.failures == 0;
    for (const pid_t child : children) {
        int status = 0;
        is_good = child > 0 && waitpid(child, &status, 0) == child && status == 0 && is_good;
    }
    fmt::print("{} seeds from {}: {}\n", options.seeds, options.first, is_good ? "no violation" : "VIOLATIONS");
    return is_good ? 0 : 1;
}

// Whether the simulator finds a bug that was put in on purpose.
int hunt(const std::string& program, const Options& options) {
    for (std::uint64_t i = 0; i < options.seeds; ++i) {
        const std::uint64_t seed = options.first + i;
        const sft::sim::Outcome outcome = sft::sim::run_seed(seed, false);
        if (!outcome.violation.empty()) {
            fmt::print("{}: found after {} seeds\n", options.mutation, i + 1);
            report(program + " --mutation " + options.mutation, seed, outcome.violation);
            return 0;
        }
    }
    fmt::print("{}: NOT FOUND in {} seeds\n", options.mutation, options.seeds);
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Simulates jobs: processes that die, networks that are cut, and checkers that watch.");
    Options options;
    app.add_option("--first", options.first, "the first seed")->capture_default_str();
    app.add_option("--seeds", options.seeds, "how many seeds")->capture_default_str();
    app.add_option("--jobs", options.jobs, "processes that share the seeds")->check(CLI::Range(1, 256));
    app.add_option("--failures-max", options.failures_max, "stop after so many")->capture_default_str();
    auto* replay = app.add_option("--replay", options.replay, "run this seed only");
    app.add_flag("--trace", options.with_trace, "print what happens")->needs(replay);
    app.add_flag("--statistics", options.with_statistics, "print how the jobs ended");
    app.add_option("--mutation", options.mutation,
                   "switch this deliberate bug on and look for the first seed that finds it (sim_mutated only)")
        ->check(CLI::IsMember(sft::sim::mutation_names()));
    app.add_flag("--list-mutations", options.lists_mutations, "print the names of the deliberate bugs");
    CLI11_PARSE(app, argc, argv);
    if (options.lists_mutations) {
        for (const std::string& name : sft::sim::mutation_names()) {
            fmt::print("{}\n", name);
        }
        return 0;
    }
    if (!options.mutation.empty() && !sft::sim::switch_on(options.mutation)) {
        fmt::print(stderr, "sim: error: there is no deliberate bug '{}' in this program\n", options.mutation);
        return 2;
    }
    if (!options.mutation.empty() && replay->count() == 0) {
        return hunt(argv[0], options);
    }
    if (replay->count() == 0) {
        return run_seeds(argv[0], options);
    }
    const sft::sim::Outcome outcome = sft::sim::run_seed(options.replay, options.with_trace);
    if (!outcome.violation.empty()) {
        report(argv[0], options.replay, outcome.violation);
        return 1;
    }
    fmt::print("seed {}: no violation, {}\n", options.replay, end_of(outcome));
    return 0;
}
