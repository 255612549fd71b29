#include "recovery/fault_policy.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/parallel_region.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// What each thread has for itself.
struct OnFaultOfThread {
    std::uint32_t life = 0;    // that the point was made in; 0: no point
    std::uint32_t throws = 0;  // the same for the choice to throw
    std::uint32_t left = 0;    // the fault of the last jump or exception: restarts before it + 1
    bool is_in_handler = false;
    jmp_buf point{};
};
thread_local OnFaultOfThread t_on_fault;

}  // namespace

void FaultPolicy::open(Options options) noexcept {
    SFT_ASSERT(options.life != 0);
    // A handler is given by the program only.
    SFT_ASSERT(options.action != FaultAction::call && options.action != FaultAction::leave);
    options_ = std::move(options);
    const Locked lock(mutex_);
    choice_ = {options_.action, nullptr, nullptr};
}

bool FaultPolicy::choose(FaultAction action, FaultHandler handler, void* context) noexcept {
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
    if (action == FaultAction::leave && t_on_fault.throws != options_.life) {
        t_on_fault.left = 0;
        has_way_out_.store(true);
    }
    SFT_ASSERT(options_.life != 0);  // 0 stands for no point
    t_on_fault.throws = action == FaultAction::leave ? options_.life : 0;
    const Locked lock(mutex_);
    choice_ = {action, handler, context};
    return true;
}

jmp_buf* FaultPolicy::rollback_point() noexcept {
    if (t_on_fault.life != options_.life) {
        t_on_fault.life = options_.life;
        t_on_fault.left = 0;
    }
    has_way_out_.store(true);
    return &t_on_fault.point;
}

FaultPolicy::Choice FaultPolicy::choice() const {
    const Locked lock(mutex_);
    return choice_;
}

// A substitute joins where the survivors recover, before the program looks at anything that it has not got back yet:
// the condition of the loop, say. Where survivors do not come to the point, it is not where they recover, and what
// stands between the point and their place would be done by the substitute alone.
bool FaultPolicy::must_recover() noexcept {
    if (options_.has_joined()) {
        return false;
    }
    const FaultAction action = choice().action;
    if (action != FaultAction::jump && action != FaultAction::leave) {
        return false;
    }
    t_on_fault.left = restarts_.load() + 1;  // as after a jump: none follows until the restart
    return true;
}

// Whether the calling thread may leave its call by a jump or an exception, as to where it is. What waits for a place
// that may be left is not lost: the first call there that meets the fault leaves.
bool FaultPolicy::may_leave(const char* routine) noexcept {
    const bool has_one = t_on_fault.life == options_.life || t_on_fault.throws == options_.life;
    if (has_one && !is_in_parallel_region()) {
        return true;
    }
    // A program that has never passed a point is one that looks at the results of its calls.
    if (options_.has_joined() && has_way_out_.load() && !told_no_way_out_.test_and_set()) {
        say("warning: PE %d: %s has met a fault %s, which cannot be left by a jump: calls return there, and what they "
            "bring may be garbage, until one outside of it meets the fault (docs/faults.md)",
            options_.me().value(), routine,
            has_one ? "inside a parallel region of OpenMP" : "in a thread that has passed no rollback point");
    }
    return false;
}

WayOut FaultPolicy::leave(const Choice& chosen, const char* routine) noexcept {
    const std::uint32_t fault_number = restarts_.load() + 1;
    const PendingWatch::Inside inside(watch_, routine);
    if (t_on_fault.left == fault_number || !may_leave(routine) || !options_.agree()) {
        return {};
    }
    SFT_ASSERT(chosen.action == FaultAction::leave || chosen.action == FaultAction::jump);
    t_on_fault.left = fault_number;
    if (chosen.action == FaultAction::leave) {
        SFT_ASSERT(chosen.handler != nullptr);
        return {.thrower = chosen.handler, .context = chosen.context};
    }
    return {.point = &t_on_fault.point};
}

void FaultPolicy::end_job(const char* routine) const {
    const std::vector<FailedPe> list = failed();
    const FailedPe first = list.empty() ? FailedPe{} : list.front();
    options_.end_job(
        format("PE %d failed (%s), and a fault is to end the job (SHMEM_FT_ON_FAULT=abort or shmem_ft_on_fault): PE %d "
               "met it in %s",
               first.pe.value(), describe(first.reason).c_str(), options_.me().value(), routine));
    SFT_UNREACHABLE();
}

WayOut FaultPolicy::meet(const char* routine) noexcept {
    const Choice chosen = choice();
    watch_.met(routine);
    switch (chosen.action) {
        case FaultAction::go_on: break;
        case FaultAction::call:
            SFT_ASSERT(chosen.handler != nullptr);
            if (options_.has_joined() && !t_on_fault.is_in_handler) {
                t_on_fault.is_in_handler = true;
                chosen.handler(routine, chosen.context);
                t_on_fault.is_in_handler = false;
            }
            break;
        case FaultAction::jump:
        case FaultAction::leave: return leave(chosen, routine);
        case FaultAction::abort:
            if (options_.has_joined() && options_.agree()) {
                end_job(routine);
            }
            break;
    }
    return {};
}

std::vector<FailedPe> FaultPolicy::failed() const {
    const Locked lock(mutex_);
    return failed_;
}

void FaultPolicy::set_failed(std::vector<FailedPe> failed) {
    const Locked lock(mutex_);
    failed_ = std::move(failed);
}

std::string FaultPolicy::pending_line(std::optional<PeId> dead) const {
    const std::string who = dead ? format("PE %d has failed", dead->value()) : "a PE has failed";
    return format("PE %d: %s and nobody has recovered for 10 s: %s%s", options_.me().value(), who.c_str(),
                  watch_.where().c_str(), options_.has_joined() ? "" : " (it is a substitute that has not joined yet)");
}

std::optional<PeId> first_dead_pe(const JobShape& shape, const JobState& state, std::span<const Death> dead) {
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        if (contains(dead, shape.holder(state, PeId(pe)))) {
            return PeId(pe);
        }
    }
    return std::nullopt;
}

bool is_fault_known(const JobShape& shape, const JobState& state, std::span<const Death> dead) {
    return (state.stage != Stage::running && state.stage != Stage::replicating) ||
           first_dead_pe(shape, state, dead).has_value();
}

}  // namespace sft
