// What a scenario is given by options: other schemes, other holders of memory, other ways to decide and to check.
#include <algorithm>

#include "recovery/membership/memory_holder.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scenario.hpp"

namespace sft::sim {

void give_areas(Scenario& scenario) {
    if (!scenario.nodes) {
        return;
    }
    std::vector<std::int32_t> areas;
    for (std::int32_t node = 0; node < scenario.nodes->n_nodes(); ++node) {
        areas.push_back(node / 2);
    }
    scenario.areas = std::make_shared<const AreaMap>(std::move(areas));
    scenario.shape.areas = scenario.areas.get();
}

bool give_node_memory(Scenario& scenario) {
    if (scenario.detection == Detection::heartbeats || (scenario.shape.n_pes == 1 && scenario.nodes != nullptr)) {
        return false;
    }
    scenario.shape.memory = &node_memory();
    scenario.has_node_memory = true;
    Random random(scenario.seed ^ 0xb0257);
    const std::int32_t n_pes = scenario.shape.n_pes;
    if (!scenario.domains && !scenario.nodes && scenario.joins.empty() && n_pes <= 12) {
        scenario.shape.n_processes = std::max(scenario.shape.n_processes, n_pes + random.pick(0, 2 * n_pes));
    }
    for (Kill& kill : scenario.kills) {
        kill.n_more = n_pes <= 12 && random.percent(50) ? random.pick(1, n_pes) : 0;
    }
    return true;
}

// Bits that flip are for tests of the copies themselves.
bool give_parity(Scenario& scenario, std::int32_t data, std::int32_t n_parity) {
    const bool has_memory = scenario.has_node_memory || give_node_memory(scenario);
    const auto groups = groups_for(scenario.shape, {.data = data, .parity = n_parity});
    if (!has_memory || !groups) {
        return false;
    }
    scenario.groups = std::make_shared<const ParityGroups>(*groups);
    scenario.shape.groups = scenario.groups.get();
    scenario.shape.scheme = &parity();
    scenario.group_size = data + n_parity;
    scenario.group_parity = n_parity;
    scenario.corruptions.clear();
    return true;
}

bool give_ready_words(Scenario& scenario) {
    if (scenario.nodes || may_mistake(scenario) || scenario.shape.n_pes == 1) {
        return false;
    }
    scenario.has_ready_words = true;
    Random random(scenario.seed ^ 0x3a9d1);
    for (Kill& kill : scenario.kills) {
        if (random.percent(30)) {
            kill.trigger = Trigger::word;
        }
    }
    return true;
}

// Each tells each in a barrier; parity is added in the call itself. To hold up writers takes one node.
bool give_background(Scenario& scenario, bool is_held) {
    constexpr std::int32_t kPesMax = 40;
    if (scenario.shape.n_pes > kPesMax || scenario.groups || (is_held && !scenario.shape.is_one_node())) {
        return false;
    }
    scenario.has_background = true;
    scenario.has_held = is_held;
    Random random(scenario.seed ^ 0xbac69);
    scenario.asks_before_end = random.percent(50);
    for (Kill& kill : scenario.kills) {
        if (random.percent(30)) {
            kill.trigger = Trigger::still;
        }
    }
    return true;
}

}  // namespace sft::sim
