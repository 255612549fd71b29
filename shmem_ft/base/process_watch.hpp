// How a process of this node ended, as far as the kernel tells somebody who is not its parent.
#pragma once

#include <cstdint>
#include <string>

namespace sft {

// Values are public: SHMEM_FT_KILLED_BY_SIGNAL and so on in shmem_ft.h.
enum class FailureKind : std::uint8_t {
    none = 0,
    signal = 1,
    exited = 2,
    hung = 3,
    node_lost = 4,
    unreachable = 5,
    died = 6
};

// Fits a status int of shmem_query_fault: kind << 16 | code (signal number or exit code).
struct FailureReason {
    FailureKind kind = FailureKind::none;
    std::uint16_t code = 0;

    [[nodiscard]] constexpr std::int32_t status() const noexcept {
        return (static_cast<std::int32_t>(kind) << 16) | code;
    }
    static constexpr FailureReason from_status(std::int32_t status) noexcept {
        return {static_cast<FailureKind>((status >> 16) & 0xff), static_cast<std::uint16_t>(status & 0xffff)};
    }
    friend constexpr bool operator==(FailureReason, FailureReason) noexcept = default;
};

// "killed by signal 9 (Killed)", "exited with code 3 without shmem_finalize", ...
[[nodiscard]] std::string describe(FailureReason reason);

// Start time of a process in clock ticks since boot, which with the pid names it for ever; 0 when there is none.
[[nodiscard]] std::uint64_t process_start_time(std::int32_t pid) noexcept;

// A debugger or the like is attached to it.
[[nodiscard]] bool is_traced(std::int32_t pid) noexcept;

// A pidfd for the process with that pid and start time. -1: it is gone (errno 0) or cannot be watched (errno set).
[[nodiscard]] int open_process(std::int32_t pid, std::uint64_t start_time) noexcept;

// REQUIRES: pidfd is readable (the process has ended). Asks the kernel in every way it offers (PIDFD_GET_INFO from
// Linux 6.15 on, else the zombie's stat); kind is `died` when none of them tells.
[[nodiscard]] FailureReason reason_of_end(int pidfd, std::int32_t pid) noexcept;

}  // namespace sft
