// The service thread of a process: learns of deaths from the kernel and of everything else by control messages, gives
// both to the agreement, and makes the application's thread notice what matters to it.
//
// Every process watches every other one of its node through a pidfd, so whichever processes survive, somebody reports.
// The thread sleeps in poll; it costs nothing while nothing happens.

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/clock.hpp"
#include "base/realtime.hpp"
#include "base/report.hpp"
#include "recovery/detection/hang_watch.hpp"
#include "recovery/detection/node_guard.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {

namespace {

constexpr std::size_t kOwnEntries = 4;

// One descriptor per process of the node, besides the application's own.
void allow_descriptors(std::int32_t n_processes) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        const rlim_t wanted = limit.rlim_cur + static_cast<rlim_t>(n_processes);
        limit.rlim_cur = std::min(wanted, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

// Of two times for poll(), of which -1 is for ever.
int shorter(int a_ms, int b_ms) {
    return static_cast<int>(std::min(static_cast<unsigned>(a_ms), static_cast<unsigned>(b_ms)));
}

}  // namespace

bool Runtime::watch_processes(std::string& error) {
    allow_descriptors(control_.n_slots());
    pidfds_.assign(static_cast<std::size_t>(control_.n_slots()), -1);
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        if (ProcId(process) == self() || is_remote(ProcId(process))) {
            continue;
        }
        const ProcessSlot& slot = control_.slot(ProcId(process));
        if (slot.state.load(std::memory_order_acquire) == ProcessState::starting) {
            error = format("process %d of the job ended inside shmem_init", process);
            return false;
        }
        const Opening opening = open_process(slot.pid, slot.start_time);
        if (opening.reach == Reach::cannot_be_opened) {
            error = format("cannot watch process %d (pid %d): %s", process, slot.pid,
                           describe_error(opening.error).c_str());
            return false;
        }
        if (opening.reach == Reach::gone) {
            early_.push_back(ProcId(process));
        }
        pidfds_[ProcId(process).index()] = opening.fd;
    }
    return true;
}

