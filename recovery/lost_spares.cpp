#include "recovery/lost_spares.hpp"

#include <algorithm>
#include <map>

#include "base/assert.hpp"

namespace sft {

LostSpares lost_spares(const JobShape& shape, const JobState& state, std::span<const Death> dead) {
    std::vector<ProcId> everybody;
    for (std::int32_t process = 0; process < shape.n_processes; ++process) {
        everybody.emplace_back(process);
    }
    for (const Joined& joined : state.joined) {
        everybody.push_back(joined.process);
    }
    LostSpares lost;
    lost.n_spares = static_cast<std::int32_t>(everybody.size()) - shape.n_pes;
    SFT_ASSERT(lost.n_spares >= 0);
    std::map<NodeId, std::int32_t> by_node;
    for (const ProcId process : everybody) {
        if (process.value() >= shape.n_pes && shape.held_by(state, process) == kNoPe && contains(dead, process)) {
            ++by_node[shape.node_of(state, process)];
        }
    }
    for (const auto& [node, count] : by_node) {
        const bool is_anybody_there = std::any_of(everybody.begin(), everybody.end(), [&, here = node](ProcId process) {
            return shape.node_of(state, process) == here && !contains(dead, process);
        });
        if (is_anybody_there || shape.is_one_node()) {
            lost.n_alone += count;
        } else {
            lost.with_node.emplace_back(node, count);
        }
    }
    SFT_ASSERT(lost.n_alone <= lost.n_spares);
    return lost;
}

}  // namespace sft
