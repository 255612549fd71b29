// What the service thread does. Everything here is called by that thread only.

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/poll_timeout.hpp"
#include "base/report.hpp"
#include "recovery/detection/data_guard.hpp"
#include "recovery/detection/failure_service.hpp"
#include "recovery/detection/hang_watch.hpp"
#include "recovery/detection/heartbeat.hpp"
#include "recovery/detection/node_guard.hpp"
#include "recovery/detection/process_end.hpp"

namespace sft {
namespace {

// How long it goes on trying what fails for lack of descriptors or memory, and how often.
constexpr std::int64_t kLackNs = 5'000'000'000;
constexpr int kTroubleMs = 100;

}  // namespace

// What is found by silence.
struct FailureService::Detectors {
    Detectors(FailureService& service, std::int64_t now_ns)
        : heartbeat(service.options_.control->slot(service.options_.self)),
          hang_watch({.control = service.options_.control,
                      .heartbeat = &heartbeat,
                      .self = service.options_.self,
                      .bound_ns = service.options_.hang_bound_ns,
                      .nodes = service.options_.nodes},
                     now_ns),
          node_guard({.coordinator = service.options_.coordinator,
                      .control = service.options_.control,
                      .heartbeat = &heartbeat,
                      .lease = &service.lease_,
                      .self = service.options_.self,
                      .bound_ns = service.options_.node_bound_ns},
                     now_ns),
          data_guard({.coordinator = service.options_.coordinator,
                      .control = service.options_.control,
                      .is_on = service.options_.nodes != nullptr && service.options_.control->header().n_nodes > 1 &&
                               service.options_.has_real_nodes,
                      .bound_ns = service.options_.stall_bound_ns,
                      .silence_ns = service.options_.node_bound_ns,
                      .interface = service.options_.interface},
                     now_ns) {}

    [[nodiscard]] int timeout_ms(std::int64_t now_ns) const noexcept {
        return shorter_timeout(hang_watch.timeout_ms(now_ns),
                               shorter_timeout(node_guard.timeout_ms(now_ns), data_guard.timeout_ms(now_ns)));
    }

    Heartbeat heartbeat;
    HangWatch hang_watch;
    NodeGuard node_guard;
    DataGuard data_guard;
};

// First the entries that are known by their places, then a descriptor that somebody has handed over each.
struct FailureService::Polled {
    enum Place : std::size_t { wakes, launcher, mail, processes, kOwnEntries };

    std::vector<pollfd> entries;

