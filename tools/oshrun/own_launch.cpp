#include "tools/oshrun/own_launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tools/oshrun/exec_pe.hpp"
#include "tools/oshrun/options.hpp"

namespace sft::tools {
namespace {

struct Ends {
    Fd ours;
    Fd theirs;
};

bool open_pipe(Ends& ends) {
    std::array<int, 2> fds{};
    if (pipe2(fds.data(), O_CLOEXEC) != 0) {
        return false;
    }
    ends = {Fd(fds[0]), Fd(fds[1])};
    return fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0;
}

// A terminal, so that programs print line by line, as under other launchers: what a process has printed is there when
// it is killed. Nothing is translated. Where there are no more terminals, a pipe.
bool open_output(Ends& ends) {
    int ours = -1;
    int theirs = -1;
    if (openpty(&ours, &theirs, nullptr, nullptr, nullptr) != 0) {
        return open_pipe(ends);
    }
    ends = {Fd(ours), Fd(theirs)};
    termios mode{};
    tcgetattr(theirs, &mode);
    cfmakeraw(&mode);
    tcsetattr(theirs, TCSANOW, &mode);
    return fcntl(ours, F_SETFD, FD_CLOEXEC) == 0 && fcntl(theirs, F_SETFD, FD_CLOEXEC) == 0 &&
           fcntl(ours, F_SETFL, O_NONBLOCK) == 0;
}

struct Child {
    const OwnLaunchTask* task = nullptr;
    int rank = 0;
    int stdin_fd = -1;
    int stdout_fd = -1;
    int stderr_fd = -1;
    int failure_fd = -1;
    pid_t parent = 0;
};

[[noreturn]] void become_pe(const Child& child) {
    setpgid(0, 0);  // a signal to its own group is for itself and what it starts
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != child.parent) {
        _exit(kExitCannotRun);
    }
    const int input = child.stdin_fd >= 0 ? child.stdin_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (const auto& [fd, as] : {std::pair{input, STDIN_FILENO}, std::pair{child.stdout_fd, STDOUT_FILENO},
                                 std::pair{child.stderr_fd, STDERR_FILENO}}) {
        if (fd == as) {
            fcntl(fd, F_SETFD, 0);
        } else {
            dup2(fd, as);
        }
    }
    setenv("PMIX_RANK", std::to_string(child.rank).c_str(), 1);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const std::array<int, 2> failure = {child.rank, become_program(child.task->path, child.task->words)};
    [[maybe_unused]] const ssize_t written = write(child.failure_fd, failure.data(), sizeof failure);
    _exit(kExitCannotRun);
}

}  // namespace

Result<> OwnLaunch::start(const OwnLaunchTask& task, Poller& poller) {
    Ends failures;
    std::vector<Fd> outputs;
    std::vector<Fd> errors;
    const auto refuse = [&](const char* what) {
        return fails(fmt::format("cannot start process {} of {}: {}: {}", pids_.size(), task.processes, what,
                                 strerrordesc_np(errno)));
    };
    if (!open_pipe(failures)) {
        return refuse("no pipe");
    }
    const pid_t self = getpid();
    for (int rank = 0; rank < task.processes; ++rank) {
        Ends output;
        Ends error;
        if (!open_output(output) || !open_pipe(error)) {
            return refuse("no pipe for its output");
        }
        const Child child = {
            &task, rank, rank == 0 ? task.stdin_fd : -1, output.theirs.get(), error.theirs.get(), failures.theirs.get(),
            self};
        const pid_t pid = fork();
        if (pid == 0) {
            become_pe(child);
        }
        if (pid < 0) {
            return refuse("fork");
        }
        pids_.push_back(pid);
        pidfds_.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        outputs.push_back(std::move(output.ours));
        errors.push_back(std::move(error.ours));
    }
    exec_failures_ = std::move(failures.ours);
    stdout_pump_ = std::make_unique<LinePump>(std::move(outputs), STDOUT_FILENO);
    stderr_pump_ = std::make_unique<LinePump>(std::move(errors), STDERR_FILENO);
    for (const int fd : done_fds()) {
        poller.add(fd, Source::child_signal, 1, EPOLLIN | EPOLLONESHOT);
    }
    return {};
}

std::optional<std::pair<int, int>> OwnLaunch::take_exec_failure() {
    std::array<int, 2> failure{};
    if (!exec_failures_ || read(exec_failures_.get(), failure.data(), sizeof failure) != sizeof failure) {
        return std::nullopt;
    }
    return std::pair(failure[0], failure[1]);
}

bool OwnLaunch::have_all_ended() const {
    std::vector<pollfd> entries;
    for (const Fd& pidfd : pidfds_) {
        entries.push_back({.fd = pidfd.get(), .events = POLLIN, .revents = 0});
    }
    poll(entries.data(), entries.size(), 0);
    return std::all_of(entries.begin(), entries.end(),
                       [](const pollfd& entry) { return entry.fd < 0 || entry.revents != 0; });
}

bool OwnLaunch::is_output_moved() const {
    const std::vector<int> fds = done_fds();
    return std::all_of(fds.begin(), fds.end(), [](int fd) {
        pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
        return poll(&entry, 1, 0) == 1;
    });
}

std::vector<int> OwnLaunch::done_fds() const {
    return stdout_pump_ ? std::vector<int>{stdout_pump_->done_fd(), stderr_pump_->done_fd()} : std::vector<int>{};
}

int OwnLaunch::lost_output(int descriptor) const {
    const auto& pump = descriptor == STDOUT_FILENO ? stdout_pump_ : stderr_pump_;
    return pump ? pump->lost() : 0;
}

void OwnLaunch::signal(int number) const {
    for (const Fd& pidfd : pidfds_) {
        syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0);
    }
}

}  // namespace sft::tools
