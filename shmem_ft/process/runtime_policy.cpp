// What the user has chosen for the cases in which something is lost: what a call does when it meets a fault, and what
// the job does when nobody is left to take over a PE.

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/parallel_region.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"
#include "shmem_ft/start/mpi_beside.hpp"

namespace sft {
namespace {

// What each thread has for itself. A rollback point lies in a frame of its own stack, so nobody else can go there; and
// it goes when the thread goes.
struct OnFaultOfThread {
    std::uint32_t life = 0;    // of the runtime that the point was made in; 0: no point
    std::uint32_t throws = 0;  // the same for the choice to throw
    std::uint32_t left = 0;    // the fault of the last jump or exception, as fault_number
    bool is_in_handler = false;
    jmp_buf point{};
};
thread_local OnFaultOfThread t_on_fault;

}  // namespace

bool Runtime::on_fault(FaultAction action, FaultHandler handler, void* context) noexcept {
    switch (action) {
        case FaultAction::call:
        case FaultAction::leave:
            if (handler == nullptr) {
                return false;
            }
            break;
        case FaultAction::go_on:
        case FaultAction::jump:
        case FaultAction::abort: break;
        default: return false;
    }
    if (action == FaultAction::leave && t_on_fault.throws != life_) {
        t_on_fault.left = 0;
        has_way_out_.store(true);
    }
    t_on_fault.throws = action == FaultAction::leave ? life_ : 0;
    const Locked lock(list_mutex_);
    on_fault_ = {action, handler, context};
    return true;
}

jmp_buf* Runtime::rollback_point() noexcept {
    if (t_on_fault.life != life_) {
        t_on_fault.life = life_;
        t_on_fault.left = 0;
    }
    has_way_out_.store(true);
    return &t_on_fault.point;
}

// A substitute joins where the survivors recover, before the program looks at anything that it has not got back yet:
// the condition of the loop, say. Where survivors do not come to the point, it is not where they recover, and what
// stands between the point and their place would be done by the substitute alone.
bool Runtime::must_recover() noexcept {
    if (joined_) {
        return false;
    }
    {
        const Locked lock(list_mutex_);
        if (on_fault_.action != FaultAction::jump && on_fault_.action != FaultAction::leave) {
            return false;
        }
    }
    t_on_fault.left = restarts_.load() + 1;  // as after a jump: none follows until the restart
    return true;
}

void Runtime::recover() noexcept {
    int* pes = nullptr;
    int* status = nullptr;
    std::size_t numpes = 0;
    query_fault(&pes, &status, &numpes);
    if (numpes == 0) {
        fail_job(
            format("PE %d: shmem_ft_recover was called although no PE has failed: what else a checkpoint may "
                   "return, it cannot mend",
                   me_.load().value()));
    }
    restart(pes, numpes);
    std::free(pes);
    std::free(status);
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
    if (!joined_ || !failed().empty()) {
        return true;
    }
    if (!is_fault_known()) {
        return false;
    }
    // All threads that meet the fault come here; one of them does it, and the others find it done.
    const Locked calls(calls_mutex_);
    if (!failed().empty()) {
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
    set_failed(coordinator_->state().failed);
    return true;
}

// Whether the calling thread may leave its call by a jump or an exception, as to where it is. What waits for a place
// that may be left is not lost: the first call there that meets the fault leaves.
bool Runtime::may_leave(const char* routine) noexcept {
    const bool has_one = t_on_fault.life == life_ || t_on_fault.throws == life_;
    if (has_one && !is_in_parallel_region()) {
        return true;
    }
    // A program that has never passed a point is one that looks at the results of its calls.
    if (joined_ && has_way_out_.load() && !told_no_way_out_.test_and_set()) {
        say("warning: PE %d: %s has met a fault %s, which cannot be left by a jump: calls return there, and what they "
            "bring may be garbage, until one outside of it meets the fault (docs/faults.md)",
            me_.load().value(), routine,
            has_one ? "inside a parallel region of OpenMP" : "in a thread that has passed no rollback point");
    }
    return false;
}

WayOut Runtime::meet_fault(const char* routine) noexcept {
    OnFault chosen;
    {
        const Locked lock(list_mutex_);
        chosen = on_fault_;
    }
    pending_watch_.met(routine);
    const std::uint32_t fault_number = restarts_.load() + 1;
    switch (chosen.action) {
        case FaultAction::go_on: break;
        case FaultAction::call:
            if (joined_ && !t_on_fault.is_in_handler) {
                t_on_fault.is_in_handler = true;
                chosen.handler(routine, chosen.context);
                t_on_fault.is_in_handler = false;
            }
            break;
        case FaultAction::jump:
        case FaultAction::leave: {
            const PendingWatch::Inside inside(pending_watch_, routine);
            if (t_on_fault.left == fault_number || !may_leave(routine) || !check_status()) {
                break;
            }
            t_on_fault.left = fault_number;
            if (chosen.action == FaultAction::leave) {
                return {.thrower = chosen.handler, .context = chosen.context};
            }
            return {.point = &t_on_fault.point};
        }
        case FaultAction::abort:
            if (joined_ && check_status()) {
                const std::vector<FailedPe> list = failed();
                const FailedPe first = list.empty() ? FailedPe{} : list.front();
                fail_job(
                    format("PE %d failed (%s), and a fault is to end the job (SHMEM_FT_ON_FAULT=abort or "
                           "shmem_ft_on_fault): PE %d met it in %s",
                           first.pe.value(), describe(first.reason).c_str(), me_.load().value(), routine));
            }
            break;
    }
    return {};
}

// By the service thread.
void Runtime::tell_pending_fault() noexcept {
    if (!pending_watch_.tick(engine_.gate.is_pending() && me_.load() != kNoPe && !finished_, now_ns())) {
        return;
    }
    const JobState state = coordinator_->state();
    std::string who;
    for (std::int32_t pe = 0; pe < control_.n_pes() && who.empty(); ++pe) {
        if (coordinator_->is_dead(coordinator_->shape().holder(state, PeId(pe)))) {
            who = format("PE %d has failed", pe);
        }
    }
    say("warning: PE %d: %s and nobody has recovered for 10 s: %s%s", me_.load().value(),
        who.empty() ? "a PE has failed" : who.c_str(), pending_watch_.where().c_str(),
        joined_ ? "" : " (it is a substitute that has not joined yet)");
}

// ---- when nobody is left to take over ----
//
// The rules let the job wait; how long is the leader's business. A timer wakes its service thread, at once to ask the
// handler, and later when the bound has passed. If the leader dies, the next one begins to count anew.

void Runtime::on_unreplaced(UnreplacedHandler handler, void* context) noexcept {
    const Locked lock(view_mutex_);
    unreplaceable_.handler = handler;
    unreplaceable_.context = context;
}

// at_ns: CLOCK_MONOTONIC; 0: never.
void Runtime::set_wait_timer(std::int64_t at_ns) noexcept {
    constexpr std::int64_t kNsPerSecond = 1'000'000'000;
    itimerspec when{};
    when.it_value = {at_ns / kNsPerSecond, at_ns % kNsPerSecond};
    ::timerfd_settime(wait_timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

// oshrun may be able to start one (oshrun --on-demand).
void Runtime::ask_for_spares(const std::vector<PeId>& pes) noexcept {
    for (const PeId pe : pes) {
        JobEvent event;
        event.kind = JobEventKind::spare_wanted;
        event.pe = pe.value();
        channel_.report(event);
    }
}

void Runtime::awaits_spares(const std::vector<PeId>& pes) {
    constexpr std::int64_t kNsPerSecond = 1'000'000'000;
    const Locked lock(view_mutex_);
    const bool is_new = unreplaceable_.pes.empty();
    unreplaceable_.pes = pes;
    unreplaceable_.is_handler_due = config_.unreplaced == Unreplaced::handler;
    if (pes.empty()) {
        set_wait_timer(0);
        return;
    }
    if (is_new) {
        unreplaceable_.give_up_ns = now_ns() + config_.wait_timeout_seconds * kNsPerSecond;
        if (!unreplaceable_.is_handler_due) {
            // The name of oshrun's socket has the pid of its guardian.
            int guardian = 0;
            const bool has_oshrun = std::sscanf(config_.job_socket.c_str(), "shmem-ft-%d-", &guardian) == 1;
            say("warning: PE %d has failed and no spare is left: waiting %u s for one (SHMEM_FT_WAIT_TIMEOUT)%s",
                pes.front().value(), config_.wait_timeout_seconds,
                has_oshrun ? format("; oshrun --join %d adds one", guardian).c_str() : "");
        }
    }
    if (!unreplaceable_.is_handler_due) {
        ask_for_spares(pes);
    }
    set_wait_timer(unreplaceable_.is_handler_due ? now_ns() : unreplaceable_.give_up_ns);
}

void Runtime::wait_is_due() noexcept {
    std::uint64_t expirations = 0;
    if (::read(wait_timer_fd_, &expirations, sizeof expirations) < 0) {
        return;  // it was set anew meanwhile
    }
    Locked lock(view_mutex_);
    if (unreplaceable_.pes.empty()) {
        return;
    }
    if (!unreplaceable_.is_handler_due) {
        lock.unlock();
        end_wait(format(" and no spare has come within %u s (SHMEM_FT_WAIT_TIMEOUT)", config_.wait_timeout_seconds));
        return;
    }
    unreplaceable_.is_handler_due = false;
    const std::vector<PeId> pes = unreplaceable_.pes;
    lock.unlock();
    if (handler_ends(kNoSpare, pes)) {
        end_wait(lack_of_spares(coordinator_->state()));
        return;
    }
    lock.lock();
    if (!unreplaceable_.is_handler_due && !unreplaceable_.pes.empty()) {
        ask_for_spares(unreplaceable_.pes);
        set_wait_timer(unreplaceable_.give_up_ns);
    }
}

// Whether the job is to end. It is if nobody has registered a handler here.
bool Runtime::handler_ends(int reason, const std::vector<PeId>& pes) noexcept {
    UnreplacedHandler handler = nullptr;
    void* context = nullptr;
    {
        const Locked lock(view_mutex_);
        handler = unreplaceable_.handler;
        context = unreplaceable_.context;
    }
    std::vector<int> numbers;
    std::transform(pes.begin(), pes.end(), std::back_inserter(numbers), [](PeId pe) { return pe.value(); });
    return handler == nullptr || handler(reason, numbers.data(), numbers.size(), context) == 0;
}

// By the service thread.
void Runtime::end_wait(const std::string& why) noexcept {
    std::vector<PeId> pes;
    {
        const Locked lock(view_mutex_);
        pes = unreplaceable_.pes;
    }
    end_by_service(name_failed(coordinator_->state(), pes) + why);
}

// Whoever waits inside MPI for the dead PE would never come back to us. decided() ends the process, wherever it is.
void Runtime::end_with_mpi(const Death& death) {
    const JobState state = coordinator_->state();
    const PeId pe = coordinator_->shape().held_by(state, death.process);
    if (pe == kNoPe || is_over(state) || !is_inside_mpi()) {
        return;
    }
    const std::string line = format("PE %d failed (%s), and the program uses MPI, which does not go on after that",
                                    pe.value(), describe(death.reason).c_str());
    note_last_line(line);
    if (channel_.is_connected()) {
        tell_end(line);  // before anybody can end because of it
    }
    coordinator_->request_end(EndReason::requested, kExitError);
}

}  // namespace sft
