// What may be lost as one, by node: an area is a rack, a power supply, whatever the user's file says
// (base/topology.hpp). Copies of a PE are kept in different ones.
//
// All processes have the same map, because placements follow from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/ids.hpp"

namespace sft {

class AreaMap {
public:
    // Nothing is known: each node is alone.
    AreaMap() = default;
    // By node of the job; any numbers.
    explicit AreaMap(std::vector<std::int32_t> areas) : areas_(std::move(areas)) {}

    [[nodiscard]] std::int32_t area_of(NodeId node) const noexcept {
        SFT_ASSERT(areas_.empty() || (node.value() >= 0 && node.index() < areas_.size()));
        return areas_.empty() ? node.value() : areas_[node.index()];
    }
    // False: there is nothing to keep apart but nodes.
    [[nodiscard]] bool has_several() const noexcept {
        return std::adjacent_find(areas_.begin(), areas_.end(), std::not_equal_to<>()) != areas_.end();
    }

private:
    std::vector<std::int32_t> areas_;
};

}  // namespace sft
