#include "recovery/membership/parity_scheme.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "recovery/membership/mutation.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "recovery/membership/population.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {
namespace {

class ParityShares final : public Shares {
public:
    ParityShares(const JobShape& shape, std::span<const Replacement> layout, std::int32_t size, std::int32_t n_parity)
        : shape_(shape), groups_(shape, size), n_parity_(n_parity) {
        layout_.replacements.assign(layout.begin(), layout.end());
    }

    [[nodiscard]] std::vector<Share> of(PeId pe) const override {
        const std::int32_t group = groups_.group_of(pe);
        std::vector<Share> shares;
        for (std::int32_t position = 0; position < groups_.size_of(group); ++position) {
            if (const PeId member = groups_.member(group, position); member != pe) {
                shares.push_back({.holder = holder_of(member), .part = member.value()});
            }
        }
        return shares;
    }
    [[nodiscard]] std::vector<PeId> kept_by(ProcId process) const override {
        const PeId pe = shape_.held_by(layout_, process);
        std::vector<PeId> kept;
        if (pe == kNoPe) {
            return kept;
        }
        const std::int32_t group = groups_.group_of(pe);
        for (std::int32_t position = 0; position < groups_.size_of(group); ++position) {
            kept.push_back(groups_.member(group, position));
        }
        std::sort(kept.begin(), kept.end());
        return kept;
    }
    // From its own copy, if its node has that, or from those of the others and their parity.
    [[nodiscard]] bool can_rebuild(PeId pe, const LeftMemory& left) const override {
        if (left.has(holder_of(pe), Memory::local_copy)) {
            return true;
        }
        const std::int32_t group = groups_.group_of(pe);
        return n_lost(group, left) <= tolerated(group) + (is_mutated(Mutation::one_loss_too_many) ? 1 : 0);
    }

    [[nodiscard]] const ParityGroups& groups() const noexcept { return groups_; }
    // How many of its members a group can lose.
    [[nodiscard]] std::int32_t tolerated(std::int32_t group) const noexcept {
        return std::min(n_parity_, groups_.size_of(group) - 1);
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
    ParityGroups groups_;
    std::int32_t n_parity_;
};

class ParityScheme final : public Scheme {
public:
    constexpr ParityScheme(std::int32_t data, std::int32_t parity) noexcept : size_(data + parity), parity_(parity) {}
    [[nodiscard]] std::int32_t size() const noexcept { return size_; }

    [[nodiscard]] std::unique_ptr<const ParityShares> shares(const JobShape& shape,
                                                             std::span<const Replacement> layout) const {
        return std::make_unique<ParityShares>(shape, layout, size_, parity_);
    }
    [[nodiscard]] std::unique_ptr<const Shares> place(const JobShape& shape, const JobState& state,
                                                      std::span<const Replacement> layout) const override {
        if (!has_parity(shape)) {
            return one_partner().place(shape, state, layout);
        }
        return shares(shape, layout);
    }
    [[nodiscard]] std::int32_t losses_survived(const JobShape& shape, const JobState& state) const override;
    [[nodiscard]] bool can_go_on(const JobState& before, const JobState& now) const override {
        return one_partner().can_go_on(before, now);
    }
    [[nodiscard]] ProcId witness_for(const JobShape& shape, const JobState& state) const override {
        return one_partner().witness_for(shape, state);
    }
    [[nodiscard]] std::vector<ProcId> substitutes(const JobShape& shape, const JobState& state,
                                                  std::span<const Death> dead) const override {
        return one_partner().substitutes(shape, state, dead);
    }

