// The bound that the tests of NodeWatch use.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "recovery/detection/node_watch.hpp"

namespace sft {

inline constexpr std::int64_t kNodeBound = 2 * kNsPerSecond;
inline constexpr std::int64_t kPeriod = kNodeBound / NodeWatch::kPeriodsPerBound;

}  // namespace sft
