// What a process tells about its fault points: visits per point, and which entries of the schedule it has carried out.
// With SHMEM_FT_FAULT_VISITS=PREFIX it is the contents of the file PREFIX.RANK, mapped shared: a process that is
// killed leaves the truth behind. Read by `shmem-ft lab`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/faults/fault_schedule.hpp"

namespace sft {

inline constexpr std::uint32_t kFaultVisitsMagic = 0x53465456;  // "SFTV"

// How far the program of a PE is.
enum class ProgramPhase : std::uint32_t {
    none,      // the process is no PE
    start_up,  // before its first committed checkpoint
    replay,    // a substitute that has not joined yet: it runs through the start-up once more
    running,
};

// What an entry of the schedule has done in this process.
struct FaultFired {
    std::atomic<std::uint32_t> count;
    std::int32_t pe;       // of the victim at the last time; -1: none
    std::int32_t keeper;   // process that kept the shadow of that PE; -1: none or unknown
    ProgramPhase phase;    // of the victim, then
    std::int64_t time_ns;  // CLOCK_MONOTONIC
};

struct FaultVisits {
    std::uint32_t magic;
    std::uint32_t layout;  // 1
    std::int32_t process;
    std::int32_t pid;
    std::atomic<std::int32_t> pe;  // the last one it was; -1: none
    std::atomic<std::uint32_t> incarnation;
    std::atomic<std::uint32_t> last_point;  // where the process was seen last, by number; 0: nowhere
    std::atomic<ProgramPhase> phase;
    std::atomic<std::uint32_t> visits[kFaultPointNumbers];  // by number of the point
    FaultFired fired[kFaultEntriesMax];                     // by entry
};
static_assert(sizeof(FaultFired) == 24 && offsetof(FaultFired, time_ns) == 16);
static_assert(offsetof(FaultVisits, pe) == 16 && offsetof(FaultVisits, visits) == 32, "read by another program");
static_assert(std::is_standard_layout_v<FaultVisits> &&
              sizeof(FaultVisits) == 32 + 4 * kFaultPointNumbers + 24 * kFaultEntriesMax);

}  // namespace sft
