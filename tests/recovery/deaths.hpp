// Deaths and nodes, for the tests of who decides what about them.
#pragma once

#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "base/node_map.hpp"
#include "recovery/membership/job_state.hpp"

namespace sft {

inline constexpr FailureReason kKilled{FailureKind::signal, SIGKILL};

[[nodiscard]] inline Death death_of(std::int32_t process, bool is_certain = true) {
    return {ProcId(process), kKilled, is_certain};
}

// As the library has them: sorted.
[[nodiscard]] inline std::vector<Death> deaths_of(std::span<const int> processes) {
    std::vector<Death> deaths;
    for (const int process : processes) {
        insert_sorted(deaths, death_of(process));
    }
    return deaths;
}
[[nodiscard]] inline std::vector<Death> deaths_of(std::initializer_list<int> processes) {
    return deaths_of(std::span(processes.begin(), processes.size()));
}

// Process i is on node i modulo n_nodes.
[[nodiscard]] inline NodeMap round_robin(std::int32_t n_nodes, std::int32_t n_processes) {
    std::vector<NodeId> nodes;
    for (std::int32_t process = 0; process < n_processes; ++process) {
        nodes.emplace_back(process % n_nodes);
    }
    return NodeMap(std::move(nodes));
}

}  // namespace sft
