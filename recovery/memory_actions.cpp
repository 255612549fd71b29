#include "recovery/memory_actions.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "recovery/detection/failure_service.hpp"
#include "recovery/explanations.hpp"
#include "recovery/membership/memory_holder.hpp"
#include "recovery/membership/scheme.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

constexpr std::int64_t kUntilHeardNs = 60'000'000'000;  // of one that is gone for certain
constexpr int kUntilEnded_ms = 10'000;
constexpr FailureReason kMemoryError{FailureKind::signal, SIGBUS};

}  // namespace

void MemoryActions::open(Options options) {
    SFT_ASSERT(o_.coordinator == nullptr && options.coordinator != nullptr);
    o_ = std::move(options);
}

// ---- a checkpoint ----

void MemoryActions::save_library() noexcept {
    *o_.saved_init_calls = o_.init_calls->count();
    o_.before_replicating();
}

// The first version ends the start-up; and what a group has goes back to the heap of whoever dies in the middle.
bool MemoryActions::may_take_still() const noexcept {
    return o_.coordinator->state().version != kNoVersion && !is_in_group() && o_.protector->keeps_copies();
}

void MemoryActions::save_library_of_still() noexcept {
    SFT_ASSERT(may_take_still());
    save_library();
    still_init_calls_ = o_.init_calls->count();
}

void MemoryActions::take_still(Version version) {
    save_library_of_still();
    o_.protector->take_still(version);
}

bool MemoryActions::begin_in_shadow(Version version, bool may_hold) {
    save_library_of_still();
    return o_.protector->begin_in_shadow(version, may_hold);
}

void MemoryActions::end_still() {
    o_.protector->end_still();
    if (const Version version = std::exchange(committed_still_, kNoVersion); version != kNoVersion) {
        o_.init_calls->commit(still_init_calls_);
        o_.committed(version);
    }
}

void MemoryActions::replicate(Version version) {
    if (!o_.protector->uses_still()) {
        save_library();
    }
    if (std::exchange(has_moved_, false)) {
        free_what_is_left();
    }
    if (is_in_group()) {
        o_.protector->begin_round(round_of(o_.coordinator->state(), 0));
    }
    if (const Result<> replicated = o_.protector->replicate(version); !replicated) {
        if (o_.protector->failed_keeper() == kNoProc) {
            o_.end_job(format("PE %d: parity on its node cannot be brought up to date", me().value()));
        }
        // If it is dead, the shadow is gone in any case; if it has refused what it was sent, the job ends here.
        static_cast<void>(must_be_gone(o_.protector->failed_keeper(), replicated.error()));
        if (!o_.coordinator->shape().memory->dies_with_process(Memory::kept_shadows)) {
            // But its node may have it, torn: nobody may take the version for stored there.
            o_.coordinator->wait_until([](const JobState& now) { return now.stage != Stage::replicating; });
        }
    }
}

void MemoryActions::update_local_copy(Version version) {
    o_.protector->update_local_copy(version);
    if (const std::string complaint = o_.protector->store().complaint(); !complaint.empty()) {
        o_.end_job(complaint);
    }
    if (o_.protector->uses_still()) {
        committed_still_ = version;  // the rest of the library belongs to the program's thread
        return;
    }
    o_.init_calls->commit(static_cast<std::uint32_t>(*o_.saved_init_calls));
    o_.committed(version);
}

// By the lowest holder of each node, in a checkpoint: everybody is protected where they are now, and no substitute can
// begin to take anything over before this process asks for a restart, which it does in another call.
void MemoryActions::free_what_is_left() {
    const JobShape& shape = o_.coordinator->shape();
    if (shape.is_one_node() || shape.memory->dies_with_process(Memory::kept_shadows)) {
        return;
    }
    const JobState state = o_.coordinator->state();
    const NodeId here = shape.node_of(state, shape.holder(state, me()));
    std::vector<bool> is_here;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const ProcId holder = shape.holder(state, PeId(pe));
        is_here.push_back(shape.node_of(state, holder) == here);
        if (is_here.back() && holder < shape.holder(state, me())) {
            return;  // that one does it
        }
    }
    const std::unique_ptr<const Shares> shares = shape.scheme->place(shape, state, state.replacements);
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        if (!is_here[static_cast<std::size_t>(pe)]) {
            o_.free_memory_of(PeId(pe));
            if (is_in_group()) {
                o_.free_shadow_of(PeId(pe));
            }
        }
        const std::vector<Share> of_pe = shares->of(PeId(pe));
        if (is_in_group()) {
            continue;  // what a PE keeps for others goes with its memory
        }
        if (std::none_of(of_pe.begin(), of_pe.end(),
                         [&](const Share& share) { return shape.node_of(state, share.holder) == here; })) {
            o_.free_shadow_of(PeId(pe));
        }
    }
}

