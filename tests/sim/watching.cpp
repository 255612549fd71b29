// SimProcess: heartbeats, and nodes that watch each other.
#include "recovery/detection/node_watch.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {

// Heartbeats by message to those next in the ring; who is watched for another reason is looked at.
void SimProcess::tick() {
    const Time now = world_.now();
    const Time period = world_.scenario().period;
    if (ticked_at_ != 0 && now - ticked_at_ > 3 * period) {
        detector_.forgive(now);
    }
    ticked_at_ = now;
    beat_at_ = now;
    Message beat;
    beat.kind = MessageKind::heartbeat;
    for (const ProcId watcher : detector_.watchers(agreement_.known_deaths())) {
        world_.send(self_, watcher, beat, 0);
    }
    const ProcId leader = agreement_.depends_on();
    if (leader != kNoProc && world_.is_reachable(self_, leader)) {
        const Time beat_there = world_.process(leader).beat_at();
        if (beat_there > beats_seen_[leader]) {
            beats_seen_[leader] = beat_there;
            detector_.heard(leader, now);
        }
    }
    for (const ProcId suspect : detector_.suspects(now)) {
        world_.fence(self_, suspect);
    }
    world_.later(self_, period, [this] { tick(); });
}

bool SimProcess::has_lease() const {
    if (world_.scenario().detection != Detection::nodes) {
        return true;
    }
    const auto lease_of = [this](ProcId other) {
        const bool is_here =
            world_.has_come(other) && node_of(world_.scenario(), other) == node_of(world_.scenario(), self_);
        return is_here ? world_.process(other).lease_ns() : NodeWatch::kNever;
    };
    return sft::has_lease(self_, lease_of, world_.now(), world_.scenario().bound);
}

void SimProcess::tick_nodes() {
    ++beats_;
    const NodeWatch::Round round =
        node_watch_.tick(world_.now(), [this](ProcId other) { return world_.process(other).beats(); });
    Message ping;
    ping.kind = MessageKind::ping;
    ping.asked_ns = world_.now();
    ping.node = round.about;
    for (const ProcId process : round.ask) {
        world_.send(self_, process, ping, 0);
    }
    for (const Death& death : round.lost) {
        if (is_alive() && !contains(agreement_.known_deaths(), death.process)) {
            world_.call_lost(self_, death);
        }
    }
    if (is_alive()) {
        hops_ = 0;
        agreement_.remind();
    }
    if (round.gives_way && is_alive()) {
        world_.trace(self_, "gives way");
        agreement_.give_way();
    }
    world_.later(self_, node_watch_.period_ns(), [this] { tick_nodes(); });
}

}  // namespace sft::sim
