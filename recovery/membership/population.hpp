// How many processes of a job on several nodes live on each of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "recovery/membership/job_state.hpp"
#include "recovery/membership/memory_holder.hpp"

namespace sft {

struct Population {
    std::vector<std::int32_t> all_on;  // by node: holders and spares
    std::vector<std::int32_t> spares_on;

    Population(const JobShape& shape, const JobState& state) {
        const LeftMemory left(shape, state);
        spares_on.resize(static_cast<std::size_t>(shape.nodes->n_nodes()));
        all_on.resize(spares_on.size());
        std::vector<Death> dead;
        for (const Death& death : state.deaths) {
            insert_sorted(dead, death);
        }
        for (const ProcId spare : shape.idle_spares(state, dead)) {
            ++spares_on[shape.node_of(state, spare).index()];
            ++all_on[shape.node_of(state, spare).index()];
        }
        for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
            const ProcId holder = shape.holder(state, PeId(pe));
            all_on[shape.node_of(state, holder).index()] += left.lives(holder) ? 1 : 0;
        }
    }

    // When all holders have died, what was agreed on is read on the nodes: so the job is lost with all holders and all
    // spares of any one node. One less than these.
    [[nodiscard]] std::int32_t losses_before_all(const JobShape& shape) const {
        std::int32_t fewest_spares = shape.n_processes;
        for (std::size_t node = 0; node < all_on.size(); ++node) {
            fewest_spares = all_on[node] == 0 ? fewest_spares : std::min(fewest_spares, spares_on[node]);
        }
        return shape.n_pes - 1 + fewest_spares;
    }
};

}  // namespace sft
