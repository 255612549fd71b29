#include "tests/sim/oshrun.hpp"

#include <algorithm>

#include "base/report.hpp"
#include "tests/sim/process.hpp"
#include "tests/sim/world.hpp"
#include "tools/oshrun/host_judge.hpp"

namespace sft::sim {
namespace {

constexpr Time kBeatsPerBound = 8;
// In the time of the simulator.
Time grace_of(Time bound) { return bound / 2; }

}  // namespace

SimOshrun::SimOshrun(World& world, Verdict& verdict)
    : world_(world),
      verdict_(verdict),
      period_(world.scenario().bound / kBeatsPerBound),
      own_time_(world.scenario().bound / kBeatsPerBound) {
    for (std::int32_t node = 0; node < world.scenario().nodes->n_nodes(); ++node) {
        if (NodeId(node) != world.scenario().guardian->node) {
            hosts_.push_back({.node = NodeId(node)});
        }
    }
}

void SimOshrun::start() {
    const Guardian& guardian = *world_.scenario().guardian;
    if (guardian.dies_at > 0) {
        world_.later(kNoProc, guardian.dies_at, [this] { die(); });
    }
    tick();
}

// Its host goes on: what runs there ends with the connection.
void SimOshrun::die() {
    world_.trace(kNoProc, "the guardian dies");
    is_dead_ = true;
    died_at_ = world_.now();
    Host own{.node = world_.scenario().guardian->node};
    end_host(own, "has lost its guardian");
}

bool SimOshrun::is_standing_still() const {
    const Guardian& guardian = *world_.scenario().guardian;
    return world_.now() >= guardian.stops_at && world_.now() < guardian.goes_on_at;
}

bool SimOshrun::is_there(NodeId node) const {
    for (std::int32_t process = 0; process < n_slots(world_.scenario()); ++process) {
        if (node_of(world_.scenario(), ProcId(process)) == node && world_.is_alive(ProcId(process))) {
            return true;
        }
    }
    return false;
}

// kNoNode: the guardian's host, if nobody else is there.
bool SimOshrun::are_linked(NodeId a, NodeId b) const {
    const Guardian& guardian = *world_.scenario().guardian;
    if (a == kNoNode || b == kNoNode) {
        const NodeId other = a == kNoNode ? b : a;
        return other != guardian.cut_from || world_.now() < guardian.cut_at;
    }
    const auto lowest = [&](NodeId node) {
        std::int32_t process = 0;
        while (node_of(world_.scenario(), ProcId(process)) != node) {
            ++process;
        }
        return ProcId(process);
    };
    return world_.is_reachable(lowest(a), lowest(b));
}

bool SimOshrun::has_way(const Host& host) const {
    const NodeId own = world_.scenario().guardian->node;
    return are_linked(host.node, own) || std::any_of(hosts_.begin(), hosts_.end(), [&](const Host& other) {
               return other.node != host.node && !other.is_over && is_there(other.node) &&
                      are_linked(host.node, other.node) && are_linked(other.node, own);
           });
}

// Lost in a job in which nothing but a link is cut.
bool SimOshrun::may_go(NodeId node) const {
    return is_dead_ || !is_there(node) || node == lighter_node(world_.scenario());
}

void SimOshrun::end_host(Host& host, const char* why) {
    host.is_over = true;
    world_.trace(kNoProc, format("the agent of node %d %s", host.node.value(), why));
    if (!may_go(host.node)) {
        verdict_.fail("oshrun", format("node %d is ended, and its job goes on with it: it %s", host.node.value(), why));
    }
    for (std::int32_t process = 0; process < n_slots(world_.scenario()); ++process) {
        if (node_of(world_.scenario(), ProcId(process)) == host.node) {
            world_.end_by_agent(ProcId(process));
        }
    }
}

void SimOshrun::give_up(Host& host, const char* why) {
    host.is_given_up = true;
    world_.trace(kNoProc, format("the guardian gives up node %d: %s", host.node.value(), why));
    if (!may_go(host.node)) {
        verdict_.fail("oshrun", format("node %d is given up, and its job goes on with it: %s", host.node.value(), why));
    }
}

void SimOshrun::judge(Host& host) {
    bool are_all_lost = true;
    for (std::int32_t process = 0; process < n_slots(world_.scenario()); ++process) {
        const ProcId id(process);
        are_all_lost = are_all_lost && (node_of(world_.scenario(), id) != host.node || agreed_lost_.contains(id));
    }
    const tools::HostEvidence evidence{
        .silence_ns = world_.now() - host.guardian_heard, .is_connected = true, .is_agreed_lost = are_all_lost};
    switch (tools::judge_host(evidence, world_.scenario().bound)) {
        case tools::HostVerdict::stays: break;
        case tools::HostVerdict::lost_by_agreement: give_up(host, "the job has agreed on it"); break;
        case tools::HostVerdict::lost_by_silence: give_up(host, "it has been silent for too long"); break;
    }
}

void SimOshrun::tick() {
    const Time now = world_.now();
    const Time bound = world_.scenario().bound;
    const bool is_judging = !is_dead_ && !is_standing_still();
    const bool was_away = is_judging && own_time_.was_away(now);
    for (Host& host : hosts_) {
        if (host.is_over || !is_there(host.node)) {
            continue;
        }
        const bool is_direct = are_linked(host.node, world_.scenario().guardian->node);
        host.guardian_heard = was_away ? now : host.guardian_heard;
        if (is_dead_ && is_direct) {
            end_host(host, "finds that its guardian has ended");
        } else if (is_judging && has_way(host) && host.is_given_up) {
            end_host(host, "hears that it has been given up");
        } else if (is_judging && has_way(host)) {
            host.guardian_heard = host.agent_heard = now;
            agreed_lost_.insert(host.reports.begin(), host.reports.end());
            host.reports.clear();
        } else if (!is_dead_ && is_direct) {
            host.agent_heard = now;  // the guardian's host takes connections
        }
        if (is_judging && !host.is_given_up) {
            judge(host);
        }
        if (!host.is_over && tools::is_guardian_lost(now - host.agent_heard, true, bound, grace_of(bound))) {
            end_host(host, "has not heard of its guardian for too long");
        }
    }
    const Time limit = tools::kBoundsUntilAlone * bound + grace_of(bound) + 2 * period_;
    const auto is_left = [&](const Host& host) { return is_there(host.node); };
    if (is_dead_ && now - died_at_ > limit && std::any_of(hosts_.begin(), hosts_.end(), is_left)) {
        verdict_.fail("oshrun", "the guardian has died, and something of the job is left");
    }
    world_.later(kNoProc, period_, [this] { tick(); });
}

// ---- what the job reports ----

void SimOshrun::decided(ProcId process, const JobState& /*before*/, const JobState& after) {
    for (const Death& death : after.deaths) {
        if (!death.is_certain) {
            heard_of_death(process, death);
        }
    }
}

// Of a spare: by the leader. Whoever decides something about a holder reports that by the agent of its host.
void SimOshrun::heard_of_death(ProcId process, const Death& death) {
    const Agreement& agreement = world_.process(process).agreement();
    const bool is_agreed = std::any_of(agreement.decided().deaths.begin(), agreement.decided().deaths.end(),
                                       [&](const Death& agreed) { return agreed.process == death.process; });
    const bool is_of_spare = world_.scenario().shape.held_by(agreement.decided(), death.process) == kNoPe;
    if (death.is_certain || (!is_agreed && !(is_of_spare && agreement.leader() == process))) {
        return;
    }
    const NodeId node = node_of(world_.scenario(), process);
    if (node == world_.scenario().guardian->node) {
        agreed_lost_.insert(death.process);
    }
    for (Host& host : hosts_) {
        if (host.node == node) {
            host.reports.insert(death.process);
        }
    }
}

}  // namespace sft::sim
