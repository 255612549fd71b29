#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "tools/common/text.hpp"
#include "tools/oshrun/clock.hpp"
#include "tools/oshrun/exec_pe.hpp"
#include "tools/oshrun/guardian_class.hpp"
#include "tools/oshrun/joining.hpp"
#include "tools/oshrun/preflight.hpp"
#include "tools/oshrun/process_tree.hpp"

namespace sft::tools {
namespace {

constexpr std::size_t kBatchMax = 1024;

}  // namespace

void Guardian::watch(int fd, Source source, std::uint32_t id) {
    epoll_event entry{};
    entry.events = EPOLLIN;
    entry.data.u64 = (static_cast<std::uint64_t>(source) << 32) | id;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &entry);
}

bool Guardian::start(std::string& error_line) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    signals_ = Fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    if (!signals_ || !epoll_) {
        error_line = "cannot watch processes: too many files are open on this system";
        return false;
    }
    if (ledger_.processes().size() > 64) {
        raise_file_limit();
    }
    watch(task_.front.get(), Source::front, 0);
    watch(task_.socket.fd(), Source::listener, 0);
    watch(signals_.get(), Source::child_signal, 0);
    log_.start(task_.shape, task_.launch_command);
    return launcher_.start(task_.launch_command, task_.launcher_reads_stdin ? task_.stdin_fd : -1, error_line);
}

int Guardian::run() {
    std::string error_line;
    if (!start(error_line)) {
        std::error_code ignored;
        std::filesystem::remove_all(task_.temp_dir, ignored);
        print_line("oshrun: " + error_line);
        return EXIT_FAILURE;
    }
    pump_ = std::make_unique<StderrPump>(launcher_.take_stderr());
    while (!launcher_.has_ended() || (ledger_.is_joiner_running() && !ledger_.must_end(now_ns()))) {
        wait_for_news();
        act_on_ending();
        end_orphans_of_ended_job();
        end_who_stands_still();
    }
    end_descendants({.patience_ns = kLeftoverPatience_ns, .spared = {}});
    std::error_code ignored;
    std::filesystem::remove_all(task_.temp_dir, ignored);
    wait_for_pump();
    const Outcome outcome = ledger_.outcome();
    log_.end(outcome, ledger_);
    if (!outcome.line.empty()) {
        print_line("oshrun: " + outcome.line);
    }
    return outcome.exit_code;
}

void Guardian::wait_for_news() {
    std::array<epoll_event, kBatchMax> batch;
    const int count = epoll_wait(epoll_.get(), batch.data(), static_cast<int>(batch.size()), timeout_ms());
    // Asked first: when the launcher is gone, the ends of the processes are a consequence.
    if (const auto end = launcher_.poll_end()) {
        if (end->kind != FailureKind::signal) {
            accept_peers();
            sweep_ended_processes();
            settle();
        }
        ledger_.launcher_ended(*end);
    }
    const auto news_end = batch.begin() + std::max(count, 0);
    std::sort(batch.begin(), news_end,
              [](const epoll_event& a, const epoll_event& b) { return a.data.u64 < b.data.u64; });
    for (auto news = batch.begin(); news != news_end; ++news) {
        const auto source = static_cast<Source>(news->data.u64 >> 32);
        handle(source, static_cast<std::uint32_t>(news->data.u64 & 0xffffffff));
    }
    settle();
}

void Guardian::handle(Source source, std::uint32_t id) {
    switch (source) {
        case Source::front: hear_front(); break;
        case Source::listener: accept_peers(); break;
        case Source::connection: drain(static_cast<int>(id)); break;
        case Source::process:
            accept_peers();
            process_ended(static_cast<std::int32_t>(id));
            break;
        case Source::child_signal: {
            signalfd_siginfo info;
            while (read(signals_.get(), &info, sizeof info) > 0) {
            }
            reap_orphans();
            break;
        }
    }
}

