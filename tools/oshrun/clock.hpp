// The one clock: CLOCK_MONOTONIC, which all processes of the machine share.
#pragma once

#include <time.h>

#include <cstdint>

namespace sft::tools {

[[nodiscard]] inline std::int64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace sft::tools
