#include "recovery/memory_actions.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "recovery/detection/failure_service.hpp"
#include "recovery/explanations.hpp"
#include "recovery/membership/scheme.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

constexpr std::int64_t kUntilHeardNs = 60'000'000'000;  // of one that is gone for certain

}  // namespace

void MemoryActions::open(Options options) {
    SFT_ASSERT(o_.coordinator == nullptr && options.coordinator != nullptr);
    o_ = std::move(options);
}

// ---- a checkpoint ----

void MemoryActions::replicate(Version version) {
    *o_.saved_init_calls = o_.init_calls->count();
    o_.before_replicating();
    if (const Result<> replicated = o_.protector->replicate(version); !replicated) {
        // If it is dead, the shadow is gone in any case; if it has refused what it was sent, the job ends here.
        const JobState state = o_.coordinator->state();
        const ProcId keeper = sole_holder(targets_of(o_.coordinator->shape(), state, me()));
        static_cast<void>(must_be_gone(keeper, replicated.error()));
    }
}

void MemoryActions::update_local_copy(Version version) {
    o_.protector->update_local_copy(version);
    o_.init_calls->commit(static_cast<std::uint32_t>(*o_.saved_init_calls));
    o_.committed(version);
}

// ---- a restart ----

CheckpointActions::Outcome MemoryActions::become_restored(const JobState& state) {
    const bool has_joined = o_.me->has_joined();
    // The keeper may be this process itself: a shadow that it kept while it slept.
    const ProcId keeper = has_joined ? kNoProc : sole_holder(sources_of(o_.coordinator->shape(), state, me()));
    if (!has_joined && keeper == kNoProc) {
        // It died before this process had the copy, and nobody else has one. The rules cannot know how far this process
        // had come, so it is the one that has to say so.
        why_lost_ = lost_copy(state, me());
        return Outcome::corrupt;
    }
    const Result<> restored = has_joined ? o_.protector->roll_back(state.version) : take_over(keeper, state.version);
    if (restored) {
        return Outcome::ok;
    }
    if (restored.error().failure != Failure::failed) {
        return must_be_gone(keeper, restored.error());
    }
    why_lost_ = restored.error().line;
    return Outcome::corrupt;
}

Result<> MemoryActions::take_over(ProcId keeper, Version version) {
    const Protector::KeeperLocation location = location_of(keeper);
    if (location.node_file < 0) {
        return o_.protector->fetch(location, me(), version);
    }
    return o_.take_heap_over(me()).then([&] { return o_.protector->take_over(location, me(), version); });
}

CheckpointActions::Outcome MemoryActions::restore(const JobState& state) {
    fault_point(FaultPoint::restore_begin);
    retire_dead_peers();
    const Outcome result = become_restored(state);
    if (result == Outcome::ok) {
        o_.restored();
    }
    o_.after_restoring();
    fault_point(FaultPoint::restore_end);
    if (result == Outcome::ok && !o_.me->has_joined()) {
        if (!o_.protector->store().has_local_copy_of(state.version)) {
            o_.protector->update_local_copy(state.version);
        }
        o_.init_calls->commit_fetched();
    }
    return result;
}

CheckpointActions::Outcome MemoryActions::protect(const JobState& state) {
    // The new holders are known now: show their memory where that of the dead ones was.
    const JobShape& shape = o_.coordinator->shape();
    fault_point(FaultPoint::remap);
    if (const auto unreached = show_holders(state)) {
        return must_be_gone(unreached->first, unreached->second);
    }
    fault_point(FaultPoint::protect_begin);
    retire_dead_peers();
    const ProcId keeper = sole_holder(targets_of(shape, state, me()));
    if (keeper == kNoProc) {
        o_.protector->protect_by_nobody();
    } else {
        const Protector::Shadow shadow{
            .keeper = location_of(keeper), .pe = me(), .is_there = missing_shares(shape, state, me()).empty()};
        if (const Result<> is_protected = o_.protector->protect(shadow, state.version); !is_protected) {
            return must_be_gone(keeper, is_protected.error());
        }
    }
    o_.reset_channels(state);
    recovered_from_ = state;
    fault_point(FaultPoint::protect_end);
    return Outcome::ok;
}

