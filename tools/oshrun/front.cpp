#include "tools/oshrun/front.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "tools/common/text.hpp"
#include "tools/oshrun/job_ledger.hpp"
#include "tools/oshrun/last_watch.hpp"
#include "tools/oshrun/process_tree.hpp"

namespace sft::tools {
namespace {

constexpr std::array kEndSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// The terminal's input for PE 0, which cannot read it itself: it runs in another session, where nobody would stop it
// from taking what is meant for the shell. Anything else than a terminal (a pipe, a file) is given to PE 0 as it is.
class TerminalInput {
public:
    explicit TerminalInput(Fd sink) : sink_(std::move(sink)) {
        if (sink_) {
            fcntl(sink_.get(), F_SETFL, O_NONBLOCK);
        }
    }

    // What to wait for now: input only while we are in the foreground and there is room for it.
    [[nodiscard]] pollfd wish() const {
        if (!sink_) {
            return {.fd = -1, .events = 0, .revents = 0};
        }
        if (begin_ < end_) {
            return {.fd = sink_.get(), .events = POLLOUT, .revents = 0};
        }
        const bool is_foreground = tcgetpgrp(STDIN_FILENO) == getpgrp();
        return {.fd = is_foreground ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    }

    void act(const pollfd& news) {
        if (news.revents == 0) {
            return;
        }
        if (news.fd == STDIN_FILENO) {
            const ssize_t bytes = read(STDIN_FILENO, buffer_.data(), buffer_.size());
            if (bytes == 0 || (bytes < 0 && errno != EINTR && errno != EAGAIN)) {
                sink_.reset();
                return;
            }
            begin_ = 0;
            end_ = bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
        }
        if (begin_ < end_) {
            const ssize_t written = write(sink_.get(), buffer_.data() + begin_, end_ - begin_);
            if (written < 0 && errno != EINTR && errno != EAGAIN) {
                sink_.reset();  // nobody reads any more
                return;
            }
            begin_ += written < 0 ? 0 : static_cast<std::size_t>(written);
        }
    }

private:
    Fd sink_;
    std::array<char, 4096> buffer_{};
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

std::optional<int> poll_status(pid_t child) {
    int status = 0;
    return waitpid(child, &status, WNOHANG) == child ? std::optional(status) : std::nullopt;
}

// Hands signals and input on until the guardian has ended; returns its wait status.
int attend(pid_t guardian, const Fd& to_guardian, const Fd& signals, TerminalInput& input) {
    while (true) {
        if (const auto status = poll_status(guardian)) {
            return *status;
        }
        std::array<pollfd, 2> entries = {{{.fd = signals.get(), .events = POLLIN, .revents = 0}, input.wish()}};
        if (poll(entries.data(), entries.size(), -1) < 0) {
            continue;
        }
        signalfd_siginfo info{};
        if (entries[0].revents != 0 && read(signals.get(), &info, sizeof info) == sizeof info &&
            info.ssi_signo != SIGCHLD && info.ssi_signo != SIGCONT) {
            const auto byte = static_cast<unsigned char>(info.ssi_signo);
            // If the guardian does not take it, its end is the next news.
            [[maybe_unused]] const ssize_t written = write(to_guardian.get(), &byte, 1);
        }
        input.act(entries[1]);
    }
}

int clean_up_after_guardian(const FrontTask& task, FailureReason reason, const std::set<ProcessName>& spared) {
    // The launcher has got its signal from the kernel and takes about a second to end its processes.
    constexpr std::int64_t kPatience_ns = 3'000'000'000;
    end_descendants({.patience_ns = kPatience_ns, .spared = spared});
    std::error_code ignored;
    std::filesystem::remove_all(task.temp_dir, ignored);
    print_line(fmt::format("oshrun: its guardian process {}: the job has been ended", describe_end(reason)));
    return exit_code_of(reason);
}

}  // namespace

sigset_t signals_to_hear() {
    sigset_t mask;
    sigemptyset(&mask);
    for (const int signal : kEndSignals) {
        struct sigaction action {};
        if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(&mask, signal);
        }
    }
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGCONT);
    return mask;
}

void block_end_signals() {
    const sigset_t mask = signals_to_hear();
    sigprocmask(SIG_BLOCK, &mask, nullptr);
}

int run_front(const FrontTask& task) {
    std::array<int, 2> line{};
    std::array<int, 2> input{-1, -1};
    const bool is_terminal = isatty(STDIN_FILENO) != 0;
    if (pipe2(line.data(), O_CLOEXEC) != 0 || (is_terminal && pipe2(input.data(), O_CLOEXEC) != 0)) {
        print_line(fmt::format("oshrun: no pipe: {}", strerrordesc_np(errno)));
        return EXIT_FAILURE;
    }
    // If the guardian is killed, what it leaves becomes ours; children that we had before (a shell may have turned into
    // us) stay out of it.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const std::vector<ProcessName> before = descendants_of(getpid());
    const sigset_t mask = signals_to_hear();
    std::signal(SIGPIPE, SIG_IGN);

    const pid_t guardian = fork();
    if (guardian < 0) {
        print_line(fmt::format("oshrun: cannot start a process: {}", strerrordesc_np(errno)));
        return EXIT_FAILURE;
    }
    if (guardian == 0) {
        close(line[1]);
        if (is_terminal) {
            close(input[1]);
        }
        setsid();
        const int status = task.guardian({Fd(line[0]), is_terminal ? input[0] : STDIN_FILENO});
        _exit(status);  // nothing of the front process's is to be destroyed twice
    }
    close(line[0]);
    if (is_terminal) {
        close(input[0]);
    }
    const Fd to_guardian(line[1]);
    const Fd signals(signalfd(-1, &mask, SFD_CLOEXEC));
    TerminalInput terminal{Fd(input[1])};
    const LastWatch last(guardian, {.job_variable = task.job_variable(guardian), .temp_dir = task.temp_dir});
    const int status = attend(guardian, to_guardian, signals, terminal);
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    std::set<ProcessName> spared(before.begin(), before.end());
    if (last.pid() > 0) {
        spared.insert({last.pid(), process_start_time(last.pid())});
    }
    return clean_up_after_guardian(task, {FailureKind::signal, static_cast<std::uint16_t>(WTERMSIG(status))}, spared);
}

}  // namespace sft::tools
