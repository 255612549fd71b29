#include "recovery/membership/job_state.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {
namespace {

auto by_pe = [](const Replacement& replacement, PeId pe) { return replacement.pe < pe; };
auto by_process = [](const Death& death, ProcId process) { return death.process < process; };

template <class List, class Less>
bool is_strictly_sorted(const List& list, Less less) {
    return std::adjacent_find(list.begin(), list.end(), [&](const auto& a, const auto& b) { return !less(a, b); }) ==
           list.end();
}

}  // namespace

const char* name_of(Stage stage) noexcept {
    switch (stage) {
        case Stage::running: return "running";
        case Stage::replicating: return "replicating";
        case Stage::updating: return "updating";
        case Stage::faulted: return "faulted";
        case Stage::planned: return "planned";
        case Stage::restored: return "restored";
        case Stage::finished: return "finished";
        case Stage::ended: return "ended";
    }
    return "?";
}

const char* name_of(Goal goal) noexcept {
    switch (goal) {
        case Goal::none: return "none";
        case Goal::arrive: return "arrive";
        case Goal::replicate: return "replicate";
        case Goal::update: return "update";
        case Goal::restart: return "restart";
        case Goal::restore: return "restore";
        case Goal::protect: return "protect";
        case Goal::finish: return "finish";
        case Goal::any: return "any";
    }
    return "?";
}

bool contains(std::span<const Death> sorted_by_process, ProcId process) noexcept {
    SFT_ASSERT_SLOW(is_strictly_sorted(sorted_by_process, [](auto& a, auto& b) { return a.process < b.process; }));
    const auto at = std::lower_bound(sorted_by_process.begin(), sorted_by_process.end(), process, by_process);
    return at != sorted_by_process.end() && at->process == process;
}

bool insert_sorted(std::vector<Death>& deaths, const Death& death) {
    SFT_ASSERT(death.process.value() >= 0);
    const auto at = std::lower_bound(deaths.begin(), deaths.end(), death.process, by_process);
    if (at != deaths.end() && at->process == death.process) {
        return false;
    }
    deaths.insert(at, death);
    return true;
}

std::vector<PeId> pes_of_node_before(const JobShape& shape, const JobState& state, PeId pe, std::int32_t n) {
    SFT_ASSERT(n > 0);
    std::map<NodeId, std::vector<PeId>> nodes;
    for (std::int32_t other = 0; other < shape.n_pes; ++other) {
        nodes[shape.node_of(state, shape.holder(state, PeId(other)))].emplace_back(other);
    }
    const auto own = nodes.find(shape.node_of(state, shape.holder(state, pe)));
    SFT_ASSERT(own != nodes.end());
    return std::distance(nodes.begin(), own) < n ? std::vector<PeId>() : std::prev(own, n)->second;
}

ProcId holder_in(std::span<const Replacement> replacements, PeId pe) noexcept {
    SFT_ASSERT_SLOW(is_strictly_sorted(replacements, [](auto& a, auto& b) { return a.pe < b.pe; }));
    const auto at = std::lower_bound(replacements.begin(), replacements.end(), pe, by_pe);
    return at != replacements.end() && at->pe == pe ? at->process : ProcId(pe.value());
}

std::int32_t last_turn_in(std::span<const Replacement> replacements) noexcept {
    std::int32_t last = -1;
    for (const Replacement& replacement : replacements) {
        last = std::max(last, replacement.turn);
    }
    return last;
}

bool has_joined(const JobState& state, ProcId process) noexcept {
    return std::any_of(state.joined.begin(), state.joined.end(),
                       [&](const Joined& joined) { return joined.process == process; });
}

bool JobShape::has_witness() const noexcept { return n_pes == 1 && memory->dies_with_process(Memory::kept_shadows); }

ProcId JobShape::holder(const JobState& state, PeId pe) const noexcept { return holder_in(state.replacements, pe); }

