// Which node a process runs on. A node is what has a host name of its own, whatever lies below it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/ids.hpp"

namespace sft {

class NodeMap {
public:
    // Everything on one node.
    NodeMap() = default;
    // By process, of those that the job starts with. Nodes are numbered 0, 1, ... in the order of their lowest process.
    explicit NodeMap(std::vector<NodeId> nodes) : nodes_(std::move(nodes)) {
        for (const NodeId node : nodes_) {
            n_nodes_ = node.value() >= n_nodes_ ? node.value() + 1 : n_nodes_;
        }
    }

    [[nodiscard]] std::int32_t n_nodes() const noexcept { return n_nodes_; }
    // Of a process that the job has started with. (JobShape::node_of knows those that joined.)
    [[nodiscard]] NodeId node_of(ProcId process) const noexcept {
        SFT_ASSERT(nodes_.empty() || (process.value() >= 0 && process.index() < nodes_.size()));
        return nodes_.empty() ? NodeId(0) : nodes_[process.index()];
    }
    [[nodiscard]] bool is_one_node() const noexcept { return n_nodes_ == 1; }

private:
    std::vector<NodeId> nodes_;
    std::int32_t n_nodes_ = 1;
};

}  // namespace sft
