// Time as the library measures it: CLOCK_MONOTONIC in nanoseconds, the same clock for all processes of a node.
#pragma once

#include <time.h>

#include <cstdint>

namespace sft {

inline constexpr std::int64_t kNsPerMs = 1'000'000;
inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

[[nodiscard]] inline std::int64_t now_ns() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::int64_t>(time.tv_sec) * kNsPerSecond + time.tv_nsec;
}

}  // namespace sft
