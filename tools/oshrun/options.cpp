#include "tools/oshrun/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "tools/common/text.hpp"

namespace sft::tools {
namespace {

// What the command line says, before it is checked. Of what may be given once only the last one counts.
struct RawOptions {
    std::optional<std::string> pes, spares, host_list, hostfile, map_by, spare_nodes, launcher, on_demand,
        on_demand_limit, events, join, restart, retries;
    std::vector<std::string> exports;
    std::vector<std::string> launcher_args;
    bool is_verbose = false;
    bool is_quiet = false;
    bool wants_help = false;
    bool wants_version = false;
};

// One name of an option. Exactly one of the members is set: which one says whether it takes a value.
struct OptionName {
    std::string_view name;
    std::optional<std::string> RawOptions::*once = nullptr;
    std::vector<std::string> RawOptions::*each = nullptr;
    bool RawOptions::*flag = nullptr;

    [[nodiscard]] bool takes_value() const { return flag == nullptr; }
};

// With the ways to write them that people know from other launchers.
constexpr OptionName kOptionNames[] = {
    {.name = "-n", .once = &RawOptions::pes},
    {.name = "-np", .once = &RawOptions::pes},
    {.name = "--np", .once = &RawOptions::pes},
    {.name = "-s", .once = &RawOptions::spares},
    {.name = "--spares", .once = &RawOptions::spares},
    {.name = "-x", .each = &RawOptions::exports},
    {.name = "--export", .each = &RawOptions::exports},
    {.name = "-L", .each = &RawOptions::launcher_args},
    {.name = "--launcher-args", .each = &RawOptions::launcher_args},
    {.name = "--events", .once = &RawOptions::events},
    {.name = "--join", .once = &RawOptions::join},
    {.name = "--restart", .once = &RawOptions::restart},
    {.name = "--retries", .once = &RawOptions::retries},
    {.name = "-H", .once = &RawOptions::host_list},
    {.name = "-host", .once = &RawOptions::host_list},
    {.name = "--host", .once = &RawOptions::host_list},
    {.name = "-hostfile", .once = &RawOptions::hostfile},
    {.name = "--hostfile", .once = &RawOptions::hostfile},
    {.name = "-machinefile", .once = &RawOptions::hostfile},
    {.name = "--machinefile", .once = &RawOptions::hostfile},
    {.name = "--map-by", .once = &RawOptions::map_by},
    {.name = "-map-by", .once = &RawOptions::map_by},
    {.name = "--spare-nodes", .once = &RawOptions::spare_nodes},
    {.name = "--launcher", .once = &RawOptions::launcher},
    {.name = "--on-demand", .once = &RawOptions::on_demand},
    {.name = "--on-demand-limit", .once = &RawOptions::on_demand_limit},
    {.name = "--verbose", .flag = &RawOptions::is_verbose},
    {.name = "-v", .flag = &RawOptions::is_verbose},
    {.name = "--quiet", .flag = &RawOptions::is_quiet},
    {.name = "-q", .flag = &RawOptions::is_quiet},
    {.name = "--help", .flag = &RawOptions::wants_help},
    {.name = "-h", .flag = &RawOptions::wants_help},
    {.name = "--version", .flag = &RawOptions::wants_version},
    {.name = "-V", .flag = &RawOptions::wants_version},
};

const OptionName* find_option(std::string_view name) {
    const auto* found = std::find_if(std::begin(kOptionNames), std::end(kOptionNames),
                                     [name](const OptionName& item) { return item.name == name; });
    return found == std::end(kOptionNames) ? nullptr : found;
}

// Launcher options that would change the number of processes behind oshrun's back.
constexpr std::array<std::string_view, 7> kCountOptions = {"-n", "-np", "--np", "--n", "-c", "-N", "--npernode"};

template <class Array>
bool contains(const Array& array, std::string_view word) {
    return std::find(array.begin(), array.end(), word) != array.end();
}

std::string unknown_option_line(std::string_view word) {
    const std::string_view name = word.substr(0, word.find('='));
    std::vector<std::string_view> names;
    for (const OptionName& item : kOptionNames) {
        names.push_back(item.name);
    }
    const std::string suggestion = nearest(name, names);
    return suggestion.empty()
               ? fmt::format("{}: no such option (options of mpirun go into --launcher-args; see oshrun --help)", word)
               : fmt::format("{}: no such option; did you mean {}?", word, suggestion);
}

// -n4 and -xNAME: a short option with its value attached. Not -spares and -np, which are something else.
bool is_short_with_value(std::string_view word) {
    if (word.size() <= 2 || word[1] == '-' || word.starts_with("-np")) {
        return false;
    }
    const OptionName* option = find_option(word.substr(0, 2));
    return option != nullptr && option->takes_value() && find_option(word) == nullptr &&
           find_option(fmt::format("-{}", word)) == nullptr;
}

void give(const OptionName& option, const std::string& value, RawOptions& raw) {
    if (option.once != nullptr) {
        raw.*option.once = value;
    } else {
        (raw.*option.each).push_back(value);
    }
}

// Only options that are known can be stepped over, because of an unknown one nobody knows whether the next word is its
// value. command: the program, and what follows it.
Result<> split_line(const std::vector<std::string>& words, RawOptions& raw, std::vector<std::string>& command) {
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
        const OptionName* option = find_option(name);
        if (option == nullptr && is_short_with_value(word)) {
            if (word[1] == 'n' && !parse_number(std::string_view(word).substr(2), 0, kProcessesMax)) {
                return fails(unknown_option_line(word));
            }
            give(*find_option(name.substr(0, 2)), word.substr(2), raw);
        } else if (option == nullptr || (name != word && !option->takes_value())) {
            return fails(unknown_option_line(word));
        } else if (!option->takes_value()) {
            raw.*option->flag = true;
        } else if (name != word) {
            give(*option, word.substr(name.size() + 1), raw);
        } else if (i + 1 == words.size()) {
            return fails(fmt::format("{}: its value is missing", word));
        } else {
            give(*option, words[++i], raw);
        }
    }
    command.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end());
    return {};
}

