#include "tools/shmem-ft/lab_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <filesystem>
#include <thread>

#include "base/clock.hpp"
#include "tools/common/text.hpp"

namespace sft::tools {
namespace {

constexpr int kProcessesMax = 4094;
constexpr std::uint64_t kSeedsMax = 1'000'000;
constexpr std::array<std::string_view, 16> kNames = {
    "-n",     "--spares", "--runs",         "--seed",   "--jobs", "--timeout", "--sweep", "--schedule",
    "--json", "--keep",   "--allow-errors", "--ignore", "--file", "--help",    "-s",      "-h"};

std::string folder_of_this_program() {
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length < 0 ? "." : std::filesystem::path(std::string(path, static_cast<std::size_t>(length))).parent_path();
}

struct Texts {
    std::string pes, spares, runs, seed, jobs, timeout;
    std::vector<std::string> ignored;
};

Result<> take_number(const char* name, const std::string& text, long lowest, long highest, int& out) {
    if (text.empty()) {
        return {};
    }
    const auto number = parse_number(text, lowest, highest);
    if (!number) {
        return fails(fmt::format("{} {}: not a number from {} to {}", name, text, lowest, highest));
    }
    out = static_cast<int>(*number);
    return {};
}

Result<> take_numbers(const Texts& texts, LabOptions& options) {
    Result<> taken =
        take_number("-n", texts.pes, 1, kProcessesMax, options.job.pes)
            .then([&] { return take_number("--spares", texts.spares, 0, kProcessesMax, options.job.spares); })
            .then([&] { return take_number("--runs", texts.runs, 1, 1'000'000, options.runs); })
            .then([&] { return take_number("--jobs", texts.jobs, 1, 1024, options.jobs); });
    if (!taken) {
        return taken;
    }
    if (!texts.seed.empty()) {
        const auto seed = parse_number(texts.seed, 0, LONG_MAX);
        if (!seed) {
            return fails(fmt::format("--seed {}: not a number from 0 to {}", texts.seed, LONG_MAX));
        }
        options.seed = static_cast<std::uint64_t>(*seed);
    }
    if (!texts.timeout.empty()) {
        const auto seconds = parse_number(texts.timeout, 1, 86400);
        if (!seconds) {
            return fails(fmt::format("--timeout {}: not a number of seconds from 1 to 86400", texts.timeout));
        }
        options.timeout_s = static_cast<double>(*seconds);
    }
    return {};
}

Result<> take_patterns(const Texts& texts, LabOptions& options) {
    for (const std::string& text : texts.ignored) {
        try {
            options.ignored.patterns.emplace_back(text);
        } catch (const std::regex_error&) {
            return fails(fmt::format("--ignore {}: not a regular expression", text));
        }
    }
    return {};
}

std::string unknown_option_line(const std::string& word) {
    const std::string suggestion = nearest(word.substr(0, word.find('=')), kNames);
    return suggestion.empty() ? fmt::format("{}: no such option (see shmem-ft lab --help)", word)
                              : fmt::format("{}: no such option; did you mean {}?", word, suggestion);
}

// Own words end at "--" or at the first word that is neither an option nor an option's value.
Result<> split(const std::vector<std::string>& words, std::vector<std::string>& own, LabOptions& options) {
    constexpr std::array<std::string_view, 4> kBare = {"--sweep", "--allow-errors", "--help", "-h"};
    std::size_t i = 0;
    for (; i < words.size() && words[i] != "--" && words[i].starts_with('-'); ++i) {
        const std::string name = words[i].substr(0, words[i].find('='));
        if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
            return fails(unknown_option_line(words[i]));
        }
        own.push_back(words[i]);
        const bool has_value = std::find(kBare.begin(), kBare.end(), name) == kBare.end();
        if (has_value && name == words[i]) {
            if (++i == words.size()) {
                return fails(fmt::format("{}: its value is missing", name));
            }
            own.push_back(words[i]);
        }
    }
    i += i < words.size() && words[i] == "--" ? 1 : 0;
    options.job.program.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
    return {};
}

}  // namespace

