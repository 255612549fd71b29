#include "tools/oshrun/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "tools/common/text.hpp"

namespace sft::tools {
namespace {

constexpr std::array<std::string_view, 17> kOptionNames = {
    "-n",       "-np",       "--np", "-s",     "--spares", "-x",        "--export", "-L",    "--launcher-args",
    "--events", "--verbose", "-v",   "--help", "-h",       "--version", "-V",       "--join"};

constexpr std::array<std::string_view, 10> kNamesWithValue = {
    "-n", "--np", "-s", "--spares", "-x", "--export", "-L", "--launcher-args", "--events", "--join"};

// Options of other launchers that people type, with what to do instead.
struct ForeignOption {
    std::string_view name;
    const char* advice;
};
constexpr ForeignOption kForeignOptions[] = {
    {"-H", "all processes run on this machine"},
    {"-host", "all processes run on this machine"},
    {"--host", "all processes run on this machine"},
    {"-hostfile", "all processes run on this machine"},
    {"--hostfile", "all processes run on this machine"},
    {"-machinefile", "all processes run on this machine"},
    {"--machinefile", "all processes run on this machine"},
};

// Launcher options that would change the number of processes behind oshrun's back.
constexpr std::array<std::string_view, 7> kCountOptions = {"-n", "-np", "--np", "--n", "-c", "-N", "--npernode"};

template <class Array>
bool contains(const Array& array, std::string_view word) {
    return std::find(array.begin(), array.end(), word) != array.end();
}

// The words before the program, and the program with its arguments. Only options that are known can be stepped over,
// because of an unknown one nobody knows whether the next word is its value.
struct SplitLine {
    std::vector<std::string> own;
    std::vector<std::string> command;
};

std::string unknown_option_line(std::string_view word) {
    const std::string_view name = word.substr(0, word.find('='));
    for (const ForeignOption& foreign : kForeignOptions) {
        if (foreign.name == name) {
            return fmt::format("{}: no such option: {}", word, foreign.advice);
        }
    }
    const std::string suggestion = nearest(name, kOptionNames);
    return suggestion.empty()
               ? fmt::format("{}: no such option (options of mpirun go into --launcher-args; see oshrun --help)", word)
               : fmt::format("{}: no such option; did you mean {}?", word, suggestion);
}

// -n4 and -xNAME: a short option with its value attached. Not -spares and -np, which are something else.
bool is_short_with_value(std::string_view word) {
    if (word.size() <= 2 || word[1] == '-' || !contains(kNamesWithValue, word.substr(0, 2))) {
        return false;
    }
    return !word.starts_with("-np") && !contains(kOptionNames, std::string_view(fmt::format("-{}", word)));
}

bool split_line(const std::vector<std::string>& words, SplitLine& split, std::string& error_line) {
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "--") {
            ++i;
            break;
        }
        if (word.empty() || word[0] != '-' || word == "-") {
            break;
        }
        const std::string_view name = std::string_view(word).substr(0, word.find('='));
        if (is_short_with_value(word)) {
            if (word[1] == 'n' && !parse_number(std::string_view(word).substr(2), 0, kProcessesMax)) {
                error_line = unknown_option_line(word);
                return false;
            }
            split.own.push_back(word);
            continue;
        }
        if (!contains(kOptionNames, name) || (name != word && !contains(kNamesWithValue, name))) {
            error_line = unknown_option_line(word);
            return false;
        }
        const std::string long_name = word == "-np" ? "--np" : std::string(name);
        split.own.push_back(long_name);
        if (name != word) {
            split.own.push_back(word.substr(name.size() + 1));
        } else if (contains(kNamesWithValue, std::string_view(long_name))) {
            if (i + 1 == words.size()) {
                error_line = fmt::format("{}: its value is missing", word);
                return false;
            }
            split.own.push_back(words[++i]);
        }
    }
    split.command.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end());
    return true;
}

bool parse_export(const std::string& text, Options& options, std::string& error_line) {
    const std::size_t equals = text.find('=');
    ExportedVariable variable;
    variable.name = text.substr(0, equals);
    variable.has_value = equals != std::string::npos;
    variable.value = variable.has_value ? text.substr(equals + 1) : "";
    const bool is_name = !variable.name.empty() && (std::isdigit(static_cast<unsigned char>(variable.name[0])) == 0) &&
                         std::all_of(variable.name.begin(), variable.name.end(), [](char letter) {
                             return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
                         });
    if (!is_name) {
        error_line = fmt::format("-x {}: not NAME or NAME=VALUE", text);
        return false;
    }
    options.exports.push_back(std::move(variable));
    return true;
}

bool parse_launcher_args(const std::string& text, Options& options, std::string& error_line) {
    const auto words = split_words(text);
    if (!words) {
        error_line = fmt::format("--launcher-args {}: a quote is not closed", text);
        return false;
    }
    for (const std::string& word : *words) {
        if (contains(kCountOptions, std::string_view(word))) {
            error_line = fmt::format("--launcher-args {}: the number of processes is given with -n and --spares", word);
            return false;
        }
        options.launcher_args.push_back(word);
    }
    return true;
}

