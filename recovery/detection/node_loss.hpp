// What the loss of a node would do to a job (recovery/node_losses.cpp finds it out). Nothing is decided by it.
#pragma once

#include <cstdint>

#include "base/ids.hpp"

namespace sft {

// What the loss of a node, with all that runs there, would do to a job. Values are read by `shmem-ft status`.
enum class NodeLoss : std::uint8_t {
    survived,
    nothing_committed,  // or no copies are kept
    unprotected_pe,     // a PE there has no second copy just now
    copies_stay,        // copies are on the node of their PE (SHMEM_FT_BACKUP_MODE=single)
    copy_beside,        // a PE there has its copy there, because there are PEs on one node only
    majority,           // who is left would be too few to go on
    too_few_spares,     // elsewhere
};

// Of the nodes where something of the job lives: how many of them it survives the loss of, each alone.
struct NodeLosses {
    std::int32_t n_nodes = 0;
    std::int32_t n_survived = 0;
    NodeId fatal = kNoNode;  // the lowest one that it does not survive the loss of, and why
    NodeLoss why = NodeLoss::survived;
};

}  // namespace sft
