// Fault points: named places in the protocols where a schedule can kill, stop or delay this process, or flip a bit in a
// stored copy. They are part of the shipped library, so that what is tested is what runs; switched off, a point is one
// relaxed load of a byte and a branch that is never taken.
//
//   fault_point(FaultPoint::replicate_begin);
//
// fault_points.def lists the points, fault_schedule.hpp is the language of schedules, docs/fault-lab.md the chapter for
// users. Switched on, the process counts its visits of every point (in a shared file when SHMEM_FT_FAULT_VISITS is set,
// see fault_visits.hpp), and says on stderr what it does to itself before it does it.
//
// Life: the runtime calls start_fault_points() in shmem_init as soon as settings and rank are known, and
// set_fault_self() whenever one of the facts changes. Counters are kept over a finalize and a further init. Nothing
// happens in children made by fork().
//
// Threads: points may be visited from any thread. set_fault_self() and set_fault_hook() are called by one thread at a
// time.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>

#include "base/faults/fault_schedule.hpp"
#include "base/faults/fault_visits.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"

namespace sft {

struct Config;

namespace detail {
// In the library's own section, hidden: the load needs no detour through the table of global offsets.
extern std::atomic<bool> g_fault_points_on __attribute__((visibility("hidden")));
int visit_fault_point(FaultPoint point) noexcept;  // errno of a call that is to fail, or 0
}  // namespace detail

inline void fault_point(FaultPoint point) noexcept {
    if (detail::g_fault_points_on.load(std::memory_order_relaxed)) [[unlikely]] {
        detail::visit_fault_point(point);
    }
}

// The same in front of a system call that a schedule may make fail: errno is set then.
//
//   const int fd = fails(FaultPoint::call_socket) ? -1 : ::socket(...);
inline bool fails(FaultPoint point) noexcept {
    if (detail::g_fault_points_on.load(std::memory_order_relaxed)) [[unlikely]] {
        if (const int error = detail::visit_fault_point(point); error != 0) {
            errno = error;
            return true;
        }
    }
    return false;
}

// Who this process is. What is constant or changes in a recovery only is given as a value; what others decide is asked
// for at the moment of a visit, by entries that need it. The functions must not block and may be null: then nobody is
// the leader, or keeps anything.
struct FaultSelf {
    ProcId process = kNoProc;
    PeId pe = kNoPe;                // kNoPe: a spare that has not been called
    std::uint32_t incarnation = 0;  // how many processes have been this PE before
    ProgramPhase phase = ProgramPhase::none;
    std::int32_t n_pes = 0;
    std::int32_t n_processes = 0;  // 0: not known yet; then only `process N` has a meaning
    void* context = nullptr;       // for the functions
    bool (*leads)(void* context) = nullptr;
    ProcId (*keeper)(void* context, PeId pe) = nullptr;  // who keeps the shadow of that PE
    // One bit per entry, shared by the whole job: an entry fires once. Null while there is nothing shared: then once
    // per process.
    std::atomic<std::uint64_t>* fired = nullptr;
};

// Switches the points on if the settings have a schedule or ask for counted visits; otherwise does nothing.
// Fails if the file for the visits cannot be had.
[[nodiscard]] Result<> start_fault_points(const Config& config, ProcId process);

[[nodiscard]] FaultSelf fault_self() noexcept;
void set_fault_self(const FaultSelf& self) noexcept;
// What `self` and the hook point to is about to go: only the numbers stay.
void forget_fault_self() noexcept;

// What only other layers can do: flip a bit in a stored copy, cut a connection. Returns whether it was possible. A null
// hook: the fault is announced as impossible and the process goes on.
struct FaultHook {
    void* context = nullptr;
    bool (*flip)(void* context, FaultCopy copy, std::uint64_t seed) = nullptr;
    bool (*cut)(void* context, FaultPoint where, std::int64_t duration_ms) = nullptr;  // -1: for ever
};
void set_fault_hook(const FaultHook& hook) noexcept;

}  // namespace sft
