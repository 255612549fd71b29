#include "shmem_ft/process/about.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/build_info.hpp"
#include "base/docs.hpp"
#include "base/report.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "shmem_ft/start/mpi_beside.hpp"

namespace sft {
namespace {

// What is mapped from now on is put into memory at once, whether it will be used or not: mlockall(MCL_FUTURE).
bool are_new_pages_locked() {
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    unsigned char state = 0;
    const bool is_there = ::mincore(page, bytes, &state) == 0 && (state & 1U) != 0;
    ::munmap(page, bytes);
    return is_there;
}

// Of a setting that asks for parity.
void warn_of_groups(const Config& config, const JobShape& shape) {
    if (shape.is_one_node() || shape.n_pes < 2) {
        return;  // copies outlive processes there, and nothing more is to be had
    }
    const char* const what = shape.has_areas() ? "area" : "node";
    const std::int32_t size = config.backup.data + config.backup.parity;
    if (shape.groups == nullptr) {
        say("warning: SHMEM_FT_BACKUP_MODE: more than half of the PEs are on one %s, which leaves no groups for "
            "parity: "
            "each PE has a copy on another %s instead, as with double",
            what, what);
    } else if (const std::int32_t smallest = shape.groups->smallest(); smallest < size) {
        const std::int32_t n_lost = std::min(config.backup.parity, smallest - 1);
        say("warning: SHMEM_FT_BACKUP_MODE: the PEs are on too few %ss for groups of %d; there are some of %d, which "
            "survive "
            "the loss of %d, and whose parity takes %.2f of what the state takes, twice",
            what, size, smallest, n_lost, static_cast<double>(n_lost) / static_cast<double>(smallest - n_lost));
    }
}

// What of the job the file does not tell apart, and as many copies as asked for cannot be kept.
void warn_of_places(const Config& config, const Bootstrap& bootstrap, const NodeLinks& links) {
    const std::string file = "SHMEM_FT_TOPOLOGY=" + config.topology;
    const std::int32_t n_nodes = links.nodes() == nullptr ? 1 : links.nodes()->n_nodes();
    if (links.topology() && n_nodes > 1) {
        const Topology& topology = *links.topology();
        const char* const level = topology.apart().name.c_str();
        std::vector<std::string> unnamed;
        for (std::int32_t node = 0; node < n_nodes; ++node) {
            if (const std::string name = links.name_of(NodeId(node)); !topology.domain_of(name)) {
                unnamed.push_back(name);
            }
        }
        if (!unnamed.empty()) {
            const std::string more =
                unnamed.size() == 1 ? " is" : format(" and %zu other nodes are", unnamed.size() - 1);
            say("warning: %s: %s%s in no %s of it, so each such node counts as one of its own", file.c_str(),
                unnamed.front().c_str(), more.c_str(), level);
        }
        if (links.areas() == nullptr) {
            say("warning: %s: all nodes of the job are in one %s, whose loss it does not survive; copies are kept "
                "apart by "
                "nodes",
                file.c_str(), level);
        }
    }
    if (config.backup.partners == 1) {
        return;
    }
    std::set<std::int32_t> places;
    const std::int32_t n_pes = bootstrap.n_processes() - static_cast<std::int32_t>(config.spares);
    for (std::int32_t pe = 0; pe < n_pes && links.nodes() != nullptr; ++pe) {
        const NodeId node = links.nodes()->node_of(ProcId(pe));
        places.insert(links.areas() != nullptr ? links.areas()->area_of(node) : node.value());
    }
    const auto n_others = static_cast<std::int32_t>(places.size()) - 1;
    const std::string what = links.areas() == nullptr ? "node" : links.topology()->apart().name;
    if (n_others < 1) {
        say("warning: SHMEM_FT_BACKUP_MODE=replica:%d: all PEs are on one %s, so none of their copies survives its "
            "loss",
            config.backup.partners, what.c_str());
    } else if (n_others < config.backup.partners) {
        say("warning: SHMEM_FT_BACKUP_MODE=replica:%d: there are PEs in %d %ss only, so %d other%s a copy of each, and "
            "no more than that may be lost at once",
            config.backup.partners, n_others + 1, what.c_str(), n_others, n_others == 1 ? " has" : "s have");
    }
}

}  // namespace

void warn_of_locked_memory(const Config& config) {
    if (are_new_pages_locked()) {
        say("warning: the program has called mlockall(MCL_FUTURE): the whole symmetric heap of every PE (%llu MiB, and "
            "as much for copies) is put into memory before shmem_init returns, which may take long: call it behind "
            "shmem_init, or set SHMEM_SYMMETRIC_SIZE to what is needed",
            static_cast<unsigned long long>(config.symmetric_size_bytes >> 20U));
    }
}

void print_about(const Config& config, const Bootstrap& bootstrap, const NodeLinks& links,
                 const SymmetricMemory& memory, const JobShape& shape) {
    if (bootstrap.is_slurm_step() && config.backup.mode != BackupMode::none) {
        say("warning: srun ends all processes as soon as one dies, so nothing can be recovered: allocate nodes with "
            "salloc or sbatch --no-kill, and run oshrun inside %s",
            with_doc_paths("(docs/launchers.md)").c_str());
    }
    warn_of_places(config, bootstrap, links);
    if (config.backup.parity != 0) {
        warn_of_groups(config, shape);
    }
    if (config.spares != 0 && has_mpi()) {
        say("warning: this program is linked with MPI: its MPI_Init would wait for the spares, so start it without "
            "them if it uses MPI %s",
            with_doc_paths("(docs/launchers.md)").c_str());
    }
    if (config.version || config.info || config.debug) {
        say("version %s, OpenSHMEM %s, built with %s", build_info().version, build_info().specification,
            build_info().compiler);
    }
    if (config.info) {
        for (const SettingInfo& setting : settings()) {
            if (!setting.is_internal) {
                const char* origin = setting_origin(setting);
                const bool has_old_name = origin != nullptr && std::strcmp(origin, setting.name) != 0;
                say("%s=%s (%s): %s Accepted: %s%s%s.", setting.name, setting_value(setting, config).c_str(),
                    origin == nullptr ? "default" : (has_old_name ? origin : "environment"), setting.help,
                    setting.range, *setting.alias == '\0' ? "" : ". Older name: ", setting.alias);
            }
        }
    }
    if (config.debug) {
        const LiveState& live = memory.live();
        const std::int32_t n_pes = bootstrap.n_processes() - static_cast<std::int32_t>(config.spares);
        say("%d PEs, %u spares, symmetric heap of %zu bytes at %#llx", n_pes, config.spares, memory.heap().bytes,
            static_cast<unsigned long long>(live.heap.begin));
        if (links.network() != nullptr) {
            say("%d nodes; between them %s by interface %s (%s)", links.nodes()->n_nodes(),
                links.network()->describe().c_str(), links.interface().name.c_str(),
                to_string(links.interface().address).c_str());
        }
        say("globals at %#llx, %zu bytes%s; %zu bytes of library state in every version",
            static_cast<unsigned long long>(live.globals.begin), live.globals.bytes,
            live.globals.bytes == 0 ? " (SHMEM_FT_GLOBALS)" : "", live.library.bytes);
    }
}

}  // namespace sft
