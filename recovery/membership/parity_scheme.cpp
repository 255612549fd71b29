#include "recovery/membership/parity_scheme.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"
#include "recovery/membership/population.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {
namespace {

class ParityShares final : public Shares {
public:
    ParityShares(const JobShape& shape, std::span<const Replacement> layout) : shape_(shape), groups_(*shape.groups) {
        layout_.replacements.assign(layout.begin(), layout.end());
    }

    [[nodiscard]] std::vector<Share> of(PeId pe) const override {
        std::vector<Share> shares;
        for (const PeId member : groups_.of(pe).members) {
            if (member != pe) {
                shares.push_back({.holder = holder_of(member), .part = member.value()});
            }
        }
        return shares;
    }
    [[nodiscard]] std::vector<PeId> kept_by(ProcId process) const override {
        const PeId pe = shape_.held_by(layout_, process);
        std::vector<PeId> kept = pe == kNoPe ? std::vector<PeId>{} : groups_.of(pe).members;
        std::sort(kept.begin(), kept.end());
        return kept;
    }
    // From its own copy, if its node has that, or from those of the others and their parity.
    [[nodiscard]] bool can_rebuild(PeId pe, const LeftMemory& left) const override {
        if (left.has(holder_of(pe), Memory::local_copy)) {
            return true;
        }
        const std::int32_t group = groups_.group_of(pe);
        return n_lost(group, left) <= groups_.tolerated(group) + (is_mutated(Mutation::one_loss_too_many) ? 1 : 0);
    }

    [[nodiscard]] ProcId holder_of(PeId pe) const { return shape_.holder(layout_, pe); }
    [[nodiscard]] std::int32_t n_lost(std::int32_t group, const LeftMemory& left) const {
        std::int32_t n = 0;
        for (std::int32_t position = 0; position < groups_.size_of(group); ++position) {
            n += left.has(holder_of(groups_.member(group, position)), Memory::kept_shadows) ? 0 : 1;
        }
        return n;
    }

private:
    JobShape shape_;
    JobState layout_;  // nothing of it but who holds what
    const ParityGroups& groups_;
};

class ParityScheme final : public Scheme {
public:
    [[nodiscard]] std::unique_ptr<const Shares> place(const JobShape& shape, const JobState& /*state*/,
                                                      std::span<const Replacement> layout) const override {
        return std::make_unique<ParityShares>(shape, layout);
    }
    [[nodiscard]] std::int32_t losses_survived(const JobShape& shape, const JobState& state) const override;
    // What is on one node is lost at once.
    [[nodiscard]] std::vector<PeId> apart_from(const JobShape& shape, PeId pe) const override {
        std::vector<PeId> others = shape.groups->of(pe).members;
        std::erase(others, pe);
        return others;
    }
};

constexpr ParityScheme kParity;

// The fewest processes with which so many members are lost that their group cannot bring them back, less one. A node is
// lost with all processes on it.
std::int32_t ParityScheme::losses_survived(const JobShape& shape, const JobState& state) const {
    if (!state.unprotected.empty()) {
        return 0;
    }
    const ParityShares placed(shape, state.protected_layout);
    const ParityGroups& groups = *shape.groups;
    const LeftMemory left(shape, state);
    const Population population(shape, state);
    std::int32_t fewest = population.losses_before_all(shape);
    const std::int32_t more_than_any = fewest + shape.n_processes + 1;
    for (std::int32_t group = 0; group < groups.n_groups(); ++group) {
        const std::int32_t n_wanted = groups.tolerated(group) + 1 - placed.n_lost(group, left);
        SFT_ASSERT(n_wanted > 0);  // else somebody is unprotected
        std::vector<std::size_t> members_on(population.all_on.size());
        for (std::int32_t position = 0; position < groups.size_of(group); ++position) {
            const ProcId holder = placed.holder_of(groups.member(group, position));
            if (left.has(holder, Memory::kept_shadows)) {
                ++members_on[shape.node_of(state, holder).index()];
            }
        }
        // cheapest[n]: the fewest processes with which n members are lost.
        std::vector<std::int32_t> cheapest(static_cast<std::size_t>(n_wanted) + 1, more_than_any);
        cheapest.front() = 0;
        for (std::size_t node = 0; node < members_on.size(); ++node) {
            for (std::size_t n = cheapest.size(); n-- > 0;) {
                const std::size_t before = n - std::min(n, members_on[node]);
                cheapest[n] = std::min(cheapest[n], cheapest[before] + population.all_on[node]);
            }
        }
        fewest = std::min(fewest, cheapest.back() - 1);
    }
    SFT_ASSERT(fewest >= 0);
    return fewest;
}

}  // namespace

const Scheme& parity() noexcept { return kParity; }

std::optional<ParityGroups> groups_for(const JobShape& shape, const Backup& backup) {
    if (backup.parity == 0 || shape.n_pes < 2 || shape.is_one_node() ||
        shape.memory->dies_with_process(Memory::kept_shadows)) {
        return std::nullopt;
    }
    ParityGroups groups(shape, backup.data + backup.parity, backup.parity);
    return groups.are_possible() ? std::optional(std::move(groups)) : std::nullopt;
}

ProcId holder_of_copy(const JobShape& shape, const JobState& state, PeId pe) {
    const LeftMemory left(shape, state);
    const ProcId holder = holder_in(state.protected_layout, pe);
    return left.has(holder, Memory::local_copy) ? left.heir_of(holder) : kNoProc;
}

std::vector<PeId> left_beside(const JobShape& shape, const JobState& state, ProcId process) {
    std::vector<PeId> found;
    const LeftMemory left(shape, state);
    const NodeId here = shape.node_of(state, process);
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const ProcId holder = holder_in(state.protected_layout, PeId(pe));
        if (!left.lives(holder) && shape.node_of(state, holder) == here && shape.holder(state, PeId(pe)) != process) {
            found.emplace_back(pe);
        }
    }
    return found;
}

}  // namespace sft
