// The front process: what the user has started as oshrun. It forks the guardian, tells it which signals arrive, hands
// the terminal's input on to it, and cleans up after it should it be killed.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>

#include "tools/common/fd.hpp"

namespace sft::tools {

// What the guardian's side needs of the front process.
struct GuardianLink {
    Fd front;          // see GuardianTask::front
    int stdin_fd = 0;  // what PE 0 is to read
};

struct FrontTask {
    std::string temp_dir;
    std::function<int(GuardianLink)> guardian;  // run in the child; its result is its exit status
    // "NAME=VALUE", by which the processes of the job are known whose guardian has that pid.
    std::function<std::string(std::int32_t guardian)> job_variable;
};

// Those that end a job, but for what whoever started us has chosen to ignore (nohup, a script's background); and those
// of children and of going on.
[[nodiscard]] sigset_t signals_to_hear();
// From now on the signals that end a job wait until run_front hears them.
void block_end_signals();

// REQUIRES: block_end_signals has been called. Returns the exit status of oshrun.
[[nodiscard]] int run_front(const FrontTask& task);

}  // namespace sft::tools
