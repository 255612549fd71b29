#include <algorithm>

#include "base/report.hpp"
#include "tests/sim/checkers.hpp"

namespace sft::sim {

// A copy that was corrupted by the scenario counts: the code under test cannot know before it reads it. What a copy
// holds counts only here: in a checkpoint that fails copies may be of a memory that was no version.
bool MemoryChecker::has_copy(const Place& place, Version version) const {
    const auto at = stored_.find(place);
    return at != stored_.end() && at->second.version == version &&
           at->second.content == account_.scenario.program.expected(place.pe, version.value());
}

void MemoryChecker::expect_shadows(const JobState& state, Version version, const char* when) {
    if (account_.scenario.group_size != 0) {
        expect_parity(state, version, when);
        return;
    }
    const JobShape& shape = account_.scenario.shape;
    const Keepers keepers = expected_keepers(account_.scenario, state);
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const bool is_unprotected =
            std::find(state.unprotected.begin(), state.unprotected.end(), PeId(pe)) != state.unprotected.end();
        for (const ProcId keeper : keepers[static_cast<std::size_t>(pe)]) {
            const Place place = place_at(account_.scenario, keeper, PeId(pe), version);
            if (!is_unprotected && account_.has_memory(keeper) && !has_copy(place, version)) {
                verdict_.fail("recoverable", format("%s: process %d has no shadow of PE %d of version %u", when,
                                                    keeper.value(), pe, version.value()));
            }
        }
    }
}

// Every other member of its group has added what the PE has.
void MemoryChecker::expect_parity(const JobState& state, Version version, const char* when) {
    const Scenario& scenario = account_.scenario;
    const std::vector<std::vector<PeId>> groups = expected_groups(scenario);
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        for (const PeId other : groups[static_cast<std::size_t>(pe)]) {
            const ProcId keeper = scenario.shape.holder(state, other);
            const Place place{kNoProc, PeId(pe), 2 + 2 * other.value() + static_cast<std::int32_t>(version.value() % 2),
                              node_of(scenario, keeper)};
            if (account_.has_memory(keeper) && !has_copy(place, version)) {
                verdict_.fail("recoverable",
                              format("%s: the parity of PE %d at process %d is without PE %d of version %u", when,
                                     other.value(), keeper.value(), pe, version.value()));
            }
        }
    }
}

// Right only if more members have lost their nodes, as far as the process knows, than the group survives.
bool MemoryChecker::may_give_up_in_group(ProcId process, PeId pe, const JobState& state) const {
    const Scenario& scenario = account_.scenario;
    const std::vector<PeId> others = expected_groups(scenario)[pe.index()];
    const auto is_left = [&](PeId member) {
        const NodeId node = node_of(scenario, holder_in(state.protected_layout, member));
        for (std::int32_t other = 0; other < scenario.shape.n_pes; ++other) {
            const ProcId holder = scenario.shape.holder(state, PeId(other));
            if (node_of(scenario, holder) == node && account_.lives(holder) && !heard_.contains({process, holder})) {
                return true;
            }
        }
        return false;
    };
    const auto n_left = static_cast<std::int32_t>(std::count_if(others.begin(), others.end(), is_left));
    const std::int32_t n_survived = std::min(scenario.group_parity, static_cast<std::int32_t>(others.size()));
    return !is_left(pe) && static_cast<std::int32_t>(others.size()) - n_left + 1 > n_survived;
}

void MemoryChecker::expect_local_copies(const JobState& state, Version version, const char* when) {
    const JobShape& shape = account_.scenario.shape;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const ProcId holder = shape.holder(state, PeId(pe));
        if (account_.counts(holder) && !has_copy(local_place_of(account_.scenario, holder, PeId(pe)), version)) {
            verdict_.fail("recoverable", format("%s: process %d has no local copy of PE %d of version %u", when,
                                                holder.value(), pe, version.value()));
        }
    }
}

void MemoryChecker::decided(ProcId /*process*/, const JobState& before, const JobState& after) {
    if (after.index <= seen_index_) {
        return;
    }
    seen_index_ = after.index;
    latest_ = after;
    if (after.stage == Stage::updating) {
        expect_shadows(after, after.version.next(), "when a version is committed");
    } else if (after.stage == Stage::restored) {
        expect_local_copies(after, after.version, "when everybody is restored");
    } else if (after.stage == Stage::running && after.version != kNoVersion && before.stage != Stage::running) {
        expect_local_copies(after, after.version, "when the program goes on");
        expect_shadows(after, after.version, "when the program goes on");
    }
    // Whoever died is replaced or its PE's keeper is marked as gone; the next commit ends that.
    if (after.stage == Stage::running && before.stage == Stage::restored && !has_witness(account_.scenario) &&
        !after.unprotected.empty()) {
        verdict_.fail("recoverable", "a PE is still unprotected after a recovery");
    }
}

void MemoryChecker::returned(ProcId /*process*/, PeId /*pe*/, Call call, Participant::Do result, std::uint32_t /*view*/,
                             Version version) {
    const bool is_commit = result == Participant::Do::committed;
    if (is_commit && latest_.version.value() < version.value() + 1) {
        verdict_.fail("recoverable", format("version %u is reported and is not committed", version.value() + 1));
    }
    static_cast<void>(call);
}

