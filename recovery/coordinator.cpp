#include "recovery/coordinator.hpp"

#include <algorithm>
#include <optional>

#include "backup/placement.hpp"
#include "shmem_ft/base/clock.hpp"
#include "shmem_ft/base/report.hpp"

namespace sft {
namespace {

Round low_half(std::uint32_t round) { return Round(static_cast<std::uint16_t>(round)); }

}  // namespace

void Coordinator::mark(DeathCount attempt, Step step) {
    control_.slot(self_).marker.store(make_marker(round_, attempt, step), std::memory_order_seq_cst);
}

bool Coordinator::all_marked(const std::vector<Assignment>& members, std::uint64_t marker, bool skip_dead) const {
    return std::all_of(members.begin(), members.end(), [&](const Assignment& member) {
        return control_.slot(member.holder).marker.load(std::memory_order_seq_cst) >= marker ||
               (skip_dead && control_.is_dead(member.holder));
    });
}

void Coordinator::decide(const Agreed& seen, const std::optional<Agreed>& next) const {
    if (next && control_.decide(seen, *next)) {
        control_.ring_working();
    }
}

std::vector<Assignment> Coordinator::assignments(const Agreed& agreed) const {
    std::vector<Assignment> result(static_cast<std::size_t>(control_.n_pes()));
    for (std::size_t pe = 0; pe < result.size(); ++pe) {
        const AssignmentWords& words = control_.assignment(agreed.epoch, PeId(static_cast<std::int32_t>(pe)));
        result[pe] = {ProcId(words.holder.load()), ProcId(words.keeper.load())};
    }
    return result;
}

void Coordinator::write_tables(Epoch epoch, const std::vector<Assignment>& assignments) const {
    for (std::size_t pe = 0; pe < assignments.size(); ++pe) {
        AssignmentWords& words = control_.assignment(epoch, PeId(static_cast<std::int32_t>(pe)));
        words.holder.store(assignments[pe].holder.value());
        words.keeper.store(assignments[pe].keeper.value());
    }
}

std::vector<Coordinator::Failed> Coordinator::failed_pes(const Agreed& agreed, DeathCount deaths) const {
    const std::vector<Assignment> held = assignments(agreed);
    std::vector<Failed> failed;
    for (std::uint16_t i = 0; i < deaths.value(); ++i) {
        const DeathLog::Entry death = control_.death_log().at(i);
        for (std::size_t pe = 0; pe < held.size(); ++pe) {
            if (held[pe].holder == death.process) {
                failed.push_back({PeId(static_cast<std::int32_t>(pe)), death.reason});
            }
        }
    }
    return failed;
}

bool Coordinator::any_holder_died(const Agreed& agreed) const {
    const DeathCount deaths = control_.death_log().length();
    return deaths > agreed.deaths && !failed_pes(agreed, deaths).empty();
}

std::vector<ProcId> Coordinator::idle_spares(DeathCount deaths) const {
    std::vector<ProcId> idle;
    for (std::int32_t process = first_spare_; process < control_.n_processes(); ++process) {
        if (control_.slot(ProcId(process)).bound_pe.load() == 0 &&
            !control_.death_log().contains(ProcId(process), deaths)) {
            idle.push_back(ProcId(process));
        }
    }
    return idle;
}

bool Coordinator::end_job(std::int32_t status) {
    const std::uint64_t record = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(status)) << 32) |
                                 (static_cast<std::uint32_t>(self_.value()) + 1U);
    std::uint64_t empty = 0;
    const bool first = control_.header().end_record.compare_exchange_strong(empty, record);
    for (;;) {
        const Agreed seen = control_.agreed();
        const std::optional<Agreed> next = end(seen);
        if (!next || control_.decide(seen, *next)) {
            control_.ring_all();
            return first && next.has_value();
        }
    }
}

// ---- checkpoint ----

Coordinator::Await Coordinator::await_checkpoint_step(const Agreed& before, Step step) {
    const std::vector<Assignment> members = assignments(before);
    const std::uint64_t marker = make_marker(round_, DeathCount(0), step);
    Await result = Await::moved;
    waiter_.block_until([&] {
        if (control_.agreed() != before) {
            result = Await::moved;
            return true;
        }
        if (any_holder_died(before)) {
            decide(before, declare_fault(before, low_half(round_), control_.death_log().length()));
            result = Await::moved;
            return true;
        }
        result = Await::reached;
        return all_marked(members, marker, false);
    });
    // The last one to arrive finds the step complete and is never asleep: it wakes the others, once for all.
    control_.ring_working();
    return result;
}

void Coordinator::adopt_round(const Agreed& agreed) noexcept {
    // Others may have ended the round that this process was about to begin, never more than that one.
    if (low_half(round_) != agreed.round) {
        ++round_;
    }
}

