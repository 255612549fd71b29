// What the statuses of a job's processes mean together. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/shmem-ft/status_find.hpp"

namespace sft::tools {

enum class Protection {
    none,         // there is no checkpoint yet, or the job keeps no copies
    is_safe,      // another process has a copy
    unprotected,  // the process that had one has died
    failed,       // the PE has died and nobody has taken over yet
    elsewhere,    // the PE is on another node, where more is known of it
};
[[nodiscard]] const char* name_of(Protection protection) noexcept;

struct SeenPe {
    std::int32_t pe = 0;
    const SeenProcess* holder = nullptr;  // null: nobody that lives
    Protection protection = Protection::none;
    std::int32_t keeper = -1;     // process
    std::int32_t keeper_pe = -1;  // that it is; -1: a spare
    std::int32_t keeper_domain = -1;
    std::string keeper_node;                    // empty: this one
    std::vector<std::int32_t> further_keepers;  // processes
    std::int32_t group_parity = 0;              // not 0: all these keep parity, which survives so many losses
};

struct JobSummary {
    // starting, running, checkpoint, fault, restoring, protecting, finished or ended
    std::string stage;
    bool waits_for_spare = false;
    std::uint32_t version = 0;
    std::uint32_t view = 0;
    std::uint32_t attempt = 0;
    std::int64_t committed_ns = 0;   // CLOCK_MONOTONIC; 0: nothing is, or nobody who lives was there
    std::uint64_t stored_bytes = 0;  // of all PEs that live, in their last checkpoint
    // Of the process that has made most calls; the time of one is the least that any PE has taken, because the others
    // wait for the last.
    std::uint64_t checkpoint_calls = 0;
    std::uint64_t checkpoints = 0;
    double checkpoints_share = 0;  // of the time since the start of that process
    std::int64_t checkpoint_ns = 0;
    std::int64_t interval_ns = 0;       // between two
    std::int64_t best_interval_ns = 0;  // at which least is lost
    // For state and copies on this node, in bytes. 0: not known.
    std::uint64_t room_most = 0;
    std::uint64_t room_left = 0;  // that the process with least could take, when it was looked at
    std::int32_t protected_losses = 0;
    std::int32_t losses_in_turn = 0;  // so many if nobody else dies before the loss is made good
    std::vector<std::string> limits;  // why not more; never empty
    // In a job on several nodes: where something of it lives, how many of these it may lose, each alone, and why not
    // any. Of the host of the launcher nothing is known here.
    std::int32_t n_nodes = 0;
    std::int32_t node_losses = 0;
    std::string fatal_node;
    std::string fatal_why;
    std::int32_t spares_on_demand = 0;  // that oshrun would start
    std::vector<SeenPe> pes;
    std::vector<const SeenProcess*> idle_spares;
    std::vector<const SeenProcess*> dead;  // in the order in which the deaths were seen
    std::uint64_t blocks_checked = 0;
    std::uint64_t blocks_bad = 0;
    std::uint64_t blocks_repaired = 0;
};

// Points into `job`.
[[nodiscard]] JobSummary summarize(const SeenJob& job);

}  // namespace sft::tools