PeId JobShape::held_by(const JobState& state, ProcId process) const noexcept {
    for (const Replacement& replacement : state.replacements) {
        if (replacement.process == process) {
            return replacement.pe;
        }
    }
    if (process.value() < 0 || process.value() >= n_pes) {
        return kNoPe;
    }
    const PeId original(process.value());
    return holder(state, original) == process ? original : kNoPe;
}

std::int32_t JobShape::turn_of(const JobState& state, ProcId process) const noexcept {
    const auto at = std::find_if(state.replacements.begin(), state.replacements.end(),
                                 [&](const Replacement& replacement) { return replacement.process == process; });
    return at != state.replacements.end() ? at->turn : process.value();
}

NodeId JobShape::node_of(const JobState& state, ProcId process) const noexcept {
    if (is_one_node()) {
        return NodeId(0);
    }
    SFT_ASSERT(process.value() >= 0);  // kNoProc is nowhere
    if (process.value() < n_processes) {
        return nodes->node_of(process);
    }
    const auto at = std::find_if(state.joined.begin(), state.joined.end(),
                                 [&](const Joined& joined) { return joined.process == process; });
    return at != state.joined.end() ? at->node : kNoNode;
}

GroupId JobShape::group_of(const JobState& state, ProcId process) const noexcept {
    if (!is_one_node()) {
        const NodeId node = node_of(state, process);
        return GroupId(has_areas() ? areas->area_of(node) : node.value());
    }
    return domains != nullptr ? GroupId(domains->domain_of(process).value()) : GroupId(0);
}

std::optional<ReplacementReason> JobShape::reason_to_replace(const JobState& state, PeId /*pe*/,
                                                             ProcId holder) const noexcept {
    const bool is_dead = std::any_of(state.deaths.begin(), state.deaths.end(),
                                     [&](const Death& death) { return death.process == holder; });
    return is_dead ? std::optional(ReplacementReason::death) : std::nullopt;
}

std::vector<Vacancy> JobShape::vacancies(const JobState& state) const {
    std::vector<Vacancy> vacancies;
    for (const Death& death : state.deaths) {
        if (const PeId pe = held_by(state, death.process); pe != kNoPe) {
            vacancies.push_back({pe, ReplacementReason::death});
        }
    }
    return vacancies;
}

std::vector<ProcId> JobShape::idle_spares(const JobState& state, std::span<const Death> dead) const {
    std::vector<ProcId> idle;
    for (std::int32_t process = n_pes; process < n_processes; ++process) {
        if (held_by(state, ProcId(process)) == kNoPe && !contains(dead, ProcId(process))) {
            idle.push_back(ProcId(process));
        }
    }
    for (const Joined& joined : state.joined) {
        if (held_by(state, joined.process) == kNoPe && !contains(dead, joined.process)) {
            idle.push_back(joined.process);
        }
    }
    return idle;
}

namespace {

// A PE that is said to be protected, and of which too little is left after the deaths.
PeId falsely_protected(const JobShape& shape, const JobState& state) {
    const LeftMemory left(shape, state);
    const std::unique_ptr<const Shares> shares = shape.scheme->place(shape, state, state.protected_layout);
    for (std::int32_t pe = 0; pe < shape.n_pes && !state.deaths.empty(); ++pe) {
        const bool is_unprotected = std::binary_search(state.unprotected.begin(), state.unprotected.end(), PeId(pe));
        if (!is_unprotected && !shares->of(PeId(pe)).empty() && !shares->can_rebuild(PeId(pe), left)) {
            return PeId(pe);
        }
    }
    return kNoPe;
}

// Who takes over comes behind all that are listed before it. (Those that have started as PEs come first.)
bool are_turns_in_order(const JobState& state, const JobState& before) {
    const std::int32_t last = last_turn_in(before.replacements);
    return std::all_of(state.replacements.begin(), state.replacements.end(), [&](const Replacement& now) {
        const bool is_new = holder_in(before.replacements, now.pe) != now.process;
        return is_new ? now.turn > last
                      : std::find(before.replacements.begin(), before.replacements.end(), now) !=
                            before.replacements.end();
    });
}

std::string check_step(const JobShape& shape, const JobState& state, const JobState& before) {
    if (!are_turns_in_order(state, before)) {
        return "2: a turn is not behind those before it";
    }
    if (state.joined.size() < before.joined.size() ||
        !std::equal(before.joined.begin(), before.joined.end(), state.joined.begin())) {
        return "5: a process that has joined is gone";
    }
    if (state.index != before.index + 1) {
        return "the index does not follow";
    }
    if (state.deaths.size() < before.deaths.size() ||
        !std::equal(before.deaths.begin(), before.deaths.end(), state.deaths.begin())) {
        return "1: an agreed death has changed";
    }
    const bool commits = before.stage == Stage::updating && state.stage == Stage::running;
    if (state.version != (commits ? shape.version_after(before.version) : before.version)) {
        return "3: the version jumps";
    }
    const bool resumes = before.stage == Stage::restored && state.stage == Stage::running;
    if (state.view != before.view + (resumes ? 1U : 0U)) {
        return "4: the view jumps";
    }
    if (state.protected_layout != (resumes ? state.replacements : before.protected_layout)) {
        return "6: where the shares are has changed without a recovery";
    }
    return {};
}

}  // namespace

