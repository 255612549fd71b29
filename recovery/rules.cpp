#include "recovery/rules.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {
namespace {

constexpr std::uint64_t kHashSeed = 0xcbf29ce484222325U;
constexpr std::uint64_t kHashPrime = 0x100000001b3U;

std::uint64_t hash_on(std::uint64_t hash, std::int32_t pe) noexcept {
    return (hash ^ static_cast<std::uint32_t>(pe)) * kHashPrime;
}

void insert_sorted(std::vector<PeId>& list, PeId pe) {
    const auto at = std::lower_bound(list.begin(), list.end(), pe);
    if (at == list.end() || *at != pe) {
        list.insert(at, pe);
    }
}

void set_holder(std::vector<Replacement>& replacements, const Replacement& now) {
    const auto at = std::lower_bound(replacements.begin(), replacements.end(), now.pe,
                                     [](const Replacement& item, PeId wanted) { return item.pe < wanted; });
    if (at != replacements.end() && at->pe == now.pe) {
        *at = now;
    } else {
        replacements.insert(at, now);
    }
}

// Those that take over come behind everybody who has taken part before, in the order of their numbers. Whoever has a
// higher number than all of these keeps that as its turn.
void give_turns(std::span<const Replacement> before, std::vector<Replacement>& takeovers) {
    std::int32_t last = last_turn_in(before);
    std::sort(takeovers.begin(), takeovers.end(),
              [](const Replacement& a, const Replacement& b) { return a.process < b.process; });
    for (Replacement& takeover : takeovers) {
        last = is_mutated(Mutation::lead_by_number) ? takeover.process.value()
                                                    : std::max(last + 1, takeover.process.value());
        takeover.turn = last;
    }
}

bool is_among(const std::vector<Death>& deaths, ProcId process) {
    return std::any_of(deaths.begin(), deaths.end(), [&](const Death& death) { return death.process == process; });
}

// Each once, also if its substitute has failed as well.
std::vector<PeId> pes_of(const std::vector<FailedPe>& failed) {
    std::vector<PeId> pes;
    for (const FailedPe& item : failed) {
        if (std::find(pes.begin(), pes.end(), item.pe) == pes.end()) {
            pes.push_back(item.pe);
        }
    }
    return pes;
}

JobState next_of(const JobState& state) {
    JobState next = state;
    ++next.index;
    return next;
}

}  // namespace

JobState JobRules::first_state(const JobShape& shape) {
    JobState first;
    SFT_ASSERT(shape.n_pes > 0 && shape.n_processes >= shape.n_pes);
    first.witness = shape.scheme->witness_for(shape, first);
    return first;
}

std::uint64_t JobRules::hash_of(std::span<const std::int32_t> pes) noexcept {
    std::uint64_t hash = kHashSeed ^ pes.size();
    for (const std::int32_t pe : pes) {
        hash = hash_on(hash, pe);
    }
    return hash;
}

std::uint64_t JobRules::hash_of(std::span<const FailedPe> failed) {
    std::uint64_t hash = kHashSeed ^ failed.size();
    for (const FailedPe& item : failed) {
        hash = hash_on(hash, item.pe.value());
    }
    return hash;
}

// Enters the deaths that `state` does not have, and gives the PEs that have failed by them.
std::vector<FailedPe> JobRules::note_deaths(JobState& state, std::span<const Death> dead) const {
    std::vector<FailedPe> failed;
    const std::size_t n_before = state.deaths.size();
    for (const Death& death : dead) {
        if (is_among(state.deaths, death.process)) {
            continue;
        }
        SFT_ASSERT(death.process != kNoProc);
        state.deaths.push_back(death);
        if (const PeId pe = shape_.held_by(state, death.process); pe != kNoPe) {
            failed.push_back({pe, death.reason});
        }
    }
    if (state.deaths.size() != n_before && !is_mutated(Mutation::forget_unprotected)) {
        note_unprotected(state);
    }
    if (is_among(state.deaths, state.witness)) {
        SFT_ASSERT(shape_.has_witness());
        state.witness = kNoProc;
    }
    SFT_ASSERT_SLOW(std::is_sorted(state.unprotected.begin(), state.unprotected.end()));
    SFT_ASSERT(state.unprotected.size() <= static_cast<std::size_t>(shape_.n_pes));
    return failed;
}

