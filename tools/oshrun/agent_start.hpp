// How a process of a job finds who watches it: the guardian on the guardian's own host, the agent on any other one,
// which the first process there starts.
#pragma once

#include <string>

#include "base/job_channel.hpp"
#include "base/result.hpp"

namespace sft::tools {

// Connects the channel, and starts an agent before if this host needs one and has none. rank: of this process, for jobs
// that only act as if they had several hosts (SHMEM_FT_PRETEND_NODES). Afterwards SHMEM_FT_JOB_SOCKET names the socket
// for the program, and the secret of the job is no longer in the environment.
[[nodiscard]] Result<> connect_to_watcher(int rank, JobChannel& channel);

}  // namespace sft::tools
