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
    died = 6,
    restarted = 7  // with the whole job, from a stored version
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

static_assert(FailureReason::from_status(FailureReason{FailureKind::exited, 0xffff}.status()).code == 0xffff);
static_assert(FailureReason{FailureKind::signal, 0}.status() != 0, "0 means that nothing is known");

// "killed by signal 9 (Killed)", "exited with code 3 without shmem_finalize", ...
[[nodiscard]] std::string describe(FailureReason reason);

// Start time of a process in clock ticks since boot, which with the pid names it for ever; 0 when there is none.
[[nodiscard]] std::uint64_t process_start_time(std::int32_t pid) noexcept;

// A debugger or the like is attached to it.
[[nodiscard]] bool is_traced(std::int32_t pid) noexcept;

// What became of trying to open a process, or what it has open. Gone takes proof: nobody has its pid, or somebody else
// (another start time). Whatever else fails says nothing about the process: the trouble may be here (no descriptors, no
// memory), or it lives and does not let itself be opened. Nobody may take that for a death, which the others would
// never hear of.
enum class Reach : std::uint8_t { opened, gone, cannot_be_opened };

struct Opening {
    Reach reach = Reach::gone;
    int fd = -1;    // if opened
    int error = 0;  // errno, if it cannot be opened
};

// The same for those who pass it on: what could not be done, for the user, and the errno (0: none that says anything).
struct Trouble {
    std::string what;
    int error = 0;
};

// Whether the process with that pid and start time is still there: opened (it lives), or else as above. One that has
// ended and was not reaped yet is gone.
[[nodiscard]] Opening look_at_process(std::int32_t pid, std::uint64_t start_time) noexcept;

// What tells a pidfd of this process from those of all others since the system has started, without a look into /proc;
// 0: the kernel has no such number (before Linux 6.9), or it cannot be had.
[[nodiscard]] std::uint64_t own_pidfd_number() noexcept;

// A pidfd for the process with that pid and start time, which may have ended but not been reaped. Under valgrind, which
// knows no pidfds, another descriptor that becomes readable when the process is gone. number: its own_pidfd_number().
[[nodiscard]] Opening open_process(std::int32_t pid, std::uint64_t start_time, std::uint64_t number = 0) noexcept;

// A descriptor of our own for what that process has open as `fd`.
[[nodiscard]] Opening open_descriptor_of(std::int32_t pid, std::uint64_t start_time, int fd) noexcept;

// The trouble is not the other process but what this one, or the system, has no more of.
[[nodiscard]] bool is_lack(int error) noexcept;
// "Too many open files: raise the limit of 1024 open files (ulimit -n)": the error, and the remedy if there is one.
[[nodiscard]] std::string describe_error(int error);

// By the descriptor that open_process has given.
void kill_process(int pidfd, std::int32_t pid, std::uint64_t start_time) noexcept;

// Kills the process with that pid and start time and waits until the kernel says that it has ended. False: it cannot be
// opened, or has not ended within the bound.
[[nodiscard]] bool end_process(std::int32_t pid, std::uint64_t start_time, int bound_ms) noexcept;

// REQUIRES: pidfd is readable (the process has ended). Asks the kernel in every way it offers (PIDFD_GET_INFO from
// Linux 6.15 on, else the zombie's stat); kind is `died` when none of them tells.
[[nodiscard]] FailureReason reason_of_end(int pidfd, std::int32_t pid) noexcept;

}  // namespace sft
