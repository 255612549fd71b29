// Who keeps whose shadow: a pure function, used at start-up and after every recovery.
//
// On one node every process is a failure domain of its own, so the keeper of a PE is the holder of the next PE (the
// pattern of the thesis). A job of one PE uses its first living spare: the memory of a sleeping process is as good.
// A keeper that lives stays the keeper, so that a recovery ships only what was lost.
//
// ENSURES: no PE keeps its own shadow; kNoProc where nobody else is left.
#pragma once

#include <span>
#include <vector>

#include "shmem_ft/base/ids.hpp"

namespace sft {

struct PlacementInput {
    std::span<const ProcId> holders;          // by PE
    std::span<const ProcId> current_keepers;  // by PE; kNoProc: none or dead
    std::span<const ProcId> idle_spares;      // living spares that hold no PE, ascending
};

[[nodiscard]] std::vector<ProcId> place_keepers(const PlacementInput& input);

}  // namespace sft