Result<> parse_export(const std::string& text, Options& options) {
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
        return fails(fmt::format("-x {}: not NAME or NAME=VALUE", text));
    }
    options.exports.push_back(std::move(variable));
    return {};
}

Result<> parse_launcher_args(const std::string& text, Options& options) {
    const auto words = split_words(text);
    if (!words) {
        return fails(fmt::format("--launcher-args {}: a quote is not closed", text));
    }
    for (const std::string& word : *words) {
        if (contains(kCountOptions, std::string_view(word))) {
            return fails(
                fmt::format("--launcher-args {}: the number of processes is given with -n and --spares", word));
        }
        options.launcher_args.push_back(word);
    }
    return {};
}

// `out` stays if the option is not given; so it does in parse_choice().
Result<> parse_count(const char* name, const std::optional<std::string>& text, long lowest, const char* what,
                     int& out) {
    if (!text) {
        return {};
    }
    const auto number = parse_number(*text, lowest, kProcessesMax);
    if (!number) {
        return fails(fmt::format("{} {}: not a number of {} from {} to {}", name, *text, what, lowest, kProcessesMax));
    }
    out = static_cast<int>(*number);
    return {};
}

// A word of a few; `values` in the order of the enumeration.
template <class Enum, std::size_t N>
Result<> parse_choice(const char* name, const std::optional<std::string>& text,
                      const std::array<std::string_view, N>& values, Enum& out) {
    if (!text) {
        return {};
    }
    const auto* found = std::find(values.begin(), values.end(), std::string_view(*text));
    if (found == values.end()) {
        return fails(fmt::format("{} {}: not one of {}", name, *text, fmt::join(values, ", ")));
    }
    out = static_cast<Enum>(found - values.begin());
    return {};
}

constexpr std::array<std::string_view, 5> kLauncherNames = {"auto", "mpirun", "prterun", "srun", "own"};

