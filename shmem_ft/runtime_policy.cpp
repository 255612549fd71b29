// What the user has chosen for the cases in which something is lost: what a call does when it meets a fault.

#include <algorithm>

#include "shmem_ft/base/report.hpp"
#include "shmem_ft/runtime.hpp"

namespace sft {

bool Runtime::on_fault(FaultAction action, job::FaultHandler handler, void* context) noexcept {
    switch (action) {
        case FaultAction::call:
            if (handler == nullptr) {
                return false;
            }
            break;
        case FaultAction::go_on:
        case FaultAction::jump:
        case FaultAction::abort: break;
        default: return false;
    }
    on_fault_.action = action;
    on_fault_.handler = handler;
    on_fault_.context = context;
    return true;
}

jmp_buf* Runtime::rollback_point() noexcept {
    on_fault_.has_point = true;
    on_fault_.point_thread = ::pthread_self();
    return &on_fault_.point;
}

// That the gate is closed is not enough to wait for the decision: it may have been closed by old news.
bool Runtime::is_fault_known() const {
    const JobState state = coordinator_->state();
    if (state.stage != Stage::running && state.stage != Stage::shipping) {
        return true;
    }
    for (std::int32_t pe = 0; pe < control_.n_pes(); ++pe) {
        if (coordinator_->is_dead(coordinator_->shape().holder(state, PeId(pe)))) {
            return true;
        }
    }
    return false;
}

// ENSURES, if true: failed_ is what everybody agrees has failed. A checkpoint that is entered while the death of a
// holder is known cannot be committed: the dead one would have to ship after everybody has arrived.
bool Runtime::check_status() noexcept {
    if (!joined_ || !failed_.empty()) {
        return true;
    }
    if (!is_fault_known()) {
        return false;
    }
    const Participant::Do outcome = coordinator_->checkpoint();
    if (outcome == Participant::Do::ended) {
        leave_ended_job();
    }
    if (outcome != Participant::Do::fault) {
        return false;
    }
    engine_.gate.pending.store(true);
    failed_ = coordinator_->state().failed;
    return true;
}

jmp_buf* Runtime::meet_fault(const char* routine) noexcept {
    OnFault& chosen = on_fault_;
    switch (chosen.action) {
        case FaultAction::go_on: break;
        case FaultAction::call:
            if (joined_ && !chosen.is_in_handler) {
                chosen.is_in_handler = true;
                chosen.handler(routine, chosen.context);
                chosen.is_in_handler = false;
            }
            break;
        case FaultAction::jump:
            // The frame of the rollback point is on the stack of its own thread only.
            if (chosen.has_point && !chosen.has_jumped && ::pthread_equal(chosen.point_thread, ::pthread_self()) != 0 &&
                check_status()) {
                chosen.has_jumped = true;
                return &chosen.point;
            }
            break;
        case FaultAction::abort:
            if (joined_ && check_status()) {
                const FailedPe first = failed_.empty() ? FailedPe{} : failed_.front();
                fail_job(
                    format("PE %d failed (%s), and a fault is to end the job (SHMEM_FT_ON_FAULT=abort or "
                           "shmem_ft_on_fault): PE %d met it in %s",
                           first.pe.value(), describe(first.reason).c_str(), me_.value(), routine));
            }
            break;
    }
    return nullptr;
}

}  // namespace sft
