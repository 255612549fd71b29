#include "tools/oshrun/last_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>

#include "base/clock.hpp"
#include "base/process_watch.hpp"
#include "tools/common/fd.hpp"
#include "tools/oshrun/process_tree.hpp"

namespace sft::tools {
namespace {

// The launcher has got its signal from the kernel and takes about a second to end its processes; those of the library
// notice by themselves that oshrun is gone.
constexpr std::int64_t kPatience_ns = 3'000'000'000;
constexpr std::int64_t kStuckAfter_ns = 10'000'000'000;  // what the kernel does not let go
constexpr int kLookMs = 200;

Fd open_watch(pid_t pid) { return Fd(open_process(pid, process_start_time(pid)).fd); }

void wait_for_end(int process) {
    pollfd entry{.fd = process, .events = POLLIN, .revents = 0};
    while (poll(&entry, 1, -1) < 0 && errno == EINTR) {
    }
}

void end_what_is_left(const LastWatch::Task& task) {
    const std::int64_t begin_ns = now_ns();
    std::set<ProcessName> left;
    while (!(left = processes_with_variable(task.job_variable)).empty()) {
        const std::int64_t waited_ns = now_ns() - begin_ns;
        if (waited_ns > kPatience_ns + kStuckAfter_ns) {
            return;
        }
        if (waited_ns >= kPatience_ns) {
            for (const ProcessName& process : left) {
                send_signal(process, SIGKILL);
            }
        }
        wait_for_any_end(left, kLookMs);
    }
    if (!task.temp_dir.empty()) {
        std::error_code ignored;
        std::filesystem::remove_all(task.temp_dir, ignored);
    }
}

// The signals that end a job are blocked, as in the front. Nothing stays open that somebody may wait for the end of, as
// a reader of oshrun's output does.
[[noreturn]] void keep_watch(const Fd& front, const Fd& guardian, const LastWatch::Task& task) {
    prctl(PR_SET_NAME, "oshrun-last");
    setsid();  // whoever kills the front's group or session does not mean this one
    dup2(front.get(), STDIN_FILENO);
    dup2(guardian.get(), STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    wait_for_end(STDIN_FILENO);
    wait_for_end(STDOUT_FILENO);
    end_what_is_left(task);
    _exit(0);
}

}  // namespace

LastWatch::LastWatch(pid_t guardian, const Task& task) {
    const Fd front_end = open_watch(getpid());
    const Fd guardian_end = open_watch(guardian);
    if (!front_end || !guardian_end) {
        return;
    }
    pid_ = fork();
    if (pid_ == 0) {
        keep_watch(front_end, guardian_end, task);
    }
}

LastWatch::~LastWatch() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

}  // namespace sft::tools