// A PE is unprotected when too little is left of the shares that it had when everybody was protected last. Who was only
// to get one takes nothing away. All deaths are looked at, since one may take along what others have left on their
// node.
void JobRules::note_unprotected(JobState& state) const {
    const std::unique_ptr<const Shares> shares = shape_.scheme->place(shape_, state, state.protected_layout);
    const LeftMemory left(shape_, state);
    for (const Death& death : state.deaths) {
        for (const PeId pe : shares->kept_by(death.process)) {
            if (!shares->can_rebuild(pe, left)) {
                insert_sorted(state.unprotected, pe);
            }
        }
    }
}

JobState JobRules::with_deaths(const JobState& state, std::span<const Death> dead) const {
    JobState now = state;
    note_deaths(now, dead);
    return now;
}

// Whether the next holder can have the PE's state from somebody: of one that has died from its shares only.
bool JobRules::has_source(const JobState& state, const Vacancy& vacancy) const {
    return vacancy.why != ReplacementReason::death || can_be_rebuilt(shape_, state, vacancy.pe);
}

JobState JobRules::ended(const JobState& state, EndReason reason, std::vector<PeId> lost) const {
    SFT_ASSERT(reason != EndReason::none && !is_over(state));
    JobState next = state;
    next.stage = Stage::ended;
    next.end_reason = reason;
    next.exit_status = kExitError;
    next.lost = std::move(lost);
    SFT_ASSERT(next.lost.size() <= static_cast<std::size_t>(shape_.n_pes));
    return next;
}

JobState JobRules::faulted(const JobState& state, std::span<const Death> dead) const {
    JobState next = next_of(state);
    SFT_ASSERT(state.stage == Stage::running || state.stage == Stage::replicating);
    SFT_ASSERT(state.failed.empty());  // a list that was declared never changes before the restart is over
    next.failed = note_deaths(next, dead);
    SFT_ASSERT(!next.failed.empty());
    if (is_mutated(Mutation::failed_omits_one) && next.failed.size() > 1) {
        next.failed.pop_back();
    }
    next.stage = Stage::faulted;
    if (next.version == kNoVersion) {
        return ended(next, EndReason::nothing_committed, pes_of(next.failed));
    }
    return next;
}

// A restart begins, or begins again with more deaths. Nothing: a spare has to be awaited.
std::optional<JobState> JobRules::planned(const JobState& state, std::span<const Death> dead,
                                          UnreplacedPolicy policy) const {
    SFT_ASSERT(!is_over(state) && state.stage != Stage::replicating && state.stage != Stage::updating);
    JobState next = next_of(state);
    const std::vector<FailedPe> failed = note_deaths(next, dead);
    if (!is_mutated(Mutation::further_not_filled)) {
        next.further.insert(next.further.end(), failed.begin(), failed.end());
    }
    next.stage = Stage::planned;
    ++next.attempt;
    if (next.version == kNoVersion) {
        return ended(next, EndReason::nothing_committed, {});
    }
    std::vector<ProcId> spares = shape_.scheme->substitutes(shape_, next, dead);
    std::vector<PeId> without_copy;
    std::vector<PeId> without_spare;
    std::vector<PeId> moved;
    for (const Vacancy& vacancy : shape_.vacancies(next)) {
        if (!has_source(next, vacancy)) {
            without_copy.push_back(vacancy.pe);
        } else if (moved.size() == spares.size()) {
            without_spare.push_back(vacancy.pe);
        } else {
            moved.push_back(vacancy.pe);
        }
    }
    if (!without_copy.empty()) {
        return ended(next, EndReason::copies_lost, std::move(without_copy));
    }
    if (!without_spare.empty()) {
        if (policy == UnreplacedPolicy::wait) {
            return std::nullopt;
        }
        return ended(next, EndReason::no_spare, std::move(without_spare));
    }
    if (is_mutated(Mutation::restore_wrong_version) && next.version.value() > 1) {
        next.version = Version(next.version.value() - 1);
    }
    SFT_ASSERT(moved.size() <= spares.size());
    std::vector<Replacement> takeovers = shared_out(state, moved, spares);
    give_turns(state.replacements, takeovers);
    for (const Replacement& takeover : takeovers) {
        // A spare that lives and holds nothing; the PE has a source (invariant 2).
        SFT_ASSERT(!is_among(next.deaths, takeover.process));
        SFT_ASSERT(shape_.held_by(next, takeover.process) == kNoPe || is_mutated(Mutation::same_spare_twice));
        SFT_ASSERT(takeover.process.value() >= shape_.n_pes);
        SFT_ASSERT(shape_.reason_to_replace(next, takeover.pe, shape_.holder(next, takeover.pe)).has_value());
        set_holder(next.replacements, takeover);
        std::erase(spares, takeover.process);
    }
    SFT_ASSERT(next.replacements.size() <= static_cast<std::size_t>(shape_.n_pes));
    SFT_ASSERT_SLOW(std::is_sorted(next.replacements.begin(), next.replacements.end(),
                                   [](const Replacement& a, const Replacement& b) { return a.pe < b.pe; }));
    if (is_mutated(Mutation::reuse_bound_spare) && next.attempt > 1 && !spares.empty()) {
        next.replacements.front() = {next.replacements.front().pe, spares.front()};
    }
    if (is_mutated(Mutation::settle_early)) {
        next.protected_layout = next.replacements;
    }
    return next;
}

