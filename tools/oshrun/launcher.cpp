#include "tools/oshrun/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace sft::tools {
namespace {

constexpr int kExitExecFailed = 127;

struct LauncherStreams {
    int in = -1;
    int out = -1;
    int err = -1;
};

[[noreturn]] void become_launcher(const std::vector<char*>& words, LauncherStreams streams, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(kExitExecFailed);  // the guardian has died before the line above took effect
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    if (streams.in < 0) {
        streams.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (streams.in != STDIN_FILENO) {
        dup2(streams.in, STDIN_FILENO);
    }
    dup2(streams.out, STDOUT_FILENO);
    dup2(streams.err, STDERR_FILENO);
    execv(words.front(), words.data());
    _exit(kExitExecFailed);
}

}  // namespace

Result<> Launcher::start(const std::vector<std::string>& command, int stdin_fd,
                         const std::optional<LauncherDoor>& door) {
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        return fails(fmt::format("no pipe: {}", strerrordesc_np(errno)));
    }
    stdout_ = Fd(out[0]);
    stderr_ = Fd(err[0]);
    const Fd out_end(out[1]);
    const Fd err_end(err[1]);
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) {
        words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
        if (door) {
            put_door(*door);
        }
        become_launcher(words, {stdin_fd, out_end.get(), err_end.get()}, parent);
    }
    if (pid_ < 0) {
        return fails(fmt::format("cannot start {}: {}", command.front(), strerrordesc_np(errno)));
    }
    return {};
}

Result<> Launcher::start_processes(const OwnLaunchTask& task, Poller& poller) {
    return own_.emplace().start(task, poller);
}

std::optional<FailureReason> Launcher::poll_end() {
    if (own_) {
        if (!end_ && own_->have_all_ended() && (is_hasty_ || own_->is_output_moved())) {
            end_ = FailureReason{FailureKind::exited, 0};
        }
        return end_;
    }
    int status = 0;
    if (!end_ && waitpid(pid_, &status, WNOHANG) == pid_) {
        end_ = WIFSIGNALED(status)
                   ? FailureReason{FailureKind::signal, static_cast<std::uint16_t>(WTERMSIG(status))}
                   : FailureReason{FailureKind::exited, static_cast<std::uint16_t>(WEXITSTATUS(status))};
    }
    return end_;
}

void Launcher::signal(int number) const {
    if (own_) {
        own_->signal(number);
        return;
    }
    // Our child, and not reaped as long as there is no end: the pid is its own.
    if (!end_) {
        kill(pid_, number);
    }
}

}  // namespace sft::tools
