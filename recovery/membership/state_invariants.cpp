#include "recovery/membership/state_invariants.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sft {
namespace {

// Between the first plan of a restart and its end.
bool is_repair(Stage stage) noexcept { return stage == Stage::planned || stage == Stage::restored; }

// Everybody is protected, nobody has failed.
bool is_whole(Stage stage) noexcept {
    return stage == Stage::running || stage == Stage::replicating || stage == Stage::updating ||
           stage == Stage::finished;
}

// The table at the top of job_state.hpp, and the values that leave the stage as it is.
bool may_follow(Stage before, Stage after) noexcept {
    if (after == Stage::ended) {
        return before != Stage::finished && before != Stage::ended;
    }
    switch (before) {
        case Stage::running:
            return after == Stage::running || after == Stage::replicating || after == Stage::faulted ||
                   after == Stage::planned || after == Stage::finished;
        case Stage::replicating:
            return after == Stage::replicating || after == Stage::updating || after == Stage::faulted;
        case Stage::updating: return after == Stage::running;
        case Stage::faulted: return after == Stage::faulted || after == Stage::planned;
        case Stage::planned: return after == Stage::planned || after == Stage::restored;
        case Stage::restored: return after == Stage::restored || after == Stage::planned || after == Stage::running;
        case Stage::finished:
        case Stage::ended: return false;
    }
    return false;
}

bool is_in_job(const JobShape& shape, PeId pe) noexcept { return pe.value() >= 0 && pe.value() < shape.n_pes; }

// What follows is asked by slow assertions only.

// PEs that need another holder.
[[maybe_unused]] std::size_t n_without_holder(const JobShape& shape, const JobState& state) {
    return shape.vacancies(state).size();
}

// Once each, and PEs of the job.
[[maybe_unused]] bool is_list_of_failed(const JobShape& shape, const std::vector<FailedPe>& failed) noexcept {
    return std::all_of(failed.begin(), failed.end(), [&](const FailedPe& item) {
        return is_in_job(shape, item.pe) && std::count_if(failed.begin(), failed.end(), [&](const FailedPe& other) {
                                                return other.pe == item.pe;
                                            }) == 1;
    });
}

// Whoever has taken over was a spare.
[[maybe_unused]] bool are_substitutes(const JobShape& shape, const std::vector<Replacement>& replacements) noexcept {
    return std::all_of(replacements.begin(), replacements.end(), [&](const Replacement& item) {
        return is_in_job(shape, item.pe) && item.process.value() >= shape.n_pes;
    });
}

// A PE that was replaced when everybody was protected last is not its own again.
[[maybe_unused]] bool has_all_of(const std::vector<Replacement>& replacements,
                                 const std::vector<Replacement>& protected_layout) noexcept {
    return std::all_of(protected_layout.begin(), protected_layout.end(), [&](const Replacement& then) {
        return std::any_of(replacements.begin(), replacements.end(),
                           [&](const Replacement& now) { return now.pe == then.pe; });
    });
}

// A PE keeps its holder unless there is a reason for another (recovery/rules.hpp).
[[maybe_unused]] bool do_living_holders_stay(const JobShape& shape, const JobState& before,
                                             const JobState& after) noexcept {
    return std::all_of(after.replacements.begin(), after.replacements.end(), [&](const Replacement& now) {
        const ProcId old = shape.holder(before, now.pe);
        return old == now.process || shape.reason_to_replace(after, now.pe, old).has_value();
    });
}

void assert_ends_and_repairs(const JobShape& shape, const JobState& state) noexcept {
    SFT_ASSERT((state.stage == Stage::ended) == (state.end_reason != EndReason::none));
    SFT_ASSERT(state.stage == Stage::ended || (state.ended_by == kNoProc && state.exit_status == 0));
    SFT_ASSERT(state.stage == Stage::ended || state.lost.empty());
    SFT_ASSERT(is_repair(state.stage) ? state.attempt > 0 : state.attempt == 0 || state.stage == Stage::ended);
    SFT_ASSERT(state.version != kNoVersion || (state.view == 0 && state.attempt == 0) || state.stage == Stage::ended);
    SFT_ASSERT(state.version != kNoVersion || state.stage != Stage::faulted);  // nothing to go back to
    SFT_ASSERT(state.stage != Stage::faulted || !state.failed.empty());
    SFT_ASSERT(!is_whole(state.stage) || state.failed.empty());
    SFT_ASSERT(is_repair(state.stage) || state.stage == Stage::ended || state.further.empty());
    SFT_ASSERT(state.stage != Stage::ended || state.end_reason != EndReason::copies_lost || !state.lost.empty());
    SFT_ASSERT(state.stage != Stage::ended || state.end_reason != EndReason::no_spare || !state.lost.empty());
    SFT_ASSERT_SLOW(is_list_of_failed(shape, state.failed));
    SFT_ASSERT_SLOW(std::all_of(state.further.begin(), state.further.end(),
                                [&](const FailedPe& item) { return is_in_job(shape, item.pe); }));
    SFT_ASSERT_SLOW(std::all_of(state.lost.begin(), state.lost.end(), [&](PeId pe) { return is_in_job(shape, pe); }));
    // A plan gives every PE a holder that lives, or the job ends.
    SFT_ASSERT_SLOW(state.stage == Stage::faulted || state.stage == Stage::ended ||
                    n_without_holder(shape, state) == 0);
    SFT_ASSERT_SLOW(state.stage != Stage::faulted || n_without_holder(shape, state) == state.failed.size());
}

void assert_copies(const JobShape& shape, const JobState& state) noexcept {
    const auto n_pes = static_cast<std::size_t>(shape.n_pes);
    SFT_ASSERT(state.unprotected.size() <= n_pes);
    SFT_ASSERT(shape.has_witness() || !is_whole(state.stage) || state.unprotected.empty());
    SFT_ASSERT(state.replacements.size() <= n_pes);
    SFT_ASSERT(state.protected_layout.size() <= state.replacements.size());
    SFT_ASSERT(is_repair(state.stage) || state.stage == Stage::ended ||
               state.protected_layout.size() == state.replacements.size());
    SFT_ASSERT(state.witness == kNoProc || (shape.has_witness() && state.witness.value() >= shape.n_pes));
    // A witness that has taken over keeps nothing for itself: "restored" names another one.
    SFT_ASSERT(state.witness == kNoProc || state.stage == Stage::planned || state.stage == Stage::ended ||
               shape.held_by(state, state.witness) == kNoPe);
    SFT_ASSERT_SLOW(is_repair(state.stage) || state.stage == Stage::ended ||
                    state.protected_layout == state.replacements);
    SFT_ASSERT_SLOW(has_all_of(state.replacements, state.protected_layout));
    SFT_ASSERT_SLOW(are_substitutes(shape, state.replacements));
    SFT_ASSERT_SLOW(are_substitutes(shape, state.protected_layout));
    SFT_ASSERT_SLOW(
        std::all_of(state.unprotected.begin(), state.unprotected.end(), [&](PeId pe) { return is_in_job(shape, pe); }));
}

}  // namespace