void Guardian::hear_front() {
    unsigned char signal = 0;
    const ssize_t bytes = read(task_.front.get(), &signal, 1);
    if (bytes < 0 && errno == EINTR) {
        return;
    }
    if (bytes == 1) {
        if (ending_) {
            ending_->hurry(now_ns());
        }
        ledger_.told_to_end(signal);
        return;
    }
    is_front_there_ = false;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, task_.front.get(), nullptr);
    ledger_.front_lost();
}

void Guardian::accept_peers() {
    while (auto peer = task_.socket.accept()) {
        const int fd = peer->fd.get();
        // What the same process has sent before through another connection comes first.
        for (const int earlier : connections_of(peer->pid)) {
            drain(earlier);
        }
        watch(fd, Source::connection, static_cast<std::uint32_t>(fd));
        connections_[fd] = std::move(*peer);
        drain(fd);
    }
}

std::vector<int> Guardian::connections_of(std::int32_t pid) const {
    std::vector<int> own;
    for (const auto& [fd, peer] : connections_) {
        if (peer.pid == pid) {
            own.push_back(fd);
        }
    }
    return own;
}

void Guardian::drain(int fd) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) {
        return;
    }
    Fact fact;
    fact.fd = fd;
    while (true) {
        const JobSocket::Received received = JobSocket::receive(found->second, fact.event);
        if (received == JobSocket::Received::nothing) {
            return;
        }
        if (received == JobSocket::Received::closed) {
            break;
        }
        if (received == JobSocket::Received::foreign) {
            fact.event = version_complaint(task_.shape.program, found->second.pid);
            facts_.push_back(fact);
            return;  // left open: its end would end the process, and that must not look like the cause
        }
        facts_.push_back(fact);
    }
    // Closing takes it out of the epoll set too.
    connections_.erase(found);
}

// Enters what has been heard into the ledger.
void Guardian::settle() {
    const auto is_unrecoverable = [](const Fact& fact) {
        return fact.ended_pid < 0 && fact.event.kind == JobEventKind::unrecoverable;
    };
    if (std::any_of(facts_.begin(), facts_.end(), is_unrecoverable)) {
        // The job's exit status is that of the PE that has died before, whose end may still have to be heard.
        sweep_ended_processes();
        std::stable_partition(facts_.begin(), facts_.end(), [&](const Fact& fact) { return !is_unrecoverable(fact); });
    }
    const std::vector<Fact> facts = std::exchange(facts_, {});
    for (const Fact& fact : facts) {
        take(fact);
    }
    watch_who_said_hello(facts);
    start_joiner();
}

void Guardian::take(const Fact& fact) {
    if (fact.ended_pid > 0) {
        const int rank = ledger_.rank_of(fact.ended_pid);
        if (rank >= 0) {
            log_.process_ended(rank, fact.ended_pid, ledger_.pe_of(fact.ended_pid), fact.reason);
        }
        ledger_.process_ended(fact.ended_pid, fact.reason, now_ns());
        return;
    }
    const JobEvent& event = fact.event;
    log_.event(event);
    if (event.kind == kEventLaunched) {
        ledger_.process_launched(event.rank, event.pid);
        watch_process(event.pid);
        const auto peer = connections_.find(fact.fd);
        if (peer != connections_.end() && ending_) {
            shutdown(fact.fd, SHUT_RDWR);  // too late to become the program
        } else if (peer != connections_.end()) {
            // By this way and not through the launcher: Open MPI 4.1's has been seen to crash over its standard input.
            const bool gets_input = event.rank == 0 && !task_.launcher_reads_stdin;
            JobSocket::answer(peer->second, gets_input ? std::exchange(task_.stdin_fd, -1) : -1);
        }
    } else if (event.kind == kEventJoin) {
        const auto peer = connections_.find(fact.fd);
        if (peer != connections_.end()) {
            answer_join(peer->second, take_join(event.code));
        }
    } else if (event.kind == kEventExecFailed) {
        ledger_.exec_failed(event.rank, event.code);
    } else {
        if (event.kind == JobEventKind::unrecoverable && ledger_.is_joining(event.rank)) {
            print_line(fmt::format("oshrun: warning: a spare could not join the job: {}", event.text));
        }
        ledger_.event(event, now_ns());
        if (event.kind == JobEventKind::initialized) {
            control_fds_[event.pid] = event.code;
        }
    }
}