Result<> parse_hosts(const RawOptions& raw, Options& options) {
    enum class MapBy { slot, node };
    constexpr std::array<std::string_view, 2> kMapBy = {"slot", "node"};
    constexpr std::array<std::string_view, 3> kOnDemand = {"never", "auto", "always"};
    MapBy map_by = MapBy::slot;
    Result<> chosen =
        parse_choice("--map-by", raw.map_by, kMapBy, map_by)
            .then([&] { return parse_choice("--launcher", raw.launcher, kLauncherNames, options.launcher); })
            .then([&] { return parse_choice("--on-demand", raw.on_demand, kOnDemand, options.on_demand); });
    if (!chosen) {
        return chosen;
    }
    options.maps_by_node = map_by == MapBy::node;
    if (raw.host_list && raw.hostfile) {
        return fails("--host and --hostfile: one of them is enough");
    }
    if (raw.host_list == "" || raw.hostfile == "") {
        return fails("--host, --hostfile: the value is empty");
    }
    options.hostfile = raw.hostfile.value_or("");
    return parse_count("--spare-nodes", raw.spare_nodes, 0, "hosts", options.spare_nodes).then([&] {
        return parse_count("--on-demand-limit", raw.on_demand_limit, 0, "spares", options.on_demand_limit);
    });
}

Result<> parse_join(const RawOptions& raw, Options& options) {
    if (raw.join == "") {
        return fails("--join: the pid of the job's oshrun is empty");
    }
    if (!options.command.empty() || raw.spares || !raw.exports.empty() || raw.hostfile || raw.spare_nodes ||
        raw.launcher || raw.restart || raw.retries) {
        return fails("--join takes -n and --host only: the program and its settings are those of the job");
    }
    options.join = *raw.join;
    options.pes = std::max(options.pes, 1);
    return {};
}

}  // namespace

std::vector<KnownOption> known_options() {
    std::vector<KnownOption> known;
    for (const OptionName& option : kOptionNames) {
        known.push_back({std::string(option.name), option.takes_value()});
    }
    return known;
}

const char* launcher_name(LauncherKind kind) noexcept { return kLauncherNames[static_cast<std::size_t>(kind)].data(); }

Result<> parse_options(const std::vector<std::string>& words, Options& options) {
    RawOptions raw;
    if (Result<> done = split_line(words, raw, options.command); !done) {
        return done;
    }
    options.is_verbose = raw.is_verbose;
    options.is_quiet = raw.is_quiet;
    options.wants_help = raw.wants_help;
    options.wants_version = raw.wants_version;
    if (options.wants_help || options.wants_version) {
        return {};
    }
    Result<> counted = parse_count("-n", raw.pes, 1, "PEs", options.pes).then([&] {
        return parse_count("--spares", raw.spares, 0, "spares", options.spares);
    });
    if (!counted) {
        return counted;
    }
    options.host_list = raw.host_list.value_or("");
    if (raw.join) {
        return parse_join(raw, options);
    }
    if (Result<> done = parse_hosts(raw, options); !done) {
        return done;
    }
    if (raw.restart == "") {
        return fails("--restart: the name of the folder is empty");
    }
    options.restart = raw.restart.value_or("");
    if (Result<> done = parse_count("--retries", raw.retries, 0, "retries", options.retries); !done) {
        return done;
    }
    if (raw.events == "") {
        return fails("--events: the name of the file is empty");
    }
    options.events_path = raw.events.value_or("");
    for (const std::string& text : raw.exports) {
        if (Result<> done = parse_export(text, options); !done) {
            return done;
        }
    }
    for (const std::string& text : raw.launcher_args) {
        if (Result<> done = parse_launcher_args(text, options); !done) {
            return done;
        }
    }
    if (options.command.empty() || options.command.front().empty()) {
        return fails("no program given: oshrun -n N [--spares S] PROGRAM [ARGUMENTS] (see oshrun --help)");
    }
    return {};
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
  --launcher NAME          auto (the default), mpirun, prterun, srun, or own: none, for a
                           job on this host
  -x NAME[=VALUE]          pass an environment variable to the processes, or set it for
                           them; SHMEM_*, SMA_*, UCX_*, FI_* and LD_LIBRARY_PATH are
                           always passed
  -L ARGS,                 options for the launcher (mpirun), in one word:
  --launcher-args ARGS       -L "--bind-to core --tag-output"
  --events FILE            write what happens in the job to FILE, one JSON object a line
  --restart DIR            go on from the newest version that is stored in DIR (see
                           SHMEM_FT_STORE), or from the one whose folder DIR is
  --retries N              start the job again when it is lost, N times at most: from the
                           newest stored version, else from the beginning
  --join PID               start K more spares (default: 1) for the job of the oshrun
                           with that pid, on that host
  -q, --quiet              say nothing of recoveries that went well
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
