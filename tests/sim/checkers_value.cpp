// What a decided value must look like after the one before: built anew here, field by field, from the stages and the
// deaths that are new, and compared as a whole.
#include <algorithm>
#include <map>
#include <set>

#include "base/report.hpp"
#include "tests/sim/checkers.hpp"

namespace sft::sim {
namespace {

bool is_dead(const JobState& state, ProcId process) {
    return std::any_of(state.deaths.begin(), state.deaths.end(),
                       [&](const Death& death) { return death.process == process; });
}

bool holds(const Scenario& scenario, const JobState& state, ProcId process) {
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        if (holder_in(state.replacements, PeId(pe)) == process) {
            return true;
        }
    }
    return false;
}

// Ascending: those who join later have higher numbers.
std::vector<ProcId> spares_of(const Scenario& scenario, const JobState& state) {
    std::vector<ProcId> spares;
    for (std::int32_t process = scenario.shape.n_pes; process < scenario.shape.n_processes; ++process) {
        spares.emplace_back(process);
    }
    for (const Joined& joined : state.joined) {
        spares.push_back(joined.process);
    }
    std::erase_if(spares, [&](ProcId spare) { return is_dead(state, spare) || holds(scenario, state, spare); });
    return spares;
}

ProcId witness_of(const Scenario& scenario, const JobState& state) {
    const ProcId holder = holder_in(state.replacements, PeId(0));
    std::vector<ProcId> spares = spares_of(scenario, state);
    std::erase_if(spares, [&](ProcId spare) { return spare < holder; });
    // The further away, the better; of equal ones the lowest.
    const auto distance = [&](ProcId spare) {
        return area_of(scenario, spare) != area_of(scenario, holder)   ? 2
               : node_of(scenario, spare) != node_of(scenario, holder) ? 1
                                                                       : 0;
    };
    const auto elsewhere =
        std::max_element(spares.begin(), spares.end(), [&](ProcId a, ProcId b) { return distance(a) < distance(b); });
    return elsewhere != spares.end() ? *elsewhere : spares.empty() ? kNoProc : spares.front();
}

void expose(JobState& state, PeId pe) {
    state.unprotected.push_back(pe);
    std::sort(state.unprotected.begin(), state.unprotected.end());
    state.unprotected.erase(std::unique(state.unprotected.begin(), state.unprotected.end()), state.unprotected.end());
}

// Whether what somebody dead has kept can still be had: his node has it, and somebody who takes part lives there, or
// may become one by the next plan.
bool is_left_on_node(const Scenario& scenario, const JobState& state, ProcId keeper) {
    if (!scenario.has_node_memory || !scenario.nodes) {
        return scenario.has_node_memory;
    }
    bool is_holder_there = false;
    bool is_any_without_holder = false;
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        const ProcId holder = holder_in(state.replacements, PeId(pe));
        is_any_without_holder |= is_dead(state, holder);
        is_holder_there |= !is_dead(state, holder) && node_of(scenario, holder) == node_of(scenario, keeper);
    }
    const std::vector<ProcId> spares = spares_of(scenario, state);
    return is_holder_there || (is_any_without_holder && std::any_of(spares.begin(), spares.end(), [&](ProcId spare) {
                                   return node_of(scenario, spare) == node_of(scenario, keeper);
                               }));
}

// Where the shares were when all was protected last.
Keepers keepers_as_protected(const Scenario& scenario, const JobState& state) {
    JobState protected_layout = state;
    protected_layout.replacements = state.protected_layout;
    return expected_keepers(scenario, protected_layout);
}

// Everybody whose node is lost, with more members of its group than that survives.
void expose_groups(const Scenario& scenario, JobState& state) {
    const std::vector<std::vector<PeId>> groups = expected_groups(scenario);
    const auto is_lost = [&](PeId pe) {
        const ProcId holder = holder_in(state.protected_layout, pe);
        return is_dead(state, holder) && !is_left_on_node(scenario, state, holder);
    };
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        const std::vector<PeId>& others = groups[static_cast<std::size_t>(pe)];
        const auto n_lost = static_cast<std::int32_t>(std::count_if(others.begin(), others.end(), is_lost));
        if (is_lost(PeId(pe)) &&
            n_lost + 1 > std::min(scenario.group_parity, static_cast<std::int32_t>(others.size()))) {
            expose(state, PeId(pe));
        }
    }
}

