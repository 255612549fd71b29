// The control segment: one shared memory object per node through which the processes of a job find each other,
// agree, and exchange small messages. It holds no user data.
//
// Fault model: any process may die at any instruction while it writes here. Therefore nothing in it is protected by
// a lock, and every word is written either once, before the others may look (pid, descriptors), or by one process
// only, and is meaningful only as "at least this far" (channel rings, last words), or is a set of bits that only grows
// (lane marks). The exception are the meeting points, which many count in: what a dead one has left there means nothing
// until a recovery has cleared it, and nobody waits at one while a fault is pending. What the processes agree on is not
// here: they agree by messages (recovery/membership/agreement.hpp). A slot also has what its process says to onlookers
// (status.hpp).
//
// In a job on several nodes each node has one of its own, made by its lowest process and laid out like that of the
// whole job: slots and rings of processes of other nodes are not used. It also keeps how those are reached.
//
// Lifetime: an unnamed memory file, so nothing is left behind whatever happens. Nearly all of it are rings of lanes
// that nobody uses, and contacts of a job that does not need them, which are holes: memory is taken by what has been
// written only. So nobody may read through the rings.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/assert.hpp"
#include "base/ids.hpp"
#include "base/process_watch.hpp"
#include "base/result.hpp"
#include "transport/contact.hpp"
#include "transport/shm/channels.hpp"
#include "transport/shm/status.hpp"
#include "transport/shm/wait.hpp"

namespace sft {

inline constexpr std::uint32_t kControlMagic = 0x53465443;  // "SFTC"
// Counted up whenever anything in here changes its place or its meaning. The first two words of the header stay.
// Before there was this number, that of the PEs stood in its place, so it begins above kProcessesMax.
inline constexpr std::uint32_t kControlLayout = 10015;
inline constexpr const char* kControlName = "shmem-ft-control";
inline constexpr std::int32_t kProcessesMax = 4095;
// Slots for spares that come while the job runs, behind those of the processes it starts with.
inline constexpr std::int32_t kJoinSlots = 64;
inline constexpr std::size_t kCardBytesMax = 512;

// finalized, ended: it leaves the job because that is over.
enum class ProcessState : std::uint32_t { starting = 0, ready = 1, finalized = 2, ended = 3 };

struct alignas(64) ProcessSlot {
    Doorbell doorbell;
    std::int32_t pid;
    std::int32_t heap_fd;
    std::int32_t globals_fd;
    std::int32_t store_fd;
    std::uint64_t start_time;
    std::int32_t memory_domain;  // DomainId + 1 of the one it is bound to, in a job on one node; 0: not known
    std::int32_t node_file_fd;   // ControlHeader::node_file_bytes, as it has that open
    std::atomic<ProcessState> state;
    std::atomic<std::uint32_t> exit_status;     // status given to exit() + 1: last words for kernels that do not tell
    std::atomic<std::uint32_t> heartbeat;       // counted by its service thread
    std::atomic<std::uint32_t> is_hung;         // it was killed because that stood still
    std::atomic<std::int32_t> taken_pe;         // spares: the PE it has become + 1; 0: none
    std::atomic<std::uint32_t> is_death_noted;  // somebody has reported this process's death to oshrun
    std::atomic<std::uint32_t> death;           // FailureReason::status() of whoever knew first; 0: nobody does
    std::atomic<std::int64_t> death_seen_ns;    // CLOCK_MONOTONIC
    std::atomic<std::int64_t> lease_ns;         // NodeWatch::lease_ns()
    // Of the lowest process of another node: data between it and this one does not get through, as somebody has seen
    // or heard.
    std::atomic<std::int64_t> stalled_since_ns;
    std::atomic<std::int64_t> stall_seen_ns;       // last; CLOCK_MONOTONIC
    std::atomic<std::uint32_t> is_stall_said;      // to the user
    std::atomic<std::uint64_t> heap_in_node_file;  // where its heap begins there + 1; 0: it is a file of its own
    std::uint64_t globals_in_node_file;            // the same of its globals
    std::uint64_t pidfd_number;                    // own_pidfd_number()
    StatusBlock status;