// Nobody whose end has been heard together with the hello: it is no longer watched, and to watch it anew would put an
// end whose status is not known beside the one that is.
void Guardian::watch_who_said_hello(const std::vector<Fact>& facts) {
    for (const Fact& fact : facts) {
        const bool is_hello = fact.ended_pid < 0 && fact.event.kind == JobEventKind::hello;
        const auto is_its_end = [&](const Fact& other) { return other.ended_pid == fact.event.pid; };
        if (is_hello && std::none_of(facts.begin(), facts.end(), is_its_end)) {
            watch_process(fact.event.pid);
        }
    }
}

// Empty, or what is wrong.
std::string Guardian::take_join(int count) {
    const int room = kJoinersMax - ledger_.joiners() - joiners_wanted_;
    if (ending_ || control_fds_.empty()) {
        return ending_ ? "the job is ending" : "the job has not passed shmem_init yet";
    }
    if (count > room) {
        return fmt::format("a job takes {} spares in this way in all, and this one has room for {}", kJoinersMax, room);
    }
    joiners_wanted_ += count;
    return {};
}

// One after the other, because they have to join in the order of their ranks.
void Guardian::start_joiner() {
    const auto donor = std::find_if(control_fds_.begin(), control_fds_.end(),
                                    [this](const auto& item) { return pidfds_.contains(item.first); });
    if (joiners_wanted_ == 0 || ledger_.is_anybody_joining() || ending_ || donor == control_fds_.end()) {
        return;
    }
    --joiners_wanted_;
    const int rank = static_cast<int>(ledger_.processes().size());
    const std::int32_t pid = tools::start_joiner(
        {.command = task_.joiner_command, .rank = rank, .donor_pid = donor->first, .donor_fd = donor->second});
    if (pid < 0) {
        print_line(fmt::format("oshrun: warning: cannot start a spare: {}", strerrordesc_np(errno)));
        return;
    }
    ledger_.process_joined(pid);
    watch_process(pid);
}

void Guardian::watch_process(std::int32_t pid) {
    if (pidfds_.contains(pid)) {
        return;
    }
    Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) {
        // It is gone already; an end that has been heard before is not replaced by this.
        ledger_.process_ended(pid, {FailureKind::died, 0}, now_ns());
        return;
    }
    watch(pidfd.get(), Source::process, static_cast<std::uint32_t>(pid));
    pidfds_[pid] = std::move(pidfd);
}

void Guardian::process_ended(std::int32_t pid) {
    // What it has reported before its end is in its connections.
    for (const int fd : connections_of(pid)) {
        drain(fd);
    }
    const auto found = pidfds_.find(pid);
    if (found == pidfds_.end()) {
        return;
    }
    Fact fact;
    fact.ended_pid = pid;
    fact.reason = reason_of_end(found->second.get(), pid);
    facts_.push_back(fact);
    pidfds_.erase(found);
}

void Guardian::sweep_ended_processes() {
    std::vector<pollfd> entries;
    std::vector<std::int32_t> pids;
    for (const auto& [pid, pidfd] : pidfds_) {
        entries.push_back({.fd = pidfd.get(), .events = POLLIN, .revents = 0});
        pids.push_back(pid);
    }
    poll(entries.data(), entries.size(), 0);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].revents != 0) {
            process_ended(pids[i]);
        }
    }
}

// Children that are not the launcher have come to us because their parents ended.
void Guardian::reap_orphans() {
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        if (info.si_pid == launcher_.pid()) {
            return;  // wait_for_news asks for it, and its end is the end of the loop
        }
        process_ended(info.si_pid);
        waitpid(info.si_pid, nullptr, WNOHANG);
        info = {};
    }
}

int run_guardian(GuardianTask task) { return Guardian(std::move(task)).run(); }

}  // namespace sft::tools