// ---- the start of a PE, and of a substitute ----

Result<> MemoryActions::show_first_holders() {
    const JobShape& shape = o_.coordinator->shape();
    const JobState state = o_.coordinator->state();
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const Result<> shown = o_.peers->show(PeId(pe), shape.holder(state, PeId(pe)));
        if (!shown && shown.error().failure != Failure::gone) {
            return fails(
                format("PE %d cannot map the memory of PE %d: %s", me().value(), pe, shown.error().line.c_str()));
        }
    }
    return {};
}

// If it is gone there is no shadow, and its death will be known before anything is replicated.
Result<> MemoryActions::use_first_keeper() {
    const ProcId keeper = sole_holder(sources_of(o_.coordinator->shape(), o_.coordinator->state(), me()));
    if (keeper == kNoProc) {
        return {};
    }
    Result<> used = o_.protector->use_keeper(location_of(keeper), me());
    return !used && used.error().failure == Failure::gone ? Result<>() : used;
}

bool MemoryActions::fetch_front(std::size_t heap_bytes) {
    for (;;) {
        const JobState state = o_.coordinator->state();
        if (state.stage == Stage::ended) {
            return false;
        }
        const ProcId keeper = sole_holder(sources_of(o_.coordinator->shape(), state, me()));
        if (keeper == kNoProc) {
            o_.end_job(lost_copy(state, me()) + ": the data is lost");
        }
        const Result<> fetched = o_.protector->fetch_front(location_of(keeper), me(), state.version, heap_bytes);
        if (fetched) {
            o_.init_calls->fetch(static_cast<std::uint32_t>(*o_.saved_init_calls));
            return true;
        }
        if (fetched.error().failure == Failure::failed) {
            o_.end_job(fetched.error().line + ": the data is lost");  // nobody else would notice
        }
        static_cast<void>(must_be_gone(keeper, fetched.error()));
        // The keeper has died, and its death will be decided about.
        o_.coordinator->wait_until([&](const JobState& now) { return now.index != state.index; });
    }
}

// ---- others ----

// What could not be opened at `process`. If that has died, its death will be decided about. If it has not, nobody would
// decide anything, so this process has to say what is wrong.
CheckpointActions::Outcome MemoryActions::must_be_gone(ProcId process, const Error& error) noexcept {
    const bool is_own_lack = error.failure == Failure::cannot_be_opened && is_lack(error.number);
    const std::int64_t patience_ns = error.failure == Failure::gone ? kUntilHeardNs : FailureService::kUntilGoneNs;
    if (is_own_lack || !o_.coordinator->await_death(process, now_ns() + patience_ns)) {
        o_.end_job(format("PE %d cannot reach the memory of process %d%s, which lives: %s", me().value(),
                          process.value(), o_.is_remote(process) ? " on another node" : "", error.line.c_str()));
    }
    return Outcome::source_gone;
}

// The process that could not be reached, and why; the first one in the order of the PEs.
std::optional<std::pair<ProcId, Error>> MemoryActions::show_holders(const JobState& state) {
    const JobShape& shape = o_.coordinator->shape();
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const ProcId holder = shape.holder(state, PeId(pe));
        if (Result<> shown = o_.peers->show(PeId(pe), holder); !shown) {
            return std::pair{holder, shown.error()};
        }
    }
    return std::nullopt;
}

void MemoryActions::retire_dead_peers() noexcept {
    if (o_.network == nullptr) {
        return;
    }
    for (const Death& death : o_.coordinator->known_deaths()) {
        if (o_.is_remote(death.process)) {
            o_.network->retire_peer(death.process);
        }
    }
}

Protector::KeeperLocation MemoryActions::location_of(ProcId keeper) const {
    const ProcessSlot& slot = o_.control->slot(keeper);
    return {.pid = slot.pid,
            .start_time = slot.start_time,
            .store_fd = slot.store_fd,
            .node_file = o_.protector->store().node_file(),
            .local_copies = o_.protector->store().local_copies(),
            .process = keeper,
            .network = o_.is_remote(keeper) ? o_.network : nullptr};
}

}  // namespace sft
