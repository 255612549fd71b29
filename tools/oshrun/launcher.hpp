// mpirun as a child of the guardian.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "shmem_ft/base/process_watch.hpp"
#include "tools/common/fd.hpp"

namespace sft::tools {

class Launcher {
public:
    // Starts it with stdin_fd (-1: nothing) as its input; its stdout and stderr are the write ends of pipes. It gets
    // SIGTERM when the calling thread ends, so it does not outlive a guardian that is killed. False: error_line says
    // why.
    [[nodiscard]] bool start(const std::vector<std::string>& command, int stdin_fd, std::string& error_line);
    // Once, after start.
    [[nodiscard]] Fd take_stdout() { return std::move(stdout_); }
    [[nodiscard]] Fd take_stderr() { return std::move(stderr_); }

    // Set when it has ended; never blocks.
    [[nodiscard]] std::optional<FailureReason> poll_end();
    [[nodiscard]] bool has_ended() const noexcept { return end_.has_value(); }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    void signal(int number) const;

private:
    pid_t pid_ = -1;
    Fd stdout_;
    Fd stderr_;
    std::optional<FailureReason> end_;
};

}  // namespace sft::tools
