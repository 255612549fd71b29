// What the service thread (recovery/detection/failure_service.hpp) does for this process, and what the agreement tells
// it.

#include <cstdint>

#include "base/clock.hpp"
#include "base/poll_timeout.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {

bool Runtime::start_service(std::string& error) {
    Result<> had = open_spare_wait();
    if (had) {
        had = job_exit_.reserve_descriptors(spare_wait_.fd());
    }
    if (!had) {
        error = format("cannot have the descriptors of the service thread: %s", had.error().line.c_str());
        return false;
    }
    service_->watch_descriptor(spare_wait_.fd(), [this] { wait_is_due(); });
    const Result<> started = service_->start();
    if (!started) {
        error = started.error().line;
    }
    return started.has_value();
}

void Runtime::stop_service() noexcept {
    if (service_ != nullptr) {
        service_->stop();
    }
    job_exit_.release_descriptors();
    spare_wait_.close();
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

void Runtime::service_woken(std::int64_t now_ns) noexcept {
    status_->refresh(now_ns);
    tell_pending_fault();
    watch_exit_later();
    job_exit_.leave_if_unheard(now_ns);
}

int Runtime::service_timeout_ms(std::int64_t now_ns) const noexcept {
    constexpr int kUntilLeftMs = 100;
    return shorter_timeout(fault_policy_.timeout_ms(now_ns), job_exit_.is_ending() ? kUntilLeftMs : kNoTimeout);
}

// ---- what the agreement tells ----

void Runtime::heard_of_death(const Death& death) {
    control_.slot(death.process).note_death(death.reason, now_ns());
    status_->publish(now_ns());
    service_->reports().spare_lost(death);
    peers_.retire_dead();
    if (links_.network() != nullptr && is_remote(death.process)) {
        links_.network()->retire_peer(death.process);
    }
    control_.slot(self()).doorbell.ring();
    end_with_mpi(death);
}

void Runtime::decided(const JobState& before, const JobState& after) {
    if (before.joined.size() != after.joined.size()) {
        service_->wake();  // this may be the application's thread
    }
    service_->reports().decided(before, after);
    if (before.stage == Stage::updating && after.version != before.version) {
        status_->set_committed(now_ns());
    }
    if (after.view != before.view) {
        version_of_view_.store(after.version);
    }
    status_->publish(now_ns());
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
        links_.close();
        bootstrap_.disconnect();
        ::_exit(0);
    }
    return pe;
}

}  // namespace sft
