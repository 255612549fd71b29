// The third process of oshrun on its own host: sleeps while one of the other two lives, and ends what they have left if
// both are killed.
//
// Without it: the kernel tells the launcher to end (PR_SET_PDEATHSIG), once for every thread of the guardian and once
// more for the front. Open MPI 4's takes the second SIGTERM within five seconds for an order to call exit() inside its
// handler, where it may wait for ever for a lock that it holds itself; and processes that SIGTERM does not end stay.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace sft::tools {

class LastWatch {
public:
    struct Task {
        std::string job_variable;  // "NAME=VALUE" in the environment of every process of the job
        std::string temp_dir;      // empty: there is none
    };
    // By the front, behind the fork of the guardian. If the system does not let it, there is none.
    LastWatch(pid_t guardian, const Task& task);
    // By the front, when all is cleaned up.
    ~LastWatch();
    LastWatch(const LastWatch&) = delete;
    LastWatch& operator=(const LastWatch&) = delete;

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

private:
    pid_t pid_ = -1;
};

}  // namespace sft::tools