bool Runtime::start_service(std::string& error) {
    stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    Result<> had = stop_fd_ >= 0 ? open_spare_wait() : Result<>(fails(describe_error(errno), errno));
    if (had) {
        had = job_exit_.reserve_descriptors(stop_fd_);
    }
    if (!had) {
        error = format("cannot have the descriptors of the service thread: %s", had.error().line.c_str());
        return false;
    }
    // Signals are the application's business: its threads get them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    // Nobody has watched it before; of the node of one that joins that is not known.
    control_.slot(self()).presence_ns.store(config_.join.empty() ? now_ns() : NodeWatch::kNever);
    try {
        service_ = std::thread([this] {
            if (config_.realtime) {
                prefer_this_thread();
            }
            serve();
        });
    } catch (const std::system_error& problem) {
        error = format("the system gives no service thread: %s", problem.what());
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return service_.joinable();
}

void Runtime::stop_service() noexcept {
    failure_events_.stop();
    if (service_.joinable()) {
        is_stopping_.store(true);
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
        service_.join();
    }
    job_exit_.release_descriptors();
    spare_wait_.close();
    if (stop_fd_ >= 0) {
        ::close(stop_fd_);
        stop_fd_ = -1;
    }
    for (int& pidfd : pidfds_) {
        if (pidfd >= 0) {
            ::close(pidfd);
            pidfd = -1;
        }
    }
}

// The first kOwnEntries are those that serve() knows by their places; then a process each.
void Runtime::list_polled(std::vector<pollfd>& polled, std::vector<ProcId>& watched) {
    polled.assign(
        {{stop_fd_, POLLIN, 0}, {channel_.fd(), 0, 0}, {coordinator_->fd(), POLLIN, 0}, {spare_wait_.fd(), POLLIN, 0}});
    watched.clear();
    watch_joined();
    for (std::size_t i = 0; i < pidfds_.size(); ++i) {
        if (pidfds_[i] >= 0) {
            polled.push_back({pidfds_[i], POLLIN, 0});
            watched.push_back(ProcId(static_cast<std::int32_t>(i)));
        }
    }
}

// What the program registers to be called by exit() it registers straight after shmem_init, as a rule.
void Runtime::watch_exit_later() noexcept {
    constexpr std::int64_t kUntilRegisteredNs = 100'000'000;
    if (watch_exit_ns_ == 0) {
        watch_exit_ns_ = now_ns() + kUntilRegisteredNs;
    } else if (now_ns() > watch_exit_ns_) {
        job::watch_exit();
        watch_exit_ns_ = INT64_MAX;
    }
}

void Runtime::serve() noexcept {
    for (const ProcId process : early_) {
        coordinator_->process_died({process, {FailureKind::died, 0}, true});
    }
    constexpr std::int64_t kNsPerMs = 1'000'000;
    HangWatch hang_watch({.control = &control_,
                          .self = self(),
                          .bound_ns = config_.hang_timeout_ms * kNsPerMs,
                          .nodes = bootstrap_.is_one_node() ? nullptr : &node_map_},
                         now_ns());
    NodeGuard node_guard({.coordinator = coordinator_.get(),
                          .control = &control_,
                          .self = self(),
                          .bound_ns = config_.node_timeout_ms * kNsPerMs},
                         now_ns());
    DataGuard data_guard(data_guard_options(), now_ns());
    const auto kill = [this](ProcId process) {
        if (pidfds_[process.index()] >= 0) {
            const ProcessSlot& slot = control_.slot(process);
            kill_process(pidfds_[process.index()], slot.pid, slot.start_time);
        }
    };
    std::vector<pollfd> polled;
    std::vector<ProcId> watched;
    for (;;) {
        list_polled(polled, watched);
        const std::int64_t now = now_ns();
        const bool is_troubled = job_exit_.is_ending() || unwatched_since_ns_ != 0 || coordinator_->has_trouble();
        const int guard_ms = shorter(node_guard.timeout_ms(now), data_guard.timeout_ms(now));
        const int watch_ms = shorter(guard_ms, shorter(hang_watch.timeout_ms(now), fault_policy_.timeout_ms(now)));
        if (::poll(polled.data(), polled.size(), shorter(is_troubled ? 100 : -1, watch_ms)) < 0 && errno != EINTR) {
            die("PE %d: cannot watch the processes of the job: %s", me_.load().value(), std::strerror(errno));
        }
        if (is_stopping_.load()) {
            return;
        }
        if (polled[0].revents != 0) {
            std::uint64_t wakes = 0;
            [[maybe_unused]] const auto read = ::read(stop_fd_, &wakes, sizeof wakes);
            look_at_told();
        }
        if (polled[1].revents != 0) {
            // oshrun is gone: nobody would take this job's result.
            ::_exit(kExitError);
        }
        hang_watch.tick(coordinator_->known_deaths(), now_ns(), kill);
        refresh_status();
        tell_pending_fault();
        watch_exit_later();
        if (polled[2].revents != 0) {
            coordinator_->pump();
            look_for_gone();
        }
        if (is_troubled) {
            look_for_trouble();
        }
        lose_nodes(node_guard.tick(now_ns()));
        if (data_guard.tick(now_ns())) {
            leave_with_node();
        }
        if (polled[3].revents != 0) {
            wait_is_due();
        }
        for (std::size_t i = 0; i < watched.size(); ++i) {
            if (polled[i + kOwnEntries].revents != 0) {
                process_ended(watched[i]);
            }
        }
    }
}

void Runtime::process_ended(ProcId process) noexcept {
    const std::int64_t seen_ns = now_ns();
    const int pidfd = pidfds_[process.index()];
    const ProcessSlot& slot = control_.slot(process);
    pidfds_[process.index()] = -1;
    FailureReason reason = reason_of_end(pidfd, slot.pid);
    ::close(pidfd);
    // What it said before its end comes first: nothing of it counts afterwards.
    while (coordinator_->pump()) {
    }
    const ProcessState state = slot.state.load();
    if (state == ProcessState::finalized || state == ProcessState::ended) {
        coordinator_->process_left(process, state == ProcessState::ended ? Stage::ended : Stage::finished);
        return;
    }
    if (slot.is_hung.load() != 0) {
        reason = {FailureKind::hung, 0};
    }
    const std::uint32_t last_words = slot.exit_status.load();
    if (reason.kind == FailureKind::died && last_words != 0) {
        reason = {FailureKind::exited, static_cast<std::uint16_t>((last_words - 1) & 0xffU)};
    }
    note_death(process, reason, seen_ns);
    coordinator_->process_died({process, reason, true});
}

// Whether a refused port proves a death (membership/node_watch.hpp, which also says why those that came later do not
// count). The slots of other nodes' processes are never written in this node's segment.
bool Runtime::is_present() const noexcept {
    if (bootstrap_.is_one_node()) {
        return true;
    }
    const auto presence_of = [this](ProcId process) { return control_.slot(process).presence_ns.load(); };
    return sft::is_present(self(), presence_of, now_ns(), config_.node_timeout_ms * std::int64_t{1'000'000});
}

// Processes of other nodes, which the kernel does not tell of: their ports do.
void Runtime::look_for_gone() noexcept {
    std::vector<RemoteMail::Gone> gone = coordinator_->take_gone();
    if (gone.empty()) {
        return;
    }
    const std::int64_t seen_ns = now_ns();
    // What they said before their ends comes first.
    while (coordinator_->pump()) {
    }
    // One look for all: what follows changes who watches this node.
    const bool is_certain = is_present();
    for (const RemoteMail::Gone& item : gone) {
        if (item.goodbye) {
            coordinator_->process_left(item.process, *item.goodbye == static_cast<std::uint64_t>(Stage::ended)
                                                         ? Stage::ended
                                                         : Stage::finished);
            continue;
        }
        const FailureReason reason{FailureKind::died, 0};
        note_death(item.process, reason, seen_ns);
        coordinator_->process_died({item.process, reason, is_certain});
        // Its neighbours have probably met the same fate, and nobody else of this node may be talking to them.
        coordinator_->probe_node_of(item.process);
    }
}

// A thread of PMIx.
void Runtime::told_of_failure(ProcId process) {
    {
        const Locked lock(told_mutex_);
        told_.push_back(process);
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
}

// A port that refuses connections proves what the launcher says.
void Runtime::look_at_told() {
    std::vector<ProcId> told;
    {
        const Locked lock(told_mutex_);
        told.swap(told_);
    }
    for (const ProcId process : told) {
        if (process != self() && is_remote(process)) {
            coordinator_->probe_node_of(process);
        }
    }
}

// Silent for too long: dead, or out of reach, which comes to the same here but counts against the quorum.
void Runtime::lose_nodes(const std::vector<Death>& lost) noexcept {
    for (const Death& death : lost) {
        if (!coordinator_->is_dead(death.process)) {
            note_death(death.process, death.reason, now_ns());
            coordinator_->process_died(death);
        }
    }
}

// Told once, by whoever is first.
void Runtime::note_death(ProcId process, FailureReason reason, std::int64_t seen_ns) noexcept {
    const JobState state = coordinator_->state();
    if (is_over(state) || !channel_.is_connected() || control_.slot(process).is_death_noted.exchange(1) != 0) {
        return;
    }
    JobEvent event;
    event.kind = JobEventKind::failure_seen;
    event.pe = coordinator_->shape().held_by(state, process).value();
    event.value = static_cast<std::uint64_t>(process.value());
    event.code = reason.status();
    event.begin_ns = seen_ns;
    channel_.report(event);
}

// oshrun goes by what the job agrees on. By one process of each node, as some of these may not reach oshrun.
void Runtime::tell_agreed_losses(const JobState& before, const JobState& after) noexcept {
    if (after.deaths.size() == before.deaths.size() || bootstrap_.is_one_node()) {
        return;
    }
    const JobShape& shape = coordinator_->shape();
    for (std::int32_t pe = 0; pe < control_.n_pes(); ++pe) {
        const ProcId holder = shape.holder(after, PeId(pe));
        if (holder < self() && !is_remote(holder) && !coordinator_->is_dead(holder)) {
            return;
        }
    }
    for (const Death& death : after.deaths) {
        const bool is_new = std::none_of(before.deaths.begin(), before.deaths.end(),
                                         [&](const Death& known) { return known.process == death.process; });
        if (is_new && !death.is_certain && shape.held_by(after, self()) != kNoPe) {
            tell_agreed_loss(death.process);
        }
    }
}

void Runtime::tell_agreed_loss(ProcId process) noexcept {
    JobEvent event;
    event.kind = JobEventKind::agreed_lost;
    event.pe = me_.load().value();
    event.value = static_cast<std::uint64_t>(process.value());
    channel_.report(event);
}

// ---- what the agreement tells ----

void Runtime::heard_of_death(const Death& death) {
    control_.slot(death.process).note_death(death.reason, now_ns());
    publish_status();
    // Nothing is decided about a spare before it is missed, so the leader's word is the job's.
    if (!death.is_certain && coordinator_->leads() &&
        coordinator_->shape().held_by(coordinator_->state(), death.process) == kNoPe) {
        tell_agreed_loss(death.process);
    }
    peers_.retire_dead();
    if (network_ != nullptr && is_remote(death.process)) {
        network_->forget(death.process);
    }
    control_.slot(self()).doorbell.ring();
    end_with_mpi(death);
}

void Runtime::decided(const JobState& before, const JobState& after) {
    if (before.joined.size() != after.joined.size()) {
        const std::uint64_t one = 1;  // this may be the application's thread
        [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
    }
    tell_agreed_losses(before, after);
    if (before.stage == Stage::folding && after.version != before.version) {
        committed_ns_.store(now_ns());
    }
    if (after.view != before.view) {
        version_of_view_.store(after.version);
    }
    publish_status();
    if (after.stage == Stage::ended && !job_exit_.is_finished()) {
        job_exit_.leave_ended_job();
    }
    if (after.stage == Stage::faulted || after.stage == Stage::planned) {
        engine_.gate.pending.store(true);
        control_.slot(self()).doorbell.ring();
    }
}

void Runtime::must_stop(const Stop& why) {
    const PeId pe = me_;
    const std::string who = pe == kNoPe ? format("process %d", self().value()) : format("PE %d", pe.value());
    if (why.reason == Stop::Reason::gives_way) {
        say("error: %s: its node cannot reach another one, on which more depends: ends", who.c_str());
    } else if (why.reason == Stop::Reason::no_quorum) {
        say("error: %s: cut off from the majority of the job (%d of %d PEs reachable): ends", who.c_str(),
            why.n_reachable, why.n_all);
    } else {
        say("error: process %d was declared dead by the others and ends", self().value());
    }
    JobExit::flush_output();
    ::_exit(kExitError);
}

PeId Runtime::sleep_as_spare() noexcept {
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->wait_until(
        [&](const JobState& now) { return shape.held_by(now, self()) != kNoPe || is_over(now); });
    if (state.stage == Stage::ended) {
        job_exit_.leave_ended_job();
    }
    const PeId pe = shape.held_by(state, self());
    if (pe == kNoPe) {
        // The job is over and did not need this process. It never ran the application, so nothing of the
        // application's may run at its exit.
        control_.slot(self()).state.store(ProcessState::finalized);
        report(JobEventKind::finalized, 0, 0, "", now_ns(), 0);
        stop_service();
        say_goodbye(Stage::finished);
        close_network();
        bootstrap_.disconnect();
        ::_exit(0);
    }
    return pe;
}

}  // namespace sft
