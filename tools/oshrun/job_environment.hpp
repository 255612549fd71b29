// The environment of a job, and how an oshrun that a process of another job has started gets out of that job's.
//
// What oshrun sets for its job is written down in the environment too, so that an oshrun inside of it can tell what
// the outer one has set from what the user has, whose word counts there as well.
#pragma once

#include <string>

namespace sft::tools {

inline constexpr const char* kSetForJobVariable = "OSHRUN_SET";

// Sets a variable for the processes of the job.
void set_for_job(const std::string& name, const std::string& value);

// Takes away what oshrun and the launcher of a surrounding job have set, if there is one. Before anything is set.
void leave_surrounding_job();

}  // namespace sft::tools