    [[nodiscard]] bool is_ready(std::size_t place) const noexcept { return entries[place].revents != 0; }
};

void FailureService::list(Polled& polled) {
    polled.entries.assign({{wake_fd_, POLLIN, 0},
                           {options_.channel->fd(), 0, 0},
                           {options_.coordinator->fd(), POLLIN, 0},
                           {watches_.fd(), POLLIN, 0}});
    for (const Descriptor& descriptor : descriptors_) {
        polled.entries.push_back({descriptor.fd, POLLIN, 0});
    }
    SFT_ASSERT(polled.entries.size() == Polled::kOwnEntries + descriptors_.size());
}

void FailureService::await_event(Polled& polled, int timeout_ms) const noexcept {
    if (::poll(polled.entries.data(), polled.entries.size(), timeout_ms) < 0 && errno != EINTR) {
        die("PE %d: cannot watch the processes of the job: %s", options_.host->own_pe().value(), std::strerror(errno));
    }
}

void FailureService::serve() noexcept {
    thread_.store(std::this_thread::get_id());
    for (const ProcId process : early_) {
        options_.coordinator->process_died({process, {FailureKind::died, 0}, true});
    }
    Detectors detectors(*this, now_ns());
    const auto kill = [this](ProcId process) { watches_.kill(process); };
    Polled polled;
    for (;;) {
        watch_joined();
        list(polled);
        const std::int64_t now = now_ns();
        const bool has_trouble = unwatched_since_ns_ != 0 || options_.coordinator->has_trouble();
        const int other_ms =
            shorter_timeout(options_.host->service_timeout_ms(now), has_trouble ? kTroubleMs : kNoTimeout);
        await_event(polled, shorter_timeout(detectors.timeout_ms(now), other_ms));
        if (is_stopping_.load()) {
            return;
        }
        if (polled.is_ready(Polled::wakes)) {
            look_at_reported();
        }
        if (polled.is_ready(Polled::launcher)) {
            // oshrun is gone: nobody would take this job's result.
            ::_exit(kExitError);
        }
        detectors.hang_watch.tick(options_.coordinator->known_deaths(), now_ns(), kill);
        if (polled.is_ready(Polled::mail)) {
            options_.coordinator->pump();
            handle_refused_peers();
        }
        options_.host->service_woken(now_ns());
        if (has_trouble) {
            look_for_trouble(now_ns());
        }
        lose(detectors.node_guard.tick(now_ns()));
        if (detectors.data_guard.tick(now_ns())) {
            leave_with_node();
        }
        for (std::size_t i = 0; i < descriptors_.size(); ++i) {
            if (polled.is_ready(Polled::kOwnEntries + i)) {
                descriptors_[i].on_readable();
            }
        }
        if (polled.is_ready(Polled::processes)) {
            for (const ProcId process : watches_.ended()) {
                process_ended(process);
            }
        }
    }
}

void FailureService::pump_all() {
    SFT_ASSERT(is_here());
    while (options_.coordinator->pump()) {
    }
}

// The kernel shall tell of their ends, too.
void FailureService::watch_joined() {
    SFT_ASSERT(is_here());
    const JobState state = options_.coordinator->state();
    SFT_ASSERT(n_joined_watched_ <= state.joined.size());  // nobody who has joined is taken out again
    for (; n_joined_watched_ < state.joined.size(); ++n_joined_watched_) {
        const ProcId process = state.joined[n_joined_watched_].process;
        if (process == options_.self || options_.host->is_remote(process) || process.value() < 0 ||
            process.value() >= options_.control->n_slots()) {
            continue;
        }
        const ProcessWatches::Outcome outcome = watches_.watch(process);
        if (outcome.reach == Reach::cannot_be_opened) {
            // Alive perhaps, and not watched: tried again, and for how long is look_for_trouble()'s to say.
            unwatched_error_ = outcome.error;
            unwatched_since_ns_ = unwatched_since_ns_ == 0 ? now_ns() : unwatched_since_ns_;
            return;
        }
        unwatched_since_ns_ = 0;
        if (outcome.reach == Reach::gone) {
            options_.coordinator->process_died({process, {FailureKind::died, 0}, true});
        }
    }
}

void FailureService::process_ended(ProcId process) {
    SFT_ASSERT(is_here() && process != options_.self);
    const std::int64_t seen_ns = now_ns();
    EndSigns signs{.by_kernel = watches_.take_end(process)};
    // What it said before its end comes first: nothing of it counts afterwards.
    pump_all();
    const ProcessSlot& slot = options_.control->slot(process);
    signs.state = slot.state.load();
    signs.is_hung = slot.is_hung.load() != 0;
    signs.exit_status = slot.exit_status.load();
    const ProcessEnd end = meaning_of_end(signs);
    if (end.left) {
        options_.coordinator->process_left(process, *end.left);
        return;
    }
    reports_.death_seen(process, end.reason, seen_ns);
    options_.coordinator->process_died({process, end.reason, true});
}

// Processes of other nodes, which the kernel does not tell of: their ports do.
void FailureService::handle_refused_peers() {
    SFT_ASSERT(is_here());
    const std::vector<RemoteMail::Gone> gone = options_.coordinator->take_gone();
    if (gone.empty()) {
        return;
    }
    const std::int64_t seen_ns = now_ns();
    // What they said before their ends comes first.
    pump_all();
    // One look for all: what follows changes who watches this node.
    const bool is_certain = has_lease();
    for (const RemoteMail::Gone& item : gone) {
        SFT_ASSERT(item.process != options_.self);
        if (item.goodbye) {
            options_.coordinator->process_left(item.process, stage_of_goodbye(*item.goodbye));
            continue;
        }
        const FailureReason reason{FailureKind::died, 0};
        reports_.death_seen(item.process, reason, seen_ns);
        options_.coordinator->process_died({item.process, reason, is_certain});
        // Its neighbours have probably met the same fate, and nobody else of this node may be talking to them.
        options_.coordinator->probe_node_of(item.process);
    }
}

// A port that refuses connections proves what the launcher says.
void FailureService::look_at_reported() {
    SFT_ASSERT(is_here());
    std::uint64_t wakes = 0;
    [[maybe_unused]] const auto read = ::read(wake_fd_, &wakes, sizeof wakes);
    std::vector<ProcId> reported;
    {
        const Locked lock(reported_mutex_);
        reported.swap(reported_failures_);
    }
    for (const ProcId process : reported) {
        if (process != options_.self && options_.host->is_remote(process)) {
            options_.coordinator->probe_node_of(process);
        }
    }
}

// Silent for too long: dead, or out of reach, which comes to the same here but counts against the quorum.
void FailureService::lose(const std::vector<Death>& lost) {
    SFT_ASSERT(is_here());
    for (const Death& death : lost) {
        SFT_ASSERT(!death.is_certain && death.process != options_.self);  // silence proves nothing
        if (!options_.coordinator->is_dead(death.process)) {
            reports_.death_seen(death.process, death.reason, now_ns());
            options_.coordinator->process_died(death);
        }
    }
}

std::string FailureService::own_name() const {
    const PeId pe = options_.host->own_pe();
    return pe == kNoPe ? format("process %d", options_.self.value()) : format("PE %d", pe.value());
}

// What has been tried in vain for too long.
void FailureService::look_for_trouble(std::int64_t now_ns) {
    SFT_ASSERT(is_here());
    if (const std::optional<Trouble> lack = options_.coordinator->lasting_trouble(now_ns - kLackNs)) {
        options_.host->end_by_service(
            format("%s cannot %s: %s", own_name().c_str(), lack->what.c_str(), describe_error(lack->error).c_str()));
    } else if (unwatched_since_ns_ != 0 && now_ns - unwatched_since_ns_ > kLackNs) {
        options_.host->end_by_service(format("%s cannot watch a process that has joined the job: %s",
                                             own_name().c_str(), describe_error(unwatched_error_).c_str()));
    }
    const auto has_left = [this](ProcId process) {
        const ProcessState state = options_.control->slot(process).state.load();
        return state == ProcessState::finalized || state == ProcessState::ended;
    };
    for (const Mailbox::Lost& lost : options_.coordinator->lost_connections()) {
        if (has_left(lost.process) || options_.coordinator->is_dead(lost.process)) {
            options_.coordinator->settle_lost(lost.process);
        } else if (now_ns - lost.since_ns > kUntilGoneNs) {
            options_.host->end_by_service(format("%s has lost its connection to process %d, which lives: %s",
                                                 own_name().c_str(), lost.process.value(),
                                                 describe_error(lost.error).c_str()));
        }
    }
}

// A death that everybody can see and none of whose consequences has to be thought of here: recovery is there for it.
void FailureService::leave_with_node() noexcept {
    SFT_ASSERT(is_here());
    options_.host->before_kill();
    watches_.kill_all();
    ::kill(::getpid(), SIGKILL);
}

}  // namespace sft
