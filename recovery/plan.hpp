// Who takes over from whom: a pure function, computed alike by every process of a restart.
//
// Input: the tables of the current epoch (who holds each PE, who keeps its shadow), the agreed prefix of the death
// log, and the spares that earlier attempts of this restart have already bound to a PE. Output: the new holder and
// the source of each PE's state, or the reason why the job cannot go on.
//
// Invariants
//  1. A PE whose holder lives keeps it.
//  2. A spare bound to a PE is never given another: its program has already been told its number.
//  3. The result depends only on the arguments, and on bindings only as far as earlier attempts made them; a process
//     that reads bindings while others are writing those of the same attempt computes the same result, because the
//     greedy choice gives every PE the spare that it would get if none of them were written (docs/protocols.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shmem_ft/base/ids.hpp"

namespace sft {

// Of one PE, in one epoch.
struct Assignment {
    ProcId holder = kNoProc;  // the process that is this PE
    ProcId keeper = kNoProc;  // the process whose memory holds the shadow; none: there is no shadow

    friend bool operator==(const Assignment&, const Assignment&) = default;
};

struct PlanInput {
    std::span<const Assignment> assignments;  // by PE
    std::span<const ProcId> dead;             // in agreed order
    std::span<const PeId> bound_pe;           // by process; kNoPe: not bound
    std::int32_t first_spare = 0;             // processes from here on started as spares
    bool version_exists = false;              // at least one version is committed
};

enum class PlanOutcome : std::uint8_t { possible, nothing_committed, no_spare, copies_lost };

struct Plan {
    PlanOutcome outcome = PlanOutcome::possible;
    std::vector<Assignment> assignments;  // by PE; keeper is the old one where it lives, else none
    std::vector<PeId> replaced;           // PEs that get a new holder, in the order of their holders' deaths
    std::vector<PeId> affected;           // for the other outcomes: the PEs that cannot be brought back
};

[[nodiscard]] Plan make_plan(const PlanInput& input);

}  // namespace sft
