// How a job's processes, its launcher and what they have left behind are ended, and when to look again.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/guardian_impl.hpp"
#include "tools/oshrun/launcher_watch.hpp"
#include "tools/oshrun/process_tree.hpp"

namespace sft::tools {
namespace {

// Between telling a launcher that has not started all processes to end and ending it.
constexpr std::int64_t kStartingLauncherPatience_ns = 1'000'000'000;
constexpr std::int64_t kOrphanPatience_ns = 1'000'000'000;
constexpr std::int64_t kLauncherQuiet_ns = 700'000'000;
constexpr std::int64_t kLauncherLook_ns = 100'000'000;
// On one host it ends at once when the last process has and nobody holds its output, unless it hangs.
constexpr std::int64_t kHangingLauncher_ns = 10'000'000'000;
// For a launcher that is told to end to pass that on, when it will not end itself.
constexpr std::int64_t kDeafLauncherPatience_ns = 200'000'000;
// For daemons to remove what is theirs, behind the end of the launcher.
constexpr std::int64_t kDaemonsPatience_ns = 3'000'000'000;

}  // namespace

int Guardian::timeout_ms() const {
    std::optional<std::int64_t> deadline = ending_ ? ending_->next_step_ns() : ledger_.next_deadline_ns();
    if (all_ended_ns_ && !launcher_.has_ended()) {
        const std::int64_t orphans = now_ns() + kOrphanPatience_ns;
        deadline = deadline ? std::min(*deadline, orphans) : orphans;
    }
    if (stand_still_.is_on() && has_anybody_left()) {
        const std::int64_t look = now_ns() + stand_still_.period_ns();
        deadline = deadline ? std::min(*deadline, look) : look;
    }
    const std::optional<std::int64_t> agents = hub_.next_deadline_ns();
    deadline = deadline && agents ? std::min(*deadline, *agents) : deadline ? deadline : agents;
    if (may_launcher_wait_for_ever()) {
        const std::int64_t look = now_ns() + kLauncherLook_ns;
        deadline = deadline ? std::min(*deadline, look) : look;
    }
    if (ending_ && ledger_.is_told_to_end() && !ledger_.have_all_been_launched() && !launcher_.has_ended()) {
        const std::int64_t look = now_ns() + kLauncherLook_ns;
        deadline = deadline ? std::min(*deadline, look) : look;
    }
    if (awaits_agents()) {
        const std::int64_t last = *launcher_ended_ns_ + kLeftoverPatience_ns;
        deadline = deadline ? std::min(*deadline, last) : last;
    }
    if (!deadline) {
        return -1;
    }
    return static_cast<int>(std::clamp<std::int64_t>((*deadline - now_ns() + kNsPerMs - 1) / kNsPerMs, 0, 60'000));
}

void Guardian::act_on_ending() {
    if (launcher_.has_ended()) {
        return;
    }
    if (!ending_) {
        if (!ledger_.must_end(now_ns())) {
            return;
        }
        ending_.emplace(now_ns());
        launcher_.hurry();
        if (ledger_.is_told_to_end()) {
            ending_->skip_grace(now_ns());
        }
    }
    const auto signal_processes = [this](int number) {
        local_.signal_all(number);
        hub_.signal_everywhere(SignalScope::all, number);
    };
    while (const auto step = ending_->take_step(now_ns())) {
        switch (*step) {
            case Ending::Step::ask_processes:
                signal_processes(SIGTERM);
                signal_processes(SIGCONT);  // a stopped process would not see the other one
                if (!ledger_.have_all_been_launched()) {
                    launcher_.signal(SIGTERM);  // it may be about to start more
                }
                break;
            case Ending::Step::kill_processes: signal_processes(SIGKILL); break;
            case Ending::Step::ask_launcher: launcher_.signal(SIGTERM); break;
            case Ending::Step::kill_launcher: launcher_.signal(SIGKILL); break;
        }
    }
}

// The launcher waits until nobody holds the output of its processes open; a background process that one of them has
// left behind would make it wait for ever.
void Guardian::end_orphans_of_ended_job() {
    if (launcher_.has_ended() || !ledger_.have_all_been_launched() || !ledger_.all_ended()) {
        return;
    }
    if (!all_ended_ns_) {
        all_ended_ns_ = now_ns();
    }
    const std::int64_t waited_ns = now_ns() - *all_ended_ns_;
    if (waited_ns < kOrphanPatience_ns) {
        return;
    }
    std::set<ProcessName> spared = {{launcher_.pid(), process_start_time(launcher_.pid())}};
    for (const ProcessName& agent : hub_.agents_here()) {
        spared.insert(agent);
    }
    const int number = waited_ns < kOrphanPatience_ns + kLeftoverPatience_ns ? SIGTERM : SIGKILL;
    for (const ProcessName& orphan : descendants_of(getpid(), spared)) {
        send_signal(orphan, number);
    }
    hub_.signal_everywhere(SignalScope::leftovers, number);
}

// Somebody has left the finished job, so those that have not are watched by nobody but us.
bool Guardian::has_anybody_left() const {
    const auto& processes = ledger_.processes();
    return std::any_of(processes.begin(), processes.end(),
                       [](const JobLedger::Process& process) { return process.is_finalized && process.end; });
}

void Guardian::end_who_stands_still() {
    if (!stand_still_.is_on() || !has_anybody_left()) {
        return;
    }
    std::set<std::int32_t> stopped;
    if (!std::exchange(are_agents_watching_, true)) {
        hub_.watch_for_standstill(task_.hang_timeout_ms);
    }
    for (const std::int32_t pid : local_.pids()) {
        if (is_stopped(pid)) {
            stopped.insert(pid);
        }
    }
    for (const std::int32_t pid : stand_still_.due(stopped, now_ns())) {
        print_line(
            fmt::format("oshrun: warning: process {} has been stopped for {} ms after others had left: it is ended",
                        pid, task_.hang_timeout_ms));
        local_.signal(pid, SIGKILL);
    }
}

// The launcher may be quicker than an agent to hear of the last ends on its host.
bool Guardian::awaits_agents() const {
    if (!launcher_ended_ns_ || ending_ || now_ns() - *launcher_ended_ns_ >= kLeftoverPatience_ns) {
        return false;
    }
    const auto& processes = ledger_.processes();
    return std::any_of(processes.begin(), processes.end(), [this](const JobLedger::Process& process) {
        return process.host != 0 && process.launched_pid > 0 && !process.end &&
               !hub_.hosts()[static_cast<std::size_t>(process.host)].is_lost;
    });
}

// Told to end while it starts, it may be deaf for seconds. It is of no use to anybody once none of the job's processes
// lives: whoever of them comes later is told to end.
void Guardian::end_launcher_that_starts_nobody() {
    if (!ending_ || !ledger_.is_told_to_end() || launcher_.has_ended() || ledger_.have_all_been_launched()) {
        return;
    }
    const std::int64_t patience_ns =
        local_.pids().empty() ? kStartingLauncherPatience_ns : 2 * kStartingLauncherPatience_ns;
    if (now_ns() - ending_->begin_ns() >= patience_ns) {
        launcher_.signal(SIGKILL);
    }
}

// The error number; 0: nothing is missing.
int Guardian::lost_by_launcher(int descriptor) const {
    if (const OwnLaunch* own = launcher_.own()) {
        return own->lost_output(descriptor);
    }
    return (descriptor == STDOUT_FILENO ? output_ : pump_)->lost();
}

// Inside of Slurm it has started the launcher's daemons on other hosts, and ends when they have, which remove their
// folders last. If it is told to end it kills them.
void Guardian::wait_for_srun() {
    if (launcher_.own() != nullptr) {
        return;  // there are no daemons
    }
    const std::int64_t end_ns = now_ns() + kDaemonsPatience_ns;
    for (std::int64_t now = now_ns(); now < end_ns; now = now_ns()) {
        std::set<ProcessName> sruns;
        for (const ProcessName& process : descendants_of(getpid())) {
            if (command_name(process.pid) == "srun") {
                sruns.insert(process);
            }
        }
        if (sruns.empty()) {
            return;
        }
        wait_for_any_end(sruns, static_cast<int>((end_ns - now) / kNsPerMs) + 1);
    }
}

// Nobody is told that all is well when part of the output is missing.
void Guardian::tell_what_is_lost(Outcome& outcome) const {
    for (const auto& [what, descriptor] : {std::pair("output", STDOUT_FILENO), std::pair("error", STDERR_FILENO)}) {
        const int error = std::max(lost_by_launcher(descriptor), hub_.lost_output(descriptor));
        if (error == 0) {
            continue;
        }
        const std::string line = fmt::format("standard {}: {}: what the processes have printed there is incomplete",
                                             what, strerrordesc_np(error));
        if (outcome.exit_code == 0) {
            outcome = {EXIT_FAILURE, line};
        } else {
            print_line("oshrun: warning: " + line);
        }
    }
}

// Open MPI's does when it has lost a host or its daemon there, which nobody need have noticed, and also when a process
// has failed on another host than its own.
bool Guardian::may_launcher_wait_for_ever() const {
    const auto& processes = ledger_.processes();
    return !launcher_.has_ended() && ledger_.all_ended() && ledger_.have_all_been_launched() &&
           std::any_of(processes.begin(), processes.end(),
                       [](const JobLedger::Process& process) { return process.host != 0; });
}

// It may still have output of others to pass on: it is ended when it has been quiet for a while.
void Guardian::end_launcher_that_waits() {
    if (launcher_.has_ended() || launcher_.own() != nullptr || !ledger_.all_ended() ||
        !ledger_.have_all_been_launched()) {
        return;
    }
    const bool is_on_one_host = !may_launcher_wait_for_ever();
    const std::int64_t quiet_ns = is_on_one_host ? kHangingLauncher_ns : kLauncherQuiet_ns;
    if (is_on_one_host && !launcher_told_ns_ && (!are_outputs_open() || is_stopped(launcher_.pid()))) {
        launcher_quiet_since_ns_.reset();
        return;
    }
    // It waits for the daemon of a lost host whatever it is told.
    const std::int64_t patience_ns = hub_.has_lost_any() ? kDeafLauncherPatience_ns : kLeftoverPatience_ns;
    const std::uint64_t bytes = bytes_moved_by(launcher_.pid());
    if (!launcher_quiet_since_ns_ || (bytes != launcher_bytes_ && !launcher_told_ns_)) {
        launcher_bytes_ = bytes;
        launcher_quiet_since_ns_ = now_ns();
    }
    if (!launcher_told_ns_ && now_ns() - *launcher_quiet_since_ns_ >= quiet_ns) {
        launcher_told_ns_ = now_ns();
        if (is_on_one_host || has_unread_input(launcher_.pid())) {
            ledger_.launcher_hangs();
        }
        launcher_.signal(SIGTERM);
    } else if (launcher_told_ns_ && now_ns() - *launcher_told_ns_ >= patience_ns) {
        launcher_.signal(SIGKILL);
    }
}

// Everybody is dead by now, so the end of the stream is certain; but whoever reads our stderr may take his time, which
// matters no more when we have been told to end.
void Guardian::wait_for_pumps() {
    const OwnLaunch* own = launcher_.own();
    for (const int fd : own != nullptr ? own->done_fds() : std::vector{output_->done_fd(), pump_->done_fd()}) {
        wait_for_pump(fd);
    }
}

void Guardian::wait_for_pump(int done_fd) {
    constexpr int kLastWords_ms = 500;
    while (true) {
        std::array<pollfd, 2> entries = {{{.fd = done_fd, .events = POLLIN, .revents = 0},
                                          {.fd = task_.front.get(), .events = POLLIN, .revents = 0}}};
        const bool is_urgent = !is_front_there_ || ledger_.is_told_to_end();
        const int ready = poll(entries.data(), is_urgent ? 1 : 2, is_urgent ? kLastWords_ms : -1);
        if (entries[0].revents != 0 || (ready == 0 && is_urgent)) {
            return;
        }
        if (entries[1].revents != 0) {
            hear_front();
        }
    }
}

}  // namespace sft::tools