// Who takes which PE is free. Best is a spare on the node where the PE was: it finds what the node has, and the fewest
// shares have to move; then one of the same group (area, or memory domain); then one where the scheme wants it; then
// any. So what is left on a node on which only spares live is in reach after the plan (invariant 7 of job_state.hpp):
// its last holder has died since the plan before, and one of these spares takes that PE. On one node those that take
// over are the lowest spares, since one that sleeps finds out by itself there that it leads.
std::vector<Replacement> JobRules::shared_out(const JobState& before, std::vector<PeId> pes,
                                              std::vector<ProcId> spares) const {
    SFT_ASSERT(pes.size() <= spares.size());
    const std::size_t n_wanted = pes.size();
    if (shape_.is_one_node() || is_mutated(Mutation::take_lowest_spares)) {
        spares.resize(n_wanted);
    }
    std::vector<Replacement> takeovers;
    const auto give_to_those_in = [&](const auto& place_of) {
        std::erase_if(pes, [&](PeId pe) {
            const auto old = place_of(shape_.holder(before, pe));
            const auto at =
                std::find_if(spares.begin(), spares.end(), [&](ProcId spare) { return place_of(spare) == old; });
            if (at == spares.end()) {
                return false;
            }
            takeovers.push_back({pe, *at});
            spares.erase(at);
            return true;
        });
    };
    if (!shape_.is_one_node()) {
        give_to_those_in([&](ProcId process) { return shape_.node_of(before, process); });
    }
    if (shape_.has_groups()) {
        give_to_those_in([&](ProcId process) { return shape_.group_of(before, process); });
    }
    JobState then = before;
    for (const Replacement& takeover : takeovers) {
        set_holder(then.replacements, takeover);
    }
    for (const PeId pe : pes) {
        const std::vector<PeId> others = shape_.scheme->apart_from(shape_, pe);
        auto spare = std::find_if(spares.begin(), spares.end(), [&](ProcId each) {
            return std::none_of(others.begin(), others.end(), [&](PeId other) {
                return shape_.node_of(then, shape_.holder(then, other)) == shape_.node_of(then, each);
            });
        });
        spare = spare == spares.end() ? spares.begin() : spare;
        takeovers.push_back({pe, *spare});
        set_holder(then.replacements, takeovers.back());
        if (!is_mutated(Mutation::same_spare_twice)) {
            spares.erase(spare);
        }
    }
    SFT_ASSERT(takeovers.size() == n_wanted);  // each PE one, from whichever list
    return takeovers;
}

JobState JobRules::after_ready(const JobState& state, Goal goal) const {
    JobState next = next_of(state);
    switch (goal) {
        case Goal::arrive:
            SFT_ASSERT(state.stage == Stage::running);
            next.stage = is_mutated(Mutation::commit_before_replicated) ? Stage::updating : Stage::replicating;
            break;
        case Goal::replicate:
            SFT_ASSERT(state.stage == Stage::replicating);
            next.stage = Stage::updating;
            break;
        case Goal::update:
            SFT_ASSERT(state.stage == Stage::updating);
            SFT_ASSERT(state.version.value() < UINT32_MAX);
            next.stage = Stage::running;
            next.version = shape_.version_after(state.version);
            break;
        case Goal::restore:
            SFT_ASSERT(state.stage == Stage::planned);
            next.stage = Stage::restored;
            if (shape_.has_witness()) {
                // The old witness may have become the PE: its share needs another place.
                next.witness = shape_.scheme->witness_for(shape_, state);
                if (next.witness == kNoProc || next.witness != state.witness) {
                    next.unprotected = {PeId(0)};
                }
            }
            if (is_mutated(Mutation::resume_before_protected)) {
                next.stage = Stage::running;
                ++next.view;
                next.unprotected.clear();
                next.protected_layout = next.replacements;
            }
            break;
        case Goal::protect:
            SFT_ASSERT(state.stage == Stage::restored);
            next.stage = Stage::running;
            ++next.view;
            next.attempt = 0;
            next.unprotected.clear();
            next.protected_layout = next.replacements;
            if (shape_.has_witness() && state.witness == kNoProc) {
                next.unprotected = {PeId(0)};
            }
            next.failed.clear();
            next.further.clear();
            break;
        case Goal::finish: next.stage = Stage::finished; break;
        case Goal::none:
        case Goal::restart:
        case Goal::any: break;
    }
    return next;
}

