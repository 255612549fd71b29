// Timeouts of poll() in milliseconds, where -1 is for ever.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"

namespace sft {

inline constexpr int kNoTimeout = -1;

// Rounded up, so that the time has come when poll() returns; at most an hour.
[[nodiscard]] constexpr int ms_until(std::int64_t at_ns, std::int64_t now_ns) noexcept {
    constexpr std::int64_t kHourMs = 3'600'000;
    return static_cast<int>(std::clamp<std::int64_t>((at_ns - now_ns + kNsPerMs - 1) / kNsPerMs, 0, kHourMs));
}

[[nodiscard]] constexpr int shorter_timeout(int a_ms, int b_ms) noexcept {
    return static_cast<int>(std::min(static_cast<unsigned>(a_ms), static_cast<unsigned>(b_ms)));
}
static_assert(shorter_timeout(kNoTimeout, 5) == 5 && shorter_timeout(kNoTimeout, kNoTimeout) == kNoTimeout);
static_assert(ms_until(1, 0) == 1 && ms_until(0, 1) == 0, "rounded up, and never for ever");

}  // namespace sft