std::string check_invariants(const JobShape& shape, const JobState& state, const JobState* before) {
    std::vector<Death> seen;
    for (const Death& death : state.deaths) {
        if (!insert_sorted(seen, death)) {
            return format("1: process %d died twice", death.process.value());
        }
    }
    const auto is_lower = [](const Replacement& a, const Replacement& b) { return a.pe < b.pe; };
    if (!is_strictly_sorted(state.replacements, is_lower) || !is_strictly_sorted(state.protected_layout, is_lower) ||
        !is_strictly_sorted(state.unprotected, [](auto a, auto b) { return a < b; })) {
        return "2: a list is not sorted by PE";
    }
    std::vector<std::int32_t> turns;
    for (const Replacement& replacement : state.replacements) {
        turns.push_back(replacement.turn);
        const PeId own(replacement.process.value());  // of a process that has started as a PE
        const bool has_own = own.value() < shape.n_pes && shape.holder(state, own) == replacement.process;
        if (shape.held_by(state, replacement.process) != replacement.pe || has_own) {
            return format("2: process %d holds two PEs", replacement.process.value());
        }
    }
    std::sort(turns.begin(), turns.end());
    if (!is_strictly_sorted(turns, std::less<>())) {
        return "2: two holders have one turn";
    }
    if (!is_strictly_sorted(state.joined, [](auto a, auto b) { return a.process < b.process; }) ||
        (!state.joined.empty() && state.joined.front().process.value() < shape.n_processes)) {
        return "5: who has joined is not in order";
    }
    if (contains(seen, state.witness)) {
        return "7: the witness is dead";
    }
    if (const PeId pe = falsely_protected(shape, state); pe != kNoPe) {
        return format("7: PE %d cannot be brought back, and is not unprotected", pe.value());
    }
    return before == nullptr ? std::string{} : check_step(shape, state, *before);
}

std::string to_string(const JobState& state) {
    std::string text = format("%llu:%s v%u view %u", static_cast<unsigned long long>(state.index), name_of(state.stage),
                              state.version.value(), state.view);
    if (state.attempt != 0) {
        text += format(" attempt %u", state.attempt);
    }
    for (const Death& death : state.deaths) {
        text += format(" -p%d", death.process.value());
    }
    for (const Joined& joined : state.joined) {
        text += format(" +p%d", joined.process.value());
    }
    for (const Replacement& replacement : state.replacements) {
        text += format(" pe%d=p%d", replacement.pe.value(), replacement.process.value());
        if (replacement.turn != replacement.process.value()) {
            text += format("(turn %d)", replacement.turn);
        }
    }
    if (state.protected_layout != state.replacements) {
        for (const Replacement& replacement : state.protected_layout) {
            text += format(" protected_layout:pe%d=p%d", replacement.pe.value(), replacement.process.value());
        }
    }
    for (const PeId pe : state.unprotected) {
        text += format(" unprotected:%d", pe.value());
    }
    return text;
}

}  // namespace sft
