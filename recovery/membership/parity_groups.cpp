#include "recovery/membership/parity_groups.hpp"

#include <algorithm>
#include <map>

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"

namespace sft {
namespace {

struct Sides {
    std::vector<std::int32_t> of;  // by PE
    std::int32_t n_sides = 0;
    std::int32_t most = 0;  // PEs on one
};

template <class SideOf>
Sides sides_of(std::int32_t n_pes, SideOf&& side_of) {
    Sides sides;
    std::map<std::int32_t, std::int32_t> n_on;
    for (std::int32_t pe = 0; pe < n_pes; ++pe) {
        sides.of.push_back(side_of(ProcId(pe)));
        sides.most = std::max(sides.most, ++n_on[sides.of.back()]);
    }
    sides.n_sides = static_cast<std::int32_t>(n_on.size());
    return sides;
}

}  // namespace

ParityGroups::ParityGroups(const JobShape& shape, std::int32_t size, std::int32_t n_parity) : n_parity_(n_parity) {
    SFT_ASSERT(n_parity > 0 && size > n_parity && shape.n_pes > 1 && !shape.is_one_node());
    const JobState at_first;
    const auto node_of = [&](ProcId process) { return shape.node_of(at_first, process).value(); };
    Sides sides;
    if (shape.has_areas()) {
        sides = sides_of(shape.n_pes, [&](ProcId process) { return shape.group_of(at_first, process).value(); });
    }
    if (sides.n_sides < 2) {  // no areas, or all PEs in one
        sides = sides_of(shape.n_pes, node_of);
    }
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        dealt_.emplace_back(pe);
    }
    n_groups_ = (shape.n_pes + size - 1) / size;
    if (!is_mutated(Mutation::parity_on_own_node)) {
        std::stable_sort(dealt_.begin(), dealt_.end(),
                         [&](PeId a, PeId b) { return sides.of[a.index()] < sides.of[b.index()]; });
        n_groups_ = std::max(n_groups_, sides.most);
    }
    place_.resize(dealt_.size());
    std::int32_t place = 0;
    for (const PeId pe : dealt_) {
        place_[pe.index()] = place++;
    }
}

std::int32_t ParityGroups::size_of(std::int32_t group) const noexcept {
    SFT_ASSERT(group >= 0 && group < n_groups_);
    return (static_cast<std::int32_t>(dealt_.size()) - group + n_groups_ - 1) / n_groups_;
}

std::int32_t ParityGroups::tolerated(std::int32_t group) const noexcept {
    return std::min(n_parity_, size_of(group) - 1);
}

ParityGroup ParityGroups::of(PeId pe) const {
    const std::int32_t group = group_of(pe);
    ParityGroup found{.members = {}, .position = position_of(pe), .n_parity = tolerated(group)};
    for (std::int32_t position = 0; position < size_of(group); ++position) {
        found.members.push_back(member(group, position));
    }
    return found;
}

PeId ParityGroups::member(std::int32_t group, std::int32_t position) const noexcept {
    SFT_ASSERT(position >= 0 && position < size_of(group));
    return dealt_[static_cast<std::size_t>(position * n_groups_ + group)];
}

}  // namespace sft