// Everybody of whose shares none is left.
void expose_all(const Scenario& scenario, const Keepers& keepers, JobState& state) {
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        const std::vector<ProcId>& of_pe = keepers[static_cast<std::size_t>(pe)];
        if (!of_pe.empty() && std::all_of(of_pe.begin(), of_pe.end(), [&](ProcId keeper) {
                return is_dead(state, keeper) && !is_left_on_node(scenario, state, keeper);
            })) {
            expose(state, PeId(pe));
        }
    }
}

// The deaths that `after` has and `state` has not. Result: whose PEs they were.
std::vector<FailedPe> enter_deaths(const Scenario& scenario, JobState& state, const JobState& after) {
    std::vector<FailedPe> failed;
    const std::size_t n_before = state.deaths.size();
    const Keepers keepers = keepers_as_protected(scenario, state);
    for (std::size_t i = n_before; i < after.deaths.size(); ++i) {
        const Death& death = after.deaths[i];
        state.deaths.push_back(death);
        for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
            if (holder_in(state.replacements, PeId(pe)) == death.process) {
                failed.push_back({PeId(pe), death.reason});
            }
        }
        if (state.witness == death.process) {
            state.witness = kNoProc;
        }
    }
    if (after.deaths.size() != n_before && scenario.group_size != 0) {
        expose_groups(scenario, state);
    } else if (after.deaths.size() != n_before) {
        expose_all(scenario, keepers, state);
    }
    return failed;
}

struct Takeover {
    ProcId from;
    ProcId to;
};

// Somebody goes away from a place while a spare there takes somebody else's PE, or goes on sleeping.
template <class PlaceOf>
bool could_stay(const std::vector<Takeover>& takeovers, const std::vector<ProcId>& asleep, const PlaceOf& place_of) {
    return std::any_of(takeovers.begin(), takeovers.end(), [&](const Takeover& away) {
        const auto place = place_of(away.from);
        const auto takes_another = [&](const Takeover& other) {
            return place_of(other.to) == place && place_of(other.from) != place;
        };
        return place_of(away.to) != place &&
               (std::any_of(takeovers.begin(), takeovers.end(), takes_another) ||
                std::any_of(asleep.begin(), asleep.end(), [&](ProcId spare) { return place_of(spare) == place; }));
    });
}

// With parity: a PE goes where another one of its group is, and a spare on its own goes on sleeping where none is.
std::string wrong_company(const Scenario& scenario, const std::vector<Takeover>& takeovers,
                          const std::vector<ProcId>& asleep, const JobState& after) {
    const std::vector<std::vector<PeId>> groups = expected_groups(scenario);
    for (const Takeover& away : takeovers) {
        const PeId pe = scenario.shape.held_by(after, away.to);
        const auto is_in_company = [&](ProcId spare) {
            const std::vector<PeId>& others = groups[pe.index()];
            return std::any_of(others.begin(), others.end(), [&](PeId other) {
                return node_of(scenario, scenario.shape.holder(after, other)) == node_of(scenario, spare);
            });
        };
        const bool stays = node_of(scenario, away.from) == node_of(scenario, away.to);
        const auto is_in_reach = [&](ProcId spare) {
            return !is_in_company(spare) && (area_of(scenario, away.from) != area_of(scenario, away.to) ||
                                             area_of(scenario, spare) == area_of(scenario, away.to));
        };
        if (!stays && is_in_company(away.to) && std::any_of(asleep.begin(), asleep.end(), is_in_reach)) {
            return "a PE goes to one of its group, and a spare sleeps where none is";
        }
    }
    return {};
}

// Who takes over leads after everybody who has ever taken part, in the order of numbers.
bool are_turns_wrong(const Scenario& scenario, const JobState& before, const JobState& after) {
    std::int32_t last = scenario.shape.n_pes - 1;
    for (const Replacement& old : before.replacements) {
        last = std::max(last, old.turn);
    }
    std::map<ProcId, std::int32_t> fresh;
    for (const Replacement& now : after.replacements) {
        if (holder_in(before.replacements, now.pe) != now.process) {
            fresh.emplace(now.process, now.turn);
        }
    }
    return std::any_of(fresh.begin(), fresh.end(), [&](const auto& taken) {
        const bool is_wrong = taken.second <= last || taken.second < taken.first.value();
        last = taken.second;
        return is_wrong;
    });
}

