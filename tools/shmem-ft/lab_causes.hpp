// Why a program may have given a wrong answer: what is known to be saved and not restored, or neither, from what the
// checks of a run without faults say and from the routines that the program uses.
#pragma once

#include <string>
#include <vector>

namespace sft::tools {

// `said`: the standard error of a run with SHMEM_FT_CHECK. `program`: what was started; no executable, no routines.
// Lines for the user, never none.
[[nodiscard]] std::vector<std::string> likely_causes(const std::string& program, const std::string& said);

}  // namespace sft::tools
