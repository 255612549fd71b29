#include "backup/placement.hpp"

#include <cstddef>

namespace sft {

std::vector<ProcId> place_keepers(const PlacementInput& input) {
    const std::size_t n_pes = input.holders.size();
    std::vector<ProcId> keepers(n_pes, kNoProc);
    for (std::size_t pe = 0; pe < n_pes; ++pe) {
        const ProcId current = input.current_keepers[pe];
        if (current != kNoProc && current != input.holders[pe]) {
            keepers[pe] = current;
        } else if (n_pes > 1) {
            keepers[pe] = input.holders[(pe + 1) % n_pes];
        } else if (!input.idle_spares.empty()) {
            keepers[pe] = input.idle_spares.front();
        }
    }
    return keepers;
}

}  // namespace sft
