// What starts the processes of a job: mpirun as a child of the guardian, or the guardian itself (own_launch.hpp).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/process_watch.hpp"
#include "base/result.hpp"
#include "tools/common/fd.hpp"
#include "tools/oshrun/launcher_door.hpp"
#include "tools/oshrun/own_launch.hpp"

namespace sft::tools {

class Launcher {
public:
    // Starts it with stdin_fd (-1: nothing) as its input; its stdout and stderr are the write ends of pipes. It gets
    // SIGTERM when the calling thread ends, so it does not outlive a guardian that is killed, unless it
    // hangs over that (last_watch.hpp). No door: it listens where it likes.
    [[nodiscard]] Result<> start(const std::vector<std::string>& command, int stdin_fd,
                                 const std::optional<LauncherDoor>& door);
    // Instead: without one. See OwnLaunch::start.
    [[nodiscard]] Result<> start_processes(const OwnLaunchTask& task, Poller& poller);
    // Null: there is a launcher.
    [[nodiscard]] OwnLaunch* own() noexcept { return own_ ? &*own_ : nullptr; }
    [[nodiscard]] const OwnLaunch* own() const noexcept { return own_ ? &*own_ : nullptr; }
    // Whoever holds the output of processes that have ended is not waited for.
    void hurry() noexcept { is_hasty_ = true; }
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
    std::optional<OwnLaunch> own_;
    bool is_hasty_ = false;
};

}  // namespace sft::tools
