// What SHMEM_VERSION, SHMEM_INFO and SHMEM_DEBUG ask for, and what a user has to know of this launcher or program:
// lines, once in a job.
#pragma once

#include "base/config.hpp"
#include "recovery/membership/job_state.hpp"
#include "shmem_ft/start/bootstrap.hpp"
#include "shmem_ft/start/node_links.hpp"
#include "symheap/symmetric_memory.hpp"

namespace sft {

// Before the memory of this process is made.
void warn_of_locked_memory(const Config& config);

// Of a job that has started.
void print_about(const Config& config, const Bootstrap& bootstrap, const NodeLinks& links,
                 const SymmetricMemory& memory, const JobShape& shape);

}  // namespace sft
