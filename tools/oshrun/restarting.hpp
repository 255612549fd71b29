// A job that goes on from a version in files (--restart), and that is started again when it was lost (--retries).
//
// Processes: the one that the user has started starts oshrun once more for each attempt, hands signals on to it, and
// looks at how it has ended. If it is killed, the attempt gets a signal from the kernel and ends its job.
//
// What PE 0 reads: a file is read again from where it was; what has gone through a pipe is gone.
#pragma once

#include <functional>
#include <string>

#include "base/result.hpp"
#include "storage/manifest.hpp"
#include "tools/oshrun/options.hpp"
#include "tools/oshrun/retry_note.hpp"

namespace sft::tools {

struct RestartPoint {
    std::string folder;  // of the version; empty: the job begins
    Manifest manifest;
};

// The newest complete version in a folder of them, or the version whose folder that is.
[[nodiscard]] Result<RestartPoint> find_restart_point(const std::string& path);
// Sets what the job needs: SHMEM_FT_RESTART, the settings of then as far as they are not set to something else here,
// and that it goes on storing in the same folder.
void set_restart_point(const RestartPoint& point);

// SHMEM_FT_LOAD names one version then, which is the same for all PEs, if it is set.
[[nodiscard]] Result<> settle_load();

// attempt: oshrun as without retries; runs in a child, whose exit status is its result. Returns the exit status of the
// last attempt.
[[nodiscard]] int run_with_retries(int retries, const std::function<int(int attempt, RetryNote& note)>& attempt);

}  // namespace sft::tools