CheckpointOutcome Coordinator::checkpoint() {
    const Agreed before = control_.agreed();
    if (before.stage != Stage::running) {
        adopt_round(before);
        if (before.stage != Stage::fault) {
            return CheckpointOutcome::ended;
        }
        control_.header().fault_deaths.store(before.deaths.value());
        return CheckpointOutcome::fault;
    }
    ++round_;
    mark(DeathCount(0), Step::arrived);
    if (await_checkpoint_step(before, Step::arrived) == Await::reached) {
        duties_.ship(before.version.next());
        mark(DeathCount(0), Step::shipped);
        if (await_checkpoint_step(before, Step::shipped) == Await::reached) {
            decide(before, commit(before, low_half(round_)));
        }
    }
    const Agreed after = control_.agreed();
    if (after.stage == Stage::fault) {
        control_.header().fault_deaths.store(after.deaths.value());
        return CheckpointOutcome::fault;
    }
    if (after.stage != Stage::running) {
        return CheckpointOutcome::ended;
    }
    duties_.fold(after.version);
    mark(DeathCount(0), Step::folded);
    const std::vector<Assignment> members = assignments(after);
    const std::uint64_t folded = make_marker(round_, DeathCount(0), Step::folded);
    waiter_.block_until([&] { return all_marked(members, folded, true) || control_.agreed().stage == Stage::ended; });
    control_.ring_working();
    return control_.agreed().stage == Stage::ended ? CheckpointOutcome::ended : CheckpointOutcome::committed;
}

// ---- restart ----

void Coordinator::join_round() {
    // The agreed word has the low half of the number; the markers, also those that the dead have left behind, the
    // rest: none of them is ahead, and the last one is not more than a round behind.
    const Agreed agreed = control_.agreed();
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        round_ = std::max(round_, round_of_marker(control_.slot(ProcId(process)).marker.load()));
    }
    while (low_half(round_) != agreed.round) {
        ++round_;
    }
}

bool Coordinator::all_holders_dead(const Agreed& agreed) const {
    const std::vector<Assignment> held = assignments(agreed);
    return std::all_of(held.begin(), held.end(),
                       [&](const Assignment& assignment) { return control_.is_dead(assignment.holder); });
}

void Coordinator::take_over_orphaned_job() {
    for (;;) {
        const Agreed seen = control_.agreed();
        if (seen.stage == Stage::finished || seen.stage == Stage::ended || !all_holders_dead(seen)) {
            return;
        }
        const DeathCount deaths = control_.death_log().length();
        if (seen.stage == Stage::running || seen.stage == Stage::fault) {
            decide(seen, plan(seen, seen.round.next(), deaths));
            continue;
        }
        if (seen.stage == Stage::restored || deaths > seen.deaths) {
            // The substitutes of this attempt may be alive and at work: they begin again when one of them is lost.
            const std::optional<Agreed> again = plan(seen, seen.round, deaths);
            if (!again) {
                return;
            }
            decide(seen, again);
            continue;
        }
        const Plan plan = plan_for(seen);
        if (plan.outcome != PlanOutcome::possible) {
            failed_plan_ = plan;
            ended_here_ = end_job(kExitError);
        } else {
            bind(plan);
        }
        return;
    }
}

RestartOutcome Coordinator::restart(const RestartRequest& request) {
    const Epoch epoch_before = control_.agreed().epoch;
    if (request.joins) {
        join_round();
    } else {
        ++round_;
    }
    restored_in_round_ = false;
    times_ = Times{};
    control_.slot(self_).list_hash[round_ % 2].store(request.list_hash);
    mark(DeathCount(0), Step::arrived);
    for (;;) {
        const Agreed seen = control_.agreed();
        switch (seen.stage) {
            case Stage::running:
            case Stage::fault:
                // A slow process may find that the others have resumed and even met the next fault already; tables
                // that have changed tell it that this restart is over.
                if (request.joins || seen.epoch != epoch_before) {
                    times_.resumed = now_ns();
                    return RestartOutcome::resumed;
                }
                if (seen.round != low_half(round_ - 1)) {
                    return RestartOutcome::rejected;
                }
                propose_plan(seen, request);
                break;
            case Stage::plan: work_on_plan(seen); break;
            case Stage::restored: work_on_protection(seen); break;
            default: return RestartOutcome::ended;
        }
    }
}

bool Coordinator::lists_agree(const Agreed& seen, const RestartRequest& request) const {
    for (const Assignment& member : assignments(seen)) {
        if (!control_.is_dead(member.holder) &&
            control_.slot(member.holder).list_hash[round_ % 2].load() != request.expected_hash) {
            return false;
        }
    }
    return true;
}

