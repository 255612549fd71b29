// World: how processes end, and how the others come to know.
#include <algorithm>

#include "base/report.hpp"
#include "tests/sim/process.hpp"
#include "tests/sim/world.hpp"

namespace sft::sim {
namespace {

constexpr FailureReason kKilled{FailureKind::signal, 9};
constexpr FailureReason kFenced{FailureKind::hung, 0};
constexpr FailureReason kUnreachable{FailureKind::unreachable, 0};
constexpr std::int32_t kEverybodyHears = 300;

}  // namespace

void World::plan_kills() {
    for (const Kill& kill : scenario_.kills) {
        if (kill.trigger == Trigger::time) {
            at(kill.time, kNoProc, [this, kill] {
                const ProcId victim = victim_of(kill, ProcId(kill.process), kNoProc);
                strike(kill, victim);
            });
        } else {
            kills_.push_back({kill, kill.nth});
        }
    }
}

void World::trigger(PlannedKill& planned, ProcId actor, ProcId counterpart) {
    if (version_reached_ < planned.kill.after_version || view_reached_ < planned.kill.after_view) {
        return;
    }
    if (planned.left == 0 || --planned.left > 0) {
        return;
    }
    const ProcId victim = victim_of(planned.kill, actor, counterpart);
    if (planned.kill.delay == 0) {
        strike(planned.kill, victim);
    } else {
        at(now_ + planned.kill.delay, kNoProc, [this, kill = planned.kill, victim] { strike(kill, victim); });
    }
}

void World::strike(const Kill& kill, ProcId victim) {
    if (victim == kNoProc) {
        return;
    }
    const JobState& known = process(victim).agreement().decided();
    const PeId pe = scenario_.shape.held_by(known, victim);
    this->kill(victim, kKilled);
    for (std::int32_t next = 1; pe != kNoPe && next <= kill.n_more; ++next) {
        this->kill(scenario_.shape.holder(known, PeId((pe.value() + next) % scenario_.shape.n_pes)), kKilled);
    }
    const DomainId domain = domain_of(scenario_, victim);
    const bool dies_alone = !kill.is_of_group || (!scenario_.nodes && domain == kNoDomain);
    for (std::int32_t other = 0; !dies_alone && other < n_slots(scenario_); ++other) {
        if (area_of(scenario_, ProcId(other)) == area_of(scenario_, victim) &&
            domain_of(scenario_, ProcId(other)) == domain) {
            this->kill(ProcId(other), kKilled);
        }
    }
}

ProcId World::victim_of(const Kill& kill, ProcId actor, ProcId counterpart) {
    const JobShape& shape = scenario_.shape;
    const JobState& state = process(actor).agreement().decided();
    const PeId pe = shape.held_by(state, actor);
    switch (kill.victim) {
        case Victim::actor: return actor;
        case Victim::counterpart: return counterpart;
        case Victim::leader: return process(actor).agreement().leader();
        case Victim::keeper: {
            const std::vector<Share> shares = pe == kNoPe ? std::vector<Share>{} : targets_of(shape, state, pe);
            return shares.empty() ? kNoProc : shares.front().holder;
        }
        case Victim::kept: {
            const std::vector<PeId> kept = shape.scheme->place(shape, state, state.replacements)->kept_by(actor);
            return kept.empty() ? kNoProc : shape.holder(state, kept.front());
        }
        case Victim::substitute:
            return state.replacements.empty()
                       ? kNoProc
                       : state.replacements[static_cast<std::size_t>(kill.process) % state.replacements.size()].process;
        case Victim::idle_spare: {
            std::vector<ProcId> spares = shape.idle_spares(state, {});
            std::erase_if(spares, [&](ProcId spare) { return !is_alive(spare); });
            return spares.empty() ? kNoProc : spares[static_cast<std::size_t>(kill.process) % spares.size()];
        }
        case Victim::any: return ProcId(kill.process);
    }
    return kNoProc;
}

void World::kill(ProcId process, FailureReason reason) {
    if (!is_alive(process)) {
        return;
    }
    trace(process, reason == kFenced ? "is killed because it is suspected" : "DIES");
    fates_[process.index()].is_gone = true;
    fates_[process.index()].how = Gone::killed;
    reasons_[process.index()] = reason;
    --n_alive_;
    disturbed_until_ = std::max(disturbed_until_, now_);
    lose_messages_of(process);
    tell(&Observer::gone, process, Gone::killed);
    spread_news(process);
}

// The death of a process and the loss of its node are two things.
bool World::has_memory_of(ProcId process, Memory what) const noexcept {
    const MemoryHolder& holder = *scenario_.shape.memory;
    if (is_alive(process)) {
        return true;
    }
    const bool is_node_lost = !is_anybody_alive_on(node_of(scenario_, process));
    return is_node_lost ? !holder.dies_with_node(what) : !holder.dies_with_process(what);
}

bool World::is_anybody_alive_on(NodeId node) const noexcept {
    for (std::int32_t process = 0; process < n_slots(scenario_); ++process) {
        if (is_alive(ProcId(process)) && node_of(scenario_, ProcId(process)) == node) {
            return true;
        }
    }
    return false;
}

void World::leave(ProcId process, Gone how) {
    if (!is_alive(process)) {
        return;
    }
    trace(process, how == Gone::finished ? "leaves the finished job" : how == Gone::ended ? "ends" : "stops itself");
    fates_[process.index()].is_gone = true;
    fates_[process.index()].how = how;
    reasons_[process.index()] = {FailureKind::exited, 0};
    --n_alive_;
    note_progress();
    if (how == Gone::stopped_itself) {
        lose_messages_of(process);
    }
    tell(&Observer::gone, process, how);
    spread_news(process);
}

// A connection that breaks loses what is behind some point.
void World::lose_messages_of(ProcId process) {
    for (std::int32_t to = 0; to < n_slots(scenario_); ++to) {
        const auto found = channels_[process.index()].find(to);
        if (found != channels_[process.index()].end() && random_.percent(scenario_.lost_percent)) {
            const std::int64_t n = static_cast<std::int64_t>(found->second.size());
            found->second.resize(static_cast<std::size_t>(random_.between(0, n)));
        }
    }
}

void World::spread_news(ProcId process) {
    if (scenario_.detection == Detection::heartbeats) {
        return;
    }
    const bool has_left = fates_[process.index()].how == Gone::finished || fates_[process.index()].how == Gone::ended;
    // In a large job only the next ones in the ring hear of it: that everybody does is not how large jobs are.
    const std::int32_t n_all = n_slots(scenario_);
    std::int32_t n_left = n_all > kEverybodyHears ? 4 : n_all;
    for (std::int32_t i = 1; i < n_all && n_left > 0; ++i) {
        const std::int32_t to = (process.value() + i) % n_all;
        if (is_newcomer(scenario_, process) && !has_talked(process, ProcId(to)) &&
            !has_joined(this->process(ProcId(to)).agreement().decided(), process)) {
            continue;  // who does not know it does not watch it
        }
        // The kernel tells of processes of the own node only; who leaves says so to the others.
        const bool is_here = node_of(scenario_, ProcId(to)) == node_of(scenario_, process);
        if (is_alive(ProcId(to)) && has_left && !is_here) {
            at(now_ + message_delay(), ProcId(to), [this, to, process] {
                pass(process, ProcId(to), [this, to, process] { tell_fate(ProcId(to), process, true); });
            });
        } else if (is_alive(ProcId(to)) && !is_here && has_talked(process, ProcId(to))) {
            at(now_ + message_delay(), ProcId(to), [this, to, process] {
                pass(process, ProcId(to), [this, to, process] { break_connection(process, ProcId(to)); });
            });
        } else if (is_alive(ProcId(to)) && is_here) {
            --n_left;
            later(ProcId(to), random_.between(100, scenario_.news_max),
                  [this, to, process] { tell_fate(ProcId(to), process, true); });
        }
    }
}

void World::tell_fate(ProcId to, ProcId of, bool is_certain) {
    const Fate& fate = fates_[of.index()];
    if (fate.is_gone && is_certain && (fate.how == Gone::finished || fate.how == Gone::ended)) {
        process(to).learn_that_left(of, fate.how == Gone::finished ? Stage::finished : Stage::ended);
        return;
    }
    const Death death{of, is_certain ? reasons_[of.index()] : kUnreachable, is_certain};
    tell(&Observer::told_of_death, to, death);
    process(to).learn_of_death(death);
}

void World::end_by_agent(ProcId process) { kill(process, kFenced); }

// The suspect is killed, or found dead; if it cannot be reached nobody knows.
void World::fence(ProcId by, ProcId suspect) {
    trace(by, format("suspects p%d", suspect.value()));
    later(by, message_delay(), [this, by, suspect] {
        const bool is_reached = is_reachable(by, suspect);
        if (is_reached) {
            kill(suspect, kFenced);
        }
        disturbed_until_ = std::max(disturbed_until_, now_);
        later(by, message_delay(), [this, by, suspect, is_reached] { tell_fate(by, suspect, is_reached); });
    });
}

void World::end_for_certain(ProcId process) { kill(process, kFenced); }

bool World::has_talked(ProcId a, ProcId b) const {
    return channels_[a.index()].contains(b.value()) || channels_[b.index()].contains(a.value());
}

// A port that refuses is proof for those only who cannot have been called lost themselves.
void World::tell_of_port(ProcId to, ProcId of) { tell_fate(to, of, process(to).has_lease()); }

// While its host is there the other end of a connection sees at once that a process is gone.
void World::break_connection(ProcId dead, ProcId other) {
    if (scenario_.are_ports_refused || is_anybody_alive_on(node_of(scenario_, dead))) {
        tell_of_port(other, dead);
    }
}

void World::call_lost(ProcId by, const Death& death) {
    trace(by, format("misses p%d", death.process.value()));
    disturbed_until_ = std::max(disturbed_until_, now_);
    const bool is_certain = scenario_.are_ports_refused && !is_alive(death.process) && is_reachable(by, death.process);
    if (is_certain) {
        tell_of_port(by, death.process);
        return;
    }
    tell(&Observer::told_of_death, by, death);
    process(by).learn_of_death(death);
}

// ---- processes that come later ----

void World::plan_joins() {
    next_newcomer_ = scenario_.shape.n_processes;
    if (scenario_.waits_for_spares) {
        return;
    }
    for (std::int32_t process = scenario_.shape.n_processes; process < n_slots(scenario_); ++process) {
        const Join& join = scenario_.joins[static_cast<std::size_t>(process - scenario_.shape.n_processes)];
        at(join.time, kNoProc, [this, process] { come(ProcId(process)); });
    }
}

void World::want_spares(std::size_t n) {
    for (; n > 0 && next_newcomer_ < n_slots(scenario_); --n) {
        at(now_ + random_.between(0, 30 * scenario_.delay_max), kNoProc,
           [this, newcomer = ProcId(next_newcomer_++)] { come(newcomer); });
    }
}

// It meets the others through one that lives on its node. Of other nodes it knows who was there, not who still is.
void World::come(ProcId newcomer) {
    std::vector<ProcId> everybody;
    std::vector<ProcId> dead_here;
    bool is_anybody_here = false;
    for (std::int32_t process = 0; process < n_slots(scenario_); ++process) {
        const ProcId other(process);
        const bool is_here = node_of(scenario_, other) == node_of(scenario_, newcomer);
        is_anybody_here = is_anybody_here || (is_here && is_alive(other));
        if (is_alive(other) || (!is_here && fates_[other.index()].has_come)) {
            everybody.push_back(other);
        } else if (fates_[other.index()].has_come) {
            dead_here.push_back(other);
        }
    }
    if (!is_anybody_here) {
        return;
    }
    trace(newcomer, "comes");
    fates_[newcomer.index()].has_come = true;
    ++n_alive_;
    disturbed_until_ = std::max(disturbed_until_, now_);
    for (const ProcId dead : dead_here) {
        later(newcomer, random_.between(100, scenario_.news_max),
              [this, newcomer, dead] { tell_fate(newcomer, dead, true); });
    }
    process(newcomer).come(std::move(everybody));
}

void World::watch(ProcId by, ProcId newcomer) {
    if (is_alive(newcomer)) {
        return;
    }
    if (node_of(scenario_, by) == node_of(scenario_, newcomer)) {
        later(by, random_.between(100, scenario_.news_max), [this, by, newcomer] { tell_fate(by, newcomer, true); });
    }
}

void World::corrupt(const Corruption& corruption) {
    const ProcId target(corruption.process);
    if (is_alive(target)) {
        process(target).corrupt_a_copy(corruption.of_local_copy, random_);
    }
}

}  // namespace sft::sim
