// Which process of a job: pids name one on their own host only.
#pragma once

#include <cstdint>

namespace sft::tools {

struct ProcessKey {
    std::int32_t pid = -1;
    std::int32_t host = 0;  // 0: the guardian's; the others in the order in which their agents came

    // Not explicit: most jobs have one host.
    constexpr ProcessKey(std::int32_t pid_value = -1, std::int32_t host_value = 0) noexcept
        : pid(pid_value), host(host_value) {}

    friend constexpr auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

}  // namespace sft::tools
