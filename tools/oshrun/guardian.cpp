#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "base/realtime.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/exec_pe.hpp"
#include "tools/oshrun/guardian_impl.hpp"
#include "tools/oshrun/joining.hpp"
#include "tools/oshrun/preflight.hpp"
#include "tools/oshrun/process_tree.hpp"

namespace sft::tools {
namespace {

// Agents clean up their hosts at the end of a job; TERM, a pause and KILL must fit in.
constexpr int kAgentsPatience_ms = 8'000;
constexpr int kOutputPatience_ms = 5'000;

}  // namespace

Guardian::Guardian(GuardianTask task)
    : task_(std::move(task)),
      ledger_(task_.shape),
      log_(std::move(task_.events_file)),
      stand_still_(task_.hang_timeout_ms * kNsPerMs),
      local_(std::move(task_.socket), task_.shape.program),
      hub_(std::move(task_.entrance), task_.node_timeout_ms),
      demand_(task_.on_demand),
      input_(task_.stdin_fd) {}

Result<> Guardian::start() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    signals_ = Fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_ || !poller_.open()) {
        return fails("cannot watch processes: too many files are open on this system");
    }
    if (ledger_.processes().size() > 64) {
        raise_file_limit();
    }
    poller_.add(task_.front.get(), Source::front, 0);
    poller_.add(signals_.get(), Source::child_signal, 0);
    local_.watch(poller_);
    hub_.watch(poller_);
    log_.start(task_.shape, task_.launch_command);
    static_cast<void>(
        ledger_.must_end(now_ns()));  // from now on the start is waited for, even if there is no news ever
    if (task_.own_launch) {
        return start_processes();
    }
    return launcher_.start(task_.launch_command, task_.launcher_reads_stdin ? task_.stdin_fd : -1, task_.door);
}

// They are ours from the beginning, so nobody has to tell us of them.
Result<> Guardian::start_processes() {
    task_.own_launch->stdin_fd = std::exchange(task_.stdin_fd, -1);
    Result<> started = launcher_.start_processes(*task_.own_launch, poller_);
    JobEvent event;
    event.kind = kEventLaunched;
    event.rank = 0;
    ledger_.name_host(0, host_name(0));
    for (const pid_t pid : launcher_.own()->pids()) {
        event.pid = pid;
        log_.event(event, host_name(0));
        ledger_.process_launched(event.rank++, {pid, 0});
        local_.watch_process(pid);
    }
    if (!started) {
        launcher_.signal(SIGKILL);
    }
    return started;
}

void Guardian::take_exec_failures() {
    while (OwnLaunch* own = launcher_.own()) {
        const auto failure = own->take_exec_failure();
        if (!failure) {
            return;
        }
        Fact fact;
        fact.event.kind = kEventExecFailed;
        fact.event.rank = failure->first;
        fact.event.pid = own->pids()[static_cast<std::size_t>(failure->first)];
        fact.event.code = failure->second;
        take(fact);
    }
}

int Guardian::run() {
    if (const Result<> started = start(); !started) {
        std::error_code ignored;
        std::filesystem::remove_all(task_.temp_dir, ignored);
        print_line("oshrun: " + started.error().line);
        return EXIT_FAILURE;
    }
    if (launcher_.own() == nullptr) {
        output_ = std::make_unique<StderrPump>(launcher_.take_stdout(), STDOUT_FILENO);
        pump_ = std::make_unique<StderrPump>(launcher_.take_stderr());
    }
    if (task_.is_realtime) {
        prefer_this_thread();  // not the launcher, which has started, nor the pump
    }
    while (!launcher_.has_ended() || (ledger_.is_joiner_running() && !ledger_.must_end(now_ns())) || awaits_agents()) {
        wait_for_news();
        act_on_ending();
        end_orphans_of_ended_job();
        end_who_stands_still();
        end_launcher_that_waits();
        end_launcher_that_starts_nobody();
    }
    hub_.end_agents(kAgentsPatience_ms);
    wait_for_srun();
    end_descendants({.patience_ns = kLeftoverPatience_ns, .spared = {}});
    std::error_code ignored;
    std::filesystem::remove_all(task_.temp_dir, ignored);
    hub_.wait_for_output(kOutputPatience_ms);
    wait_for_pumps();
    Outcome outcome = ledger_.outcome();
    tell_what_is_lost(outcome);
    log_.end(outcome, ledger_);
    if (task_.retry_note != nullptr) {
        task_.retry_note->is_worth_retry.store(ledger_.is_worth_retry());
    }
    if (log_.lost() != 0 && outcome.exit_code == 0) {
        outcome = {EXIT_FAILURE, fmt::format("--events: the file is incomplete: {}", strerrordesc_np(log_.lost()))};
    }
    if (!outcome.line.empty()) {
        print_line("oshrun: " + outcome.line);
    }
    return outcome.exit_code;
}

