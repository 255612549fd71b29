// sim: runs the simulated job for many seeds, or replays one.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "base/config.hpp"
#include "tests/sim/cost.hpp"
#include "tests/sim/mutations.hpp"
#include "tests/sim/run.hpp"

namespace {

struct Options {
    std::uint64_t first = 1;
    std::uint64_t seeds = 5000;
    int jobs = 1;
    std::uint64_t replay = 0;
    sft::sim::RunOptions run;
    bool with_statistics = false;
    std::uint64_t failures_max = 5;
    std::string mutation;
    bool lists_mutations = false;
    bool is_about_costs = false;
    bool checks_growth = false;
    std::int32_t pes_max = 1'000'000;
    std::string json;
    sft::sim::CostModel model;
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
    std::uint64_t jobs = 0;
    sft::sim::Coverage coverage;
};

const char* name_of(sft::EndReason reason) {
    switch (reason) {
        case sft::EndReason::none: return "no reason";
        case sft::EndReason::requested: return "requested";
        case sft::EndReason::nothing_committed: return "nothing committed";
        case sft::EndReason::no_spare: return "no spare";
        case sft::EndReason::copies_lost: return "copies lost";
        case sft::EndReason::all_died: return "nobody left";
        case sft::EndReason::mismatched_calls: return "mismatched calls";
        case sft::EndReason::past_the_end: return "past the end";
    }
    return "?";
}

// With any of these fewer copies are lost, if any, and whole kinds of jobs are left out.
bool is_of_all_kinds(const sft::sim::RunOptions& options) {
    return !options.has_two_partners && options.n_replicas == 1 && !options.has_areas && !options.has_node_memory &&
           options.n_parity == 0 && !options.has_ready_words && !options.has_background;
}

std::string end_of(const sft::sim::Outcome& outcome) {
    if (outcome.stage == sft::Stage::ended) {
        return std::string("ended: ") + name_of(outcome.end_reason);
    }
    return outcome.stage == sft::Stage::finished ? "finished"
           : outcome.is_stopped                  ? "stopped by a partition"
                                                 : "all died";
}

// Every step-th seed from the offset on.
Tally run_share(const std::string& program, const Options& options, std::uint64_t offset, std::uint64_t step) {
    Tally tally;
    for (std::uint64_t i = offset; i < options.seeds && tally.failures < options.failures_max; i += step) {
        const std::uint64_t seed = options.first + i;
        const sft::sim::Outcome outcome = sft::sim::run_seed(seed, options.run);
        ++tally.jobs;
        tally.coverage.add(outcome.coverage);
        tally.events += outcome.statistics.events;
        tally.values += outcome.n_values;
        tally.recoveries += outcome.n_views;
        ++tally.ends[end_of(outcome)];
        if (!outcome.violation.empty()) {
            ++tally.failures;
            report(program, seed, outcome.violation);
        }
    }
    const std::string missing = tally.coverage.what_is_missing(tally.jobs);
    if (!missing.empty() && is_of_all_kinds(options.run)) {
        ++tally.failures;
        fmt::print("too little has happened in {} jobs: {}\n", tally.jobs, missing);
    }
    if (options.run.has_node_memory && !tally.coverage.has_used_node_memory(tally.jobs)) {
        ++tally.failures;
        fmt::print("too little has been left to others in {} jobs\n", tally.jobs);
    }
    if (options.run.has_ready_words && !tally.coverage.has_used_words(tally.jobs)) {
        ++tally.failures;
        fmt::print("too little has been decided by words in {} jobs\n", tally.jobs);
    }
    if (options.run.has_background && !tally.coverage.has_used_background(tally.jobs)) {
        ++tally.failures;
        fmt::print("too little has been done in the background in {} jobs\n", tally.jobs);
    }
    return tally;
}

void print(const Tally& tally, const Options& options) {
    if (options.with_statistics) {
        fmt::print("{} events, {} decisions, {} recoveries;", tally.events, tally.values, tally.recoveries);
        for (const auto& [end, n] : tally.ends) {
            fmt::print(" {} {},", n, end);
        }
        fmt::print("\n{}\n", tally.coverage.to_string());
    }
    std::fflush(stdout);
}

int run_seeds(const std::string& program, const Options& options) {
    std::vector<pid_t> children;
    for (int job = 1; job < options.jobs; ++job) {
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            const Tally tally =
                run_share(program, options, static_cast<std::uint64_t>(job), static_cast<std::uint64_t>(options.jobs));
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
    sft::sim::Coverage coverage;
    for (std::uint64_t i = 0; i < options.seeds; ++i) {
        const std::uint64_t seed = options.first + i;
        const sft::sim::Outcome outcome = sft::sim::run_seed(seed, options.run);
        coverage.add(outcome.coverage);
        const std::string missing = coverage.what_is_missing(i + 1);
        if (outcome.violation.empty() && !missing.empty() && is_of_all_kinds(options.run)) {
            fmt::print("{}: found after {} seeds: {}\n", options.mutation, i + 1, missing);
            return 0;
        }
        if (outcome.violation.empty()) {
            continue;
        }
        sft::sim::switch_off();
        const bool is_clean_without = sft::sim::run_seed(seed, options.run).violation.empty();
        static_cast<void>(sft::sim::switch_on(options.mutation));
        if (!is_clean_without) {
            fmt::print("seed {} fails without the deliberate bug as well\n", seed);
            continue;
        }
        fmt::print("{}: found after {} seeds\n", options.mutation, i + 1);
        report(program + " --mutation " + options.mutation, seed, outcome.violation);
        return 0;
    }
    fmt::print("{}: NOT FOUND in {} seeds\n", options.mutation, options.seeds);
    return 1;
}

int tell_costs(const Options& options) {
    std::vector<sft::sim::CostRow> rows;
    for (std::int64_t pes = 1000; pes <= options.pes_max; pes *= 10) {
        rows.push_back(sft::sim::measure(options.model, static_cast<std::int32_t>(pes)));
    }
    fmt::print("{}", sft::sim::to_markdown(rows));
    if (!options.json.empty()) {
        std::FILE* const file = std::fopen(options.json.c_str(), "w");
        const std::string text = sft::sim::to_json(options.model, rows);
        const bool is_written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
        if (file == nullptr || std::fclose(file) != 0 || !is_written) {
            fmt::print(stderr, "sim: error: cannot write '{}'\n", options.json);
            return 1;
        }
    }
    const std::string growth = options.checks_growth ? sft::sim::check_growth(rows) : "";
    if (!growth.empty()) {
        fmt::print("{}\n", growth);
        return 1;
    }
    return 0;
}

void add_cost_options(CLI::App& app, Options& options) {
    auto* cost = app.add_flag("--cost", options.is_about_costs, "print what the protocols cost at 10^3 to 10^6 PEs");
    const auto add = [&](const char* name, auto& value, const char* what) {
        app.add_option(name, value, what)->capture_default_str()->needs(cost);
    };
    add("--pes-max", options.pes_max, "the largest job");
    add("--json", options.json, "also write the table to this file");
    add("--latency-us", options.model.latency_us, "of a message");
    add("--overhead-us", options.model.overhead_us, "of a message, at each end");
    add("--network-gb-s", options.model.network_gb_s, "bandwidth of a process");
    add("--memory-gb-s", options.model.memory_gb_s, "speed of copies in memory");
    add("--state-mb", options.model.state_mb, "state of a PE");
    add("--changed-share", options.model.changed_share, "of the state, between two checkpoints");
    add("--period-ms", options.model.period_ms, "between heartbeats");
    add("--bound-ms", options.model.bound_ms, "silence that makes a suspect");
    add("--process-mtbf-years", options.model.process_mtbf_years, "mean time between failures of one process");
    add("--fan-out", options.model.fan_out, "of the tree");
    app.add_flag("--check-growth", options.checks_growth, "fail if control grows faster than log P")->needs(cost);
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
    app.add_flag("--trace", options.run.with_trace, "print what happens")->needs(replay);
    app.add_flag("--two-partners", options.run.has_two_partners, "two processes keep a copy of each PE");
    app.add_option("--replicas", options.run.n_replicas, "processes of so many other nodes keep a copy of each PE")
        ->check(CLI::Range(1, sft::kPartnersMax))
        ->capture_default_str();
    app.add_flag("--areas", options.run.has_areas, "two nodes each are an area, which copies are kept apart by");
    std::string parity;
    app.add_option("--parity", parity, "K+M: groups of K + M PEs keep parity and survive the loss of any M");
    app.add_flag("--node-memory", options.run.has_node_memory, "copies outlive the process that keeps them");
    app.add_flag("--ready-words", options.run.has_ready_words, "checkpoints are decided by words in shared memory");
    app.add_flag("--background", options.run.has_background, "checkpoints are made while the program goes on");
    app.add_flag("--held", options.run.has_held, "the same on one node, where writers wait for what is not copied yet");
    app.add_flag("--statistics", options.with_statistics, "print how the jobs ended");
    app.add_option("--mutation", options.mutation,
                   "switch this deliberate bug on and look for the first seed that finds it (sim_mutated only)")
        ->check(CLI::IsMember(sft::sim::mutation_names()));
    app.add_flag("--list-mutations", options.lists_mutations, "print the names of the deliberate bugs");
    add_cost_options(app, options);
    CLI11_PARSE(app, argc, argv);
    if (!parity.empty() && (std::sscanf(parity.c_str(), "%d+%d", &options.run.n_data, &options.run.n_parity) != 2 ||
                            options.run.n_data < 1 || options.run.n_parity < 1)) {
        fmt::print(stderr, "sim: error: --parity {}: not K+M\n", parity);
        return 2;
    }
    options.run.has_background = options.run.has_background || options.run.has_held;
    if (options.is_about_costs) {
        return tell_costs(options);
    }
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
    const std::string program =
        std::string(argv[0]) + (options.run.has_two_partners ? " --two-partners" : "") +
        (options.run.has_areas ? " --areas" : "") +
        (options.run.n_replicas > 1 ? fmt::format(" --replicas {}", options.run.n_replicas) : "") +
        (parity.empty() ? "" : " --parity " + parity) + (options.run.has_node_memory ? " --node-memory" : "") +
        (options.run.has_ready_words ? " --ready-words" : "") +
        (options.run.has_background && !options.run.has_held ? " --background" : "") +
        (options.run.has_held ? " --held" : "");
    if (!options.mutation.empty() && replay->count() == 0) {
        return hunt(program, options);
    }
    if (replay->count() == 0) {
        return run_seeds(program, options);
    }
    const sft::sim::Outcome outcome = sft::sim::run_seed(options.replay, options.run);
    if (!outcome.violation.empty()) {
        report(program, options.replay, outcome.violation);
        return 1;
    }
    fmt::print("seed {}: no violation, {}\n", options.replay, end_of(outcome));
    return 0;
}