Result<> parse_lab_options(const std::vector<std::string>& words, LabOptions& options) {
    std::vector<std::string> own;
    if (Result<> done = split(words, own, options); !done) {
        return done;
    }
    options.job.oshrun = (std::filesystem::path(folder_of_this_program()) / "oshrun").string();
    options.seed = static_cast<std::uint64_t>(now_ns()) % kSeedsMax;  // printed, and short enough to be typed
    options.jobs = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2);
    Texts texts;
    CLI::App app;
    app.set_help_flag();
    app.add_option("-n", texts.pes)->take_last();
    app.add_option("-s,--spares", texts.spares)->take_last();
    app.add_option("--runs", texts.runs)->take_last();
    app.add_option("--seed", texts.seed)->take_last();
    app.add_option("--jobs", texts.jobs)->take_last();
    app.add_option("--timeout", texts.timeout)->take_last();
    app.add_option("--schedule", options.schedule_path)->take_last();
    app.add_option("--json", options.json_path)->take_last();
    app.add_option("--keep", options.keep_path)->take_last();
    app.add_option("--ignore", texts.ignored)->type_size(1)->expected(1)->take_all();
    app.add_option("--file", options.files)->type_size(1)->expected(1)->take_all();
    app.add_flag("--sweep", options.is_sweep);
    app.add_flag("--allow-errors", options.allows_errors);
    app.add_flag("-h,--help", options.wants_help);
    try {
        std::reverse(own.begin(), own.end());  // what CLI11 wants of a vector
        app.parse(own);
    } catch (const CLI::ParseError& problem) {
        std::string line = problem.what();
        std::replace(line.begin(), line.end(), '\n', ' ');
        return fails(std::move(line));
    }
    if (options.wants_help) {
        return {};
    }
    Result<> taken = take_numbers(texts, options).then([&] { return take_patterns(texts, options); });
    if (!taken) {
        return taken;
    }
    for (const std::string& name : options.files) {
        if (name.find(kLabFolder) == std::string::npos) {
            return fails(
                fmt::format("--file {}: runs must not share a file: {}/{}, in the words of the program as well", name,
                            kLabFolder, std::filesystem::path(name).filename().string()));
        }
    }
    if (options.is_sweep && !options.schedule_path.empty()) {
        return fails("--sweep and --schedule: only one of them");
    }
    if (options.job.program.empty()) {
        return fails("lab: no program given: shmem-ft lab [OPTIONS] -- PROGRAM [ARGUMENTS]");
    }
    return {};
}

const char* lab_help_text() noexcept {
    return R"(Usage: shmem-ft lab [OPTIONS] [--] PROGRAM [ARGUMENTS...]

Runs an OpenSHMEM program without faults, then many times with faults at points inside the
library's protocols and at any time in the program's own code, and compares what it prints on
the standard output, line by line, and the files that are named.

  -n N                 number of PEs (default: 4)
  -s S, --spares S     number of spares (default: 2)
  --runs N             runs with random schedules (default: 50)
  --seed N             of the first run; the next run has the next one (default: random)
  --sweep              instead: every visited point x first, middle, last visit x victim
  --schedule FILE      instead: one run with this schedule
  --jobs M             runs at the same time (default: half of the processors)
  --timeout SECONDS    until a run counts as hung (default: 20 + 10 times the run without faults)
  --ignore REGEX       lines that may differ from run to run; may be repeated
  --file NAME          a file that must come out as without faults; may be repeated. {folder} in it
                       and in the program's words stands for a folder of each run's own
  --allow-errors       a named error never counts as a failure
  --json FILE          write all results to FILE
  --keep FOLDER        keep what failed runs have printed, and their events

Classes: recovered (the answer is right although faults happened), nothing happened (no fault
found its victim), named error, excused (more was lost than the library protects), NAMED ERROR
(it should have recovered), WRONG ANSWER, HANG. The last three are failures; each is printed
with its schedule and the command that repeats it.

Exit status: 0 without failures, 1 with failures, 2 for wrong options or a program that does
not run without faults. shmem-ft points lists the points; what all this is about explains
docs/fault-lab.md
)";
}

}  // namespace sft::tools