void Guardian::wait_for_news() {
    const std::vector<Poller::Event> batch = poller_.wait(timeout_ms());
    // Asked first: when the launcher is gone, the ends of the processes are a consequence.
    if (!launcher_.has_ended()) {
        if (const auto end = launcher_.poll_end()) {
            if (end->kind != FailureKind::signal) {
                local_.accept_peers();
                local_.sweep_ended();
                settle();
            }
            launcher_ended_ns_ = now_ns();
            ledger_.launcher_ended(launcher_told_ns_ ? FailureReason{FailureKind::exited, 0} : *end);
        }
    }
    for (const Poller::Event& news : batch) {
        if (!local_.handle(news) && !hub_.handle(news)) {
            handle(news.source);
        }
    }
    hub_.attend(now_ns());
    settle();
}

void Guardian::handle(Source source) {
    if (source == Source::front) {
        hear_front();
    } else if (source == Source::child_signal) {
        signalfd_siginfo info;
        while (read(signals_.get(), &info, sizeof info) > 0) {
        }
        // Children that are not the launcher have come to us because their parents ended. The launcher is asked for by
        // wait_for_news, and its end is the end of the loop.
        local_.reap_orphans(launcher_.pid());
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
    poller_.remove(task_.front.get());
    ledger_.front_lost();
}

// Enters what has been heard into the ledger.
void Guardian::settle() {
    take_exec_failures();
    for (const Fact& fact : local_.take_facts()) {
        take(fact);
    }
    for (const AgentHub::AgentEvent& news : hub_.take_events()) {
        switch (news.kind) {
            case AgentHub::AgentEvent::Kind::fact: take(news.fact); break;
            case AgentHub::AgentEvent::Kind::started: take_started(news); break;
            case AgentHub::AgentEvent::Kind::lost: take_loss(news); break;
        }
    }
    start_joiners();
}

void Guardian::take(const Fact& fact) {
    if (fact.ended_pid > 0) {
        take_end({fact.ended_pid, fact.host}, fact.reason);
        return;
    }
    const JobEvent& event = fact.event;
    if (event.kind == JobEventKind::meeting) {
        meetings_[event.rank] = fact;
        let_meet();
        return;
    }
    if (event.kind == JobEventKind::input_wanted) {
        give_input(fact);
        return;
    }
    if (event.kind == JobEventKind::start_up_over) {
        input_.end_start_up();
        tell_of_excess_input();
        return;
    }
    log_.event(event, host_name(fact.host));
    // Messages that the library does not know.
    if (event.kind == kEventLaunched) {
        ledger_.name_host(fact.host, host_name(fact.host));
        ledger_.process_launched(event.rank, {event.pid, fact.host});
        answer_launched(fact);
        return;
    }
    if (event.kind == kEventJoin) {
        take_join(fact);
        return;
    }
    if (event.kind == kEventExecFailed) {
        if (ledger_.is_joining(event.rank)) {
            note_failed_joiner(event.rank, fmt::format("{}: cannot be run: {}", shell_quoted(task_.shape.program),
                                                       strerrordesc_np(event.code)));
        }
        ledger_.exec_failed(event.rank, event.code);
        return;
    }
    switch (event.kind) {
        case JobEventKind::unrecoverable:
            if (ledger_.is_joining(event.rank)) {
                note_failed_joiner(event.rank, {event.text, strnlen(event.text, sizeof event.text)});
            }
            break;
        case JobEventKind::failure_seen: kill_if_stopped(event.value); break;
        case JobEventKind::agreed_lost: take_agreed_loss(event.value); break;
        case JobEventKind::pe_taken: kill_former_holder(event); break;
        case JobEventKind::spare_wanted: demand_.wished(event.pe, now_ns()); break;
        case JobEventKind::join_ready: joiners_waiting_[event.rank] = fact; break;
        default: break;
    }
    ledger_.event(event, now_ns(), fact.host);
    if (event.kind == JobEventKind::initialized) {
        control_fds_[{event.pid, fact.host}] = event.code;
        note_joined(event.rank);
    }
}

void Guardian::take_end(ProcessKey key, FailureReason reason) {
    const int rank = ledger_.rank_of(key);
    if (rank >= 0) {
        log_.process_ended(rank, key.pid, ledger_.pe_of(key), reason, host_name(key.host));
        // Whoever is killed might have joined.
        if (!ending_ && ledger_.is_joining(rank) && reason.kind == FailureKind::exited) {
            note_failed_joiner(rank, "it " + describe_end(reason));
        }
    }
    if (rank >= 0 && key.host == 0 && reason == FailureReason{FailureKind::signal, SIGKILL}) {
        tell_of_want_of_memory();
    }
    control_fds_.erase(key);
    ledger_.process_ended(key, reason, now_ns());
    let_meet();
}

// Of itself the signal says nothing about who has sent it.
void Guardian::tell_of_want_of_memory() {
    const std::uint64_t kills = out_of_memory_kills();
    const std::uint64_t n_new = kills - std::min(kills, std::exchange(memory_kills_, kills));
    if (n_new == 0) {
        return;
    }
    const MemoryLeft left = memory_left();
    print_line(fmt::format("oshrun: warning: the kernel has killed {} process{} {} for want of memory ({} in all)",
                           n_new, n_new == 1 ? "" : "es",
                           left.group.empty() ? "of this host" : fmt::format("of the control group {}", left.group),
                           memory_text(left.limit)));
}

// When all that live have come.
void Guardian::let_meet() {
    if (meetings_.empty()) {
        return;
    }
    const auto n_started = static_cast<std::size_t>(task_.shape.pes + task_.shape.spares);
    for (std::size_t rank = 0; rank < n_started; ++rank) {
        if (!ledger_.processes()[rank].end && !meetings_.contains(static_cast<int>(rank))) {
            return;
        }
    }
    JobEvent answer;
    answer.kind = JobEventKind::meeting;
    const auto first = meetings_.find(0);
    answer.code = first == meetings_.end() ? 1 : 0;
    if (first != meetings_.end()) {
        std::memcpy(answer.text, first->second.event.text, sizeof answer.text);
    }
    for (const auto& [rank, fact] : std::exchange(meetings_, {})) {
        local_.answer(fact.connection, answer);
    }
}

// By this way and not through the launcher: Open MPI 4.1's has been seen to crash over its standard input.
void Guardian::answer_launched(const Fact& fact) {
    const bool gets_input = fact.event.rank == 0 && !task_.launcher_reads_stdin && !ending_;
    const int input = gets_input ? std::exchange(task_.stdin_fd, -1) : -1;
    if (fact.host != 0) {
        const Answer answer = ending_ ? Answer::no : gets_input ? Answer::go_with_input : Answer::go;
        hub_.answer(fact.host, fact.connection, answer);
        if (gets_input) {
            hub_.send_input(fact.host, Fd(input));
        }
    } else if (ending_) {
        local_.answer_no(fact.connection);  // too late to become the program
    } else {
        local_.answer_go(fact.connection, input);
    }
}

// Only here: the agents of other hosts answer for themselves that there is none.
void Guardian::give_input(const Fact& fact) {
    Fd input;
    if (fact.event.rank == ledger_.holders().front() && !ending_) {
        input = fact.event.code == 0 ? input_.begin(fact.event.text) : input_.give_again();
    }
    local_.answer_go(fact.connection, input.get());
    tell_of_excess_input();
}

void Guardian::tell_of_excess_input() {
    if (input_.take_excess()) {
        print_line(fmt::format(
            "oshrun: warning: PE 0 has read more than {} bytes of standard input before its first checkpoint, "
            "and a substitute of it will be given none: let it read a file, or take a checkpoint earlier",
            KeptInput::kBytesMax));
    }
}

void Guardian::take_loss(const AgentHub::AgentEvent& news) {
    log_.host_lost(host_name(news.host), news.why);
    std::erase_if(control_fds_, [&](const auto& item) { return item.first.host == news.host; });
    if (ending_) {
        ledger_.host_lost(news.host, now_ns());
        return;
    }
    std::string names;
    std::size_t rank = 0;
    for (const JobLedger::Process& process : ledger_.processes()) {
        if (process.host == news.host && process.launched_pid > 0 && !process.end) {
            names += (names.empty() ? "" : ", ") + ledger_.name(rank);
        }
        ++rank;
    }
    ledger_.host_lost(news.host, now_ns());
    print_line(fmt::format("oshrun: warning: host {} is lost{}{}: {}", host_name(news.host),
                           names.empty() ? "" : ", and with it ", names, news.why));
}

const std::string& Guardian::host_name(std::int32_t host) const {
    return hub_.hosts()[static_cast<std::size_t>(host)].name;
}

void Guardian::signal_process(const JobLedger::Process& process, SignalScope scope) {
    if (task_.withholds_kill || process.end || process.pid <= 0) {
        return;
    }
    if (process.host != 0) {
        hub_.signal(process.host, {scope, process.pid, SIGKILL});
    } else if (scope == SignalScope::one || is_stopped(process.pid)) {
        local_.signal(process.pid, SIGKILL);
    }
}

// Others do not hear from it. That alone may be the network's fault, and who is right is for the job to agree on; but
// one that is stopped has no say in it.
void Guardian::kill_if_stopped(std::uint64_t rank) {
    if (rank < ledger_.processes().size()) {
        signal_process(ledger_.processes()[rank], SignalScope::one_stopped);
    }
}

// The job is the judge of its hosts: who it has agreed to be lost is ended, and when that is everybody on a host that
// cannot be heard, the host is lost.
void Guardian::take_agreed_loss(std::uint64_t rank) {
    if (rank >= ledger_.processes().size()) {
        return;
    }
    ledger_.agreed_lost(static_cast<int>(rank));
    const JobLedger::Process& process = ledger_.processes()[rank];
    signal_process(process, SignalScope::one);
    if (process.host > 0) {
        hub_.set_agreed_lost(process.host, ledger_.are_all_agreed_lost(process.host) ? AgentHub::AgreedLost::yes
                                                                                     : AgentHub::AgreedLost::no);
    }
}

// The job has agreed that the one before is dead. If it is not, it hangs, or has been cut off.
void Guardian::kill_former_holder(const JobEvent& event) {
    if (event.pe < 0 || event.pe >= task_.shape.pes) {
        return;
    }
    const int rank = ledger_.holders()[static_cast<std::size_t>(event.pe)];
    if (rank != event.rank) {
        signal_process(ledger_.processes()[static_cast<std::size_t>(rank)], SignalScope::one);
    }
    demand_.taken(event.pe);
}

int run_guardian(GuardianTask task) { return Guardian(std::move(task)).run(); }

}  // namespace sft::tools
