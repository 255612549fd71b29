// RecoveryCalls: shmem_restart_pes, of a fault and of a job that goes on from a stored version.
#include <cstdlib>
#include <span>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/recovery_calls.hpp"

namespace sft {

void RecoveryCalls::recover() noexcept {
    if (is_leaving_for_good()) {
        return;
    }
    int* pes = nullptr;
    int* status = nullptr;
    std::size_t numpes = 0;
    query_fault(&pes, &status, &numpes);
    if (numpes == 0) {
        o_.job_exit->fail_job(
            format("PE %d: shmem_ft_recover was called although no PE has failed: what else a checkpoint may "
                   "return (SHMEM_FT_ERROR_OUT_OF_MEMORY), it cannot mend",
                   o_.me->value()));
    }
    restart_pes(pes, numpes);
    std::free(pes);
    std::free(status);
}

void RecoveryCalls::restart_pes(const int* pes, std::size_t numpes) noexcept {
    if (is_leaving_for_good()) {
        return;
    }
    const std::int64_t begin = now_ns();
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(o_.fault_policy->watch(), "shmem_restart_pes");
    settle();
    prepare_restart();
    const std::uint64_t given = JobRules::hash_of(std::span<const std::int32_t>(pes, pes == nullptr ? 0 : numpes));
    const std::uint64_t expected = JobRules::hash_of(o_.fault_policy->failed());
    if (o_.me->begins_with_stored() && !o_.me->has_joined()) {
        if (given != expected) {
            return tell_of_refused_list();
        }
        begin_with_stored();
        return report_span("restart", begin, now_ns(), o_.coordinator->state().version.value());
    }
    const Participant::Do outcome =
        o_.coordinator->carry_out({Coordinator::Call::Kind::restart, given, !o_.me->has_joined()});
    o_.fault_policy->restart_decided();
    if (!has_resumed(outcome, given == expected)) {
        return;
    }
    after_restart();
    const Coordinator::Times times = o_.coordinator->times();
    const std::uint64_t version = o_.coordinator->state().version.value();
    report_span("restart", begin, now_ns(), version);
    if (times.restored != 0 && times.resumed != 0) {  // else this process has seen the next value first
        report_span("restore", times.planned, times.restored, version);
        report_span("protect", times.restored, times.resumed, version);
    }
    if (!o_.config->quiet) {
        if (const auto line = o_.lines->recovery(o_.actions->recovered_from(), o_.me->get())) {
            say("warning: %s", line->c_str());
        }
    }
    fault_point(FaultPoint::restart_leave);
}

void RecoveryCalls::prepare_restart() noexcept {
    const bool has_joined = o_.me->has_joined();
    fault_point(has_joined ? FaultPoint::restart_enter : FaultPoint::substitute_joins);
    if (has_joined && o_.coordinator->state().version != kNoVersion && o_.init_calls->is_ahead()) {
        o_.job_exit->fail_job(
            format("PE %d was initialised after the last checkpoint, which would be lost by going back: call "
                   "shmem_checkpoint_all right after initialisation%s",
                   o_.me->value(), o_.config->interval == CheckpointInterval() ? "" : ", without SHMEM_FT_INTERVAL"));
    }
    o_.program_start->end_replay(o_.coordinator->state().version);
    if (!has_joined && !has_list()) {
        fault_point(FaultPoint::query);
        take_list();  // a substitute that did not ask: its own view of the list
    }
    o_.links->quiet();  // nothing of this view may come to a PE that has rolled back
    o_.actions->retire_dead_peers();
}

bool RecoveryCalls::has_resumed(Participant::Do outcome, bool is_list_right) noexcept {
    switch (outcome) {
        case Participant::Do::give_up: o_.job_exit->fail_job(o_.actions->why_lost() + ": the data is lost");
        case Participant::Do::ended: o_.job_exit->leave_ended_job();
        case Participant::Do::rejected: break;
        default: return true;
    }
    if (!is_list_right) {
        tell_of_refused_list();
    }
    return false;
}

void RecoveryCalls::tell_of_refused_list() const noexcept {
    say("error: PE %d: shmem_restart_pes was not given the list of shmem_query_fault; nothing was changed",
        o_.me->value());
}

void RecoveryCalls::after_restart() noexcept {
    resume();
    restore_included();
    tell_program(VersionEvent::after_restore, o_.coordinator->state().version);
}

// The job goes on from a stored version: all PEs come here, and nobody has anything of anybody's yet.
void RecoveryCalls::begin_with_stored() noexcept {
    SFT_ASSERT(o_.coordinator->state().version == kNoVersion);
    if (const Result<> loaded = o_.storage->load().then([this] { return o_.actions->begin_with_loaded(); }); !loaded) {
        o_.job_exit->fail_job(loaded.error().line);
    }
    o_.fault_policy->restart_decided();
    o_.peers->end_fault();
    commit_loaded();
    after_restart();
}

void RecoveryCalls::commit_loaded() noexcept {
    if (o_.coordinator->carry_out({Coordinator::Call::Kind::checkpoint}) != Participant::Do::committed) {
        o_.job_exit->leave_ended_job();  // somebody has died: there is no version in memory to go back to
    }
    SFT_ASSERT(o_.coordinator->state().version == o_.storage->begins_with());
}

void RecoveryCalls::resume() noexcept {
    o_.fault_policy->set_failed({});
    room_ = {};
    background_.is_agreed = false;
    pace_.resume(now_ns());
    o_.storage->resume();
    if (!o_.me->has_joined()) {
        if (const Result<> started = o_.start_idle_work(); !started) {
            say("warning: %s", started.error().line.c_str());
        }
    }
    o_.take_notes();
    o_.me->join();
    SFT_ASSERT(o_.coordinator->state().version != kNoVersion);  // there was one to go back to
    o_.engine->replay.active = false;
    o_.program_start->end(o_.coordinator->state().version);
    o_.peers->end_fault();
    o_.fault_policy->watch().clear();
}

}  // namespace sft
