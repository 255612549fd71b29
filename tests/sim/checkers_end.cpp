#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/report.hpp"
#include "tests/sim/checkers.hpp"

namespace sft::sim {

// ---- where shadows belong ----

// As many groups as the fullest place has PEs, or as their size asks for: each takes a PE of a place in turn, and the
// next place goes on where the one before has ended.
std::vector<std::vector<PeId>> expected_groups(const Scenario& scenario) {
    const std::int32_t n_pes = scenario.shape.n_pes;
    std::map<std::int32_t, std::vector<PeId>> by_place;
    const auto arrange = [&](bool is_by_area) {
        by_place.clear();
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            by_place[is_by_area ? area_of(scenario, ProcId(pe)) : node_of(scenario, ProcId(pe)).value()].emplace_back(
                pe);
        }
    };
    arrange(true);
    if (by_place.size() < 2) {
        arrange(false);
    }
    std::size_t n_groups = static_cast<std::size_t>((n_pes + scenario.group_size - 1) / scenario.group_size);
    for (const auto& [place, pes] : by_place) {
        n_groups = std::max(n_groups, pes.size());
    }
    std::vector<std::vector<PeId>> groups(n_groups);
    std::size_t next = 0;
    for (const auto& [place, pes] : by_place) {
        for (const PeId pe : pes) {
            groups[next++ % n_groups].push_back(pe);
        }
    }
    std::vector<std::vector<PeId>> others(static_cast<std::size_t>(n_pes));
    for (const std::vector<PeId>& group : groups) {
        for (const PeId pe : group) {
            std::copy_if(group.begin(), group.end(), std::back_inserter(others[pe.index()]),
                         [&](PeId other) { return other != pe; });
        }
    }
    return others;
}

Place local_place_of(const Scenario& scenario, ProcId holder, PeId pe) {
    return scenario.has_node_memory ? Place{kNoProc, pe, -1, node_of(scenario, holder)} : Place{holder, pe, -1};
}

Place place_at(const Scenario& scenario, ProcId keeper, PeId pe, Version version) {
    const auto slot = static_cast<std::int32_t>(version.value() % 2);
    return scenario.has_node_memory ? Place{kNoProc, pe, slot, node_of(scenario, keeper)} : Place{keeper, pe, slot};
}

// ---- why a job ends ----

EndChecker::EndChecker(const Account& account, Verdict& verdict) : account_(account), verdict_(verdict) {}

// Newcomers join in the order of their numbers.
bool EndChecker::is_too_late(ProcId process) const {
    return is_newcomer(account_.scenario, process) && last_joined_ > process && !has_joined_.contains(process);
}

void EndChecker::gone(ProcId process, Gone how) {
    has_anybody_left_ = has_anybody_left_ || how == Gone::finished || how == Gone::ended;
    if (how == Gone::stopped_itself && is_too_late(process)) {
        return;
    }
    if (how == Gone::stopped_itself && account_.scenario.detection == Detection::kernel) {
        verdict_.fail("end", format("process %d stops itself and nobody can have declared it dead", process.value()));
    }
    if (how == Gone::stopped_itself && account_.scenario.only_cut && account_.scenario.guardian->dies_at == 0 &&
        node_of(account_.scenario, process) != lighter_node(account_.scenario)) {
        verdict_.fail("end", format("process %d stops itself, and its node is not the one to go", process.value()));
    }
    const bool is_cut =
        may_mistake(account_.scenario) || (account_.scenario.detection == Detection::nodes && account_.has_uncertain);
    if (how == Gone::stopped_itself && !is_cut) {
        verdict_.fail("end", format("process %d stops itself though the network was never cut", process.value()));
    }
}

void EndChecker::heard_of_death(ProcId process, const Death& death) {
    heard_[process].emplace(death.process, death);
    if (death.process == process) {
        verdict_.fail("end", format("process %d believes that it is dead", process.value()));
    }
    // Who is on the one to go may believe so, and stops for want of a quorum.
    if (account_.scenario.only_cut && account_.scenario.guardian->dies_at == 0 &&
        node_of(account_.scenario, death.process) != lighter_node(account_.scenario) &&
        node_of(account_.scenario, process) != lighter_node(account_.scenario)) {
        verdict_.fail("end",
                      format("process %d is taken for dead, and its node is not the one to go", death.process.value()));
    }
}