std::optional<JobState> JobRules::after_restart(const JobState& state, const Readiness& ready,
                                                std::span<const Death> dead) const {
    if (ready.is_mixed && ready.goal != Goal::restart) {
        return ended(next_of(state), EndReason::mismatched_calls, {});
    }
    SFT_ASSERT(ready.goal == Goal::restart);
    SFT_ASSERT(!is_over(state));
    if (ready.is_mixed || ready.hash != hash_of(state.failed)) {
        JobState next = next_of(state);
        ++next.rejections;
        return next;
    }
    return planned(state, dead);
}

std::optional<JobState> JobRules::after_deaths(const JobState& state, std::span<const Death> dead) const {
    if (is_over(state) || state.stage == Stage::updating) {
        return std::nullopt;  // a commit that is decided is completed by those that live
    }
    JobState probe = state;
    const bool has_any_failed = !note_deaths(probe, dead).empty();
    const bool can_go_on = shape_.scheme->can_go_on(state, probe);
    const bool is_anybody_left = !shape_.has_witness() || !is_among(probe.deaths, shape_.holder(probe, PeId(0)));
    switch (state.stage) {
        case Stage::running:
        case Stage::replicating:
            if (has_any_failed) {
                return faulted(state, dead);
            }
            if (!can_go_on) {
                ++probe.index;  // the same stage without those that have died
                return probe;
            }
            return std::nullopt;
        case Stage::faulted:
            // Nobody is left to ask for the restart.
            return is_anybody_left ? std::nullopt : planned(state, dead);
        case Stage::planned:
        case Stage::restored: return !has_any_failed && can_go_on ? std::nullopt : planned(state, dead);
        default: return std::nullopt;
    }
}

JobState JobRules::after_end_request(const JobState& state, const EndRequest& request,
                                     std::span<const Death> dead) const {
    JobState next = next_of(state);
    note_deaths(next, dead);
    next = ended(next, request.reason, {});
    next.ended_by = request.from;
    next.exit_status = request.exit_status;
    return next;
}

JobState JobRules::after_loss_of_all(const JobState& state, std::span<const Death> dead) const {
    JobState next = next_of(state);
    const std::vector<FailedPe> failed = note_deaths(next, dead);
    next.further.insert(next.further.end(), failed.begin(), failed.end());
    SFT_ASSERT(shape_.vacancies(next).size() == static_cast<std::size_t>(shape_.n_pes));
    return ended(next, EndReason::all_died, pes_of(next.further));  // a spare that slept has not heard of commits
}

// A commit that was decided is completed: every copy is there. Nobody is left to ask for the restart, nor to wait for
// spares that would come.
JobState JobRules::after_loss_of_holders(const JobState& state, std::span<const Death> dead) const {
    switch (state.stage) {
        case Stage::updating: return after_ready(state, Goal::update);
        case Stage::running:
        case Stage::replicating: return faulted(state, dead);
        default: break;
    }
    std::optional<JobState> plan = planned(state, dead, UnreplacedPolicy::abort);
    SFT_ASSERT(plan.has_value());
    return *std::move(plan);
}

std::vector<PeId> JobRules::awaiting_spares(const JobState& state, std::span<const Death> dead) const {
    const bool is_repaired =
        state.stage == Stage::faulted || state.stage == Stage::planned || state.stage == Stage::restored;
    if (policy_ != UnreplacedPolicy::wait || !is_repaired) {
        return {};
    }
    const JobState now = with_deaths(state, dead);
    const std::size_t n_spares = shape_.scheme->substitutes(shape_, now, dead).size();
    const std::vector<Vacancy> vacancies = shape_.vacancies(now);
    std::vector<PeId> awaiting;
    for (std::size_t i = n_spares; i < vacancies.size(); ++i) {
        awaiting.push_back(vacancies[i].pe);
    }
    return awaiting;
}

std::int32_t JobRules::protected_losses(const JobState& state, std::span<const Death> dead) const {
    if (state.version == kNoVersion) {
        return 0;
    }
    const JobState now = with_deaths(state, dead);
    const std::size_t n_spares = shape_.scheme->substitutes(shape_, now, dead).size();
    return std::min(shape_.scheme->losses_survived(shape_, now), static_cast<std::int32_t>(n_spares));
}

}  // namespace sft
