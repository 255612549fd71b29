// What a job on given hosts would be like: who keeps copies of whom, and which hosts may be lost at once. Pure.
//
// The placement is the library's own, of a job in which nobody has died yet, of one that runs, or of either after a
// loss; and so are the three conditions under which a loss is survived: of each PE that is lost a copy is left, there
// are spares enough elsewhere, and those who are left can tell that they are the greater part (docs/nodes.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/topology.hpp"
#include "recovery/membership/job_state.hpp"
#include "tools/oshrun/placement.hpp"

namespace sft::tools {

// A job that runs, as it has agreed.
struct RunningJob {
    std::vector<int> host_of;  // by process, those that have joined behind the others
    // Not recovering and not over; nothing: as a job begins.
    std::optional<JobState> state;
};

struct PlanTask {
    PlacementTask placement;  // of a job that runs: only hosts, PEs and spares
    std::optional<RunningJob> running;
    Backup backup;
    std::optional<Topology> topology;
    std::map<std::string, double> mtbf_days;  // of each host, or of each domain of a level
    double window_s = 60;                     // until the job is protected again
    double run_days = 0;                      // 0: nothing is said of a run
    std::uint64_t state_bytes = 0;            // of a PE; 0: nothing is said of memory in bytes
    std::vector<std::int32_t> lost;           // hosts, at one moment; the plan is of what comes behind that
};

struct Plan {
    struct Host {
        std::string name;
        std::vector<std::string> domains;  // by level; empty: the file does not name it
        std::vector<std::int32_t> pes;
        std::vector<std::int32_t> spares;   // processes
        std::vector<std::int32_t> kept_of;  // PEs of which a copy is there
        double memory = 0;                  // times the state of a PE

        [[nodiscard]] bool is_used() const noexcept { return !pes.empty() || !spares.empty(); }
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
    // What the topology wants to be survived ([survive]).
    struct Demand {
        std::string what;
        std::int32_t n_at_once = 0;
        std::string why_not;  // empty: it is
    };
    // What follows from how often units are lost (plan_risk.hpp).
    struct Risk {
        struct AtOnce {
            double n_sets = 0;  // smallest ones that the job does not survive
            double a_day = 0;
            double a_day_error = 0;  // 0: exact, to first order
        };
        std::string what;
        double mtbf_days = 0;
        std::vector<AtOnce> at_once{};  // by their number: 1, 2, ...
        // A run that ends since more are lost one after another than spares and majority allow.
        double runs_ended = 0;
        double runs_ended_error = 0;
        std::int32_t n_orders = 0;  // 0: not asked for
    };
    std::string ends;  // why the job does not survive what is lost; the rest is as before that
    std::int32_t n_pes = 0;
    std::int32_t n_spares = 0;
    std::int32_t copies = 0;  // of each PE on other hosts
    // Parity instead of copies, if not 0: the sizes of groups, and what the smallest one survives.
    std::int32_t group_smallest = 0;
    std::int32_t group_largest = 0;
    std::int32_t group_parity = 0;
    std::vector<std::vector<std::int32_t>> groups;  // of PEs
    std::vector<std::string> levels;
    std::string apart;  // by what copies are kept apart: "host", or a level
    std::vector<Host> hosts;
    std::vector<Losses> losses;
    std::vector<Demand> demands;
    double window_s = 0;
    double run_days = 0;
    std::uint64_t state_bytes = 0;
    std::vector<Risk> risks;

    [[nodiscard]] bool meets_demands() const noexcept {
        return std::all_of(demands.begin(), demands.end(), [](const Demand& it) { return it.why_not.empty(); });
    }
};

// REQUIRES: no lack of room in the placement.
[[nodiscard]] Plan make_plan(const PlanTask& task);
// Heading, hosts, and what follows from them.
[[nodiscard]] std::string text_of(const Plan& plan, const Backup& backup);
[[nodiscard]] std::string heading_of(const Plan& plan);
[[nodiscard]] std::string summary_of(const Plan& plan, const Backup& backup);
// The same as a drawing.
[[nodiscard]] std::string svg_of(const Plan& plan, const Backup& backup);

// "0-3,7"; "-": none.
[[nodiscard]] std::string ranges_of(const std::vector<std::int32_t>& sorted);

}  // namespace sft::tools
