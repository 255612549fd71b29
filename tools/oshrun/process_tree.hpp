// The processes below a process, as /proc shows them, and signals to exactly those.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace sft::tools {

// A pid is given to a new process some day; together with the start time it names one process.
struct ProcessName {
    std::int32_t pid = -1;
    std::uint64_t start_time = 0;

    friend auto operator<=>(const ProcessName&, const ProcessName&) = default;
};

// All that live (no zombies), children before grandchildren; without the spared ones and what is below them.
[[nodiscard]] std::vector<ProcessName> descendants_of(std::int32_t root, const std::set<ProcessName>& spared = {});

// Those whose environment has that NAME=VALUE, without the calling process. Other users' cannot be read.
[[nodiscard]] std::set<ProcessName> processes_with_variable(const std::string& variable);

// pid -1: there is none.
[[nodiscard]] ProcessName parent_of(std::int32_t pid);
// As the system shows it, cut to 15 characters; empty when there is no such process.
[[nodiscard]] std::string command_name(std::int32_t pid);

// What it has read and written since it began; 0 when the system does not tell.
[[nodiscard]] std::uint64_t bytes_moved_by(std::int32_t pid);

// By a signal, or by a debugger.
[[nodiscard]] bool is_stopped(std::int32_t pid);

// False when that process is gone.
bool send_signal(const ProcessName& process, int signal);

// Returns when one of them has ended, or after timeout_ms.
void wait_for_any_end(const std::set<ProcessName>& processes, int timeout_ms);

struct EndTreeOptions {
    std::int64_t patience_ns = 0;  // between SIGTERM and SIGKILL
    std::set<ProcessName> spared;  // not ours, nor their descendants
};

// Ends all descendants of the calling process, which must be a subreaper, and reaps them. Does not return before they
// are gone, except for those that the kernel itself holds.
void end_descendants(const EndTreeOptions& options);

}  // namespace sft::tools
