// Schemes that only tests have, so that rules and simulator are not made for one partner. The next two PEs' holders
// keep a share each, whatever the nodes; in a job of two PEs there is one. Either share is a copy, and one is enough
// (two_partners), or a half, and both are needed (two_halves). What an only PE needs is as with one partner.
#pragma once

#include <algorithm>
#include <memory>

#include "recovery/membership/scheme.hpp"

namespace sft {

class SharesOfTwo final : public Shares {
public:
    SharesOfTwo(const JobShape& shape, std::span<const Replacement> layout, bool are_halves)
        : shape_(shape), are_halves_(are_halves) {
        layout_.replacements.assign(layout.begin(), layout.end());
    }

    [[nodiscard]] std::vector<Share> of(PeId pe) const override {
        std::vector<Share> shares;
        for (std::int32_t next = 1; next <= std::min(2, shape_.n_pes - 1); ++next) {
            shares.push_back({.holder = shape_.holder(layout_, PeId((pe.value() + next) % shape_.n_pes)),
                              .part = are_halves_ ? next : 0});
        }
        return shares;
    }
    [[nodiscard]] std::vector<PeId> kept_by(ProcId process) const override {
        std::vector<PeId> kept;
        for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
            const std::vector<Share> shares = of(PeId(pe));
            if (std::any_of(shares.begin(), shares.end(), [&](Share share) { return share.holder == process; })) {
                kept.emplace_back(pe);
            }
        }
        return kept;
    }
    [[nodiscard]] bool can_rebuild(PeId pe, const LeftMemory& left) const override {
        const std::vector<Share> shares = of(pe);
        const auto is_left = [&](Share share) { return left.has(share.holder, Memory::kept_shadows); };
        return are_halves_ ? std::all_of(shares.begin(), shares.end(), is_left)
                           : std::any_of(shares.begin(), shares.end(), is_left);
    }

private:
    JobShape shape_;
    JobState layout_;  // nothing of it but who holds what
    bool are_halves_;
};

class SchemeOfTwo final : public Scheme {
public:
    explicit constexpr SchemeOfTwo(bool are_halves) noexcept : are_halves_(are_halves) {}

    [[nodiscard]] std::unique_ptr<const Shares> place(const JobShape& shape, const JobState& state,
                                                      std::span<const Replacement> layout) const override {
        return shape.n_pes == 1 ? one_partner().place(shape, state, layout)
                                : std::make_unique<SharesOfTwo>(shape, layout, are_halves_);
    }
    [[nodiscard]] std::int32_t losses_survived(const JobShape& shape, const JobState& state) const override {
        if (shape.n_pes == 1) {
            return one_partner().losses_survived(shape, state);
        }
        std::size_t fewest = 2;
        for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
            fewest = std::min(fewest, sources_of(shape, state, PeId(pe)).size());
        }
        return static_cast<std::int32_t>(are_halves_ ? fewest / 2 : fewest);
    }

private:
    bool are_halves_;
};

[[nodiscard]] inline const Scheme& two_partners() noexcept {
    static constexpr SchemeOfTwo scheme(false);
    return scheme;
}
[[nodiscard]] inline const Scheme& two_halves() noexcept {
    static constexpr SchemeOfTwo scheme(true);
    return scheme;
}

}  // namespace sft