// The PEs that a plan gives to others. On one node: to the lowest spares, in the memory domain where they were if one
// of these is there. On several: to spares on the node where they were if there are any, else in the area; whoever has
// none there takes the lowest that are left. (An only PE goes to its witness.)
std::string wrong_takeovers(const Scenario& scenario, const JobState& before, const JobState& entered,
                            const JobState& after) {
    std::vector<ProcId> taken;
    std::vector<Takeover> takeovers;
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        const ProcId old = holder_in(before.replacements, PeId(pe));
        const ProcId now = holder_in(after.replacements, PeId(pe));
        if (is_dead(after, now)) {
            return format("PE %d has a holder that is dead", pe);
        }
        if (now == old) {
            continue;
        }
        const bool is_unprotected =
            std::find(entered.unprotected.begin(), entered.unprotected.end(), PeId(pe)) != entered.unprotected.end();
        if (!is_dead(after, old) || is_unprotected) {
            return format("PE %d is given away, and %s", pe, is_unprotected ? "has no copy" : "its holder lives");
        }
        taken.push_back(now);
        takeovers.push_back({old, now});
    }
    std::sort(taken.begin(), taken.end());
    std::vector<ProcId> spares = spares_of(scenario, entered);
    if (has_witness(scenario)) {
        spares = {entered.witness};
    }
    if (taken.size() > spares.size() || !std::includes(spares.begin(), spares.end(), taken.begin(), taken.end())) {
        return "others than spares take over";
    }
    if (!scenario.nodes && !std::equal(taken.begin(), taken.end(), spares.begin())) {
        return "others than the lowest spares take over";
    }
    std::vector<ProcId> asleep;
    std::set_difference(spares.begin(), spares.end(), taken.begin(), taken.end(), std::back_inserter(asleep));
    if (are_turns_wrong(scenario, before, after)) {
        return "who takes over does not come behind who has taken part";
    }
    const bool does_node_matter = scenario.nodes != nullptr;
    if (does_node_matter && could_stay(takeovers, asleep, [&](ProcId p) { return node_of(scenario, p); })) {
        return "a PE moves to another node, and a spare on its own does not take it";
    }
    if (does_node_matter && could_stay(takeovers, asleep, [&](ProcId p) { return area_of(scenario, p); })) {
        return "a PE moves to another area, and a spare in its own does not take it";
    }
    if (scenario.shape.domains != nullptr && !does_node_matter &&
        could_stay(takeovers, {}, [&](ProcId p) { return domain_of(scenario, p); })) {
        return "a PE moves away, and a spare from where it was goes elsewhere";
    }
    if (scenario.group_size != 0) {
        return wrong_company(scenario, takeovers, asleep, after);
    }
    for (const Takeover& away : takeovers) {
        const bool is_elsewhere = does_node_matter && area_of(scenario, away.from) != area_of(scenario, away.to);
        if (is_elsewhere && !asleep.empty() && asleep.front() < away.to) {
            return "a PE moves to another area, and not to the lowest spare that is left";
        }
    }
    return {};
}

std::vector<PeId> pes_of(const std::vector<FailedPe>& failed) {
    std::vector<PeId> pes;
    std::set<PeId> seen;
    for (const FailedPe& item : failed) {
        if (seen.insert(item.pe).second) {
            pes.push_back(item.pe);
        }
    }
    return pes;
}

// Whether there was reason to end is the end checker's; here is what the value says about it.
std::string wrong_end(const Scenario& scenario, const JobState& before, JobState entered,
                      const std::vector<FailedPe>& failed, const JobState& after) {
    const bool is_asked = after.end_reason == EndReason::requested || after.end_reason == EndReason::past_the_end;
    std::vector<PeId> without_holder;
    for (const Death& death : entered.deaths) {
        for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
            if (holder_in(entered.replacements, PeId(pe)) == death.process) {
                without_holder.emplace_back(pe);
            }
        }
    }
    const auto is_unprotected = [&](PeId pe) {
        return std::find(entered.unprotected.begin(), entered.unprotected.end(), pe) != entered.unprotected.end() ||
               (has_witness(scenario) && entered.witness == kNoProc);
    };
    std::vector<PeId> lost;
    if (after.end_reason == EndReason::nothing_committed && before.stage != Stage::faulted && !failed.empty()) {
        entered.failed = failed;
        lost = pes_of(failed);
    } else if (!is_asked) {
        entered.further.insert(entered.further.end(), failed.begin(), failed.end());
    }
    if (after.end_reason == EndReason::all_died) {
        lost = pes_of(entered.further);
    } else if (after.end_reason == EndReason::copies_lost) {
        std::copy_if(without_holder.begin(), without_holder.end(), std::back_inserter(lost), is_unprotected);
    } else if (after.end_reason == EndReason::no_spare) {
        const std::size_t n_spares =
            has_witness(scenario) ? 1 : std::min(without_holder.size(), spares_of(scenario, entered).size());
        lost.assign(without_holder.begin() + static_cast<std::ptrdiff_t>(n_spares), without_holder.end());
    }
    const bool is_of_plan = after.end_reason == EndReason::copies_lost || after.end_reason == EndReason::no_spare;
    entered.attempt += is_of_plan ? 1 : 0;
    entered.stage = Stage::ended;
    entered.end_reason = after.end_reason;
    entered.exit_status = is_asked ? after.exit_status : kExitError;
    entered.ended_by = is_asked ? after.ended_by : kNoProc;
    entered.lost = lost;
    if (is_asked && (after.exit_status == 0 || after.ended_by == kNoProc)) {
        return "nobody has asked for the end";
    }
    return entered == after ? "" : "the value that ends the job is not what follows";
}

