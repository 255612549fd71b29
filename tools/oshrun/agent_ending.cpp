// How the processes of a job on an agent's host are ended, with what they have left behind.

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.hpp"
#include "tools/oshrun/agent_impl.hpp"

namespace sft::tools {
namespace {

// Between SIGTERM and SIGKILL.
constexpr std::int64_t kPatience_ns = 2'000'000'000;
// A process that the kernel does not let go must not keep us for ever.
constexpr std::int64_t kStuckAfter_ns = 5'000'000'000;
// How soon processes are seen that come while others are being ended.
constexpr int kLookForEnds_ms = 50;

}  // namespace

// Whoever their parents are now: every process of the job has the name of our socket in its environment, and hands it
// on to what it starts.
std::set<ProcessName> Agent::marked_processes() const {
    return processes_with_variable("SHMEM_FT_JOB_SOCKET=" + task_.socket_name);
}

void Agent::end_who_stands_still() {
    if (!stand_still_ || !stand_still_->is_on()) {
        return;
    }
    std::set<std::int32_t> stopped;
    for (const std::int32_t pid : processes_.pids()) {
        if (is_stopped(pid)) {
            stopped.insert(pid);
        }
    }
    for (const std::int32_t pid : stand_still_->due(stopped, now_ns())) {
        session_.send(FrameKind::remark,
                      fmt::format("process {} has been stopped for too long after others had left: it is ended", pid));
        processes_.signal(pid, SIGKILL);
    }
}

// What the spares that were started here have written before their ends. What anybody writes from now on goes nowhere.
void Agent::tell_last_words() {
    const auto outputs = outputs_;
    for (const auto& [fd, as] : outputs) {
        pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
        while (outputs_.contains(fd) && poll(&entry, 1, 0) == 1) {
            read_output(fd);
        }
        if (outputs_.erase(fd) != 0) {
            close(fd);
        }
    }
    const std::int64_t start_ns = now_ns();
    while (session_.has_to_send() && now_ns() - start_ns < kPatience_ns) {
        pollfd entry{.fd = session_.fd(), .events = POLLOUT, .revents = 0};
        if (poll(&entry, 1, 100) == 1 && (entry.revents & (POLLERR | POLLHUP)) != 0) {
            break;
        }
        session_.flush();
    }
}

void Agent::end_everything() {
    const std::int64_t start_ns = now_ns();
    std::set<ProcessName> asked;
    while (true) {
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        const std::set<ProcessName> living = marked_processes();
        const std::int64_t waited_ns = now_ns() - start_ns;
        if (living.empty() || waited_ns > kPatience_ns + kStuckAfter_ns) {
            break;
        }
        for (const ProcessName& process : living) {
            if (waited_ns >= kPatience_ns) {
                send_signal(process, SIGKILL);
            } else if (asked.insert(process).second) {
                send_signal(process, SIGTERM);
                send_signal(process, SIGCONT);  // a stopped process would not see the other one
            }
        }
        wait_for_any_end(living, kLookForEnds_ms);
    }
    if (is_guardian_lost_ || is_connected_on_) {
        end_launcher_daemons();
    }
}

// Without processes a daemon of the launcher has nothing to do; it ends by itself unless it waits for a launcher that
// it does not know to be gone.
void Agent::end_launcher_daemons() {
    const std::int64_t start_ns = now_ns();
    for (const ProcessName& daemon : daemons_) {
        bool is_there = true;
        bool is_asked = false;
        while (is_there && now_ns() - start_ns < 2 * kPatience_ns) {
            if (!is_asked && now_ns() - start_ns > kPatience_ns / 2) {
                is_asked = true;
                send_signal(daemon, SIGTERM);
            }
            wait_for_any_end({daemon}, kLookForEnds_ms);
            is_there = send_signal(daemon, 0);
        }
        if (is_there) {
            send_signal(daemon, SIGKILL);
        }
    }
}

}  // namespace sft::tools
