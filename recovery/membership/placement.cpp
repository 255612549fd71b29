#include "recovery/membership/placement.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"

namespace sft {

Placement::Placement(const JobShape& shape, const JobState& state, std::span<const Replacement> replacements,
                     std::int32_t n_wanted)
    : n_pes_(shape.n_pes) {
    SFT_ASSERT(n_pes_ > 0 && n_wanted > 0);
    SFT_ASSERT(replacements.size() <= static_cast<std::size_t>(n_pes_));
    if (!shape.has_groups() || is_mutated(Mutation::keeper_on_own_node)) {
        return;
    }
    std::vector<ProcId> holders;
    holders.reserve(static_cast<std::size_t>(n_pes_));
    auto replaced = replacements.begin();
    for (std::int32_t pe = 0; pe < n_pes_; ++pe) {
        const bool is_replaced = replaced != replacements.end() && replaced->pe == PeId(pe);
        holders.push_back(is_replaced ? replaced->process : ProcId(pe));
        replaced += is_replaced ? 1 : 0;
    }
    SFT_ASSERT(replaced == replacements.end());  // they are sorted by PE, each once
    // Memory of a keeper that has died stays readable everywhere on its node.
    keeps_near_ = shape.keeps_near && !shape.is_one_node();
    std::vector<GroupId> groups(holders.size());
    std::transform(holders.begin(), holders.end(), groups.begin(),
                   [&](ProcId holder) { return shape.group_of(state, holder); });
    bool has_several = arrange(groups);
    if (!has_several && shape.has_areas()) {
        std::transform(holders.begin(), holders.end(), groups.begin(),
                       [&](ProcId holder) { return GroupId(shape.node_of(state, holder).value()); });
        has_several = arrange(groups);
    }
    if (has_several && !shape.is_one_node() && !keeps_near_) {
        n_keepers_ = std::min(n_wanted, static_cast<std::int32_t>(begin_.size()) - 2);
    }
}

bool Placement::arrange(const std::vector<GroupId>& of) {
    SFT_ASSERT(begin_.empty());
    by_group_.clear();
    for (std::int32_t pe = 0; pe < n_pes_; ++pe) {
        by_group_.push_back(PeId(pe));
    }
    std::stable_sort(by_group_.begin(), by_group_.end(), [&](PeId a, PeId b) { return of[a.index()] < of[b.index()]; });
    place_.resize(by_group_.size());
    group_.resize(by_group_.size());
    for (std::size_t i = 0; i < by_group_.size(); ++i) {
        if (i == 0 || of[by_group_[i].index()] != of[by_group_[i - 1].index()]) {
            begin_.push_back(static_cast<std::int32_t>(i));
        }
        place_[by_group_[i].index()] = static_cast<std::int32_t>(i) - begin_.back();
        group_[by_group_[i].index()] = static_cast<std::int32_t>(begin_.size()) - 1;
    }
    SFT_ASSERT(begin_.front() == 0 && begin_.back() < n_pes_);  // no group without PEs
    const bool is_any_unknown = of[by_group_.front().index()] == kNoGroup;
    if (begin_.size() < (is_any_unknown ? 3 : 2)) {
        begin_.clear();  // all PEs of which it is known are in one
        return false;
    }
    begin_.push_back(n_pes_);
    return true;
}

PeId Placement::keeper_of(PeId pe, std::int32_t number) const noexcept {
    SFT_ASSERT(n_pes_ > 1);  // a copy with its original is none
    SFT_ASSERT(pe.value() >= 0 && pe.value() < n_pes_);
    SFT_ASSERT(number >= 0 && number < n_keepers_);
    if (is_one_group()) {
        return PeId((pe.value() + 1) % n_pes_);
    }
    const auto own = static_cast<std::size_t>(group_[pe.index()]);
    const std::int32_t place = place_[pe.index()];
    if (is_kept_within(own)) {
        return by_group_[static_cast<std::size_t>(begin_[own] + (place + 1) % size_of(own))];
    }
    const std::size_t next = (own + 1 + static_cast<std::size_t>(number)) % (begin_.size() - 1);
    SFT_ASSERT(next != own && size_of(next) > 0);
    return by_group_[static_cast<std::size_t>(begin_[next] + place % size_of(next))];
}

bool Placement::is_keeper_of(PeId keeper, PeId pe) const noexcept {
    for (std::int32_t number = 0; number < n_keepers_; ++number) {
        if (keeper_of(pe, number) == keeper) {
            return true;
        }
    }
    return false;
}

std::vector<PeId> Placement::kept_by(PeId pe) const {
    SFT_ASSERT(n_pes_ > 1);
    SFT_ASSERT(pe.value() >= 0 && pe.value() < n_pes_);
    if (is_one_group()) {
        return {PeId((pe.value() + n_pes_ - 1) % n_pes_)};
    }
    const std::size_t n_groups = begin_.size() - 1;
    const auto own = static_cast<std::size_t>(group_[pe.index()]);
    const std::int32_t size = size_of(own);
    const std::int32_t place = place_[pe.index()];
    std::vector<PeId> kept;
    if (is_kept_within(own)) {
        kept.push_back(by_group_[static_cast<std::size_t>(begin_[own] + (place + size - 1) % size)]);
    }
    for (std::int32_t back = 1; back <= n_keepers_; ++back) {
        const std::size_t before = (own + n_groups - static_cast<std::size_t>(back)) % n_groups;
        SFT_ASSERT(before != own);
        [[maybe_unused]] const std::size_t n_kept = kept.size();
        for (std::int32_t i = begin_[before] + place; i < begin_[before + 1] && !is_kept_within(before); i += size) {
            kept.push_back(by_group_[static_cast<std::size_t>(i)]);
        }
        // Balanced: the PEs of the group before are dealt out.
        SFT_ASSERT(static_cast<std::int64_t>(kept.size() - n_kept) <= (size_of(before) + size - 1) / size);
    }
    std::sort(kept.begin(), kept.end());
    SFT_ASSERT(!std::binary_search(kept.begin(), kept.end(), pe));
    SFT_ASSERT(std::adjacent_find(kept.begin(), kept.end()) == kept.end());
    SFT_ASSERT_SLOW(std::all_of(kept.begin(), kept.end(), [&](PeId other) { return is_keeper_of(pe, other); }));
    return kept;
}

}  // namespace sft