// ---- a restart ----

CheckpointActions::Outcome MemoryActions::become_restored(const JobState& state) {
    if (is_in_group()) {
        return restore_from_group(state);
    }
    if (!o_.me->has_joined()) {
        return take_over_from(sources_of(o_.coordinator->shape(), state, me()), state);
    }
    if (const Result<> restored = roll_back(state); !restored) {
        SFT_ASSERT(restored.error().failure == Failure::failed);
        why_lost_ = restored.error().line;
        return is_any_source_gone(state) ? Outcome::source_gone : Outcome::corrupt;
    }
    return Outcome::ok;
}

// On another node, and the value does not say so yet: by the next one somebody else there may have its share.
bool MemoryActions::is_any_source_gone(const JobState& state) const {
    const std::vector<Share> sources = sources_of(o_.coordinator->shape(), state, me());
    return std::any_of(sources.begin(), sources.end(), [&](const Share& source) {
        return o_.is_remote(source.holder) && o_.coordinator->is_dead(source.holder);
    });
}

// What a dead keeper has left on its node others there can give, if it is needed.
Result<> MemoryActions::roll_back(const JobState& state) {
    Result<> restored = o_.protector->roll_back(state.version);
    if (restored) {
        return restored;
    }
    for (const Share& source : sources_of(o_.coordinator->shape(), state, me())) {
        const std::vector<ProcId>& keepers = o_.protector->keepers();
        const bool is_in_use = std::find(keepers.begin(), keepers.end(), source.holder) != keepers.end();
        if (!restored && !is_in_use && o_.protector->use_keeper(location_of(source.holder), me())) {
            restored = o_.protector->roll_back(state.version);
        }
    }
    return restored;
}

// A keeper may be this process itself: a shadow that it kept while it slept.
CheckpointActions::Outcome MemoryActions::take_over_from(const std::vector<Share>& sources, const JobState& state) {
    // If there is none: it died before this process had the copy, and nobody else has one. The rules cannot know how
    // far this process had come, so it is the one that has to say so.
    why_lost_ = lost_copy(o_.coordinator->shape(), state, me());
    for (const Share& source : sources) {
        const Result<> restored = take_over(source.holder, state.version);
        if (restored) {
            return Outcome::ok;
        }
        if (restored.error().failure != Failure::failed) {
            return must_be_gone(source.holder, restored.error());
        }
        why_lost_ = restored.error().line;  // and the next one may have it
    }
    return Outcome::corrupt;
}

Result<> MemoryActions::take_over(ProcId keeper, Version version) {
    const Protector::KeeperLocation location = location_of(keeper);
    if (location.node_file < 0) {  // each process has its own memory
        return o_.protector->fetch(location, me(), version);
    }
    return o_.take_heap_over(me()).then([&] { return o_.protector->take_over(location, me(), version); });
}

// A node that was taken for lost may have been asleep, and this process a spare that has come to it since. What the
// dead have left there is its node's: whoever of them wakes up late would go on writing.
void MemoryActions::end_the_dead_here(const JobState& state) {
    if (o_.coordinator->shape().memory->dies_with_process(Memory::kept_shadows)) {
        return;
    }
    for (const Death& death : state.deaths) {
        const ProcessSlot& slot = o_.control->slot(death.process);
        if (!death.is_certain && !o_.is_remote(death.process) &&
            !end_process(slot.pid, slot.start_time, kUntilEnded_ms)) {
            o_.end_job(
                format("process %d (pid %d) was declared dead and cannot be ended on this node, whose memory it has "
                       "open",
                       death.process.value(), slot.pid));
        }
    }
}

// An error of memory that could not be corrected ends whoever touches the page, and would end one substitute after the
// other. What cannot be read is bad from now on like any other block, and mended from the other copy.
void MemoryActions::drop_unreadable(const JobState& state) {
    const auto is_me = [this](const FailedPe& failed) { return failed.pe == me() && failed.reason == kMemoryError; };
    const auto is_here = [this](const Death& death) {
        return death.reason == kMemoryError && !o_.is_remote(death.process);
    };
    if (o_.coordinator->shape().memory->dies_with_process(Memory::kept_shadows) || has_dropped_ ||
        std::none_of(state.deaths.begin(), state.deaths.end(), is_here) ||
        (std::none_of(state.failed.begin(), state.failed.end(), is_me) &&
         std::none_of(state.further.begin(), state.further.end(), is_me))) {
        return;
    }
    const std::size_t n_pages = o_.drop_unreadable_of(me(), state.version);
    has_dropped_ = n_pages != 0;
    if (has_dropped_) {
        say("warning: PE %d: %zu page%s of its memory cannot be read any more (an error of the machine's memory): what "
            "was there is taken from the other copy",
            me().value(), n_pages, n_pages == 1 ? "" : "s");
    }
}