void assert_value(const JobShape& shape, const JobState& state) noexcept {
    SFT_ASSERT(shape.n_pes > 0 && shape.n_processes >= shape.n_pes);
    SFT_ASSERT(state.index > 0 || (state.stage == Stage::running && state.version == kNoVersion));
    SFT_ASSERT(state.index > 0 || (state.view == 0 && state.deaths.empty() && state.joined.empty()));
    SFT_ASSERT(state.joined.empty() || state.joined.front().process.value() >= shape.n_processes);
    assert_ends_and_repairs(shape, state);
    assert_copies(shape, state);
    SFT_ASSERT_SLOW(check_invariants(shape, state, nullptr).empty());
}

void assert_step(const JobShape& shape, const JobState& before, const JobState& after) noexcept {
    const bool commits = before.stage == Stage::updating && after.stage == Stage::running;
    const bool resumes = before.stage == Stage::restored && after.stage == Stage::running;
    SFT_ASSERT(after.index == before.index + 1);
    SFT_ASSERT(may_follow(before.stage, after.stage));
    SFT_ASSERT(after.version == (commits ? shape.version_after(before.version) : before.version));
    SFT_ASSERT(after.view == before.view + (resumes ? 1U : 0U));
    SFT_ASSERT(
        after.attempt == before.attempt || resumes ||
        (after.stage == Stage::planned || after.stage == Stage::ended ? after.attempt == before.attempt + 1 : false));
    SFT_ASSERT(after.rejections == before.rejections ||
               (after.rejections == before.rejections + 1 && after.stage == before.stage));
    SFT_ASSERT(after.deaths.size() >= before.deaths.size());
    SFT_ASSERT(after.joined.size() >= before.joined.size());
    SFT_ASSERT(after.replacements.size() >= before.replacements.size());
    SFT_ASSERT(after.replacements.size() == before.replacements.size() || after.stage == Stage::planned);
    SFT_ASSERT(resumes || after.unprotected.size() >= before.unprotected.size());
    SFT_ASSERT(resumes || after.further.size() >= before.further.size());
    // The list of a fault stays as it was declared until the restart is over.
    SFT_ASSERT(resumes || before.failed.empty() || after.failed.size() == before.failed.size());
    SFT_ASSERT(after.witness == before.witness || after.witness == kNoProc || after.stage == Stage::restored);
    SFT_ASSERT_SLOW(after.replacements == before.replacements || after.stage == Stage::planned);
    SFT_ASSERT_SLOW(resumes || before.failed.empty() || after.failed == before.failed);
    SFT_ASSERT_SLOW(do_living_holders_stay(shape, before, after));
    SFT_ASSERT_SLOW(check_invariants(shape, after, &before).empty());
}

}  // namespace sft