bool parse_count(const char* name, const std::string& text, long lowest, const char* what, int& out,
                 std::string& error_line) {
    const auto number = parse_number(text, lowest, kProcessesMax);
    if (!number) {
        error_line = fmt::format("{} {}: not a number of {} from {} to {}", name, text, what, lowest, kProcessesMax);
        return false;
    }
    out = static_cast<int>(*number);
    return true;
}

}  // namespace

bool parse_options(const std::vector<std::string>& words, Options& options, std::string& error_line) {
    SplitLine split;
    if (!split_line(words, split, error_line)) {
        return false;
    }
    std::string pes;
    std::string spares;
    std::vector<std::string> exports;
    std::vector<std::string> launcher_args;
    CLI::App app;
    app.set_help_flag();
    app.add_option("-n,--np", pes)->take_last();
    app.add_option("-s,--spares", spares)->take_last();
    // One value per occurrence: without the size CLI11 would take all words that follow.
    app.add_option("-x,--export", exports)->type_size(1)->expected(1)->take_all();
    app.add_option("-L,--launcher-args", launcher_args)->type_size(1)->expected(1)->take_all();
    app.add_option("--events", options.events_path)->take_last();
    app.add_option("--join", options.join)->take_last();
    app.add_flag("-v,--verbose", options.is_verbose);
    app.add_flag("-h,--help", options.wants_help);
    app.add_flag("-V,--version", options.wants_version);
    try {
        std::reverse(split.own.begin(), split.own.end());  // what CLI11 wants of a vector
        app.parse(split.own);
    } catch (const CLI::ParseError& error) {
        error_line = error.what();
        std::replace(error_line.begin(), error_line.end(), '\n', ' ');
        return false;
    }
    options.command = split.command;
    if (options.wants_help || options.wants_version) {
        return true;
    }
    if (app.count("-n") != 0 && !parse_count("-n", pes, 1, "PEs", options.pes, error_line)) {
        return false;
    }
    if (app.count("--spares") != 0 && !parse_count("--spares", spares, 0, "spares", options.spares, error_line)) {
        return false;
    }
    if (app.count("--join") != 0) {
        if (options.join.empty() || !options.command.empty() || app.count("--spares") + app.count("-x") != 0) {
            error_line = options.join.empty()
                             ? "--join: the pid of the job's oshrun is empty"
                             : "--join takes -n only: the program and its settings are those of the job";
            return false;
        }
        options.pes = std::max(options.pes, 1);
        return true;
    }
    if (app.count("--events") != 0 && options.events_path.empty()) {
        error_line = "--events: the name of the file is empty";
        return false;
    }
    for (const std::string& text : exports) {
        if (!parse_export(text, options, error_line)) {
            return false;
        }
    }
    for (const std::string& text : launcher_args) {
        if (!parse_launcher_args(text, options, error_line)) {
            return false;
        }
    }
    if (options.command.empty() || options.command.front().empty()) {
        error_line = "no program given: oshrun -n N [--spares S] PROGRAM [ARGUMENTS] (see oshrun --help)";
        return false;
    }
    return true;
}

const char* help_text() noexcept {
    return R"(Usage: oshrun [-n N] [--spares S] [OPTIONS] [--] PROGRAM [ARGUMENTS...]
       oshrun --join PID [-n K]

Runs an OpenSHMEM program: N PEs, and S spare processes that sleep inside shmem_init
until one of them takes over the number and the memory of a PE that has died.

  -n N, -np N, --np N      number of PEs, 1 to 4094 (default: the cores of this machine)
  -s S, --spares S         number of spares (default: SHMEM_FT_SPARES, else 0)
  -x NAME[=VALUE]          pass an environment variable to the processes, or set it for
                           them; SHMEM_*, SMA_* and LD_LIBRARY_PATH are always passed
  -L ARGS,                 options for the launcher (mpirun), in one word:
  --launcher-args ARGS       -L "--bind-to core --tag-output"
  --events FILE            write what happens in the job to FILE, one JSON object a line
  --join PID               start K more spares (default: 1) for the job of the oshrun
                           with that pid
  -v, --verbose            print the launcher's command line before it is run
  -h, --help               print this text
  -V, --version            print the version

The first word that is no option is the program; what follows belongs to it.

Exit status: 0 when every PE has called shmem_finalize and ended with 0. Else the
status of the first PE that failed (128 + the signal's number when a signal killed it,
1 when it ended with 0 but without shmem_finalize), or what was given to
shmem_global_exit; one line on stderr says which PE and why. The death of a PE that was
replaced by a spare does not count. 2: wrong options or settings. 126, 127: the program
or the launcher cannot be run or is not there. 128 + signal: oshrun was told to end.

Examples:
  oshrun -n 4 ./hello
  oshrun -n 4 --spares 1 ./jacobi1d --verify
  oshrun -n 2 -x SHMEM_SYMMETRIC_SIZE=2G ./stencil input.txt

`shmem-ft config` lists the settings that the library reads from the environment.
)";
}

}  // namespace sft::tools