void MemoryChecker::live_memory(ProcId process, PeId pe, Version version, const Content& content) {
    const Program& program = account_.scenario.program;
    const Content expected = program.expected(pe, version.value());
    Content found = content;
    // Others may go on, and put, before this process has returned from the same call; but not past the next one.
    const std::uint32_t last = program.steps_at(version.value() + 1);
    for (std::size_t inbox = 0; inbox < 2; ++inbox) {
        for (std::uint32_t step = program.steps_at(version.value()) + 1; step <= last; ++step) {
            if (found[kInbox + inbox] == program.value_put(pe, inbox, step)) {
                found[kInbox + inbox] = expected[kInbox + inbox];
            }
        }
    }
    if (found != expected) {
        verdict_.fail("memory", format("PE %d (process %d) goes on with other memory than version %u has", pe.value(),
                                       process.value(), version.value()));
    }
}

// The line: what was put before it is there, and nothing that was put behind it.
void MemoryChecker::still_taken(ProcId process, PeId pe, Version version, const Content& content) {
    const Program& program = account_.scenario.program;
    const Content expected = program.expected(pe, version.value());
    for (std::size_t word = 0; word < kWords; ++word) {
        if (content[word] == expected[word]) {
            continue;
        }
        bool is_of_after = false;
        for (std::uint32_t step = program.steps_at(version.value()) + 1;
             word >= kInbox && step <= program.steps_at(version.value() + 1); ++step) {
            is_of_after = is_of_after || content[word] == program.value_put(pe, word - kInbox, step);
        }
        verdict_.fail("line", format("PE %d (process %d) takes %s for version %u", pe.value(), process.value(),
                                     is_of_after ? "what was put behind the line" : "not all that was put before it",
                                     version.value()));
    }
}

void MemoryChecker::copy_begun(const Place& place) {
    stored_[place] = {};
    flipped_.erase(place);
}

// What a dead keeper has kept in memory of the node is there for the next one.
void MemoryChecker::shadow_sent_anew(ProcId process) {
    if (has_memory_of_only_node(account_.scenario)) {
        verdict_.fail("needless copy", format("process %d sends its shadow, which the node has", process.value()));
    }
}

void MemoryChecker::bit_flipped(const Place& place) { flipped_.insert(place); }

// Right only if no good copy is left where one has to be: the own one, and unless all of them are agreed to be gone the
// shadow where it was when everybody was protected last. (They may be there in spite of that: a spare may have come to
// a node before its last holder died, and been counted in later.)
void MemoryChecker::gave_up(ProcId process, PeId pe, const JobState& state) {
    if (account_.scenario.group_size != 0) {
        if (!may_give_up_in_group(process, pe, state)) {
            verdict_.fail("giving up", format("process %d gives PE %d up, and its group has enough of it",
                                              process.value(), pe.value()));
        }
        return;
    }
    JobState then = state;
    then.replacements = state.protected_layout;
    std::vector<Place> places{local_place_of(account_.scenario, process, pe)};
    const Keepers keepers = expected_keepers(account_.scenario, then);
    const bool is_unprotected = std::binary_search(state.unprotected.begin(), state.unprotected.end(), pe);
    for (const ProcId keeper : is_unprotected ? std::vector<ProcId>{} : keepers[pe.index()]) {
        places.push_back(place_at(account_.scenario, keeper, pe, state.version));
    }
    const auto lives = [&](ProcId other) { return account_.lives(other) && !heard_.contains({process, other}); };
    // From a process, or from a holder of a PE on the node.
    const auto can_be_had = [&](const Place& place) {
        if (place.process != kNoProc || !account_.scenario.nodes) {
            return place.process == kNoProc || lives(place.process);
        }
        for (std::int32_t other = 0; other < account_.scenario.shape.n_pes; ++other) {
            const ProcId holder = holder_in(state.replacements, PeId(other));
            if (node_of(account_.scenario, holder) == place.node && lives(holder)) {
                return true;
            }
        }
        return false;
    };
    for (const Place& place : places) {
        if (can_be_had(place) && !flipped_.contains(place) && has_copy(place, state.version)) {
            verdict_.fail("giving up", format("process %d gives PE %d up, and process %d has a good copy",
                                              process.value(), pe.value(), place.process.value()));
        }
    }
}

void MemoryChecker::copy_done(const Place& place, Version version, const Content& content) {
    stored_[place] = {version, content};
    if (place.slot < 0 && content != account_.scenario.program.expected(place.pe, version.value())) {
        verdict_.fail("memory", format("process %d stores something else for PE %d than version %u",
                                       place.process.value(), place.pe.value(), version.value()));
    }
}

void MemoryChecker::restored(ProcId process, std::uint32_t view, RestoredFrom /*where*/) { back_in_[process] = view; }

void MemoryChecker::put_applied(ProcId from, std::uint32_t view, PeId pe, ProcId to, std::uint32_t view_there) {
    // Who has heard first that a recovery is over may put to one who has not, whose memory is ready for it.
    const auto back = back_in_.find(to);
    const bool has_gone_back = back != back_in_.end() && view <= back->second;
    if ((view != view_there && view != view_there + 1) || has_gone_back) {
        verdict_.fail("stale write", format("a put of process %d in view %u changes process %d in view %u",
                                            from.value(), view, to.value(), view_there));
    }
    if (account_.scenario.shape.holder(latest_, pe) != to && account_.counts(to)) {
        verdict_.fail("stale write", format("process %d puts to PE %d at process %d, which is none", from.value(),
                                            pe.value(), to.value()));
    }
    if (heard_.contains({to, from})) {
        verdict_.fail("stale write", format("a put of process %d changes process %d, which knows it to be dead",
                                            from.value(), to.value()));
    }
}

void MemoryChecker::heard_of_death(ProcId process, const Death& death) { heard_.emplace(process, death.process); }

}  // namespace sft::sim
