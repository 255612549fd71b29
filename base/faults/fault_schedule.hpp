// The language of fault schedules: what happens to whom, where and when. Pure: nothing here acts.
//
//   schedule  = entry { (";" | newline) entry }       "#" begins a comment that ends with the line
//   entry     = fault victim clause { clause }        words are separated by blanks; a colon counts as one
//   fault     = "kill"                                SIGKILL
//             | "segv"                                SIGSEGV
//             | "abort"                               abort()
//             | "exit" NUMBER                         exit(NUMBER), 0 to 255
//             | "stop" [duration]                     SIGSTOP, and SIGCONT afterwards; without a duration never
//             | "delay" duration                      the visiting thread sleeps
//             | "flip" ["local" | "shadow"] ["seed" NUMBER] ["of"]
//                                                     one bit of a stored copy of the victim's state (default: shadow);
//                                                     the seed chooses the bit
//             | "cut" [duration]                      the victim's network connections; needs a job on several nodes
//             | "fail" ERRNO [NUMBER "times"]         the system call fails with that error, at this visit and those
//                                                     behind it (default: once); with "every" at all of them. Only at
//                                                     the points call_...
//   duration  = NUMBER ["ms" | "s"]                   without a unit: ms
//   victim    = "pe" (NUMBER | "any" [seed])          the process that is this PE at the moment
//             | "process" (NUMBER | "any" [seed])     by the launcher's rank
//             | "spare" (NUMBER | "any" [seed])       the NUMBER-th launched spare, also once it is a PE
//             | "any" [seed]                          as "process any"
//             | "leader"                              the process that leads the agreement at the moment
//             | "substitute"                          any process that started as a spare and is a PE
//             | "partner of pe" NUMBER                the process that keeps the PE's shadow
//   seed      = "seed" NUMBER                         "any" is one victim, the same in all processes, drawn by the seed
//                                                     (default 0)
//   clause    = "at" POINT                            a name of fault_points.def; exactly once
//             | "visit" NUMBER                        the victim's NUMBER-th visit of the point (default 1). With "pe",
//                                                     visits count from when the process became this PE
//             | "incarnation" NUMBER                  0: the first process of the PE, 1: its first substitute, ... With
//                                                     "pe" the default is 0, so that a substitute does not meet the
//                                                     fault of the one that it replaces; otherwise any
//             | "after" NUMBER ["us" | "ms" | "s" | "percent"]
//                                                     that long after the visit, in code of the program; percent of the
//                                                     time between its last two checkpoints. Not for delay, flip, cut,
//                                                     fail
//             | "every"                               at this visit and every later one, in every incarnation. Without
//                                                     it an entry happens once in the whole job
//
// Example:  kill pe 2 at replicate_begin visit 3; stop 500 ms leader at plan_decided
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace sft {

enum class FaultPoint : std::uint16_t {
#define SFT_FAULT_POINT(number, name, description) name = number,
#include "base/faults/fault_points.def"
#undef SFT_FAULT_POINT
};

struct FaultPointInfo {
    FaultPoint point;
    const char* name;
    const char* description;
};

[[nodiscard]] std::span<const FaultPointInfo> fault_point_infos() noexcept;
[[nodiscard]] const char* fault_point_name(FaultPoint point) noexcept;

inline constexpr std::size_t kFaultPointNumbers = 1024;  // numbers are below
inline constexpr std::size_t kFaultEntriesMax = 64;      // a bit each
inline constexpr std::int64_t kForEver = -1;
[[nodiscard]] constexpr bool is_call(FaultPoint point) noexcept { return point >= FaultPoint::call_open_process; }

struct FailureName {
    const char* name;
    int error;
};
// What `fail` understands.
[[nodiscard]] std::span<const FailureName> failure_names() noexcept;

enum class FaultKind : std::uint8_t { kill, segv, abort, exit, stop, delay, flip, cut, fail };
// As a schedule names them: the place of a word is its kind.
inline constexpr std::string_view kFaultKindWords[] = {"kill",  "segv", "abort", "exit", "stop",
                                                       "delay", "flip", "cut",   "fail"};
static_assert(std::size(kFaultKindWords) == static_cast<std::size_t>(FaultKind::fail) + 1);
enum class FaultCopy : std::uint8_t { local, shadow };
enum class FaultVictim : std::uint8_t { pe, process, spare, leader, substitute, partner };

struct FaultEntry {
    FaultKind kind = FaultKind::kill;
    int status = 0;                // of exit; of fail: the errno
    std::uint32_t times = 1;       // of fail
    std::int64_t duration_ms = 0;  // of stop, delay and cut; kForEver
    FaultCopy copy = FaultCopy::shadow;
    std::uint64_t bit_seed = 0;

    FaultVictim victim = FaultVictim::pe;
    bool is_any = false;
    std::int32_t number = 0;  // of the victim, unless is_any
    std::uint64_t victim_seed = 0;

    FaultPoint point{};
    std::uint32_t visit = 1;
    std::int32_t incarnation = -1;  // -1: not given
    std::int64_t after_us = 0;      // later than the visit; negative: that many percent of a period
    bool is_every = false;

    friend bool operator==(const FaultEntry&, const FaultEntry&) = default;
};

using FaultSchedule = std::vector<FaultEntry>;

// The error quotes the entry and says what is wrong and what is accepted; schedule is unchanged then.
[[nodiscard]] Result<> parse_fault_schedule(std::string_view text, FaultSchedule& schedule);
// The schedule of both settings together, the file's entries after the others. An empty path is no file.
[[nodiscard]] Result<> load_fault_schedule(const std::string& entries, const std::string& path,
                                           FaultSchedule& schedule);

// In the language above; parsing it gives the same again.
[[nodiscard]] std::string to_string(const FaultEntry& entry);
[[nodiscard]] std::string to_string(const FaultSchedule& schedule);

// A visit, as far as matching an entry needs it.
struct FaultVisit {
    FaultPoint point{};
    ProcId process = kNoProc;
    PeId pe = kNoPe;
    std::uint32_t incarnation = 0;
    std::int32_t n_pes = 0;
    std::int32_t n_processes = 0;  // 0: not known yet
    std::uint32_t of_process = 0;  // number of this visit, from 1, among the process's
    std::uint32_t of_pe = 0;       // the same since the process became the PE
};

// Whether the entry's fault is due at this visit, for victims that the visit itself identifies; leader and partner
// (for which this function looks at everything but the victim) are the caller's to ask for.
[[nodiscard]] bool is_due(const FaultEntry& entry, const FaultVisit& visit) noexcept;

}  // namespace sft
