// What became of a job's spares, for the line that says that none is left. Pure.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

struct LostSpares {
    std::int32_t n_spares = 0;  // that the job has ever had
    std::int32_t n_alone = 0;   // that have died without ever having held a PE, while others on their node live
    // The same of nodes of which nobody lives, by node.
    std::vector<std::pair<NodeId, std::int32_t>> with_node;
};

// dead: sorted by process.
[[nodiscard]] LostSpares lost_spares(const JobShape& shape, const JobState& state, std::span<const Death> dead);

}  // namespace sft
