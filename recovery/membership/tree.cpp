#include "recovery/membership/tree.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/assert.hpp"

namespace sft {

Tree::Tree(const JobShape& shape, const JobState& state, std::span<const Death> dead, std::int32_t fan_out)
    : n_pes_(shape.n_pes), fan_out_(fan_out) {
    SFT_ASSERT(n_pes_ > 0 && fan_out_ > 0);
    for (const Death& death : dead) {
        if (death.process.value() < n_pes_) {
            absent_.push_back(death.process.value());
        }
    }
    std::vector<std::pair<std::int32_t, ProcId>> by_turn;
    for (const Replacement& replacement : state.replacements) {
        if (!contains(dead, replacement.process)) {
            by_turn.emplace_back(replacement.turn, replacement.process);
        }
    }
    if (state.witness != kNoProc && shape.held_by(state, state.witness) == kNoPe && !contains(dead, state.witness)) {
        by_turn.emplace_back(state.witness.value(), state.witness);
    }
    std::sort(by_turn.begin(), by_turn.end());
    for (const auto& [turn, process] : by_turn) {
        extra_.push_back(process);
    }
    SFT_ASSERT(absent_.size() <= static_cast<std::size_t>(n_pes_));
    // Strictly: nobody has two places. Substitutes and the witness come behind all that have started as PEs.
    SFT_ASSERT_SLOW(std::is_sorted(absent_.begin(), absent_.end(), std::less_equal<>()));
    SFT_ASSERT_SLOW(std::adjacent_find(by_turn.begin(), by_turn.end(), [](const auto& a, const auto& b) {
                        return a.first == b.first;
                    }) == by_turn.end());
    SFT_ASSERT(extra_.empty() || extra_.front().value() >= n_pes_);
}

std::int32_t Tree::size() const noexcept {
    return n_pes_ - static_cast<std::int32_t>(absent_.size()) + static_cast<std::int32_t>(extra_.size());
}

std::int32_t Tree::place_of(ProcId process) const {
    const std::int32_t n_originals = n_pes_ - static_cast<std::int32_t>(absent_.size());
    if (process.value() >= n_pes_) {
        const auto at = std::find(extra_.begin(), extra_.end(), process);
        return at != extra_.end() ? n_originals + static_cast<std::int32_t>(at - extra_.begin()) : -1;
    }
    const auto at = std::lower_bound(absent_.begin(), absent_.end(), process.value());
    if (process.value() < 0 || (at != absent_.end() && *at == process.value())) {
        return -1;
    }
    return process.value() - static_cast<std::int32_t>(at - absent_.begin());
}

ProcId Tree::process_at(std::int32_t place) const {
    SFT_ASSERT(place >= 0 && place < size());
    const std::int32_t n_originals = n_pes_ - static_cast<std::int32_t>(absent_.size());
    if (place >= n_originals) {
        return extra_[static_cast<std::size_t>(place - n_originals)];
    }
    // Each absent one up to it shifts it by one.
    std::size_t low = 0;
    std::size_t high = absent_.size();
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (absent_[middle] - static_cast<std::int32_t>(middle) <= place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    SFT_ASSERT_SLOW(place_of(ProcId(place + static_cast<std::int32_t>(low))) == place);
    return ProcId(place + static_cast<std::int32_t>(low));
}

ProcId Tree::parent_of(ProcId process) const {
    const std::int32_t place = place_of(process);
    SFT_ASSERT(place >= 0);
    return place <= 0 ? kNoProc : process_at((place - 1) / fan_out_);
}

std::vector<ProcId> Tree::children_of(ProcId process) const {
    std::vector<ProcId> children;
    const std::int64_t first = static_cast<std::int64_t>(place_of(process)) * fan_out_ + 1;
    SFT_ASSERT(first > 0);  // a participant
    const std::int64_t end = std::min<std::int64_t>(first + fan_out_, size());
    for (std::int64_t place = first; place < end; ++place) {
        children.push_back(process_at(static_cast<std::int32_t>(place)));
    }
    return children;
}

}  // namespace sft
