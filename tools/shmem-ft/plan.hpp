// What a job on given hosts would be like: who keeps copies of whom, and which hosts may be lost at once. Pure.
//
// The placement is the library's own, of a job in which nobody has died yet, and so are the three conditions under
// which a loss is survived: of each PE that is lost a copy is left, there are spares enough elsewhere, and those who
// are left can tell that they are the greater part (docs/nodes.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/topology.hpp"
#include "tools/oshrun/placement.hpp"

namespace sft::tools {

struct PlanTask {
    PlacementTask placement;
    Backup backup;
    std::optional<Topology> topology;
};

struct Plan {
    struct Host {
        std::string name;
        std::vector<std::string> domains;  // by level; empty: the file does not name it
        std::vector<std::int32_t> pes;
        std::vector<std::int32_t> spares;   // processes
        std::vector<std::int32_t> kept_of;  // PEs of which a copy is there
    };
    // So many hosts, or domains of a level, at one moment.
    struct Losses {
        std::string what;  // "host", or a level
        std::int32_t n_at_once = 0;
        std::uint64_t n_sets = 0;      // that were looked at
        std::uint64_t n_survived = 0;  // of them
        bool is_sample = false;        // there are more
        std::string fatal;             // the first set that is not survived, and why
    };
    std::int32_t n_pes = 0;
    std::int32_t n_spares = 0;
    std::int32_t copies = 0;  // of each PE on other hosts
    std::vector<std::string> levels;
    std::string apart;  // by what copies are kept apart: "host", or a level
    std::vector<Host> hosts;
    std::vector<Losses> losses;
};

// REQUIRES: no lack of room in the placement.
[[nodiscard]] Plan make_plan(const PlanTask& task);
[[nodiscard]] std::string text_of(const Plan& plan, const Backup& backup);

}  // namespace sft::tools
