// The control segment: one shared memory object per node through which the processes of a job find each other,
// agree, and exchange small messages. It holds no user data.
//
// Fault model: any process may die at any instruction while it writes here. Therefore nothing in it is protected by
// a lock, and every word is of one of three kinds:
//   - written once, before the others may look (slots: pid, descriptors);
//   - decided by compare-and-swap (agreed, death_log, bound_pe);
//   - written by one process only, and meaningful only as "at least this far" (marker, channel rings).
// The tables of an epoch are written before the epoch is decided, by everyone who tries to decide it, with the same
// content.
//
// Lifetime: an unnamed memory file, so nothing is left behind whatever happens.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shmem_ft/base/ids.hpp"
#include "shmem_ft/membership/agreed.hpp"
#include "shmem_ft/membership/death_log.hpp"
#include "shmem_ft/transport/shm/channels.hpp"
#include "shmem_ft/transport/shm/wait.hpp"

namespace sft {

inline constexpr std::uint32_t kControlMagic = 0x53465443;  // "SFTC"
inline constexpr std::size_t kEpochTables = 4;              // nobody lags behind by more than one epoch
inline constexpr std::int32_t kProcessesMax = static_cast<std::int32_t>(kDeathsMax);

// How far a process has come: markers of one process only grow. A restart attempt is named by the number of deaths
// that it knows.
enum class Step : std::uint8_t { none = 0, arrived = 1, shipped = 2, folded = 3, restored = 4, protected_again = 5 };

[[nodiscard]] constexpr std::uint64_t make_marker(std::uint32_t round, DeathCount attempt, Step step) noexcept {
    return (static_cast<std::uint64_t>(round) << 24) | (static_cast<std::uint64_t>(attempt.value()) << 8) |
           static_cast<std::uint64_t>(step);
}
[[nodiscard]] constexpr std::uint32_t round_of_marker(std::uint64_t marker) noexcept {
    return static_cast<std::uint32_t>(marker >> 24);
}

enum class ProcessState : std::uint32_t { starting = 0, ready = 1, finalized = 2 };

struct alignas(64) ProcessSlot {
    Doorbell doorbell;
    std::int32_t pid;
    std::int32_t heap_fd;
    std::int32_t globals_fd;
    std::int32_t store_fd;
    std::uint64_t start_time;
    std::atomic<ProcessState> state;
    std::atomic<std::int32_t> bound_pe;  // spares: the PE it was bound to + 1; 0: none
    std::atomic<std::uint64_t> marker;
    std::atomic<std::uint64_t> list_hash[2];   // of the list given to shmem_restart_pes, by parity of the round
    std::atomic<std::uint32_t> exit_status;    // status given to exit() + 1: last words for kernels that do not tell
    std::atomic<std::uint32_t> init_calls[2];  // calls of shmem_ft_algo_init at a version, by its parity
};

struct AssignmentWords {
    std::atomic<std::int32_t> holder;
    std::atomic<std::int32_t> keeper;
};

struct alignas(64) ControlHeader {
    std::uint32_t magic;
    std::int32_t n_pes;
    std::int32_t n_processes;
    alignas(64) std::atomic<std::uint64_t> agreed;
    alignas(64) std::atomic<std::uint64_t> end_record;  // status << 32 | PE + 1; first writer wins
    std::atomic<std::uint32_t> fault_deaths;            // deaths known when the pending fault was declared
    std::atomic<std::uint64_t> faults_fired;            // entries of the fault schedule that have happened, a bit each
    DeathLog death_log;
};

class ControlSegment {
public:
    ControlSegment() = default;
    ~ControlSegment();
    ControlSegment(const ControlSegment&) = delete;
    ControlSegment& operator=(const ControlSegment&) = delete;

    // Creates the segment; agreed starts as running, version 0, with every PE held by the process of its number.
    [[nodiscard]] bool create(std::int32_t n_pes, std::int32_t n_processes, std::string& error);
    // Maps the segment that process `pid` has open as `fd`.
    [[nodiscard]] bool attach(std::int32_t pid, int fd, std::string& error);
    void detach() noexcept;

    [[nodiscard]] int fd() const noexcept { return fd_; }
    [[nodiscard]] std::int32_t n_pes() const noexcept { return header_->n_pes; }
    [[nodiscard]] std::int32_t n_processes() const noexcept { return header_->n_processes; }
    [[nodiscard]] DeathLog& death_log() const noexcept { return header_->death_log; }
    [[nodiscard]] ControlHeader& header() const noexcept { return *header_; }
    [[nodiscard]] ProcessSlot& slot(ProcId process) const noexcept { return slots_[process.index()]; }
    [[nodiscard]] AssignmentWords& assignment(Epoch epoch, PeId pe) const noexcept {
        return tables_[(epoch.value() % kEpochTables) * static_cast<std::size_t>(header_->n_pes) + pe.index()];
    }
    [[nodiscard]] ChannelRing& ring(PeId from, PeId to) const noexcept {
        return rings_[to.index() * static_cast<std::size_t>(header_->n_pes) + from.index()];
    }

    [[nodiscard]] Agreed agreed() const noexcept { return unpack(header_->agreed.load(std::memory_order_seq_cst)); }
    // Whether `next` was decided by this call.
    bool decide(const Agreed& seen, const Agreed& next) const noexcept {
        std::uint64_t expected = pack(seen);
        return header_->agreed.compare_exchange_strong(expected, pack(next), std::memory_order_seq_cst);
    }
    [[nodiscard]] bool is_dead(ProcId process) const noexcept {
        return header_->death_log.contains(process, header_->death_log.length());
    }
    // The process whose reason ended the job; kNoProc while it has not ended.
    [[nodiscard]] ProcId end_owner() const noexcept {
        return ProcId(static_cast<std::int32_t>(header_->end_record.load() & 0xffffffffU) - 1);
    }
    void ring_all() const noexcept;
    // All but the spares that nobody has called: what happens between PEs must not cost a sleeping process anything.
    void ring_working() const noexcept;

private:
    [[nodiscard]] bool map(std::size_t bytes, std::string& error);
    void locate_parts() noexcept;

    int fd_ = -1;
    std::size_t bytes_ = 0;
    ControlHeader* header_ = nullptr;
    ProcessSlot* slots_ = nullptr;
    AssignmentWords* tables_ = nullptr;
    ChannelRing* rings_ = nullptr;
};

// An open descriptor for what process `pid` has open as `fd`, or -1 with errno set.
[[nodiscard]] int open_descriptor_of(std::int32_t pid, int fd) noexcept;

}  // namespace sft