void Coordinator::propose_plan(const Agreed& seen, const RestartRequest& request) {
    const std::vector<Assignment> members = assignments(seen);
    const std::uint64_t arrived = make_marker(round_, DeathCount(0), Step::arrived);
    waiter_.block_until([&] { return control_.agreed() != seen || all_marked(members, arrived, true); });
    if (control_.agreed() != seen) {
        return;
    }
    if (lists_agree(seen, request)) {
        decide(seen, plan(seen, low_half(round_), control_.death_log().length()));
    } else {
        decide(seen, reject(seen, low_half(round_)));
    }
}

void Coordinator::bind(const Plan& plan) const {
    for (const PeId pe : plan.replaced) {
        ProcessSlot& slot = control_.slot(plan.assignments[pe.index()].holder);
        std::int32_t unbound = 0;
        slot.bound_pe.compare_exchange_strong(unbound, pe.value() + 1);
        slot.doorbell.ring();
    }
}

bool Coordinator::lost_a_member(const Agreed& seen, const std::vector<Assignment>& members) const {
    const DeathCount deaths = control_.death_log().length();
    if (deaths <= seen.deaths) {
        return false;
    }
    return std::any_of(members.begin(), members.end(), [&](const Assignment& member) {
        return control_.death_log().contains(member.holder, deaths) ||
               (member.keeper != kNoProc && control_.death_log().contains(member.keeper, deaths));
    });
}

void Coordinator::await_attempt(const Agreed& seen, const std::vector<Assignment>& members, Step step) {
    const std::uint64_t marker = make_marker(round_, seen.deaths, step);
    waiter_.block_until([&] {
        return control_.agreed() != seen || lost_a_member(seen, members) || all_marked(members, marker, false);
    });
    if (control_.agreed() != seen) {
        return;
    }
    if (lost_a_member(seen, members)) {
        decide(seen, plan(seen, low_half(round_), control_.death_log().length()));
        return;
    }
    const std::optional<Agreed> next = step == Step::restored ? restored(seen) : resume(seen);
    write_tables(next->epoch, members);
    decide(seen, next);
}

void Coordinator::await_further_death(const Agreed& seen) {
    waiter_.block_until([&] { return control_.agreed() != seen || control_.death_log().length() > seen.deaths; });
    decide(seen, plan(seen, low_half(round_), control_.death_log().length()));
}

Plan Coordinator::plan_for(const Agreed& seen) const {
    const std::vector<Assignment> held = assignments(seen);
    std::vector<ProcId> dead;
    for (std::uint16_t i = 0; i < seen.deaths.value(); ++i) {
        dead.push_back(control_.death_log().at(i).process);
    }
    std::vector<PeId> bound(static_cast<std::size_t>(control_.n_processes()), kNoPe);
    for (std::size_t process = 0; process < bound.size(); ++process) {
        bound[process] = PeId(control_.slot(ProcId(static_cast<std::int32_t>(process))).bound_pe.load() - 1);
    }
    return make_plan({held, dead, bound, first_spare_, seen.version != kNoVersion});
}

void Coordinator::work_on_plan(const Agreed& seen) {
    const Plan plan = plan_for(seen);
    if (plan.outcome != PlanOutcome::possible) {
        failed_plan_ = plan;
        ended_here_ = end_job(kExitError);
        return;
    }
    if (times_.planned == 0) {
        times_.planned = now_ns();
    }
    bind(plan);
    if (!restored_in_round_) {
        switch (duties_.restore(plan.assignments[me_.index()], seen.version)) {
            case Duties::Restored::done: restored_in_round_ = true; break;
            case Duties::Restored::source_gone: await_further_death(seen); return;
            case Duties::Restored::corrupt:
                failed_plan_ = plan;
                ended_here_ = end_job(kExitError);
                return;
        }
    }
    mark(seen.deaths, Step::restored);
    await_attempt(seen, plan.assignments, Step::restored);
}

void Coordinator::work_on_protection(const Agreed& seen) {
    if (times_.restored == 0) {
        times_.restored = now_ns();
    }
    std::vector<Assignment> members = assignments(seen);
    std::vector<ProcId> holders;
    std::vector<ProcId> keepers;
    for (const Assignment& member : members) {
        holders.push_back(member.holder);
        keepers.push_back(member.keeper);
    }
    const std::vector<ProcId> idle = idle_spares(seen.deaths);
    const std::vector<ProcId> placed = place_keepers({holders, keepers, idle});
    for (std::size_t pe = 0; pe < members.size(); ++pe) {
        members[pe].keeper = placed[pe];
    }
    const bool moved = placed[me_.index()] != keepers[me_.index()];
    if (!duties_.protect(placed[me_.index()], moved, seen.version)) {
        await_further_death(seen);
        return;
    }
    mark(seen.deaths, Step::protected_again);
    await_attempt(seen, members, Step::protected_again);
}

}  // namespace sft
