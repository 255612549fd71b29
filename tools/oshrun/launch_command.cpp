#include "tools/oshrun/launch_command.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "tools/oshrun/exec_daemon.hpp"
#include "tools/oshrun/exec_pe.hpp"
#include "tools/oshrun/job_environment.hpp"
#include "tools/oshrun/launcher_door.hpp"

namespace sft::tools {
namespace {

// The library's, and those of the libraries by which it reaches other hosts: they must be alike on all of these.
constexpr std::array<std::string_view, 4> kPassedPrefixes = {"SHMEM_", "SMA_", "UCX_", "FI_"};

bool is_always_passed(std::string_view name) {
    return std::any_of(kPassedPrefixes.begin(), kPassedPrefixes.end(),
                       [name](std::string_view prefix) { return name.starts_with(prefix); }) ||
           name == "LD_LIBRARY_PATH" || name == kGuardianVariable || name == kSetForJobVariable;
}

bool mentions(const std::vector<std::string>& words, std::string_view option) {
    return std::any_of(words.begin(), words.end(),
                       [option](const std::string& word) { return std::string_view(word).starts_with(option); });
}

// Each name once, and only if it is set: mpirun complains about others.
std::vector<std::string> passed_names(const Options& options, const LaunchFacts& facts) {
    std::vector<std::string> names;
    for (const std::string& name : facts.environment_names) {
        const bool is_asked_for = std::any_of(options.exports.begin(), options.exports.end(),
                                              [&](const ExportedVariable& item) { return item.name == name; });
        if (is_always_passed(name) || is_asked_for) {
            names.push_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

bool binds(const Options& options) {
    return mentions(options.launcher_args, "--bind-to") || mentions(options.launcher_args, "-bind-to");
}

// Bound processes would share a core while another one is idle, as soon as there are more of them than cores; and of
// other hosts nobody here knows the cores.
bool must_not_bind(const Options& options, const LaunchFacts& facts) {
    const bool has_more_than_cores = static_cast<unsigned>(options.pes + options.spares) > facts.cores;
    return (has_more_than_cores || !facts.rank_hosts_file.empty()) && !binds(options);
}

void add(std::vector<std::string>& command, std::initializer_list<std::string> words) {
    command.insert(command.end(), words);
}

void add_names(std::vector<std::string>& command, const Options& options, const LaunchFacts& facts) {
    for (const std::string& name : passed_names(options, facts)) {
        add(command, {"-x", name});
    }
}

// What Open MPI 4 and PRRTE call by the same names.
void add_common_options(std::vector<std::string>& words, const Options& options, const LaunchFacts& facts) {
    if (must_not_bind(options, facts)) {
        add(words, {"--bind-to", "none"});
    }
    if (!launcher_reads_stdin(options)) {
        add(words, {"--stdin", "none"});
    }
    add_names(words, options, facts);
}

bool chooses_daemon(const Options& options) {
    return mentions(options.launcher_args, "--launch-agent") || mentions(options.launcher_args, "-launch-agent") ||
           mentions(options.launcher_args, kLaunchAgentSetting);
}

bool starts_daemons(const Options& options, const LaunchFacts& facts) {
    return !facts.daemon_path.empty() && facts.own_path.find(' ') == std::string::npos && !chooses_daemon(options);
}

bool chooses_interfaces(const Options& options, const LaunchFacts& facts) {
    const auto names_them = [](const std::string& text) { return text.find(kInterfaceSettings) != std::string::npos; };
    return std::any_of(options.launcher_args.begin(), options.launcher_args.end(), names_them) ||
           std::any_of(facts.environment_names.begin(), facts.environment_names.end(), names_them);
}

// Open MPI 4.
std::vector<std::string> mpirun_options(const Options& options, const LaunchFacts& facts) {
    std::vector<std::string> words;
    if (facts.is_root) {
        add(words, {"--allow-run-as-root"});
    }
    // Without --enable-recovery the launcher ends the job when one process dies.
    add(words, {"--oversubscribe", "--enable-recovery", "--mca", "orte_local_tmpdir_base", facts.temp_dir});
    if (facts.is_inside_slurm) {
        // Its daemons are a job step, and that must outlive the loss of one of them.
        add(words, {"--mca", "plm_slurm_args", "--no-kill --kill-on-bad-exit=0"});
    }
    if (has_door(options, facts) && starts_daemons(options, facts)) {
        // What its daemons are told of it. For themselves they get another interface (exec_daemon.cpp).
        add(words, {"--mca", kInterfaceSetting, interface_setting_for(facts.door_address), "--mca", kDoorSetting,
                    facts.door_address});
    }
    if (starts_daemons(options, facts)) {
        add(words, {"--mca", kLaunchAgentSetting, facts.own_path, "--mca", kDaemonSetting, facts.daemon_path});
    }
    if (!facts.rank_hosts_file.empty()) {
        add(words, {"--hostfile", facts.rank_hosts_file, "--map-by", "seq"});
    }
    add_common_options(words, options, facts);
    return words;
}

// PRRTE 3, and Open MPI 5 whose mpirun is the same program.
std::vector<std::string> prterun_options(const Options& options, const LaunchFacts& facts) {
    std::vector<std::string> words;
    if (facts.is_root) {
        add(words, {"--allow-run-as-root"});
    }
    add(words, {"--runtime-options", "recoverable", "--prtemca", "prte_tmpdir_base", facts.temp_dir});
    if (!facts.rank_hosts_file.empty()) {
        add(words,
            {"--hostfile", facts.rank_hosts_file, "--map-by", "seq:file=" + facts.rank_hosts_file + ":oversubscribe"});
    } else if (!launcher_places_processes(options)) {
        add(words, {"--map-by", "slot:oversubscribe"});
    }
    add_common_options(words, options, facts);
    return words;
}

// The environment goes along as a whole. The list of hosts goes by SLURM_HOSTFILE, see main.cpp.
std::vector<std::string> srun_options(const Options& options, const LaunchFacts& facts) {
    std::vector<std::string> words = {"--mpi=pmix", "--no-kill", "--kill-on-bad-exit=0", "--overcommit"};
    if (!facts.rank_hosts_file.empty()) {
        add(words, {"--distribution=arbitrary"});
    }
    if (!launcher_reads_stdin(options)) {
        add(words, {"--input=none"});
    }
    return words;
}

}  // namespace

bool has_door(const Options& options, const LaunchFacts& facts) {
    return options.launcher == LauncherKind::mpirun && !interface_setting_for(facts.door_address).empty() &&
           !chooses_interfaces(options, facts) && (!facts.has_other_hosts || starts_daemons(options, facts));
}

bool launcher_reads_stdin(const Options& options) {
    return mentions(options.launcher_args, "--stdin") || mentions(options.launcher_args, "-stdin") ||
           mentions(options.launcher_args, "--input");
}

bool launcher_places_processes(const Options& options) {
    constexpr std::array<std::string_view, 9> kOptions = {"--map-by", "-map-by", "--rankfile",     "-rankfile", "-rf",
                                                          "--bynode", "-bynode", "--distribution", "-m"};
    return std::any_of(kOptions.begin(), kOptions.end(),
                       [&](std::string_view option) { return mentions(options.launcher_args, option); });
}

std::vector<std::string> launch_command(const Options& options, const LaunchFacts& facts) {
    const auto own_options = options.launcher == LauncherKind::srun      ? srun_options
                             : options.launcher == LauncherKind::prterun ? prterun_options
                                                                         : mpirun_options;
    std::vector<std::string> command = {facts.launcher_path};
    const auto append = [&command](const std::vector<std::string>& words) {
        command.insert(command.end(), words.begin(), words.end());
    };
    append(own_options(options, facts));
    append(options.launcher_args);
    add(command, {"-n", std::to_string(options.pes + options.spares)});
    append(exec_pe_command(options, facts));
    return command;
}

std::vector<std::string> exec_pe_command(const Options& options, const LaunchFacts& facts) {
    std::vector<std::string> command = {facts.own_path, kExecPeOption, encode_argument(facts.program_path)};
    for (const std::string& word : options.command) {
        command.push_back(encode_argument(word));
    }
    return command;
}

std::string encode_argument(const std::string& argument) {
    return argument == ":" || argument.starts_with('=') ? "=" + argument : argument;
}

std::string decode_argument(const std::string& argument) {
    return argument.starts_with('=') ? argument.substr(1) : argument;
}

}  // namespace sft::tools
