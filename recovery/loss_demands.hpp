// What a topology demands of a job ([survive]): that any so many hosts, or domains of a level, may be lost at one
// moment. Looked at as the job begins: one that cannot meet it does not begin, because somebody counts on it.
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "base/topology.hpp"
#include "recovery/losses.hpp"
#include "recovery/membership/job_state.hpp"

namespace sft {

// On nodes with these names (by node), which the topology places.
struct DemandedJob {
    const Topology& topology;
    const JobShape& shape;
    const std::vector<std::string>& names;
};

// The nodes one by one, or the domains of a level that have nodes of the job, in the order of the topology; behind them
// each node that it does not name.
[[nodiscard]] std::vector<LossUnit> units_of(const DemandedJob& job, const std::string& what);
// A set that is not survived, and why; empty: none was found. Where there are very many, not all are looked at.
[[nodiscard]] std::string why_not_met(const Topology::Demand& demand, const DemandedJob& job, const Losses& losses);

// The demand that the job does not meet as it begins, why, and what would do on the same nodes: a mode, or the most of
// that demand that any mode meets. Empty: it meets all of them.
[[nodiscard]] std::string unmet_demand(const DemandedJob& job);

}  // namespace sft
