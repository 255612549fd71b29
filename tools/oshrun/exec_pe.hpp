// What every process of a job is before it becomes the program: oshrun itself, started by the launcher as
// `oshrun --exec-pe PATH NAME ARGUMENTS...`. It tells the guardian, or on another host the agent (agent_start.hpp), its
// rank and pid, waits until the guardian has agreed and it is watched, takes over the standard input of the job if it
// is PE 0, switches address randomisation off for the program and turns into it. So the guardian knows how a process
// ended from its first instruction on, also when it never calls shmem_init.
#pragma once

#include <string>
#include <vector>

#include "base/job_channel.hpp"

namespace sft::tools {

inline constexpr const char* kExecPeOption = "--exec-pe";

// Messages on the job channel besides those of the library.
inline constexpr auto kEventLaunched = static_cast<JobEventKind>(1000);    // rank, pid; the guardian answers
inline constexpr auto kEventExecFailed = static_cast<JobEventKind>(1001);  // code: errno

// Switches address randomisation off and turns into the program. Returns only when that could not be done: the errno.
[[nodiscard]] int become_program(std::string path, std::vector<std::string> words);

// REQUIRES: argv[1] is kExecPeOption. Returns only when the program could not be run.
[[nodiscard]] int exec_pe(int argc, char** argv);

}  // namespace sft::tools
