// A process of a job hands its environment on to the programs that it starts, and by that they would be this very
// process for the launcher, oshrun and the others. So a process marks its environment, and a program that finds the
// mark of somebody else says that it is no member instead of waiting for ever.
//
// Not caught: a program started by a process that has not called shmem_init yet, which may be a wrapper (a shell, a
// debugger) whose program is the member; and one that is started with an environment made by hand.
#pragma once

#include <string>

#include "base/result.hpp"

namespace sft {

// The error says whose environment this is.
[[nodiscard]] Result<> may_be_member();
// REQUIRES: no other thread uses the environment.
void mark_member() noexcept;

}  // namespace sft