// Nobody has died who matters; or only the witness of an only PE; or somebody joins; or the lists were wrong.
std::string wrong_pause(JobState entered, const std::vector<FailedPe>& failed, const JobState& before,
                        const JobState& after) {
    if (before.joined.size() != after.joined.size()) {
        JobState expected = before;
        expected.index = after.index;
        expected.joined = after.joined;
        return expected == after ? "" : "more changes than who has joined";
    }
    if (before.deaths.size() != after.deaths.size()) {
        const bool is_of_witness = before.witness != kNoProc && entered.witness == kNoProc;
        return entered == after && failed.empty() && is_of_witness ? "" : "a death without consequence is agreed on";
    }
    entered.rejections += 1;
    return entered == after ? "" : "more changes than that a restart was refused";
}

}  // namespace

std::string wrong_start(const Scenario& scenario, const JobState& first) {
    JobState expected;
    if (has_witness(scenario)) {
        expected.witness = witness_of(scenario, expected);
    }
    return expected == first ? "" : to_string(first);
}

std::string wrong_step(const Scenario& scenario, const JobState& before, const JobState& after) {
    const bool is_single = has_witness(scenario);
    JobState entered = before;
    entered.index = before.index + 1;
    const std::vector<FailedPe> failed = enter_deaths(scenario, entered, after);
    if (after.stage == Stage::ended) {
        return wrong_end(scenario, before, std::move(entered), failed, after);
    }
    if (after.stage == before.stage && after.stage != Stage::planned) {
        return wrong_pause(std::move(entered), failed, before, after);
    }
    if (after.stage == Stage::planned && before.joined.size() != after.joined.size()) {
        return wrong_pause(std::move(entered), failed, before, after);
    }
    const bool takes_deaths = after.stage == Stage::faulted || after.stage == Stage::planned;
    if (!takes_deaths && after.deaths.size() != before.deaths.size()) {
        return "deaths are agreed on in a step that has nothing to do with them";
    }
    entered.stage = after.stage;
    if (after.stage == Stage::faulted) {
        if (failed.empty()) {
            return "a fault without the death of a holder";
        }
        entered.failed = failed;
        entered.further.clear();
    } else if (after.stage == Stage::planned) {
        const std::string wrong = wrong_takeovers(scenario, before, entered, after);
        if (!wrong.empty()) {
            return wrong;
        }
        entered.further.insert(entered.further.end(), failed.begin(), failed.end());
        entered.attempt += 1;
        entered.replacements = after.replacements;
        if (scenario.group_size != 0) {
            expose_groups(scenario, entered);
        } else if (!is_single) {
            expose_all(scenario, keepers_as_protected(scenario, entered), entered);
        }
        for (const Replacement& now : after.replacements) {
            const bool is_moved = holder_in(before.replacements, now.pe) != now.process;
            if (is_moved && std::binary_search(entered.unprotected.begin(), entered.unprotected.end(), now.pe)) {
                return "a PE is given away, and nobody can reach its copy";
            }
        }
    } else if (after.stage == Stage::running && before.stage == Stage::updating) {
        entered.version = before.version.next();
    } else if (after.stage == Stage::restored && is_single) {
        if (before.witness == kNoProc || before.witness == holder_in(before.replacements, PeId(0))) {
            entered.witness = witness_of(scenario, before);
            expose(entered, PeId(0));
        }
    } else if (after.stage == Stage::running) {
        entered.view += 1;
        entered.attempt = 0;
        entered.protected_layout = before.replacements;
        entered.failed.clear();
        entered.further.clear();
        entered.unprotected.clear();
        if (is_single && before.witness == kNoProc) {
            expose(entered, PeId(0));
        }
    }
    return entered == after ? "" : "not what follows from the deaths that are new in it";
}

}  // namespace sft::sim
