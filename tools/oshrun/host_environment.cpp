#include "tools/oshrun/host_environment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tools/common/fd.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// Options by which mpirun is told about hosts.
bool mentions_hosts(const std::vector<std::string>& words) {
    constexpr std::array<std::string_view, 10> kHostOptions = {
        "-H",           "-host",         "--host", "-hostfile",  "--hostfile",
        "-machinefile", "--machinefile", "-rf",    "--rankfile", "-rankfile"};
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        return std::find(kHostOptions.begin(), kHostOptions.end(), std::string_view(word)) != kHostOptions.end();
    });
}

// Nothing: error says why. What is named need not be a file of hosts, nor have an end.
std::optional<std::string> read_text(const std::string& path, std::string& error) {
    constexpr std::size_t kBytesMax = 4U << 20;  // a thousand bytes for each process that a job can have
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    std::string text;
    std::array<char, 16384> buffer;
    ssize_t bytes = file ? 1 : -1;
    while (bytes > 0 && text.size() <= kBytesMax) {
        do {
            bytes = read(file.get(), buffer.data(), buffer.size());
        } while (bytes < 0 && errno == EINTR);
        text.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    }
    if (bytes < 0) {
        error = strerrordesc_np(errno);
        return std::nullopt;
    }
    if (text.size() > kBytesMax) {
        error = fmt::format("more than {} MiB are no list of hosts", kBytesMax >> 20);
        return std::nullopt;
    }
    return text;
}

// Under one name each, so that two ways to write it are one host.
std::vector<HostSlots> with_settled_names(const std::vector<HostSlots>& hosts) {
    std::vector<HostSlots> settled;
    for (HostSlots host : hosts) {
        host.name = settled_host_name(host.name);
        const auto same = std::find_if(settled.begin(), settled.end(),
                                       [&](const HostSlots& other) { return other.name == host.name; });
        if (same == settled.end()) {
            settled.push_back(std::move(host));
        } else {
            same->slots += host.slots;
            same->slots_max = std::max(same->slots_max, host.slots_max);
        }
    }
    return settled;
}

int slots_of(std::vector<HostSlots>::const_iterator begin, std::vector<HostSlots>::const_iterator end) {
    return std::accumulate(begin, end, 0, [](int sum, const HostSlots& host) { return sum + host.slots; });
}

}  // namespace

bool is_inside_slurm() { return !variable("SLURM_JOB_ID").empty(); }

std::optional<Refusal> find_launcher(Options& options, std::string& path) {
    struct Candidate {
        LauncherKind kind;
        const char* program;
    };
    // mpirun first also inside of Slurm: it starts its daemons by srun, and its processes survive each other.
    constexpr std::array<Candidate, 4> kCandidates = {{{LauncherKind::mpirun, "mpirun.openmpi"},
                                                       {LauncherKind::mpirun, "mpirun"},
                                                       {LauncherKind::prterun, "prterun"},
                                                       {LauncherKind::srun, "srun"}}};
    for (const Candidate& candidate : kCandidates) {
        const bool is_wanted = options.launcher == LauncherKind::automatic
                                   ? candidate.kind != LauncherKind::srun || is_inside_slurm()
                                   : options.launcher == candidate.kind;
        if (is_wanted) {
            path = search_path(candidate.program);
            if (!path.empty()) {
                options.launcher = candidate.kind;
                return std::nullopt;
            }
        }
    }
    if (options.launcher == LauncherKind::prterun || options.launcher == LauncherKind::srun) {
        return Refusal{kExitNotFound,
                       fmt::format("--launcher {}: no such program in PATH", launcher_name(options.launcher))};
    }
    return Refusal{kExitNotFound,
                   "neither mpirun.openmpi nor mpirun is in PATH: install the package openmpi-bin (Debian, Ubuntu)"};
}

std::string needs_launcher(const Options& options, const std::vector<HostSlots>& hosts, std::uint32_t pretended_nodes) {
    if (may_use_other_hosts(options, hosts)) {
        return "the job may be on several hosts";
    }
    if (is_inside_slurm()) {
        return "the allocation of Slurm binds and limits what its launcher starts";
    }
    if (pretended_nodes > 1) {
        return "SHMEM_FT_PRETEND_NODES pretends several hosts";
    }
    return options.launcher_args.empty() ? "" : "--launcher-args are for a launcher";
}

std::optional<Refusal> find_hosts(const Options& options, std::vector<HostSlots>& hosts) {
    std::string error_line;
    std::optional<std::vector<HostSlots>> found;
    if (!options.host_list.empty()) {
        found = parse_host_list(options.host_list, error_line);
    } else if (!options.hostfile.empty()) {
        std::string why;
        const auto content = read_text(options.hostfile, why);
        if (!content) {
            return Refusal{kExitUsage, fmt::format("--hostfile {}: cannot be read: {}", options.hostfile, why)};
        }
        found = parse_hostfile(*content, options.hostfile, error_line);
    } else if (!mentions_hosts(options.launcher_args)) {
        // What is not understood here may be understood by the launcher: then it places the processes.
        if (is_inside_slurm()) {
            found = parse_slurm_nodes(variable("SLURM_JOB_NODELIST"), variable("SLURM_TASKS_PER_NODE"));
        } else if (const std::string path = variable("OMPI_MCA_orte_default_hostfile"); !path.empty()) {
            // If it cannot be read, the launcher cannot do so either.
            const auto content = read_text(path, error_line);
            if (!content) {
                return Refusal{kExitUsage,
                               fmt::format("OMPI_MCA_orte_default_hostfile={}: cannot be read: {}", path, error_line)};
            }
            found = parse_hostfile(*content, "", error_line);
        }
        error_line.clear();
    }
    if (!error_line.empty()) {
        return Refusal{kExitUsage, error_line};
    }
    hosts = with_settled_names(found.value_or(std::vector<HostSlots>{}));
    if (options.spare_nodes > 0 && static_cast<std::size_t>(options.spare_nodes) >= hosts.size()) {
        return Refusal{kExitUsage, fmt::format("--spare-nodes {}: there are {} hosts, and at least one is for PEs "
                                               "(--host, --hostfile)",
                                               options.spare_nodes, hosts.size())};
    }
    return std::nullopt;
}

bool may_use_other_hosts(const Options& options, const std::vector<HostSlots>& hosts) {
    if (!hosts.empty()) {
        return std::any_of(hosts.begin(), hosts.end(),
                           [own = own_host_name()](const HostSlots& host) { return host.name != own; });
    }
    const auto is_set = [](const char* name) { return !variable(name).empty(); };
    constexpr std::array kHostVariables = {"SLURM_JOB_NODELIST", "OMPI_MCA_orte_default_hostfile",
                                           "PBS_NODEFILE",       "LSB_HOSTS",
                                           "LSB_MCPU_HOSTS",     "PE_HOSTFILE"};
    return mentions_hosts(options.launcher_args) || std::any_of(kHostVariables.begin(), kHostVariables.end(), is_set);
}

void count_by_hosts(Options& options, const std::vector<HostSlots>& hosts) {
    if (hosts.empty()) {
        return;
    }
    const auto first_spare_node = hosts.end() - options.spare_nodes;
    if (options.spare_nodes > 0 && options.spares < 0) {
        options.spares = slots_of(first_spare_node, hosts.end());
    }
    if (options.pes == 0) {
        const int slots = slots_of(hosts.begin(), first_spare_node);
        options.pes = options.spare_nodes > 0 ? slots : std::max(slots - std::max(options.spares, 0), 1);
    }
}

}  // namespace sft::tools
