#include "shmem_ft/process/process_events.hpp"

#include <unistd.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/poll_timeout.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/start/mpi_beside.hpp"

namespace sft {

void ProcessEvents::open(const Options& options) noexcept {
    SFT_ASSERT(options.coordinator != nullptr && options.service != nullptr && options.status != nullptr);
    o_ = options;
}

// ---- what the agreement tells ----

void ProcessEvents::heard_of_death(const Death& death) {
    o_.control->slot(death.process).note_death(death.reason, now_ns());
    o_.status->publish(now_ns());
    o_.service->reports().spare_lost(death);
    o_.peers->retire_dead();
    if (o_.links->network() != nullptr && is_remote(death.process)) {
        o_.links->network()->retire_peer(death.process);
    }
    ring();
    end_with_mpi(death);
}

// Whoever waits inside MPI for the dead PE would never come back to us. decided() ends the process, wherever it is.
void ProcessEvents::end_with_mpi(const Death& death) {
    const JobState state = o_.coordinator->state();
    const PeId pe = o_.coordinator->shape().held_by(state, death.process);
    if (pe == kNoPe || is_over(state) || !is_inside_mpi()) {
        return;
    }
    o_.job_exit->ask_for_end(format("PE %d failed (%s), and the program uses MPI, which does not go on after that",
                                    pe.value(), describe(death.reason).c_str()));
}

void ProcessEvents::decided(const JobState& before, const JobState& after) {
    SFT_ASSERT(after.index > before.index && after.view >= before.view && after.version >= before.version);
    if (before.joined.size() != after.joined.size()) {
        o_.service->wake();  // this may be the application's thread
    }
    o_.service->reports().decided(before, after);
    if (before.stage == Stage::updating && after.version != before.version) {
        o_.status->set_committed(now_ns());
    }
    if (after.view != before.view) {
        o_.lines->set_version_of_view(after.version);
    }
    o_.status->publish(now_ns());
    if (after.stage == Stage::ended && !o_.job_exit->is_finished()) {
        o_.job_exit->leave_ended_job();
    }
    if (after.stage == Stage::faulted || after.stage == Stage::planned) {
        o_.gate->pending.store(true);
        ring();
    }
}

void ProcessEvents::must_stop(const Stop& why) {
    SFT_ASSERT(why.n_reachable <= why.n_all);
    const PeId pe = own_pe();
    const std::string who = pe == kNoPe ? format("process %d", o_.self.value()) : format("PE %d", pe.value());
    if (why.reason == Stop::Reason::gives_way) {
        say("error: %s: its node cannot reach another one, on which more depends: ends", who.c_str());
    } else if (why.reason == Stop::Reason::no_quorum) {
        say("error: %s: cut off from the majority of the job (%d of %d PEs reachable): ends", who.c_str(),
            why.n_reachable, why.n_all);
    } else {
        say("error: process %d was declared dead by the others and ends", o_.self.value());
    }
    JobExit::flush_output();
    ::_exit(kExitError);
}

void ProcessEvents::awaits_spares(const std::vector<PeId>& pes) { o_.spare_wait->awaits(pes); }

// ---- what the service thread does besides ----

void ProcessEvents::watch_spare_wait() {
    o_.service->watch_descriptor(o_.spare_wait->fd(), [this] {
        if (const auto end = o_.spare_wait->timer_rang()) {
            o_.job_exit->end_by_service(o_.lines->unreplaced(*end));
        }
    });
}

void ProcessEvents::service_woken(std::int64_t now_ns) noexcept {
    o_.fault_hooks->carry_out();
    o_.status->refresh(now_ns);
    tell_pending_fault();
    watch_exit_later();
    o_.job_exit->leave_if_unheard(now_ns);
}

int ProcessEvents::service_timeout_ms(std::int64_t now_ns) const noexcept {
    constexpr int kUntilLeftMs = 100;
    return shorter_timeout(o_.fault_policy->timeout_ms(now_ns), o_.job_exit->is_ending() ? kUntilLeftMs : kNoTimeout);
}

void ProcessEvents::tell_pending_fault() noexcept {
    const bool is_pending = o_.gate->is_pending() && own_pe() != kNoPe && !o_.job_exit->is_finished();
    if (o_.fault_policy->is_pending_for_long(is_pending, now_ns())) {
        const JobState state = o_.coordinator->state();
        const auto dead = first_dead_pe(o_.coordinator->shape(), state, o_.coordinator->known_deaths());
        say("warning: %s", o_.fault_policy->pending_line(dead).c_str());
    }
}

// What the program registers to be called by exit() it registers straight after shmem_init, as a rule.
void ProcessEvents::watch_exit_later() noexcept {
    constexpr std::int64_t kUntilRegisteredNs = 100'000'000;
    if (watch_exit_ns_ == 0) {
        watch_exit_ns_ = now_ns() + kUntilRegisteredNs;
    } else if (now_ns() > watch_exit_ns_) {
        job::watch_exit();
        watch_exit_ns_ = INT64_MAX;
    }
}

}  // namespace sft
