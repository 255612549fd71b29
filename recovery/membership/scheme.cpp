#include "recovery/membership/scheme.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"
#include "recovery/membership/parity_scheme.hpp"

namespace sft {
namespace {

bool is_unprotected(const JobState& state, PeId pe) {
    return std::binary_search(state.unprotected.begin(), state.unprotected.end(), pe);
}

// In memory of the node what is kept of a PE is at one place, whoever keeps it.
bool are_at_one_place(const JobShape& shape, const JobState& state, const Share& a, const Share& b) {
    return a == b || (a.part == b.part && !is_mutated(Mutation::overwrite_in_place) &&
                      !shape.memory->dies_with_process(Memory::kept_shadows) &&
                      shape.node_of(state, a.holder) == shape.node_of(state, b.holder));
}

// Where the shares are: with those who were to keep them when everybody was protected last.
std::unique_ptr<const Shares> shares_that_exist(const JobShape& shape, const JobState& state) {
    const auto& layout = is_mutated(Mutation::forget_protected_layout) ? state.replacements : state.protected_layout;
    return shape.scheme->place(shape, state, layout);
}

}  // namespace

// ---- what is the same in all ----

// Only a witness keeps anything and holds no PE: a copy on its way there would never arrive.
bool Scheme::can_go_on(const JobState& before, const JobState& now) const { return before.witness == now.witness; }

// Of the spares that may take part after the holder (a witness leads by its number) the lowest one in another
// area, or else on another node, so that the loss of that leaves a copy; else the lowest. (Not one in another
// memory domain: those who do not take part in a job on one node expect the lowest one to lead after the holder, and
// would wait for each other.)
ProcId Scheme::witness_for(const JobShape& shape, const JobState& state) const {
    if (!shape.has_witness()) {
        return kNoProc;
    }
    if (state.witness != kNoProc && shape.held_by(state, state.witness) == kNoPe) {
        return state.witness;
    }
    const ProcId holder = shape.holder(state, PeId(0));
    std::vector<Death> dead;
    for (const Death& death : state.deaths) {
        insert_sorted(dead, death);
    }
    ProcId lowest = kNoProc;
    ProcId elsewhere = kNoProc;
    for (const ProcId spare : shape.idle_spares(state, dead)) {
        if (spare < holder) {
            continue;
        }
        if (shape.has_areas() && shape.group_of(state, spare) != shape.group_of(state, holder)) {
            return spare;
        }
        if (elsewhere == kNoProc && shape.node_of(state, spare) != shape.node_of(state, holder)) {
            elsewhere = spare;
        }
        lowest = lowest == kNoProc ? spare : lowest;
    }
    SFT_ASSERT(lowest == kNoProc || lowest > holder);  // leaders follow each other in the order of numbers
    return elsewhere != kNoProc ? elsewhere : lowest;
}

// An only PE that has one goes to its witness, which has the copy and takes part already.
std::vector<ProcId> Scheme::substitutes(const JobShape& shape, const JobState& state,
                                        std::span<const Death> dead) const {
    if (!shape.has_witness()) {
        return shape.idle_spares(state, dead);
    }
    return state.witness == kNoProc ? std::vector<ProcId>{} : std::vector{state.witness};
}

std::vector<PeId> Scheme::apart_from(const JobShape& /*shape*/, PeId /*pe*/) const { return {}; }

// ---- for one PE ----

bool can_be_rebuilt(const JobShape& shape, const JobState& state, PeId pe) {
    return !is_unprotected(state, pe) && shares_that_exist(shape, state)->can_rebuild(pe, LeftMemory(shape, state));
}

std::vector<Share> sources_of(const JobShape& shape, const JobState& state, PeId pe) {
    if (is_unprotected(state, pe)) {
        return {};
    }
    const LeftMemory left(shape, state);
    std::vector<Share> shares = shares_that_exist(shape, state)->of(pe);
    std::erase_if(shares, [&](const Share& share) { return !left.has(share.holder, Memory::kept_shadows); });
    for (Share& share : shares) {
        share.holder = left.heir_of(share.holder);
    }
    return shares;
}

std::vector<Share> targets_of(const JobShape& shape, const JobState& state, PeId pe) {
    std::vector<Share> shares = shape.scheme->place(shape, state, state.replacements)->of(pe);
    // A share with its original is none; while an only PE moves to its witness there is no better place. That of an
    // only PE in memory of its node has no other process.
    const bool is_alone = shape.n_pes == 1 && !shape.has_witness();
    SFT_ASSERT(std::all_of(shares.begin(), shares.end(), [&](const Share& share) {
        return share.holder != kNoProc &&
               (is_alone || share.holder != shape.holder(state, pe) || share.holder == state.witness);
    }));
    return shares;
}

std::vector<Share> missing_shares(const JobShape& shape, const JobState& state, PeId pe) {
    const std::vector<Share> there = sources_of(shape, state, pe);
    if (is_mutated(Mutation::skip_moved_shadow) && !there.empty()) {
        return {};
    }
    std::vector<Share> missing = targets_of(shape, state, pe);
    std::erase_if(missing, [&](const Share& share) {
        return std::any_of(there.begin(), there.end(),
                           [&](const Share& source) { return are_at_one_place(shape, state, share, source); });
    });
    return missing;
}

const Scheme& scheme_of(const JobShape& shape, const Backup& backup) noexcept {
    if (backup.mode == BackupMode::none) {
        return no_copies();
    }
    return shape.groups != nullptr ? parity() : partners(backup.partners);
}

ProcId first_holder(std::span<const Share> shares) noexcept { return shares.empty() ? kNoProc : shares.front().holder; }

}  // namespace sft