// Too few are left under its own value, which lists the deaths that are agreed on; or others have called it dead; or
// the job is over for others, and it does not know.
void EndChecker::must_stop(ProcId process, const JobState& state, const Stop& why) {
    const NodeId own = node_of(account_.scenario, process);
    if (why.reason == Stop::Reason::gives_way) {
        given_way_.insert(own);
        const bool is_heavier = account_.scenario.only_cut && own != lighter_node(account_.scenario);
        if (account_.scenario.detection != Detection::nodes || is_heavier) {
            verdict_.fail("end", format("process %d gives way, and its node is not the one to go", process.value()));
        }
        return;
    }
    if (why.reason == Stop::Reason::excluded) {
        if (!account_.declared.contains(process) && !is_too_late(process) && !has_anybody_left_ &&
            !given_way_.contains(own)) {
            verdict_.fail("end", format("process %d takes itself for excluded, and nobody has declared it dead",
                                        process.value()));
        }
        return;
    }
    const JobShape& shape = account_.scenario.shape;
    std::set<ProcId> participants;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        participants.insert(shape.holder(state, PeId(pe)));
    }
    if (state.witness != kNoProc) {
        participants.insert(state.witness);
    }
    for (const Death& death : state.deaths) {
        participants.erase(death.process);
    }
    std::int32_t n_reachable = 0;
    bool is_anybody_elsewhere = false;
    for (const ProcId participant : participants) {
        n_reachable += heard_[process].contains(participant) ? 0 : 1;
    }
    for (const auto& [dead, death] : heard_[process]) {
        const bool is_agreed = std::any_of(state.deaths.begin(), state.deaths.end(),
                                           [dead = dead](const Death& agreed) { return agreed.process == dead; });
        is_anybody_elsewhere = is_anybody_elsewhere || (!death.is_certain && !is_agreed);
    }
    const auto n_all = static_cast<std::int32_t>(participants.size());
    const auto leads_before = [&](ProcId a, ProcId b) { return shape.turn_of(state, a) < shape.turn_of(state, b); };
    const bool is_half_with_first =
        n_all > 0 && 2 * n_reachable == n_all &&
        !heard_[process].contains(*std::min_element(participants.begin(), participants.end(), leads_before));
    if (!is_anybody_elsewhere || 2 * n_reachable > n_all || is_half_with_first) {
        verdict_.fail("end", format("process %d stops itself though %d of %d are enough", process.value(), n_reachable,
                                    n_all));
    }
    if (why.n_reachable != n_reachable || why.n_all != n_all) {
        verdict_.fail("end", format("process %d says that it reaches %d of %d, and it is %d of %d", process.value(),
                                    why.n_reachable, why.n_all, n_reachable, n_all));
    }
}

void EndChecker::requested_end(ProcId process, EndReason reason) { requests_.emplace(process, reason); }

void EndChecker::could_not_open(ProcId process) { could_not_open_.insert(process); }

void EndChecker::blamed(ProcId process, ProcId culprit) {
    if (!could_not_open_.contains(process)) {
        verdict_.fail("end", format("process %d ends the job because of process %d, and nothing has failed",
                                    process.value(), culprit.value()));
    }
}

void EndChecker::entered(ProcId /*process*/, PeId /*pe*/, Call call, std::uint32_t /*view*/, Version /*version*/) {
    is_anybody_finishing_ = is_anybody_finishing_ || call == Call::finish;
}

bool EndChecker::is_out(ProcId decider, ProcId process) const {
    const auto at = heard_.find(decider);
    return !account_.lives(process) || (at != heard_.end() && at->second.contains(process));
}

// Who has the last committed version of each PE. While a recovery moves PEs about, shadows stay where they were.
void EndChecker::note_copies(const JobState& state) {
    const JobShape& shape = account_.scenario.shape;
    const bool is_settled = state.stage != Stage::planned && state.stage != Stage::restored;
    if (state.stage == Stage::planned || is_over(state)) {
        return;
    }
    if (is_settled || has_witness(account_.scenario)) {
        shadows_ = expected_keepers(account_.scenario, state);
    }
    copies_.resize(static_cast<std::size_t>(shape.n_pes));
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const bool is_unprotected =
            std::find(state.unprotected.begin(), state.unprotected.end(), PeId(pe)) != state.unprotected.end();
        std::set<ProcId>& copies = copies_[static_cast<std::size_t>(pe)];
        copies = {shape.holder(state, PeId(pe))};
        if (!is_unprotected) {
            const std::vector<ProcId>& shadows = shadows_[static_cast<std::size_t>(pe)];
            copies.insert(shadows.begin(), shadows.end());
        }
    }
}

