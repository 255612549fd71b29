#include "recovery/plan.hpp"

#include <algorithm>

namespace sft {
namespace {

bool is_dead(const PlanInput& input, ProcId process) {
    return std::find(input.dead.begin(), input.dead.end(), process) != input.dead.end();
}

// PEs whose holder is dead, in the order in which the holders died.
std::vector<PeId> orphaned(const PlanInput& input) {
    std::vector<PeId> result;
    for (const ProcId dead : input.dead) {
        for (std::size_t pe = 0; pe < input.assignments.size(); ++pe) {
            if (input.assignments[pe].holder == dead) {
                result.push_back(PeId(static_cast<std::int32_t>(pe)));
            }
        }
    }
    return result;
}

ProcId bound_spare(const PlanInput& input, PeId pe) {
    for (std::size_t process = 0; process < input.bound_pe.size(); ++process) {
        const ProcId id(static_cast<std::int32_t>(process));
        if (input.bound_pe[process] == pe && !is_dead(input, id)) {
            return id;
        }
    }
    return kNoProc;
}

// The lowest living spare that is bound to no PE and not in `taken`.
ProcId free_spare(const PlanInput& input, const std::vector<ProcId>& taken) {
    for (auto process = static_cast<std::size_t>(input.first_spare); process < input.bound_pe.size(); ++process) {
        const ProcId id(static_cast<std::int32_t>(process));
        if (input.bound_pe[process] == kNoPe && !is_dead(input, id) &&
            std::find(taken.begin(), taken.end(), id) == taken.end()) {
            return id;
        }
    }
    return kNoProc;
}

}  // namespace

Plan make_plan(const PlanInput& input) {
    Plan plan;
    plan.assignments.assign(input.assignments.begin(), input.assignments.end());
    plan.replaced = orphaned(input);
    if (!input.version_exists) {
        plan.outcome = PlanOutcome::nothing_committed;
        plan.affected = plan.replaced;
        return plan;
    }
    for (Assignment& assignment : plan.assignments) {
        if (is_dead(input, assignment.keeper)) {
            assignment.keeper = kNoProc;
        }
    }
    std::vector<ProcId> taken;
    std::vector<PeId> without_copy;
    std::vector<PeId> without_spare;
    for (const PeId pe : plan.replaced) {
        Assignment& assignment = plan.assignments[pe.index()];
        if (assignment.keeper == kNoProc) {
            without_copy.push_back(pe);
        }
        ProcId substitute = bound_spare(input, pe);
        if (substitute == kNoProc) {
            substitute = free_spare(input, taken);
        }
        if (substitute == kNoProc) {
            without_spare.push_back(pe);
        }
        taken.push_back(substitute);
        assignment.holder = substitute;
    }
    if (!without_copy.empty()) {
        plan.outcome = PlanOutcome::copies_lost;
        plan.affected = without_copy;
    } else if (!without_spare.empty()) {
        plan.outcome = PlanOutcome::no_spare;
        plan.affected = without_spare;
    }
    return plan;
}

}  // namespace sft
