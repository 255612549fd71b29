#include "recovery/membership/partner_scheme.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "recovery/membership/placement.hpp"
#include "recovery/membership/population.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {
namespace {

// Of a job of several PEs.
class PartnerShares final : public Shares {
public:
    PartnerShares(const JobShape& shape, const JobState& state, std::span<const Replacement> layout,
                  std::int32_t n_partners)
        : shape_(shape), placement_(shape, state, layout, n_partners) {
        layout_.replacements.assign(layout.begin(), layout.end());
    }

    [[nodiscard]] std::vector<Share> of(PeId pe) const override {
        std::vector<Share> shares;
        for (std::int32_t number = 0; number < placement_.n_keepers(); ++number) {
            shares.push_back({.holder = keeper_of(pe, number)});
        }
        return shares;
    }
    [[nodiscard]] std::vector<PeId> kept_by(ProcId process) const override {
        const PeId pe = shape_.held_by(layout_, process);
        return pe == kNoPe ? std::vector<PeId>{} : placement_.kept_by(pe);
    }
    [[nodiscard]] bool can_rebuild(PeId pe, const LeftMemory& left) const override {
        for (std::int32_t number = 0; number < placement_.n_keepers(); ++number) {
            if (left.has(keeper_of(pe, number), Memory::kept_shadows)) {
                return true;
            }
        }
        return false;
    }

private:
    [[nodiscard]] ProcId keeper_of(PeId pe, std::int32_t number) const {
        return shape_.holder(layout_, placement_.keeper_of(pe, number));
    }

    JobShape shape_;
    JobState layout_;  // nothing of it but who holds what
    Placement placement_;
};

// Of an only PE, wherever it is: with its witness, or its own in memory of the node.
class SoleShares final : public Shares {
public:
    explicit SoleShares(ProcId keeper) : keeper_(keeper) {}

    [[nodiscard]] std::vector<Share> of(PeId /*pe*/) const override {
        return keeper_ == kNoProc ? std::vector<Share>{} : std::vector<Share>{{.holder = keeper_}};
    }
    [[nodiscard]] std::vector<PeId> kept_by(ProcId process) const override {
        return process != kNoProc && process == keeper_ ? std::vector{PeId(0)} : std::vector<PeId>{};
    }
    [[nodiscard]] bool can_rebuild(PeId /*pe*/, const LeftMemory& left) const override {
        return keeper_ != kNoProc && left.has(keeper_, Memory::kept_shadows);
    }

private:
    ProcId keeper_;
};

class NoShares final : public Shares {
public:
    [[nodiscard]] std::vector<Share> of(PeId /*pe*/) const override { return {}; }
    [[nodiscard]] std::vector<PeId> kept_by(ProcId /*process*/) const override { return {}; }
    [[nodiscard]] bool can_rebuild(PeId /*pe*/, const LeftMemory& /*left*/) const override { return false; }
};

class PartnerScheme final : public Scheme {
public:
    explicit constexpr PartnerScheme(std::int32_t n_partners) noexcept : n_partners_(n_partners) {}

    [[nodiscard]] std::unique_ptr<const Shares> place(const JobShape& shape, const JobState& state,
                                                      std::span<const Replacement> layout) const override;
    [[nodiscard]] std::int32_t losses_survived(const JobShape& shape, const JobState& state) const override;

private:
    [[nodiscard]] std::int32_t losses_by_node(const JobShape& shape, const JobState& state) const;

    std::int32_t n_partners_;
};

class NoCopies final : public Scheme {
public:
    [[nodiscard]] std::unique_ptr<const Shares> place(const JobShape& /*shape*/, const JobState& /*state*/,
                                                      std::span<const Replacement> /*layout*/) const override {
        return std::make_unique<NoShares>();
    }
    [[nodiscard]] std::int32_t losses_survived(const JobShape& /*shape*/, const JobState& /*state*/) const override {
        return 0;
    }
};

const PartnerScheme kPartners[kPartnersMax] = {PartnerScheme(1), PartnerScheme(2), PartnerScheme(3), PartnerScheme(4),
                                               PartnerScheme(5), PartnerScheme(6), PartnerScheme(7), PartnerScheme(8)};
constexpr NoCopies kNoCopies;

std::unique_ptr<const Shares> PartnerScheme::place(const JobShape& shape, const JobState& state,
                                                   std::span<const Replacement> layout) const {
    if (shape.n_pes == 1) {
        return std::make_unique<SoleShares>(shape.has_witness() ? state.witness : holder_in(layout, PeId(0)));
    }
    return std::make_unique<PartnerShares>(shape, state, layout, n_partners_);
}

// What is left on a node is there while somebody of the job lives there, since a spare there takes over: a PE is lost
// with all processes of the nodes that keep for it.
std::int32_t PartnerScheme::losses_by_node(const JobShape& shape, const JobState& state) const {
    const PartnerShares shares(shape, state, state.protected_layout, n_partners_);
    const LeftMemory left(shape, state);
    const Population population(shape, state);
    const std::vector<std::int32_t>& all_on = population.all_on;
    std::int32_t fewest = population.losses_before_all(shape);
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const NodeId own = shape.node_of(state, shape.holder(state, PeId(pe)));
        std::int32_t n_needed = 0;  // besides the PE
        for (const Share& share : shares.of(PeId(pe))) {
            const NodeId at = shape.node_of(state, share.holder);
            n_needed += left.has(share.holder, Memory::kept_shadows) ? all_on[at.index()] - (at == own ? 1 : 0) : 0;
            // Without a copy of its own it is lost although it lives.
            n_needed -= shape.keeps_near && at != own ? 1 : 0;
        }
        fewest = std::min(fewest, n_needed);
    }
    return std::max(fewest, 0);
}

// In memory of the node all copies are left, and what was agreed on. Else any processes may be the keepers of one PE.
std::int32_t PartnerScheme::losses_survived(const JobShape& shape, const JobState& state) const {
    if (!state.unprotected.empty()) {
        return 0;
    }
    const bool outlives = !shape.memory->dies_with_process(Memory::kept_shadows);
    if (outlives && shape.is_one_node()) {
        return shape.n_pes;
    }
    if (outlives) {
        return losses_by_node(shape, state);
    }
    if (shape.n_pes == 1 || n_partners_ == 1 || shape.is_one_node()) {
        return 1;
    }
    const PartnerShares shares(shape, state, state.protected_layout, n_partners_);
    const LeftMemory left(shape, state);
    std::ptrdiff_t fewest = n_partners_;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const std::vector<Share> of_it = shares.of(PeId(pe));
        fewest = std::min(fewest, std::count_if(of_it.begin(), of_it.end(), [&](const Share& share) {
                              return left.has(share.holder, Memory::kept_shadows);
                          }));
    }
    return static_cast<std::int32_t>(fewest);
}

}  // namespace

const Scheme& partners(std::int32_t n) noexcept {
    SFT_ASSERT(n > 0 && n <= kPartnersMax);
    return kPartners[n - 1];
}
const Scheme& one_partner() noexcept { return partners(1); }
const Scheme& no_copies() noexcept { return kNoCopies; }

}  // namespace sft