void EndChecker::decided(ProcId process, const JobState& before, const JobState& after) {
    if (copies_.empty()) {
        note_copies(before);
    }
    for (const Joined& joined : after.joined) {
        has_joined_.insert(joined.process);
        last_joined_ = std::max(last_joined_, joined.process);
    }
    committed_ = std::max(committed_, after.version);
    if (after.index > seen_index_) {
        seen_index_ = after.index;
        note_copies(after);
    }
    if (after.stage != Stage::ended || is_ended_) {
        return;  // who is told of the end only does not know why
    }
    is_ended_ = true;
    if (!has_reason(process, before, after)) {
        verdict_.fail("end",
                      format("the job ends without need (reason %d): %s after %s", static_cast<int>(after.end_reason),
                             to_string(after).c_str(), to_string(before).c_str()));
    }
}

// Nobody of the job lives there, as far as it knows who belongs to it.
bool EndChecker::is_deserted(ProcId decider, const JobState& before, NodeId node) const {
    const Scenario& scenario = account_.scenario;
    for (std::int32_t process = 0; process < n_slots(scenario); ++process) {
        const ProcId other(process);
        const bool is_in = !is_newcomer(scenario, other) || has_joined(before, other);
        if (is_in && node_of(scenario, other) == node && !is_out(decider, other)) {
            return false;
        }
    }
    return true;
}

// Of what a dead keeper has left on its node. A spare there takes over.
bool EndChecker::is_out_of_reach(ProcId decider, const JobState& before, ProcId keeper) const {
    return !account_.scenario.has_node_memory || is_deserted(decider, before, node_of(account_.scenario, keeper));
}

// A PE is without a holder, and more members of its group than that survives have lost what their nodes had of them.
bool EndChecker::is_any_group_lost(ProcId decider, const JobState& before) const {
    const Scenario& scenario = account_.scenario;
    const std::vector<std::vector<PeId>> groups = expected_groups(scenario);
    const auto is_lost = [&](PeId pe) {
        const ProcId holder = holder_in(before.protected_layout, pe);
        return is_out(decider, holder) && is_out_of_reach(decider, before, holder);
    };
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        const std::vector<PeId>& others = groups[static_cast<std::size_t>(pe)];
        const auto n_lost = static_cast<std::int32_t>(std::count_if(others.begin(), others.end(), is_lost));
        const std::int32_t n_survived = std::min(scenario.group_parity, static_cast<std::int32_t>(others.size()));
        const bool is_agreed =
            std::find(before.unprotected.begin(), before.unprotected.end(), PeId(pe)) != before.unprotected.end();
        if (is_out(decider, scenario.shape.holder(before, PeId(pe))) &&
            (is_agreed || (is_lost(PeId(pe)) && n_lost + 1 > n_survived))) {
            return true;
        }
    }
    return false;
}

// When all holders are dead: nobody can know what some of the dead had decided last.
bool EndChecker::is_any_unread(ProcId decider, const JobState& before) const {
    const Scenario& scenario = account_.scenario;
    const auto heard = heard_.find(decider);
    const auto is_uncertain = [](const auto& item) { return !item.second.is_certain; };
    if (heard != heard_.end() && std::any_of(heard->second.begin(), heard->second.end(), is_uncertain)) {
        return true;
    }
    for (std::int32_t process = 0; process < n_slots(scenario); ++process) {
        const ProcId other(process);
        const bool is_in = !is_newcomer(scenario, other) || has_joined(before, other);
        const bool is_agreed = std::any_of(before.deaths.begin(), before.deaths.end(),
                                           [&](const Death& death) { return death.process == other; });
        if (is_in && !is_agreed && is_out(decider, other) && is_deserted(decider, before, node_of(scenario, other))) {
            return true;
        }
    }
    return false;
}

