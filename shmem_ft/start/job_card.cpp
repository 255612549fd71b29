#include "shmem_ft/start/job_card.hpp"

#include <gnu/libc-version.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/checksum.hpp"
#include "base/report.hpp"
#include "shmem_ft/start/bootstrap.hpp"
#include "transport/shm/control.hpp"

namespace sft {

namespace {

std::uint64_t storing_of(const Config& config) {
    const CheckpointInterval& interval = config.store_interval;
    const std::string text =
        format("%s\n%s\n%u %llu %u %u", config.store.c_str(), config.restart.c_str(),
               static_cast<unsigned>(interval.kind), static_cast<unsigned long long>(interval.amount),
               config.store_keep, config.store_nodes);
    return checksum(text.data(), text.size());
}

}  // namespace

JobCard own_card(const Config& config, AddressRange heap, AddressRange globals, std::uint64_t topology) {
    JobCard mine;
    mine.spares = config.spares;
    mine.heap_base = heap.begin;
    mine.heap_bytes = heap.bytes;
    mine.globals_begin = globals.begin;
    mine.globals_bytes = globals.bytes;
    mine.program_fingerprint = program_fingerprint();
    mine.backup_mode = static_cast<std::uint32_t>(config.backup.mode);
    mine.partners = static_cast<std::uint64_t>(config.backup.partners) |
                    static_cast<std::uint64_t>(config.backup.data) << 16 |
                    static_cast<std::uint64_t>(config.backup.parity) << 32;
    mine.check_mode = static_cast<std::uint32_t>(config.check);
    mine.port_guard = static_cast<std::uint32_t>(config.port_guard);
    mine.tracks = config.tracking != Tracking::off ? 1 : 0;
    mine.guards = config.background == BackgroundMode::protect ? 1 : 0;
    mine.topology = topology;
    mine.interval_kind = static_cast<std::uint64_t>(config.interval.kind);
    mine.interval_amount = config.interval.amount;
    mine.storing = storing_of(config);
    std::snprintf(mine.libc_version, sizeof mine.libc_version, "%s", ::gnu_get_libc_version());
    const ssize_t length = ::readlink("/proc/self/exe", mine.program, sizeof mine.program - 1);
    mine.program[length < 0 ? 0 : length] = '\0';
    return mine;
}

Result<> compare_cards(const JobCard& mine, const JobCard& first, ProcId self) {
    const int rank = self.value();
    std::string error;
    if (mine.layout != first.layout) {
        error = format("process %d and process 0 run different versions of this library", rank);
    } else if (std::strcmp(mine.libc_version, first.libc_version) != 0) {
        error = format("process %d runs with libc %s, process 0 with libc %s: use the same system on all", rank,
                       mine.libc_version, first.libc_version);
    } else if (mine.program_fingerprint != first.program_fingerprint) {
        error = format("process %d runs another program (%s) than process 0 (%s): all PEs must run the same file", rank,
                       mine.program, first.program);
    } else if ((mine.globals_bytes == 0) != (first.globals_bytes == 0)) {
        error = format("process %d has another SHMEM_FT_GLOBALS than process 0: it must be the same for all", rank);
    } else if (mine.globals_begin != first.globals_begin || mine.globals_bytes != first.globals_bytes) {
        error = format(
            "the globals of process %d lie at another address than those of process 0: link with -no-pie "
            "(oshcc does) or start with oshrun",
            rank);
    } else if (mine.check_mode != first.check_mode) {
        error = format("process %d has another SHMEM_FT_CHECK than process 0: it must be the same for all", rank);
    } else if (mine.port_guard != first.port_guard) {
        error = format("process %d has another SHMEM_FT_GUARD_PORTS than process 0: it must be the same for all", rank);
    } else if (mine.tracks != first.tracks) {
        error = format("process %d has another SHMEM_FT_TRACKING than process 0: it must be the same for all", rank);
    } else if (mine.guards != first.guards) {
        error = format("process %d has another SHMEM_FT_BACKGROUND than process 0: it must be the same for all", rank);
    } else if (mine.topology != first.topology) {
        error =
            format("process %d reads another SHMEM_FT_TOPOLOGY than process 0: the file must be the same on all nodes",
                   rank);
    } else if (mine.interval_kind != first.interval_kind || mine.interval_amount != first.interval_amount) {
        error = format("process %d has another SHMEM_FT_INTERVAL than process 0: it must be the same for all", rank);
    } else if (mine.storing != first.storing) {
        error = format(
            "process %d has another SHMEM_FT_STORE, SHMEM_FT_STORE_... or SHMEM_FT_RESTART than process 0: "
            "they must be the same for all",
            rank);
    } else if (mine.heap_base != first.heap_base || mine.heap_bytes != first.heap_bytes) {
        error = format(
            "process %d has another symmetric heap than process 0: SHMEM_SYMMETRIC_SIZE and "
            "SHMEM_FT_HEAP_BASE must be the same for all",
            rank);
    } else if (mine.spares != first.spares || mine.backup_mode != first.backup_mode ||
               mine.partners != first.partners) {
        error = format(
            "process %d has other settings than process 0: SHMEM_FT_SPARES and SHMEM_FT_BACKUP_MODE must be "
            "the same for all",
            rank);
    }
    if (!error.empty()) {
        return fails(std::move(error));
    }
    return {};
}

Result<> check_sizes(const Config& config, std::int32_t n_processes) {
    if (n_processes - static_cast<std::int32_t>(config.spares) < 1) {
        return fails(format("SHMEM_FT_SPARES=%u leaves no PE: the job has %d processes", config.spares, n_processes));
    }
    if (n_processes > kProcessesMax) {
        return fails(format("the job has %d processes: this version takes at most %d", n_processes, kProcessesMax));
    }
    return {};
}

}  // namespace sft
