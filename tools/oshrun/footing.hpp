// What oshrun inherits from whoever starts it and stands on: signals, limits, the current folder, /proc, PATH. Settled
// where that takes nothing from the user, else refused in one line: the launcher, which meets the same, would hang or
// print pages of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/oshrun/preflight.hpp"

namespace sft::tools {

// Before anything else, in the front process. Signals: a parent that ignores SIGCHLD makes its children ignore it too,
// and then nobody hears of the end of a child.
void settle_inherited_state();

// The current folder and /proc.
[[nodiscard]] std::optional<Refusal> check_footing();

// The largest file that a process may make (ulimit -f) bounds memory files as well; and how much it may map (ulimit
// -v).
[[nodiscard]] std::optional<Refusal> check_sizes(std::uint64_t heap_bytes);

// The launcher alone needs more than the few that a soft limit (ulimit -Sn) may leave; that of `processes` is raised as
// far as it has to be and the hard limit lets it.
void raise_low_file_limit(int processes);

}  // namespace sft::tools
