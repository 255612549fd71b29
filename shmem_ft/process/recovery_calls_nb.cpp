// RecoveryCalls: a version that is made while the program goes on (docs/protocols.md, "In the background").
//
// All PEs come (a barrier), each saves what has changed of its memory, or has it held, and all have done that (a
// barrier) before anybody returns to the program: so nothing that is written later, by whomever, is in what was saved,
// and nothing that was written before is missing. On one node another thread begins the checkpoint in between, and its
// shadow is what is saved; elsewhere it begins behind that, with a copy of its own (StillState).
//
// Invariants
//  1. Nobody returns to the program before all PEs have saved what is not held, and all know what is, or all PEs that
//  live are inside of a checkpoint until it has failed. Who has failed in the first barrier saves nothing, and then
//  nobody gets past the last one.
//  2. While the version is made no other collective call of fault tolerance begins: settle() comes first in each.
//  3. What the program's thread owns (what it has been told, its initialisations, the list of the failed) follows in
//  settle(), not before.
#include <algorithm>
#include <utility>

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
    if (!o_.actions->may_take_still() || agree_on_still() == Still::none) {
        return make_version();
    }
    background_.begin_ns = now_ns();
    const std::optional<Version> version = prepare_version();
    if (!version) {
        return kOutOfMemory;
    }
    if (background_.still == Still::held) {
        refuse_without_signal();
    }
    if (!barrier(*o_.engine, world(*o_.engine))) {
        return conclude(o_.coordinator->carry_out({Coordinator::Call::Kind::checkpoint}), background_.begin_ns,
                        now_ns() - background_.begin_ns);
    }
    return background_.still == Still::copied ? go_on_when_copied(*version) : go_on_when_saved(*version);
}

// Before all have come, so that all know it behind that.
void RecoveryCalls::refuse_without_signal() noexcept {
    if (!o_.heap_guard->has_signal() && !o_.heap_guard->own().is_refused()) {
        o_.heap_guard->own().refuse();
        say("warning: SHMEM_FT_BACKGROUND=protect: the program of PE %d has a handler of its own for SIGSEGV now: "
            "shmem_ft_checkpoint_nb copies from here on",
            o_.me->value());
    }
}

int RecoveryCalls::go_on_when_copied(Version version) noexcept {
    o_.actions->take_still(version);
    const bool have_all = barrier(*o_.engine, world(*o_.engine));
    background_.stall_ns = now_ns() - background_.begin_ns;
    fault_point(FaultPoint::background_begin);
    if (have_all && background_.work.start([this] { make_in_background(); })) {
        return 0;
    }
    make_in_background();
    return settled();
}

void RecoveryCalls::make_in_background() noexcept {
    background_outcome_ = o_.coordinator->carry_out({Coordinator::Call::Kind::checkpoint});
    o_.protector->let_go();
    if (o_.heap_guard->is_open()) {
        o_.heap_guard->lower();  // all have saved their heaps, or the version has failed
    }
    has_saved_.set();  // if there was no time for that
    fault_point(FaultPoint::background_end);
}

// The shadow is made first, by the thread in the background. It waits in the middle of that where the heap is held:
// until this one has come back from the second barrier they would share a processor.
int RecoveryCalls::go_on_when_saved(Version version) noexcept {
    const bool may_hold = background_.still == Still::held && !o_.heap_guard->is_refused();
    const bool holds = o_.actions->begin_in_shadow(version, may_hold);
    const bool all_hold = !may_hold || barrier(*o_.engine, world(*o_.engine));
    has_saved_.clear();
    may_go_on_.clear();
    o_.protector->tell_when_saved([this, holds] {
        has_saved_.set();
        if (holds) {
            may_go_on_.wait();
        }
    });
    const bool is_under_way = background_.work.start([this] { make_in_background(); });
    const bool is_guarded = may_hold && all_hold && o_.heap_guard->raise();
    if (!is_under_way) {
        may_go_on_.set();
        make_in_background();
    }
    has_saved_.wait();
    const bool have_all = all_hold && barrier(*o_.engine, world(*o_.engine));
    may_go_on_.set();
    if (may_hold && have_all && !is_guarded) {
        o_.heap_guard->await_all();
    }
    background_.stall_ns = now_ns() - background_.begin_ns;
    fault_point(FaultPoint::background_begin);
    if (!is_under_way) {
        return settled();
    }
    return have_all ? 0 : settle();
}

// Agreed on by all PEs, once in each view: where one has no memory for it, nobody goes on in the background.
RecoveryCalls::Still RecoveryCalls::agree_on_still() noexcept {
    if (background_.is_agreed) {
        return background_.still;
    }
    o_.links->quiet();
    const Still own = prepare_still();
    const auto answer = ask_first<std::uint32_t>(
        *o_.engine, static_cast<std::uint32_t>(own), {.asked = FaultPoint::room_asked, .told = FaultPoint::room_told},
        [](std::span<const std::uint32_t> all) { return *std::min_element(all.begin(), all.end()); });
    if (!answer) {
        return Still::none;  // a fault, which the checkpoint is going to tell
    }
    background_.is_agreed = true;
    background_.still = static_cast<Still>(*answer);
    room_ = {};  // with what this takes
    return background_.still;
}

RecoveryCalls::Still RecoveryCalls::prepare_still() noexcept {
    if (const Result<> made = o_.protector->prepare_still(); !made) {
        say("warning: PE %d: checkpoints are made in shmem_ft_checkpoint_nb itself: %s", o_.me->value(),
            made.error().line.c_str());
        return Still::none;
    }
    const bool is_near = o_.coordinator->shape().is_one_node() && o_.protector->has_near_shadow();
    if (o_.config->background == BackgroundMode::copy) {
        return is_near ? Still::in_shadow : Still::copied;
    }
    if (!is_near) {
        if (!o_.coordinator->shape().is_one_node() && o_.me->get() == PeId(0) &&
            !std::exchange(has_told_of_nodes_, true)) {
            say("warning: SHMEM_FT_BACKGROUND=protect is for jobs on one node: shmem_ft_checkpoint_nb copies");
        }
        return Still::copied;
    }
    if (const Result<> done = prepare_to_hold(); !done) {
        say("warning: SHMEM_FT_BACKGROUND=protect: PE %d copies in shmem_ft_checkpoint_nb: %s", o_.me->value(),
            done.error().line.c_str());
        return Still::in_shadow;
    }
    return Still::held;
}

Result<> RecoveryCalls::prepare_to_hold() {
    const std::size_t offset = o_.memory->guard_words_offset();
    SFT_ASSERT(offset != 0);
    const Result<> opened = o_.heap_guard->is_open() ? Result<>()
                                                     : o_.heap_guard->open({.heap = o_.memory->live().heap,
                                                                            .words_offset = offset,
                                                                            .entries = o_.engine->peers.entries,
                                                                            .n_pes = o_.coordinator->shape().n_pes,
                                                                            .me = o_.me->get()});
    return opened ? o_.protector->prepare_to_hold(o_.heap_guard->own()) : opened;
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
