// What happens to a simulated job: everything follows from the seed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/events.hpp"

namespace sft::sim {

enum class Detection : std::uint8_t {
    kernel,      // everybody is told of every death, certainly, after a while
    heartbeats,  // silence makes a suspect, which is killed before it is declared dead, if it can be reached
    nodes,       // several nodes: kernel for processes of the own node, silence for other nodes as a whole
};

enum class Trigger : std::uint8_t { time, send, receive, decided, work, word, still };
enum class Victim : std::uint8_t { actor, counterpart, leader, keeper, kept, substitute, idle_spare, any };

struct Kill {
    Trigger trigger = Trigger::time;
    Victim victim = Victim::any;
    Time time = 0;             // time
    MessageKind kind{};        // send, receive
    Stage stage{};             // decided
    Participant::Do work{};    // work
    std::int32_t nth = 1;      // of such events, whoever's
    Time delay = 0;            // between the event and the death; 0: in the middle of it
    std::int32_t process = 0;  // any
    bool is_of_group = false;  // everybody on the node of the victim, or in its memory domain, dies with it
    std::int32_t n_more = 0;   // holders of the PEs behind that of the victim die with it
    // Events before the job has come to this version and view do not count (not for time).
    std::uint32_t after_version = 0;
    std::uint32_t after_view = 0;
};

struct Pause {
    std::int32_t process = 0;
    Time begin = 0;
    Time end = 0;
};

// From begin to end nothing passes between the two sides. Side 2: not concerned, as a third node when a link is cut.
struct Partition {
    Time begin = 0;
    Time end = 0;
    std::vector<std::int8_t> side;  // by process
};

// Two processes that live, and talk to each other: what moves memory between them has broken, and is made anew later.
struct DataCut {
    std::int32_t a = 0;
    std::int32_t b = 0;
    Time begin = 0;
    Time end = 0;
};

// A process that can open nothing of others on its node, which live: for lack of descriptors, say.
struct Refusal {
    std::int32_t process = 0;
    Time begin = 0;
    Time end = 0;
};

struct Corruption {
    Time time = 0;
    std::int32_t process = 0;
    bool of_local_copy = false;
};

// A link between two nodes that is cut for good, in a job in which nothing else goes wrong.
struct CutLink {
    NodeId a = kNoNode;
    NodeId b = kNoNode;
};

// oshrun beside the job (oshrun.hpp).
struct Guardian {
    NodeId node = kNoNode;  // none: on a host of its own
    // Of a guardian on a host of its own: its link to that node is cut from then on.
    NodeId cut_from = kNoNode;
    Time cut_at = 0;
    Time stops_at = 0;  // it stands still until
    Time goes_on_at = 0;
    Time dies_at = 0;  // 0: it does not
};

// A spare that comes while the job runs. Its number is the next one after those that the job started with and those
// that have come before it in the list.
struct Join {
    Time time = 0;
    NodeId node{0};
};

struct Scenario {
    std::uint64_t seed = 0;
    JobShape shape;
    std::shared_ptr<const NodeMap> nodes;        // shape's; null: one node
    std::shared_ptr<const AreaMap> areas;        // shape's, with run option `areas`
    std::shared_ptr<const ParityGroups> groups;  // shape's, with run option `parity`
    std::shared_ptr<const DomainMap> domains;    // shape's, of some of the jobs on one node
    bool are_ports_refused = false;              // a node's host outlives its processes, and tells that they are gone
    std::int32_t n_partners = 1;                 // of each PE, by the shape's scheme of redundancy,
    std::int32_t n_replicas = 1;                 // or the same on so many other nodes
    std::int32_t group_size = 0;                 // or parity in groups of so many; 0: not
    std::int32_t group_parity = 0;               // that survive so many losses
    bool has_node_memory = false;                // it outlives its process, by the shape's holder of memory
    bool has_ready_words = false;                // in memory that outlives its process
    bool has_held = false;                       // what has not been copied is held;
    bool has_background = false;                 // checkpoints are made while the program goes on;
    bool asks_before_end = false;                // which waits for the last one before it ends
    std::int32_t fan_out = 4;
    std::uint32_t versions = 3;  // checkpoints before the end
    Program program;
    Detection detection = Detection::kernel;
    Time delay_min = 0;  // of a message
    Time delay_max = 0;
    int slow_percent = 0;            // of messages, ten times later
    Time news_max = 0;               // of a death, kernel
    Time step_max = 0;               // compute time
    std::int32_t slow_process = -1;  // computes ten times longer
    Time period = 0;                 // heartbeats
    Time bound = 0;
    int lost_percent = 0;  // how often a death takes messages with it that are under way
    int wrong_list_percent = 0;
    int premature_checkpoint_percent = 0;  // of a substitute, before it asks for the list
    std::vector<Join> joins;
    // A job without spares waits for one: then they come when they are asked for, and not at their times.
    bool waits_for_spares = false;
    std::vector<Kill> kills;
    std::vector<Pause> pauses;
    std::vector<Partition> partitions;
    std::vector<DataCut> data_cuts;
    std::vector<Refusal> refusals;
    std::optional<CutLink> only_cut;  // one of the partitions, and nothing else happens
    std::optional<Guardian> guardian;
    std::vector<Corruption> corruptions;
    std::int32_t end_request_process = -1;
    Time end_request_time = 0;
};

// Processes that there ever may be.
[[nodiscard]] inline std::int32_t n_slots(const Scenario& scenario) {
    return scenario.shape.n_processes + static_cast<std::int32_t>(scenario.joins.size());
}
[[nodiscard]] inline bool is_newcomer(const Scenario& scenario, ProcId process) {
    return process.value() >= scenario.shape.n_processes;
}
[[nodiscard]] inline NodeId node_of(const Scenario& scenario, ProcId process) {
    if (is_newcomer(scenario, process)) {
        return scenario.joins[static_cast<std::size_t>(process.value() - scenario.shape.n_processes)].node;
    }
    return scenario.nodes ? scenario.nodes->node_of(process) : NodeId(0);
}
// Memory outlives processes, and so do records of what was decided.
[[nodiscard]] inline bool has_memory_of_only_node(const Scenario& scenario) {
    return scenario.has_node_memory && !scenario.nodes;
}
// What is lost with that process: its area, or its node where nothing is known of areas.
inline std::int32_t area_of(const Scenario& scenario, ProcId process) {
    const NodeId node = node_of(scenario, process);
    return scenario.areas ? scenario.areas->area_of(node) : node.value();
}

// An only PE keeps with a spare that takes part, unless its node has the copy.
[[nodiscard]] inline bool has_witness(const Scenario& scenario) noexcept {
    return scenario.shape.n_pes == 1 && !scenario.has_node_memory;
}

// Memory domains of some of the jobs on one node; nothing is known of newcomers.
[[nodiscard]] inline DomainId domain_of(const Scenario& scenario, ProcId process) {
    return scenario.domains ? scenario.domains->domain_of(process) : kNoDomain;
}
// Somebody who lives may be taken for dead.
[[nodiscard]] inline bool may_mistake(const Scenario& scenario) {
    return !scenario.partitions.empty() || (scenario.detection == Detection::nodes && !scenario.pauses.empty());
}

// only_cut: the one that has to go.
[[nodiscard]] NodeId lighter_node(const Scenario& scenario);

[[nodiscard]] Scenario make_scenario(std::uint64_t seed);
// Two nodes each are an area, in jobs on several; who dies with a node dies with all of it.
void give_areas(Scenario& scenario);
// What its processes keep for others outlives them, and several may die at one moment. False: not a job for that.
[[nodiscard]] bool give_node_memory(Scenario& scenario);
[[nodiscard]] bool give_parity(Scenario& scenario, std::int32_t data, std::int32_t n_parity);
// Steps of a checkpoint are decided by words of readiness. False: not a job for that.
[[nodiscard]] bool give_ready_words(Scenario& scenario);
// Checkpoints are made while the program goes on. False: not a job for that.
[[nodiscard]] bool give_background(Scenario& scenario, bool is_held);
// One line.
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace sft::sim
