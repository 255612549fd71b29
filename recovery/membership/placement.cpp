#include "recovery/membership/placement.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"

namespace sft {
namespace {

// Behind a PE whose keeper has to change places, if one was found by then that could keep besides.
constexpr std::int32_t kPlacesTried = 4096;

}  // namespace

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
    const auto by_node = [&](const JobState& at, ProcId holder) { return GroupId(shape.node_of(at, holder).value()); };
    bool has_several = arrange(groups);
    const bool is_by_node = !has_several && shape.has_areas();
    if (is_by_node) {
        std::transform(holders.begin(), holders.end(), groups.begin(),
                       [&](ProcId holder) { return by_node(state, holder); });
        has_several = arrange(groups);
    }
    if (!has_several || keeps_near_) {
        return;
    }
    if (!shape.is_one_node()) {
        n_keepers_ = std::min(n_wanted, static_cast<std::int32_t>(begin_.size()) - 2);
    }
    const JobState at_first;
    for (std::int32_t pe = 0; pe < n_pes_; ++pe) {
        groups[static_cast<std::size_t>(pe)] =
            is_by_node ? by_node(at_first, ProcId(pe)) : shape.group_of(at_first, ProcId(pe));
    }
    step_ = find_step(std::move(groups), shape.is_one_node() ? 1 : n_wanted);
    if (step_ != 0) {
        mend();
    }
}

std::int32_t Placement::find_step(std::vector<GroupId> first, std::int32_t n_wanted) const {
    std::sort(first.begin(), first.end());
    std::int32_t n_groups = 0;
    std::ptrdiff_t most = 0;
    for (auto begin = first.begin(); begin != first.end(); ++n_groups) {
        const auto end = std::upper_bound(begin, first.end(), *begin);
        most = std::max(most, end - begin);
        begin = end;
    }
    const std::int64_t n_steps = std::min(n_wanted, n_groups - 1) + 1;
    return n_steps * most <= n_pes_ ? static_cast<std::int32_t>(most) : 0;
}

PeId Placement::at(std::int64_t place) const noexcept {
    return by_group_[static_cast<std::size_t>((place % n_pes_ + n_pes_) % n_pes_)];
}

// Not in the group of the PE, nor in that of another of its keepers with a lower number.
bool Placement::fits(PeId pe, std::int32_t number, PeId keeper) const noexcept {
    bool is_apart = group_[keeper.index()] != group_[pe.index()];
    for (std::int32_t other = 0; other < number && is_apart; ++other) {
        is_apart = group_[keeper.index()] != group_[keeper_of(pe, other).index()];
    }
    return is_apart;
}

const Placement::Misfit* Placement::find_misfit(PeId pe, std::int32_t number) const noexcept {
    const auto found = std::lower_bound(misfits_.begin(), misfits_.end(), std::pair(pe, number),
                                        [](const Misfit& misfit, const std::pair<PeId, std::int32_t>& wanted) {
                                            return std::pair(misfit.pe, misfit.number) < wanted;
                                        });
    return found != misfits_.end() && found->pe == pe && found->number == number ? &*found : nullptr;
}

void Placement::set_keeper(PeId pe, std::int32_t number, PeId keeper) {
    if (const Misfit* const misfit = find_misfit(pe, number)) {
        misfits_[static_cast<std::size_t>(misfit - misfits_.data())].keeper = keeper;
        return;
    }
    const auto before = std::find_if(misfits_.begin(), misfits_.end(), [&](const Misfit& misfit) {
        return std::pair(pe, number) < std::pair(misfit.pe, misfit.number);
    });
    misfits_.insert(before, {.pe = pe, .number = number, .keeper = keeper});
}

void Placement::mend() {
    if (is_mutated(Mutation::leave_misfits)) {
        return;
    }
    std::vector<std::int32_t> n_more;  // by PE: that it keeps beyond its share
    for (std::int32_t number = 0; number < n_keepers_; ++number) {
        for (std::int32_t place = 0; place < n_pes_; ++place) {
            if (!fits(at(place), number, keeper_of(at(place), number))) {
                n_more.resize(static_cast<std::size_t>(n_pes_));
                change_places(place, number, n_more);
            }
        }
    }
}

// Of the PE at that place and one behind it; or another one keeps it besides.
void Placement::change_places(std::int32_t place, std::int32_t number, std::vector<std::int32_t>& n_more) {
    const PeId pe = at(place);
    const PeId misplaced = keeper_of(pe, number);
    PeId least = kNoPe;
    for (std::int32_t i = 1; i < n_pes_ && (i < kPlacesTried || least == kNoPe); ++i) {
        const PeId other = at(place + std::int64_t{i});
        const PeId keeper = keeper_of(other, number);
        if (fits(pe, number, keeper) && fits(other, number, misplaced)) {
            set_keeper(pe, number, keeper);
            set_keeper(other, number, misplaced);
            return;
        }
        if (fits(pe, number, other) && (least == kNoPe || n_more[other.index()] < n_more[least.index()])) {
            least = other;
        }
    }
    SFT_ASSERT(least != kNoPe);  // there are more groups than keepers of a PE
    ++n_more[least.index()];
    --n_more[misplaced.index()];
    set_keeper(pe, number, least);
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
    if (step_ != 0) {
        const Misfit* const misfit = misfits_.empty() ? nullptr : find_misfit(pe, number);
        return misfit != nullptr ? misfit->keeper
                                 : at(place_on_circle(pe) + (std::int64_t{number} + 1) * std::int64_t{step_});
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

std::vector<PeId> Placement::kept_on_circle(PeId pe) const {
    std::vector<PeId> kept;
    for (std::int32_t number = 0; number < n_keepers_; ++number) {
        const PeId other = at(place_on_circle(pe) - (std::int64_t{number} + 1) * std::int64_t{step_});
        if (find_misfit(other, number) == nullptr) {
            kept.push_back(other);
        }
    }
    for (const Misfit& misfit : misfits_) {
        if (misfit.keeper == pe) {
            kept.push_back(misfit.pe);
        }
    }
    std::sort(kept.begin(), kept.end());
    SFT_ASSERT(std::adjacent_find(kept.begin(), kept.end()) == kept.end());
    SFT_ASSERT_SLOW(std::all_of(kept.begin(), kept.end(), [&](PeId other) { return is_keeper_of(pe, other); }));
    return kept;
}

std::vector<PeId> Placement::kept_by(PeId pe) const {
    SFT_ASSERT(n_pes_ > 1);
    SFT_ASSERT(pe.value() >= 0 && pe.value() < n_pes_);
    if (is_one_group()) {
        return {PeId((pe.value() + n_pes_ - 1) % n_pes_)};
    }
    if (step_ != 0) {
        return kept_on_circle(pe);
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