bool EndChecker::has_reason(ProcId decider, const JobState& before, const JobState& after) const {
    const JobShape& shape = account_.scenario.shape;
    std::int32_t n_without_holder = 0;
    bool is_any_lost = false;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const bool is_held = !is_out(decider, shape.holder(before, PeId(pe)));
        n_without_holder += is_held ? 0 : 1;
        const std::set<ProcId>& copies = copies_[static_cast<std::size_t>(pe)];
        const std::vector<ProcId>& kept_by = shadows_[static_cast<std::size_t>(pe)];
        is_any_lost = is_any_lost || std::all_of(copies.begin(), copies.end(), [&](ProcId copy) {
                          const bool is_shadow = std::find(kept_by.begin(), kept_by.end(), copy) != kept_by.end();
                          return is_out(decider, copy) && (!is_shadow || is_out_of_reach(decider, before, copy));
                      });
    }
    if (account_.scenario.group_size != 0) {
        is_any_lost = is_any_group_lost(decider, before);
    }
    std::int32_t n_spares = 0;
    for (std::int32_t process = shape.n_pes; process < n_slots(account_.scenario); ++process) {
        const ProcId spare(process);
        const bool is_in = !is_newcomer(account_.scenario, spare) || has_joined(before, spare);
        n_spares += is_in && shape.held_by(before, spare) == kNoPe && !is_out(decider, spare) ? 1 : 0;
    }
    switch (after.end_reason) {
        case EndReason::none:
        case EndReason::mismatched_calls: return false;  // nobody calls out of order here
        case EndReason::requested:
        case EndReason::past_the_end:
            return requests_.contains({after.ended_by, after.end_reason}) &&
                   (after.end_reason == EndReason::requested || is_anybody_finishing_);
        case EndReason::nothing_committed:
            // Whoever has slept does not know of commits, but where the node has it.
            return after.version == kNoVersion && n_without_holder > 0 &&
                   (!has_memory_of_only_node(account_.scenario) || committed_ == kNoVersion);
        case EndReason::no_spare: return n_spares < n_without_holder;
        case EndReason::all_died:
            return n_without_holder == shape.n_pes && !has_memory_of_only_node(account_.scenario) &&
                   (!account_.scenario.has_node_memory || is_any_unread(decider, before));
        case EndReason::copies_lost:
            return after.version != kNoVersion && is_any_lost && !has_memory_of_only_node(account_.scenario);
    }
    return false;
}

// ---- load ----

void LoadChecker::decided(ProcId /*process*/, const JobState& /*before*/, const JobState& after) {
    n_decisions_ = std::max(n_decisions_, after.index);
    is_over_ = is_over_ || is_over(after);
}

void LoadChecker::sent(ProcId /*from*/, ProcId /*to*/, const Message& message, std::int32_t hops) {
    if (message.kind != MessageKind::heartbeat && message.kind != MessageKind::ping) {
        ++n_sent_;
        hops_max_ = std::max(hops_max_, hops);
    }
}

void LoadChecker::handled(ProcId by, bool is_idle_spare, const Message& /*message*/) {
    if (is_idle_spare && !is_over_) {
        ++handled_by_spares_[by];
    }
}

void LoadChecker::over() {
    const auto n_processes = static_cast<std::uint64_t>(n_slots(account_.scenario));
    const std::uint64_t n_deaths = account_.declared.size() + account_.n_deaths;
    // A decision takes at most four sweeps over the tree, a death one ballot (three sweeps) more, and everybody who is
    // told of a death tells the leader; a new leader is told again.
    const std::uint64_t sent_max = n_processes * (4 * (n_decisions_ + 1) + 8 * n_deaths * (n_deaths + 1) + 4);
    if (n_sent_ > sent_max) {
        verdict_.fail("load",
                      format("%llu messages for %llu decisions and %llu deaths of %llu processes",
                             static_cast<unsigned long long>(n_sent_), static_cast<unsigned long long>(n_decisions_),
                             static_cast<unsigned long long>(n_deaths), static_cast<unsigned long long>(n_processes)));
    }
    for (const auto& [spare, n] : handled_by_spares_) {
        // A newcomer asks everybody, again at every death, and everybody hears that it has joined.
        const std::uint64_t n_joins = account_.scenario.joins.size();
        const std::uint64_t n_answers = is_newcomer(account_.scenario, spare) ? n_processes * (n_deaths + 1) : 0;
        const std::uint64_t handled_max = 3 + 2 * n_joins + n_answers + (n_processes + n_joins + 4) * n_deaths;
        if (n > handled_max) {
            verdict_.fail("load", format("sleeping spare %d has handled %llu messages", spare.value(),
                                         static_cast<unsigned long long>(n)));
        }
    }
    const double fan_out = std::max(1, account_.scenario.fan_out);
    const double pes = account_.scenario.shape.n_pes + 1;
    const double depth = fan_out > 1 ? std::ceil(std::log(pes * fan_out) / std::log(fan_out)) : pes;
    // Up and down, twice for a value that has to be proposed; what follows from messages alone goes on counting. From a
    // value that words lead on from nothing else does without a ballot, for which somebody asks.
    const int sweeps = account_.scenario.has_ready_words ? 7 : 4;
    if (n_deaths == 0 && account_.scenario.joins.empty() && account_.scenario.shape.n_pes > 1 &&
        account_.scenario.end_request_process < 0 && hops_max_ > sweeps * static_cast<int>(depth) + 2) {
        verdict_.fail("load", format("%d messages one after another for one decision", hops_max_));
    }
}

}  // namespace sft::sim