    [[nodiscard]] bool keeps_apart(const JobShape& shape, const JobState& state, PeId pe, ProcId spare) const override;

private:
    std::int32_t size_;
    std::int32_t parity_;
};

// The schemes there are, by parity and data; those of no data, or of too much, are nobody's.
constexpr std::size_t kSchemes = static_cast<std::size_t>(kParityMax) * static_cast<std::size_t>(kParityGroupMax);

template <std::size_t... kAt>
constexpr std::array<ParityScheme, kSchemes> all_schemes(std::index_sequence<kAt...> /*places*/) noexcept {
    return {ParityScheme(static_cast<std::int32_t>(kAt) % kParityGroupMax,
                         static_cast<std::int32_t>(kAt) / kParityGroupMax + 1)...};
}
// Initialised as a constant.
const std::array<ParityScheme, kSchemes> kAllSchemes = all_schemes(std::make_index_sequence<kSchemes>());

// Null: it is none of these.
const ParityScheme* find_scheme(const Scheme* scheme) noexcept {
    const auto at =
        std::find_if(kAllSchemes.begin(), kAllSchemes.end(), [&](const ParityScheme& each) { return &each == scheme; });
    return at == kAllSchemes.end() ? nullptr : &*at;
}

// The fewest processes with which so many members are lost that their group cannot bring them back, less one. A node is
// lost with all processes on it.
std::int32_t ParityScheme::losses_survived(const JobShape& shape, const JobState& state) const {
    if (!has_parity(shape)) {
        return one_partner().losses_survived(shape, state);
    }
    if (!state.unprotected.empty()) {
        return 0;
    }
    const std::unique_ptr<const ParityShares> placed = shares(shape, state.protected_layout);
    const ParityGroups& groups = placed->groups();
    const LeftMemory left(shape, state);
    const Population population(shape, state);
    std::int32_t fewest = population.losses_before_all(shape);
    for (std::int32_t group = 0; group < groups.n_groups(); ++group) {
        const std::int32_t n_wanted = placed->tolerated(group) + 1 - placed->n_lost(group, left);
        std::vector<std::int32_t> members_on(population.all_on.size());
        for (std::int32_t position = 0; position < groups.size_of(group); ++position) {
            const ProcId holder = placed->holder_of(groups.member(group, position));
            members_on[shape.node_of(state, holder).index()] += left.has(holder, Memory::kept_shadows) ? 1 : 0;
        }
        // cheapest[n]: the fewest processes with which n members are lost.
        std::vector<std::int32_t> cheapest(static_cast<std::size_t>(std::max(n_wanted, 0)) + 1, fewest + 1);
        cheapest[0] = 0;
        for (std::size_t node = 0; node < members_on.size(); ++node) {
            for (std::size_t n = cheapest.size(); members_on[node] > 0 && n-- > 1;) {
                const auto before = n - std::min(n, static_cast<std::size_t>(members_on[node]));
                cheapest[n] = std::min(cheapest[n], cheapest[before] + population.all_on[node]);
            }
        }
        fewest = std::min(fewest, cheapest.back() - 1);
    }
    return std::max(fewest, 0);
}

// No other of the group is there: what is on one node is lost at once.
bool ParityScheme::keeps_apart(const JobShape& shape, const JobState& state, PeId pe, ProcId spare) const {
    if (!has_parity(shape)) {
        return true;
    }
    const std::vector<PeId> members = parity_group_of(shape, pe).members;
    return std::none_of(members.begin(), members.end(), [&](PeId member) {
        return member != pe && shape.node_of(state, shape.holder(state, member)) == shape.node_of(state, spare);
    });
}

}  // namespace

const Scheme& parity(std::int32_t data, std::int32_t parity) noexcept {
    SFT_ASSERT(data > 0 && parity > 0 && parity <= kParityMax && data + parity <= kParityGroupMax);
    return kAllSchemes[static_cast<std::size_t>((parity - 1) * kParityGroupMax + data)];
}

bool has_parity(const JobShape& shape) noexcept {
    const ParityScheme* const scheme = find_scheme(shape.scheme);
    return scheme != nullptr && shape.n_pes > 1 && !shape.is_one_node() &&
           !shape.memory->dies_with_process(Memory::kept_shadows) && ParityGroups(shape, scheme->size()).are_possible();
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

ParityGroup parity_group_of(const JobShape& shape, PeId pe) {
    SFT_ASSERT(has_parity(shape));
    const std::unique_ptr<const ParityShares> placed = find_scheme(shape.scheme)->shares(shape, {});
    const ParityGroups& groups = placed->groups();
    const std::int32_t group = groups.group_of(pe);
    ParityGroup found{.members = {}, .position = groups.position_of(pe), .n_parity = placed->tolerated(group)};
    for (std::int32_t position = 0; position < groups.size_of(group); ++position) {
        found.members.push_back(groups.member(group, position));
    }
    return found;
}

}  // namespace sft
