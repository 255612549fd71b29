// One seed, from the scenario to the verdict.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/coverage.hpp"
#include "tests/sim/world.hpp"

namespace sft::sim {

struct Outcome {
    std::string violation;  // empty: none
    World::Statistics statistics;
    Stage stage{};  // the last one that was decided
    EndReason end_reason{};
    std::uint64_t n_values = 0;
    std::uint32_t n_views = 0;
    Coverage coverage;
    bool is_stopped = false;  // by a partition: no side had a majority
};

struct RunOptions {
    bool with_trace = false;
    // What the library does not have: a scheme of redundancy, and a holder of memory, in the jobs where that makes a
    // difference and is enough: of several PEs on one node, of which nobody is cut off. (The others are left out.)
    bool has_two_partners = false;
    bool has_areas = false;       // two nodes each
    std::int32_t n_replicas = 1;  // SHMEM_FT_BACKUP_MODE=replica:n
    // SHMEM_FT_BACKUP_MODE=rs:K+M, in the jobs on several nodes whose memory the nodes hold; 0: not.
    std::int32_t n_data = 0;
    std::int32_t n_parity = 0;
    bool has_node_memory = false;
    bool has_ready_words = false;  // which the library has on one node
    bool has_background = false;   // shmem_ft_checkpoint_nb
    bool has_held = false;         // with SHMEM_FT_BACKGROUND=protect
};
[[nodiscard]] Outcome run_seed(std::uint64_t seed, const RunOptions& options);

}  // namespace sft::sim
