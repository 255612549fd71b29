#include "tools/oshrun/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "tools/common/text.hpp"

namespace sft::tools {
namespace {

constexpr std::array<std::string_view, 30> kOptionNames = {"-n",         "-np",          "--np",
                                                           "-s",         "--spares",     "-x",
                                                           "--export",   "-L",           "--launcher-args",
                                                           "--events",   "--verbose",    "-v",
                                                           "--help",     "-h",           "--version",
                                                           "-V",         "--join",       "-H",
                                                           "-host",      "--host",       "-hostfile",
                                                           "--hostfile", "-machinefile", "--machinefile",
                                                           "--map-by",   "-map-by",      "--spare-nodes",
                                                           "--launcher", "--on-demand",  "--on-demand-limit"};

constexpr std::array<std::string_view, 24> kNamesWithValue = {"-n",
                                                              "--np",
                                                              "-s",
                                                              "--spares",
                                                              "-x",
                                                              "--export",
                                                              "-L",
                                                              "--launcher-args",
                                                              "--events",
                                                              "--join",
                                                              "-H",
                                                              "-host",
                                                              "--host",
                                                              "-hostfile",
                                                              "--hostfile",
                                                              "-machinefile",
                                                              "--machinefile",
                                                              "--map-by",
                                                              "-map-by",
                                                              "--spare-nodes",
                                                              "--launcher",
                                                              "--on-demand",
                                                              "--on-demand-limit",
                                                              "-np"};

// Other ways to write an option, which people know from other launchers.
struct Alias {
    std::string_view name;
    std::string_view stands_for;
};
constexpr Alias kAliases[] = {
    {"-np", "--np"},
    {"-host", "--host"},
    {"-H", "--host"},
    {"-hostfile", "--hostfile"},
    {"-machinefile", "--hostfile"},
    {"--machinefile", "--hostfile"},
    {"-map-by", "--map-by"},
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
        const auto* alias = std::find_if(std::begin(kAliases), std::end(kAliases),
                                         [&](const Alias& item) { return item.name == name; });
        const std::string long_name(alias == std::end(kAliases) ? name : alias->stands_for);
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

// A word of a few; `values` in the order of the enumeration.
template <class Enum, std::size_t N>
bool parse_choice(const char* name, const std::string& text, const std::array<std::string_view, N>& values, Enum& out,
                  std::string& error_line) {
    const auto* found = std::find(values.begin(), values.end(), std::string_view(text));
    if (found == values.end()) {
        error_line = fmt::format("{} {}: not one of {}", name, text, fmt::join(values, ", "));
        return false;
    }
    out = static_cast<Enum>(found - values.begin());
    return true;
}

// What the command line says, before it is checked.
struct RawOptions {
    std::string pes;
    std::string spares;
    std::string map_by;
    std::string spare_nodes;
    std::string launcher;
    std::string on_demand;
    std::string on_demand_limit;
    std::vector<std::string> exports;
    std::vector<std::string> launcher_args;
};

constexpr std::array<std::string_view, 4> kLauncherNames = {"auto", "mpirun", "prterun", "srun"};

bool parse_hosts(const CLI::App& app, const RawOptions& raw, Options& options, std::string& error_line) {
    enum class MapBy { slot, node };
    constexpr std::array<std::string_view, 2> kMapBy = {"slot", "node"};
    constexpr std::array<std::string_view, 3> kOnDemand = {"never", "auto", "always"};
    MapBy map_by = MapBy::slot;
    if ((app.count("--map-by") != 0 && !parse_choice("--map-by", raw.map_by, kMapBy, map_by, error_line)) ||
        (app.count("--launcher") != 0 &&
         !parse_choice("--launcher", raw.launcher, kLauncherNames, options.launcher, error_line)) ||
        (app.count("--on-demand") != 0 &&
         !parse_choice("--on-demand", raw.on_demand, kOnDemand, options.on_demand, error_line))) {
        return false;
    }
    options.maps_by_node = map_by == MapBy::node;
    if (app.count("--host") != 0 && app.count("--hostfile") != 0) {
        error_line = "--host and --hostfile: one of them is enough";
        return false;
    }
    if ((app.count("--host") != 0 && options.host_list.empty()) ||
        (app.count("--hostfile") != 0 && options.hostfile.empty())) {
        error_line = "--host, --hostfile: the value is empty";
        return false;
    }
    return (app.count("--spare-nodes") == 0 ||
            parse_count("--spare-nodes", raw.spare_nodes, 0, "hosts", options.spare_nodes, error_line)) &&
           (app.count("--on-demand-limit") == 0 ||
            parse_count("--on-demand-limit", raw.on_demand_limit, 0, "spares", options.on_demand_limit, error_line));
}

void declare(CLI::App& app, RawOptions& raw, Options& options) {
    app.set_help_flag();
    app.add_option("-n,--np", raw.pes)->take_last();
    app.add_option("-s,--spares", raw.spares)->take_last();
    app.add_option("--host", options.host_list)->take_last();
    app.add_option("--hostfile", options.hostfile)->take_last();
    app.add_option("--map-by", raw.map_by)->take_last();
    app.add_option("--spare-nodes", raw.spare_nodes)->take_last();
    app.add_option("--launcher", raw.launcher)->take_last();
    app.add_option("--on-demand", raw.on_demand)->take_last();
    app.add_option("--on-demand-limit", raw.on_demand_limit)->take_last();
    // One value per occurrence: without the size CLI11 would take all words that follow.
    app.add_option("-x,--export", raw.exports)->type_size(1)->expected(1)->take_all();
    app.add_option("-L,--launcher-args", raw.launcher_args)->type_size(1)->expected(1)->take_all();
    app.add_option("--events", options.events_path)->take_last();
    app.add_option("--join", options.join)->take_last();
    app.add_flag("-v,--verbose", options.is_verbose);
    app.add_flag("-h,--help", options.wants_help);
    app.add_flag("-V,--version", options.wants_version);
}

}  // namespace

const char* launcher_name(LauncherKind kind) noexcept { return kLauncherNames[static_cast<std::size_t>(kind)].data(); }

bool parse_options(const std::vector<std::string>& words, Options& options, std::string& error_line) {
    SplitLine split;
    if (!split_line(words, split, error_line)) {
        return false;
    }
    RawOptions raw;
    CLI::App app;
    declare(app, raw, options);
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
    if (app.count("-n") != 0 && !parse_count("-n", raw.pes, 1, "PEs", options.pes, error_line)) {
        return false;
    }
    if (app.count("--spares") != 0 && !parse_count("--spares", raw.spares, 0, "spares", options.spares, error_line)) {
        return false;
    }
    if (app.count("--join") != 0) {
        if (options.join.empty() || !options.command.empty() ||
            app.count("--spares") + app.count("-x") + app.count("--hostfile") + app.count("--spare-nodes") +
                    app.count("--launcher") !=
                0) {
            error_line = options.join.empty()
                             ? "--join: the pid of the job's oshrun is empty"
                             : "--join takes -n and --host only: the program and its settings are those of the job";
            return false;
        }
        options.pes = std::max(options.pes, 1);
        return true;
    }
    if (!parse_hosts(app, raw, options, error_line)) {
        return false;
    }
    if (app.count("--events") != 0 && options.events_path.empty()) {
        error_line = "--events: the name of the file is empty";
        return false;
    }
    for (const std::string& text : raw.exports) {
        if (!parse_export(text, options, error_line)) {
            return false;
        }
    }
    for (const std::string& text : raw.launcher_args) {
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
       oshrun --join PID [-n K] [--host NAME]

Runs an OpenSHMEM program: N PEs, and S spare processes that sleep inside shmem_init
until one of them takes over the number and the memory of a PE that has died.

  -n N, -np N, --np N      number of PEs, 1 to 4094 (default: the slots of the hosts, else
                           the cores of this machine)
  -s S, --spares S         number of spares (default: SHMEM_FT_SPARES, else 0)
  --host A:2,B:2           the hosts, and how many processes each has room for
  --hostfile FILE          the same, one a line: A slots=2
  --map-by slot|node       fill one host with PEs after the other (slot, the default), or
                           go round
  --spare-nodes K          the last K hosts are for spares only (default of --spares: all
                           their slots)
  --on-demand WHEN         start a spare when none is left: never, auto (the default: when
                           the job waits for one, see SHMEM_FT_UNREPLACED), always (and
                           let it wait)
  --on-demand-limit M      not more than M in the life of the job (default: 8)
  --launcher NAME          auto (the default), mpirun, prterun or srun
  -x NAME[=VALUE]          pass an environment variable to the processes, or set it for
                           them; SHMEM_*, SMA_*, UCX_*, FI_* and LD_LIBRARY_PATH are
                           always passed
  -L ARGS,                 options for the launcher (mpirun), in one word:
  --launcher-args ARGS       -L "--bind-to core --tag-output"
  --events FILE            write what happens in the job to FILE, one JSON object a line
  --join PID               start K more spares (default: 1) for the job of the oshrun
                           with that pid, on that host
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
