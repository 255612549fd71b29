#include "tools/oshrun/launch_command.hpp"

#include <algorithm>
#include <string_view>

#include "tools/oshrun/exec_pe.hpp"

namespace sft::tools {
namespace {

bool is_always_passed(std::string_view name) {
    return name.starts_with("SHMEM_") || name.starts_with("SMA_") || name == "LD_LIBRARY_PATH";
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

}  // namespace

bool launcher_reads_stdin(const Options& options) {
    return mentions(options.launcher_args, "--stdin") || mentions(options.launcher_args, "-stdin");
}

std::vector<std::string> launch_command(const Options& options, const LaunchFacts& facts) {
    const int processes = options.pes + options.spares;
    std::vector<std::string> command = {facts.launcher_path};
    if (facts.is_root) {
        command.emplace_back("--allow-run-as-root");
    }
    // Without --enable-recovery the launcher ends the job when one process dies.
    command.insert(command.end(),
                   {"--oversubscribe", "--enable-recovery", "--mca", "orte_tmpdir_base", facts.temp_dir});
    // Bound processes would share a core while another one is idle, as soon as there are more of them than cores.
    if (static_cast<unsigned>(processes) > facts.cores && !mentions(options.launcher_args, "--bind-to") &&
        !mentions(options.launcher_args, "-bind-to")) {
        command.insert(command.end(), {"--bind-to", "none"});
    }
    if (!launcher_reads_stdin(options)) {
        command.insert(command.end(), {"--stdin", "none"});
    }
    for (const std::string& name : passed_names(options, facts)) {
        command.insert(command.end(), {"-x", name});
    }
    command.insert(command.end(), options.launcher_args.begin(), options.launcher_args.end());
    command.insert(command.end(), {"-n", std::to_string(processes)});
    const std::vector<std::string> own = exec_pe_command(options, facts);
    command.insert(command.end(), own.begin(), own.end());
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