    // For onlookers; the first reason that says more than "died" stays.
    void note_death(FailureReason reason, std::int64_t seen_ns) noexcept;
};
static_assert(offsetof(ProcessSlot, doorbell) == 0 && offsetof(ProcessSlot, pid) == sizeof(Doorbell));
static_assert(offsetof(ProcessSlot, status) % 64 == 0 && sizeof(ProcessSlot) % 64 == 0);
static_assert(std::atomic<ProcessState>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::is_standard_layout_v<ProcessSlot> && std::is_trivially_destructible_v<ProcessSlot>,
              "it begins as zeros of a file, and nobody ends it");
static_assert(static_cast<std::uint32_t>(ProcessState::starting) == 0, "what nobody has written yet");

// How a process is reached from other nodes. Written by the first process of the node before anybody is past the
// start-up; of a spare that joins, by those of the node that hear of it: they all hear, and write, the same.
struct alignas(64) ContactSlot {
    std::atomic<std::uint32_t> is_written;
    Contact contact;
};
static_assert(sizeof(ContactSlot) % 64 == 0 && std::is_trivially_copyable_v<Contact>);
static_assert(std::is_standard_layout_v<ContactSlot> && std::is_trivially_destructible_v<ContactSlot>);

struct alignas(64) ControlHeader {
    std::uint32_t magic;
    std::uint32_t layout;
    std::int32_t n_pes;
    std::int32_t n_processes;
    std::int32_t node;                        // NodeId of the node that this is the segment of
    std::int32_t n_nodes;                     // contacts are there if there is more than one
    std::atomic<std::uint64_t> faults_fired;  // entries of the fault schedule that have happened, a bit each
    std::atomic<std::uint32_t> startup_told;  // somebody has said that a record of the start-up is of no use
    std::int32_t node_file_fd;                // as the node's lowest process has it open
    std::uint64_t node_file_bytes;            // memory that outlives processes (node_file.hpp); 0: there is none
    // For onlookers: where records of decided values begin there; 0: nowhere.
    std::atomic<std::uint64_t> records_begin;
    // PEs of the node that watch their pages, and need notes of what others write (change_notes.hpp); one that has died
    // meanwhile stays counted.
    std::atomic<std::uint32_t> n_watching;
    std::uint32_t reserved;
    std::byte card[kCardBytesMax];  // process 0's JobCard, for spares that come later
};
static_assert(offsetof(ControlHeader, magic) == 0 && offsetof(ControlHeader, layout) == 4, "the same in all layouts");
static_assert(offsetof(ControlHeader, card) == 64 && sizeof(ControlHeader) % 64 == 0);
static_assert(offsetof(ControlHeader, n_pes) == 8 && offsetof(ControlHeader, faults_fired) == 24);
static_assert(std::is_standard_layout_v<ControlHeader> && std::is_trivially_destructible_v<ControlHeader>);
static_assert(kCardBytesMax % 8 == 0 && kJoinSlots > 0);
static_assert(kControlLayout > static_cast<std::uint32_t>(kProcessesMax));

// What the sizes of the parts follow from: a copy, so that what has been checked is what is used.
struct ControlShape {
    std::int32_t n_pes = 0;
    std::int32_t n_processes = 0;
    std::int32_t node = 0;  // as they are when the job is looked at
    std::int32_t n_nodes = 0;
};

class ControlSegment {
public:
    ControlSegment() = default;
    ~ControlSegment();
    ControlSegment(const ControlSegment&) = delete;
    ControlSegment& operator=(const ControlSegment&) = delete;

    [[nodiscard]] Result<> create(std::int32_t n_pes, std::int32_t n_processes);
    // How `process` is reached; null: not known (yet).
    [[nodiscard]] const Contact* contact(ProcId process) const noexcept;
    void set_contact(ProcId process, const Contact& contact) noexcept;
    // Maps the segment that the process with that pid and start time has open as `fd`.
    [[nodiscard]] Result<> attach(std::int32_t pid, std::uint64_t start_time, int fd);
    // The same for a program outside of the job: nothing may be written to what it gives. Whoever has made the file may
    // be hostile: its size cannot change (it is sealed), the shape has been copied before it was checked, and
    // everything else may be any bytes, at any time others. Failure::gone: the process is, or it is not ours to look
    // at.
    [[nodiscard]] Result<> look(std::int32_t pid, int fd);
    void detach() noexcept;

    [[nodiscard]] int fd() const noexcept { return fd_; }
    [[nodiscard]] std::int32_t n_pes() const noexcept { return shape_.n_pes; }
    [[nodiscard]] std::int32_t n_processes() const noexcept { return shape_.n_processes; }
    [[nodiscard]] std::int32_t n_slots() const noexcept { return shape_.n_processes + kJoinSlots; }
    // REQUIRES: look.
    [[nodiscard]] const ControlShape& shape() const noexcept { return shape_; }
    [[nodiscard]] ControlHeader& header() const noexcept { return *header_; }
    [[nodiscard]] ProcessSlot& slot(ProcId process) const noexcept {
        SFT_ASSERT(process.value() >= 0 && process.value() < n_slots());
        return slots_[process.index()];
    }
    // By which a process says that it is ready for a step of a checkpoint (recovery/ready_words.hpp).
    [[nodiscard]] std::atomic<std::uint64_t>& ready_word(ProcId process) const noexcept {
        SFT_ASSERT(process.value() >= 0 && process.value() < n_slots());
        return ready_words_[process.index()];
    }
    // Spares that were called for this PE, the one that holds it now among them.
    [[nodiscard]] std::uint32_t incarnation_of(PeId pe) const noexcept;
    [[nodiscard]] ChannelMap channels() const noexcept {
        return {rings_, lane_marks_, meeting_points_, static_cast<std::size_t>(shape_.n_pes)};
    }

private:
    [[nodiscard]] Result<> map(std::size_t bytes, int protection);
    // Copies the shape and checks it.
    [[nodiscard]] Result<> take_shape();
    void locate_parts() noexcept;

    int fd_ = -1;
    std::size_t bytes_ = 0;
    ControlShape shape_;
    ControlHeader* header_ = nullptr;
    ProcessSlot* slots_ = nullptr;
    std::atomic<std::uint64_t>* ready_words_ = nullptr;
    ContactSlot* contacts_ = nullptr;
    LaneMarks* lane_marks_ = nullptr;
    MeetingPoint* meeting_points_ = nullptr;
    ChannelRing* rings_ = nullptr;
};

}  // namespace sft
