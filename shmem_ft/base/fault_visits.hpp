// What a process tells about its fault points: visits per point, and which entries of the schedule it has carried out.
// With SHMEM_FT_FAULT_VISITS=PREFIX it is the contents of the file PREFIX.RANK, mapped shared: a process that is
// killed leaves the truth behind. Read by `shmem-ft lab`.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "shmem_ft/base/fault_schedule.hpp"

namespace sft {

inline constexpr std::uint32_t kFaultVisitsMagic = 0x53465456;  // "SFTV"

struct FaultVisits {
    std::uint32_t magic;
    std::uint32_t layout;  // 1
    std::int32_t process;
    std::int32_t pid;
    std::atomic<std::int32_t> pe;  // the last one it was; -1: none
    std::atomic<std::uint32_t> incarnation;
    std::uint64_t reserved;
    std::atomic<std::uint32_t> visits[kFaultPointNumbers];  // by number of the point
    std::atomic<std::uint32_t> fired[kFaultEntriesMax];     // by entry
};
static_assert(std::is_standard_layout_v<FaultVisits> &&
              sizeof(FaultVisits) == 32 + 4 * (kFaultPointNumbers + kFaultEntriesMax));

}  // namespace sft
