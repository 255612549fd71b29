// Which nodes a job may lose at one moment: a copy of each PE that is lost has to be left (or of its parity group no
// more lost than the group can bring back), spares enough elsewhere, and the greater part of the PEs (docs/nodes.md,
// "Racks and the like").
//
// Of a job that is protected, as it is before any of that happens. Pure. Threads: constant after construction.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "recovery/membership/job_state.hpp"

namespace sft {

// Nodes that are lost as one: a single one, or a domain of a topology.
struct LossUnit {
    std::string name;
    std::vector<NodeId> nodes;
};

using UnitSet = std::vector<std::int32_t>;  // ascending

class Losses {
public:
    // dead: sorted by process.
    Losses(const JobShape& shape, const JobState& state, std::span<const Death> dead);

    // Empty: the job survives the loss of these nodes.
    [[nodiscard]] std::string why_fatal(const std::vector<NodeId>& nodes) const;
    // The same, with the names of the units in front.
    [[nodiscard]] std::string why_fatal(const std::vector<LossUnit>& units, const UnitSet& set) const;
    // The processes that have a copy of that PE, or of the others of its parity group.
    [[nodiscard]] const std::vector<ProcId>& keepers_of(PeId pe) const { return keepers_[pe.index()]; }

private:
    void find_keepers(const JobShape& shape, const JobState& state);

    std::vector<std::vector<ProcId>> keepers_;        // by PE
    std::vector<std::vector<NodeId>> keepers_nodes_;  // by PE: of each of them
    std::vector<std::int32_t> tolerated_;             // by PE: losses in its parity group; empty: there are copies
    std::vector<NodeId> node_of_pe_;
    std::vector<NodeId> nodes_of_spares_;
    NodeId node_of_leader_ = kNoNode;
    std::int32_t n_nodes_ = 1;
};

[[nodiscard]] std::uint64_t choices(std::uint64_t n, std::uint64_t k);
// Calls for each set of k numbers below n, or, if there are more than n_max, for n_max of them that are drawn, the same
// in every run. Result: whether they were drawn.
bool each_set(std::int32_t n, std::int32_t k, std::uint64_t n_max, const std::function<void(const UnitSet&)>& call);

}  // namespace sft
