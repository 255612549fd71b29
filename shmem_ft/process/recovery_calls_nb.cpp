// RecoveryCalls: a version that is made while the program goes on.
//
// All PEs come (a barrier), each copies what has changed of its memory (StillState), and all have copied (a barrier)
// before anybody returns to the program: so nothing that is written later, by whomever, is in a copy, and nothing that
// was written before is missing. From there on it is a checkpoint like any other, which another thread carries out, of
// what was copied.
//
// Invariants
//  1. Nobody returns to the program before all PEs have copied, or all PEs that live are inside of a checkpoint until
//  it has failed. Where a barrier is left because of a death, the checkpoint follows in the call itself: who has failed
//  in the first barrier copies nothing, and then nobody gets past the second.
//  2. While the version is made no other collective call of fault tolerance begins: settle() comes first in each.
//  3. What the program's thread owns (what it has been told, its initialisations, the list of the failed) follows in
//  settle(), not before.
#include <algorithm>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/ask_first.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/process/recovery_calls.hpp"

namespace sft {

int RecoveryCalls::checkpoint_nb() noexcept {
    job::watch_exit_at_first_call();
    if (is_leaving_for_good() || !o_.me->has_joined()) {
        return kFailure;
    }
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(o_.fault_policy->watch(), "shmem_ft_checkpoint_nb");
    if (settle() == kFailure) {
        return kFailure;
    }
    if (!is_due()) {
        return 0;
    }
    if (!o_.actions->may_take_still() || !has_still()) {
        return make_version();
    }
    background_.begin_ns = now_ns();
    const std::optional<Version> version = prepare_version();
    if (!version) {
        return kOutOfMemory;
    }
    if (!barrier(*o_.engine, world(*o_.engine))) {
        return conclude(o_.coordinator->carry_out({Coordinator::Call::Kind::checkpoint}), background_.begin_ns,
                        now_ns() - background_.begin_ns);
    }
    o_.actions->take_still(*version);
    const bool have_all = barrier(*o_.engine, world(*o_.engine));
    background_.stall_ns = now_ns() - background_.begin_ns;
    fault_point(FaultPoint::background_begin);
    const auto make = [this] {
        background_outcome_ = o_.coordinator->carry_out({Coordinator::Call::Kind::checkpoint});
        fault_point(FaultPoint::background_end);
    };
    if (have_all && background_.work.start(make)) {
        return 0;
    }
    make();
    return settled();
}

// Agreed on by all PEs, once in each view: where one has no memory for it, nobody goes on in the background.
bool RecoveryCalls::has_still() noexcept {
    if (background_.is_agreed) {
        return background_.is_possible;
    }
    o_.links->quiet();
    const Result<> made = o_.protector->prepare_still();
    if (!made) {
        say("warning: PE %d: checkpoints are made in shmem_ft_checkpoint_nb itself: %s", o_.me->value(),
            made.error().line.c_str());
    }
    const std::uint32_t own = made ? 1 : 0;
    const auto answer =
        ask_first<std::uint32_t>(*o_.engine, own, {.asked = FaultPoint::room_asked, .told = FaultPoint::room_told},
                                 [](std::span<const std::uint32_t> all) {
                                     return std::find(all.begin(), all.end(), 0U) == all.end() ? 1U : 0U;
                                 });
    if (!answer) {
        return false;  // a fault, which the checkpoint is going to tell
    }
    background_.is_agreed = true;
    background_.is_possible = *answer != 0;
    room_ = {};  // with what this takes
    return background_.is_possible;
}

int RecoveryCalls::settle() noexcept {
    if (!background_.work.is_under_way()) {
        return 0;
    }
    background_.work.wait();
    return settled();
}

int RecoveryCalls::settled() noexcept {
    o_.actions->end_still();
    return conclude(background_outcome_, background_.begin_ns, background_.stall_ns);
}

int RecoveryCalls::checkpoint_wait() noexcept {
    if (is_leaving_for_good() || !o_.me->has_joined()) {
        return kFailure;
    }
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(o_.fault_policy->watch(), "shmem_ft_checkpoint_wait");
    const int result = settle();
    return result == 0 && has_list() ? kFailure : result;
}

int RecoveryCalls::checkpoint_test() noexcept {
    if (is_leaving_for_good() || !o_.me->has_joined()) {
        return kFailure;
    }
    {
        const Locked calls(calls_mutex_);
        if (background_.work.is_under_way() && !background_.work.is_done()) {
            return kPending;
        }
    }
    return checkpoint_wait();
}

}  // namespace sft