CheckpointActions::Outcome MemoryActions::restore(const JobState& state) {
    fault_point(FaultPoint::restore_begin);
    retire_dead_peers();
    end_the_dead_here(state);
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
    if (is_in_group()) {
        if (const Outcome outcome = protect_in_group(state); outcome != Outcome::ok) {
            return outcome;
        }
        return is_protected(state);
    }
    const std::vector<Share> missing = missing_shares(shape, state, me());
    std::vector<Protector::Shadow> shadows;
    for (const Share& share : targets_of(shape, state, me())) {
        const bool is_there = std::find(missing.begin(), missing.end(), share) == missing.end();
        shadows.push_back({.keeper = location_of(share.holder), .is_there = is_there});
    }
    if (shadows.empty()) {
        o_.protector->protect_by_nobody();
    } else if (const Result<> done = o_.protector->protect(me(), shadows, state.version); !done) {
        return must_be_gone(o_.protector->failed_keeper(), done.error());
    }
    return is_protected(state);
}

CheckpointActions::Outcome MemoryActions::is_protected(const JobState& state) {
    if (std::exchange(has_dropped_, false) && !o_.protector->store().mend(o_.protector->live())) {
        say("warning: PE %d: %s", me().value(), o_.protector->store().explanation().c_str());
    }
    o_.reset_channels(state);
    recovered_from_ = state;
    has_moved_ = true;
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

// If one is gone it has no shadow, and its death will be known before anything is replicated.
Result<> MemoryActions::use_first_keepers() {
    bool is_any_used = false;
    if (is_in_group()) {
        return use_group(targets_of(o_.coordinator->shape(), o_.coordinator->state(), me()), kNoProc);
    }
    for (const Share& share : sources_of(o_.coordinator->shape(), o_.coordinator->state(), me())) {
        const Protector::KeeperLocation keeper = location_of(share.holder);
        const Result<> used =
            is_any_used ? o_.protector->add_keeper(keeper, me()) : o_.protector->use_keeper(keeper, me());
        if (!used && used.error().failure != Failure::gone) {
            return used;
        }
        is_any_used |= used.has_value();
    }
    return {};
}

Result<> MemoryActions::begin_with_loaded() {
    SFT_ASSERT(o_.coordinator->state().version == kNoVersion);
    o_.restored();
    o_.after_restoring();
    o_.init_calls->commit_fetched();
    if (Result<> shown = show_first_holders().then([this] { return use_first_keepers(); }); !shown) {
        return shown;
    }
    retire_dead_peers();
    o_.reset_channels(o_.coordinator->state());
    return {};
}

bool MemoryActions::fetch_front(std::size_t heap_bytes) {
    for (;;) {
        const JobState state = o_.coordinator->state();
        if (state.stage == Stage::ended) {
            return false;
        }
        drop_unreadable(state);
        const std::vector<Share> sources = sources_of(o_.coordinator->shape(), state, me());
        if (sources.empty() && !is_in_group()) {
            o_.end_job(lost_copy(o_.coordinator->shape(), state, me()) + ": the data is lost");
        }
        const Result<> fetched = fetch_front_from(sources, state, heap_bytes);
        if (fetched) {
            o_.init_calls->fetch(static_cast<std::uint32_t>(*o_.saved_init_calls));
            return true;
        }
        if (fetched.error().failure == Failure::failed) {
            o_.end_job(fetched.error().line + ": the data is lost");  // nobody else would notice
        }
        // A keeper has died, and its death will be decided about.
        o_.coordinator->wait_until([&](const JobState& now) { return now.index != state.index; });
    }
}

// From the first one that has it. Any other failure than `failed`: a keeper is dead.
Result<> MemoryActions::fetch_front_from(const std::vector<Share>& sources, const JobState& state,
                                         std::size_t heap_bytes) {
    Result<> fetched;
    if (is_in_group()) {
        return fetch_front_from_group(sources, state, heap_bytes);
    }
    for (const Share& source : sources) {
        fetched = o_.protector->fetch_front(location_of(source.holder), me(), state.version, heap_bytes);
        if (fetched) {
            break;
        }
        if (fetched.error().failure != Failure::failed) {
            static_cast<void>(must_be_gone(source.holder, fetched.error()));
            break;
        }
    }
    return fetched;
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
