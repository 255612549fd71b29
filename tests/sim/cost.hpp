// What the protocols cost at sizes that no machine at hand has: the same Agreement and Detector, one per process, over
// a network with latency, bandwidth and a cost per message, and a formula for the data.
//
// A message keeps its sender busy for the overhead and its bytes, travels for the latency, and keeps its receiver busy
// for the overhead; a process handles one message at a time. So both the depth of a tree and a crowd at one process
// show.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft::sim {

struct CostModel {
    double latency_us = 2.0;
    double overhead_us = 0.5;  // per message, at each end
    double network_gb_s = 12.5;
    double memory_gb_s = 10.0;    // copying
    double state_mb = 1024.0;     // of a PE
    double changed_share = 0.25;  // of it, between two checkpoints
    double period_ms = 100.0;     // heartbeats
    double bound_ms = 500.0;
    double process_mtbf_years = 50.0;
    std::int32_t fan_out = 4;
    std::int32_t spares = 4;
};

// One sweep or several: from when everybody is ready to when the last one knows.
struct ControlCost {
    double us = 0.0;
    std::uint64_t messages = 0;
    std::uint32_t most_at_one = 0;  // messages sent and received by the process that has most of them
};

struct CostRow {
    std::int32_t pes = 0;
    double detection_ms = 0.0;
    ControlCost checkpoint;    // arrive, ship, fold
    ControlCost fault;         // a process without children dies: until all know
    ControlCost leader_fault;  // the leader dies
    ControlCost recovery;      // restart, restore, protect
    double checkpoint_data_ms = 0.0;
    double recovery_data_ms = 0.0;
    double bytes_per_pe = 0.0;  // Agreement, Participant, Detector and what they allocate
    double bytes_most = 0.0;
    double bytes_counted = 0.0;  // per PE, by the allocator
    double job_mtbf_h = 0.0;
    double interval_s = 0.0;  // between checkpoints, that costs least
    double efficiency = 0.0;  // share of the time that is neither lost nor spent on fault tolerance
};

[[nodiscard]] CostRow measure(const CostModel& model, std::int32_t pes);
[[nodiscard]] std::string to_markdown(const std::vector<CostRow>& rows);
[[nodiscard]] std::string to_json(const CostModel& model, const std::vector<CostRow>& rows);
// Empty, or what grows faster than it may: control with log P, the rest not at all.
[[nodiscard]] std::string check_growth(const std::vector<CostRow>& rows);

}  // namespace sft::sim
