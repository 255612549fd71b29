#include "tests/sim/scenario.hpp"

#include <algorithm>

#include "base/report.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "tests/sim/random.hpp"

namespace sft::sim {
namespace {

// Mostly tiny jobs: they have every kind of place in the tree and meet the same trouble more often.
JobShape random_shape(Random& random) {
    JobShape shape;
    const std::int32_t dice = random.pick(0, 999);
    if (dice < 970) {
        shape.n_pes = random.pick(1, random.percent(50) ? 5 : 12);
    } else if (dice < 998) {
        shape.n_pes = random.pick(30, 200);
    } else {
        shape.n_pes = random.pick(1000, 3000);
    }
    shape.n_processes = shape.n_pes + random.pick(random.percent(80) ? 1 : 0, random.percent(80) ? 5 : 10);
    return shape;
}

Time random_time(Random& random, const Scenario& scenario) {
    // About as long as the job takes without failures.
    const Time steps = scenario.program.steps_at(scenario.versions) + 1;
    const Time all = steps * scenario.step_max + 30 * scenario.delay_max;
    // Most after the first checkpoint: before it there is nothing to recover.
    return random.between(random.percent(80) ? all / (scenario.versions + 1) : 0, all);
}

Kill random_kill(Random& random, const Scenario& scenario) {
    Kill kill;
    const std::int32_t dice = random.pick(0, 99);
    kill.trigger = dice < 25   ? Trigger::time
                   : dice < 45 ? Trigger::send
                   : dice < 60 ? Trigger::receive
                   : dice < 85 ? Trigger::decided
                               : Trigger::work;
    kill.victim = static_cast<Victim>(random.pick(0, static_cast<std::int32_t>(Victim::any)));
    kill.time = random_time(random, scenario);
    kill.kind = static_cast<MessageKind>(random.pick(1, kMessageKinds - 1));
    if (random.percent(50)) {
        // The middle of a sweep down is where leaders and those behind them come apart.
        static constexpr MessageKind kSweeps[] = {MessageKind::collect, MessageKind::propose, MessageKind::decide};
        kill.kind = kSweeps[random.pick(0, 2)];
        kill.victim = random.percent(50) ? Victim::leader : Victim::actor;
    }
    kill.stage = static_cast<Stage>(random.pick(1, static_cast<std::int32_t>(Stage::ended)));
    static constexpr Participant::Do kWork[] = {Participant::Do::replicate, Participant::Do::update_local_copy,
                                                Participant::Do::restore, Participant::Do::protect};
    kill.work = kWork[random.pick(0, 3)];
    const std::int32_t n = std::min(scenario.shape.n_pes, 12);
    kill.nth = random.pick(1, random.percent(40) ? n : 5 * n);
    if (kill.trigger == Trigger::decided && random.percent(60)) {
        kill.stage = random.percent(50) ? Stage::planned : random.percent(50) ? Stage::restored : Stage::updating;
    }
    // Before the first checkpoint there is nothing to recover, and the second recovery is not like the first.
    kill.after_version = random.percent(80) ? 1 : 0;
    kill.after_view = random.percent(20) ? 1 : 0;
    kill.delay = random.percent(60) ? 0 : random.between(0, 4 * scenario.delay_max);
    kill.process = random.pick(0, scenario.shape.n_processes - 1);
    return kill;
}

// A fault that can be recovered from, so that the others have a recovery to strike in.
Kill first_fault(Random& random, const Scenario& scenario) {
    static constexpr Stage kStages[] = {Stage::running, Stage::replicating, Stage::updating};
    Kill kill;
    kill.trigger = Trigger::decided;
    kill.stage = kStages[random.pick(0, 2)];
    kill.after_version = 1;
    kill.nth = random.pick(1, scenario.shape.n_pes);
    kill.victim = random.percent(50) ? Victim::actor : Victim::any;
    kill.process = random.pick(0, scenario.shape.n_pes - 1);
    kill.delay = random.percent(50) ? 0 : random.between(0, scenario.step_max);
    return kill;
}

void add_timing(Random& random, Scenario& scenario) {
    scenario.delay_min = random.between(100, 2 * kMicro);
    scenario.delay_max = scenario.delay_min + random.between(0, 100 * kMicro);
    scenario.slow_percent = random.percent(50) ? random.pick(1, 30) : 0;
    scenario.news_max = random.between(kMicro, random.percent(30) ? 5 * kMilli : 200 * kMicro);
    scenario.step_max = random.between(kMicro, 300 * kMicro);
    scenario.slow_process = random.percent(20) ? random.pick(0, scenario.shape.n_processes - 1) : -1;
    scenario.period = random.between(200 * kMicro, kMilli);
    scenario.bound = scenario.period * random.pick(5, 20) + 11 * scenario.delay_max;
    scenario.lost_percent = random.pick(0, 2) * 50;
}

void add_heartbeat_trouble(Random& random, Scenario& scenario) {
    for (std::int32_t n = random.percent(40) ? random.pick(1, 3) : 0; n > 0; --n) {
        Pause pause;
        pause.process = random.pick(0, scenario.shape.n_processes - 1);
        pause.begin = random_time(random, scenario);
        pause.end = pause.begin + random.between(0, 2 * scenario.bound);
        scenario.pauses.push_back(pause);
    }
    for (std::int32_t n = random.percent(30) ? random.pick(1, 2) : 0; n > 0; --n) {
        Partition partition;
        partition.begin = random_time(random, scenario);
        partition.end = partition.begin + random.between(0, 5 * scenario.bound);
        const int share = random.pick(10, 50);
        for (std::int32_t process = 0; process < scenario.shape.n_processes; ++process) {
            partition.side.push_back(random.percent(share) ? 1 : 0);
        }
        scenario.partitions.push_back(std::move(partition));
    }
}

// Round robin, node by node, or with the spares on nodes of their own.
std::shared_ptr<const NodeMap> random_nodes(Random& random, const JobShape& shape, std::int32_t nodes_max) {
    const std::int32_t n_nodes = std::min(random.pick(nodes_max / 2, nodes_max), shape.n_processes);
    const std::int32_t layout = random.pick(0, 2);
    const std::int32_t n_with_pes = std::min(layout == 2 ? random.pick(1, n_nodes - 1) : n_nodes, shape.n_pes);
    std::vector<std::int32_t> places;
    for (std::int32_t process = 0; process < shape.n_processes; ++process) {
        const bool is_spare = process >= shape.n_pes;
        places.push_back(layout == 0                ? process % n_nodes
                         : layout == 1 && !is_spare ? process * n_with_pes / shape.n_pes
                         : layout == 1              ? random.pick(0, n_nodes - 1)
                         : is_spare                 ? random.pick(n_with_pes, n_nodes - 1)
                                                    : process % n_with_pes);
    }
    // Numbered in the order of their lowest processes.
    std::vector<std::int32_t> order;
    std::vector<NodeId> nodes;
    for (const std::int32_t place : places) {
        const auto at = std::find(order.begin(), order.end(), place);
        nodes.emplace_back(static_cast<std::int32_t>(at - order.begin()));
        if (at == order.end()) {
            order.push_back(place);
        }
    }
    return std::make_shared<const NodeMap>(std::move(nodes));
}

// Between nodes, or of one link.
Partition random_cut(Random& random, const Scenario& scenario) {
    Partition cut;
    cut.begin = random_time(random, scenario);
    cut.end = cut.begin + random.between(0, 5 * scenario.bound);
    std::vector<std::int8_t> sides;
    const bool is_link = random.percent(30);
    for (std::int32_t node = 0; node < scenario.nodes->n_nodes(); ++node) {
        sides.push_back(static_cast<std::int8_t>(is_link ? std::min(node, 2) : random.pick(0, 1)));
    }
    if (is_link) {
        std::swap(sides[0], sides[static_cast<std::size_t>(random.pick(0, scenario.nodes->n_nodes() - 1))]);
    }
    for (std::int32_t process = 0; process < scenario.shape.n_processes; ++process) {
        cut.side.push_back(sides[node_of(scenario, ProcId(process)).index()]);
    }
    return cut;
}

void add_nodes(Random& random, Scenario& scenario, std::int32_t nodes_max) {
    scenario.nodes = random_nodes(random, scenario.shape, nodes_max);
    scenario.shape.nodes = scenario.nodes.get();
    scenario.detection = Detection::nodes;
    scenario.are_ports_refused = random.percent(40);
    scenario.bound = std::max(scenario.bound, 60 * scenario.delay_max);
    for (Kill& kill : scenario.kills) {
        kill.is_of_group = random.percent(30);
    }
    if (random.percent(30)) {  // one node after the other
        for (std::int32_t n = random.pick(1, 3); n > 0; --n) {
            scenario.kills.push_back(random_kill(random, scenario));
            scenario.kills.back().is_of_group = true;
        }
    }
    scenario.pauses.clear();
    scenario.partitions.clear();
    for (std::int32_t n = random.percent(25) ? random.pick(1, 2) : 0; n > 0; --n) {
        const NodeId node(random.pick(0, scenario.nodes->n_nodes() - 1));
        const Time begin = random_time(random, scenario);
        const Time end = begin + random.between(0, 3 * scenario.bound);
        for (std::int32_t process = 0; process < scenario.shape.n_processes; ++process) {
            if (node_of(scenario, ProcId(process)) == node) {
                scenario.pauses.push_back({process, begin, end});
            }
        }
    }
    for (std::int32_t n = random.percent(30) ? random.pick(1, 3) : 0; n > 0; --n) {
        scenario.partitions.push_back(random_cut(random, scenario));
    }
}

// Nothing but that, so that it is known who has to go.
void add_only_cut(Random& random, Scenario& scenario) {
    scenario.shape.n_processes = std::max(scenario.shape.n_processes, 3);
    add_nodes(random, scenario, 5);
    const std::int32_t n_nodes = scenario.nodes->n_nodes();
    if (n_nodes < 2) {
        return;
    }
    const NodeId a(random.pick(0, n_nodes - 1));
    const NodeId b((a.value() + random.pick(1, n_nodes - 1)) % n_nodes);
    scenario.kills.clear();
    scenario.pauses.clear();
    scenario.corruptions.clear();
    scenario.end_request_process = -1;
    Partition cut;
    cut.begin = random_time(random, scenario);
    cut.end = cut.begin + 40 * scenario.bound;
    for (std::int32_t process = 0; process < scenario.shape.n_processes; ++process) {
        const NodeId node = node_of(scenario, ProcId(process));
        cut.side.push_back(static_cast<std::int8_t>(node == a ? 0 : node == b ? 1 : 2));
    }
    scenario.partitions = {std::move(cut)};
    scenario.only_cut = CutLink{a, b};
    // Where a third host connects those two on to each other the guardian may be on any of them.
    const bool has_others = n_nodes > 2;
    Guardian guardian;
    guardian.node = NodeId(has_others ? random.pick(-1, n_nodes - 1) : -1);
    if (has_others && guardian.node == kNoNode && random.percent(60)) {
        guardian.cut_from = NodeId(random.pick(0, n_nodes - 1));
        guardian.cut_at = random_time(random, scenario);
    }
    if (random.percent(30)) {
        guardian.stops_at = random_time(random, scenario);
        // Whom it reaches through others only is not that patient (docs/protocols.md, "Known gaps").
        const bool is_far_from_any = guardian.node == a || guardian.node == b || guardian.cut_from != kNoNode;
        guardian.goes_on_at = guardian.stops_at + random.between(0, (is_far_from_any ? 2 : 6) * scenario.bound);
    }
    guardian.dies_at = random.percent(15) ? random_time(random, scenario) : 0;
    scenario.guardian = guardian;
}

// So many nodes that most do not watch each other, and several are gone before anybody has missed the first.
void add_losses_at_once(Random& random, Scenario& scenario) {
    if (!random.percent(30)) {
        return;
    }
    Kill kill = random_kill(random, scenario);
    kill.trigger = Trigger::time;
    kill.victim = Victim::any;
    kill.is_of_group = true;
    for (std::int32_t n = random.pick(2, 5); n > 0; --n) {
        kill.process = random.pick(0, scenario.shape.n_processes - 1);
        scenario.kills.push_back(kill);
    }
}

void without_spares(Scenario& scenario) {
    const std::int32_t n = scenario.shape.n_processes = scenario.shape.n_pes;
    for (Kill& kill : scenario.kills) {
        kill.process %= n;
    }
    for (Corruption& corruption : scenario.corruptions) {
        corruption.process %= n;
    }
    scenario.end_request_process = std::min(scenario.end_request_process, n - 1);
}

// oshrun starts one when the one before is counted in. Here they come also at once and in disorder.
void add_joins(Random& random, Scenario& scenario) {
    scenario.waits_for_spares = random.percent(50);
    if (scenario.waits_for_spares && random.percent(50) && !scenario.nodes) {
        without_spares(scenario);
    }
    for (std::int32_t n = random.pick(1, 4); n > 0; --n) {
        const ProcId neighbour(random.pick(0, scenario.shape.n_processes - 1));
        Time time = random_time(random, scenario);
        if (!scenario.joins.empty() && random.percent(70)) {
            time = scenario.joins.back().time + random.between(0, 20 * scenario.delay_max);
        }
        scenario.joins.push_back({time, node_of(scenario, neighbour)});
        for (Partition& cut : scenario.partitions) {
            cut.side.push_back(cut.side[neighbour.index()]);
        }
    }
}

// The PEs in blocks, or round robin, or anyhow; spares anyhow; and of some nothing is known.
void add_domains(Random& random, Scenario& scenario) {
    const JobShape& shape = scenario.shape;
    const std::int32_t n_domains = random.pick(2, 4);
    const std::int32_t layout = random.pick(0, 2);
    const int unknown_percent = random.percent(40) ? random.pick(5, 50) : 0;
    std::vector<DomainId> domains;
    for (std::int32_t process = 0; process < shape.n_processes; ++process) {
        const bool is_anyhow = layout == 2 || process >= shape.n_pes;
        const std::int32_t domain = is_anyhow     ? random.pick(0, n_domains - 1)
                                    : layout == 0 ? process * n_domains / shape.n_pes
                                                  : process % n_domains;
        domains.push_back(random.percent(unknown_percent) ? kNoDomain : DomainId(2 * domain));
    }
    scenario.domains = std::make_shared<const DomainMap>(std::move(domains));
    scenario.shape.domains = scenario.domains->has_several() ? scenario.domains.get() : nullptr;
    for (Kill& kill : scenario.kills) {
        kill.is_of_group = random.percent(20);
    }
}

// A process that stands still, on a machine that is busy, is no reason for anything where the kernel tells of deaths.
void add_pauses(Random& random, Scenario& scenario) {
    for (std::int32_t n = random.percent(25) ? random.pick(1, 3) : 0; n > 0; --n) {
        const Time begin = random_time(random, scenario);
        const Time longest = random.percent(50) ? 10 * scenario.delay_max : 5 * kMilli;
        scenario.pauses.push_back(
            {random.pick(0, scenario.shape.n_processes - 1), begin, begin + random.between(0, longest)});
    }
}

// Short ones, which those who live see to themselves.
void add_data_cuts(Random& random, Scenario& scenario) {
    for (std::int32_t n = random.percent(15) ? random.pick(1, 4) : 0; n > 0; --n) {
        const std::int32_t most = scenario.shape.n_processes - 1;
        const Time begin = random_time(random, scenario);
        scenario.data_cuts.push_back(
            {random.pick(0, most), random.pick(0, most), begin, begin + random.between(0, 5 * kMilli)});
    }
}

void add_refusals(Random& random, Scenario& scenario) {
    for (std::int32_t n = random.percent(5) ? random.pick(1, 2) : 0; n > 0; --n) {
        const Time begin = random_time(random, scenario);
        scenario.refusals.push_back(
            {random.pick(0, scenario.shape.n_processes - 1), begin, begin + random.between(0, 10 * kMilli)});
    }
}

// What nobody dies of.
void add_small_trouble(Scenario& scenario) {
    Random of_pauses(scenario.seed ^ 0x9a05e);
    if (scenario.detection == Detection::kernel) {
        add_pauses(of_pauses, scenario);
    }
    Random of_data(scenario.seed ^ 0xda7ac);
    add_data_cuts(of_data, scenario);
    Random of_refusals(scenario.seed ^ 0x2ef05);
    if (!scenario.only_cut) {
        add_refusals(of_refusals, scenario);
    }
}

}  // namespace

// Of the two whose link is cut, in a job in which nobody has died before.
NodeId lighter_node(const Scenario& scenario) {
    const auto [a, b] = scenario.only_cut.value_or(CutLink{});
    std::int32_t more_of_a = 0;
    NodeId first = kNoNode;
    for (std::int32_t pe = scenario.shape.n_pes - 1; pe >= 0; --pe) {
        const NodeId node = node_of(scenario, ProcId(pe));
        more_of_a += node == a ? 1 : node == b ? -1 : 0;
        first = node == a || node == b ? node : first;
    }
    first = first == kNoNode ? std::min(a, b) : first;
    const NodeId stays = more_of_a > 0 ? a : more_of_a < 0 ? b : first;
    return stays == a ? b : a;
}

Scenario make_scenario(std::uint64_t seed) {
    Random random(seed);
    Scenario scenario;
    scenario.seed = seed;
    scenario.shape = random_shape(random);
    scenario.fan_out = random.pick(scenario.shape.n_pes <= 12 && random.percent(10) ? 1 : 2, 4);
    scenario.versions = static_cast<std::uint32_t>(random.pick(random.percent(90) ? 1 : 0, random.percent(80) ? 4 : 8));
    scenario.program = {mix(seed), scenario.shape.n_pes, random.pick(1, scenario.shape.n_pes)};
    const bool is_large = scenario.shape.n_pes > 12;
    scenario.detection = random.percent(is_large ? 10 : 35) ? Detection::heartbeats : Detection::kernel;
    if (scenario.shape.n_pes >= 1000) {
        scenario.detection = Detection::kernel;
        scenario.versions = 1;
    }
    add_timing(random, scenario);
    scenario.wrong_list_percent = random.percent(10) ? 20 : 0;
    scenario.premature_checkpoint_percent = random.percent(50) ? 50 : 0;
    if (random.percent(40)) {
        scenario.kills.push_back(first_fault(random, scenario));
    }
    if (random.percent(88)) {
        const std::int32_t most = random.percent(70) ? 3 : scenario.shape.n_pes + 2;
        for (std::int32_t n = random.pick(1, std::min(most, 10)); n > 0; --n) {
            scenario.kills.push_back(random_kill(random, scenario));
        }
    }
    if (scenario.detection == Detection::heartbeats) {
        add_heartbeat_trouble(random, scenario);
    }
    for (std::int32_t n = random.percent(6) ? random.pick(1, 3) : 0; n > 0; --n) {
        scenario.corruptions.push_back(
            {random_time(random, scenario), random.pick(0, scenario.shape.n_processes - 1), random.percent(50)});
    }
    if (random.percent(4)) {
        scenario.end_request_process = random.pick(0, scenario.shape.n_processes - 1);
        scenario.end_request_time = random_time(random, scenario);
    }
    // From numbers of their own, so that the other jobs are what they would be without.
    Random of_nodes(seed ^ 0x40de5);
    Random of_rings(seed ^ 0x71465);
    const bool is_small = scenario.shape.n_pes <= 12;
    if (is_small && scenario.shape.n_processes > 1 && of_nodes.percent(40)) {
        add_nodes(of_nodes, scenario, 4);
    } else if (is_small && of_rings.percent(30)) {
        scenario.shape.n_processes = std::max(scenario.shape.n_processes, scenario.shape.n_pes + of_rings.pick(4, 9));
        add_nodes(of_rings, scenario, 12);
        add_losses_at_once(of_rings, scenario);
    }
    Random of_cuts(seed ^ 0xc0715);
    if (is_small && of_cuts.percent(6)) {
        add_only_cut(of_cuts, scenario);
    }
    Random of_joins(seed ^ 0x10145);
    if (is_small && !scenario.only_cut && scenario.detection != Detection::heartbeats && of_joins.percent(20)) {
        add_joins(of_joins, scenario);
    }
    Random of_domains(seed ^ 0xd03a1);
    // Not where somebody is cut off: that happens between nodes, and those have no domains.
    if (!scenario.nodes && scenario.partitions.empty() && scenario.shape.n_pes < 1000 && of_domains.percent(40)) {
        add_domains(of_domains, scenario);
    }
    add_small_trouble(scenario);
    return scenario;
}

std::string describe(const Scenario& scenario) {
    return format(
        "seed %llu: %d PEs, %d spares on %d nodes%s, fan-out %d, %u versions, %s, delay %lld..%lld ns, %zu kills, %zu "
        "pauses, "
        "%zu partitions, %zu data cuts, %zu refusals, %zu corruptions, %zu joins%s%s",
        static_cast<unsigned long long>(scenario.seed), scenario.shape.n_pes,
        scenario.shape.n_processes - scenario.shape.n_pes, scenario.nodes ? scenario.nodes->n_nodes() : 1,
        scenario.domains ? " in memory domains" : "", scenario.fan_out, scenario.versions,
        scenario.detection == Detection::kernel  ? "kernel"
        : scenario.detection == Detection::nodes ? "nodes"
                                                 : "heartbeats",
        static_cast<long long>(scenario.delay_min), static_cast<long long>(scenario.delay_max), scenario.kills.size(),
        scenario.pauses.size(), scenario.partitions.size(), scenario.data_cuts.size(), scenario.refusals.size(),
        scenario.corruptions.size(), scenario.joins.size(), scenario.waits_for_spares ? " on demand" : "",
        scenario.end_request_process >= 0 ? ", an end is requested" : "");
}

}  // namespace sft::sim
