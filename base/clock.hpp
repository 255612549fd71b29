// Time as the library measures it: CLOCK_MONOTONIC in nanoseconds, the same clock for all processes of a node.
#pragma once

#include <time.h>

#include <cstdint>

namespace sft {

[[nodiscard]] inline std::int64_t now_ns() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace sft
