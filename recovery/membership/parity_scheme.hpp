// The scheme of xor:G and rs:K+M (scheme.hpp): parity among groups of PEs.
//
// A group (parity_groups.hpp) of s PEs survives the loss of any m = min(M, s - 1) of them with all that their nodes
// have. Each member keeps a share: parity of the others' states, 1 / (s - m) of what the state of one takes, m times.
// What it is made of is its PE's number (Share::part), and it lies in memory of the node of that PE's holder. A PE
// whose node is lost is computed from the local copies and the shares of s - m other members; one whose process has
// died leaves its local copy on its node.
//
// A job has it if its shape has groups.
#pragma once

#include <optional>
#include <vector>

#include "base/config.hpp"
#include "recovery/membership/job_state.hpp"
#include "recovery/membership/parity_groups.hpp"

namespace sft {

// REQUIRES of the shapes that it is asked with: groups.
[[nodiscard]] const Scheme& parity() noexcept;
// What the setting asks for, in a shape that has all else. Nothing: it asks for none, or the job has only one PE or one
// node, more than half of the PEs on one node, or memory that goes with its process.
[[nodiscard]] std::optional<ParityGroups> groups_for(const JobShape& shape, const Backup& backup);
[[nodiscard]] inline bool has_parity(const JobShape& shape) noexcept { return shape.groups != nullptr; }

// Who can give the local copy that the PE had when everybody was protected last; kNoProc: it is lost.
[[nodiscard]] ProcId holder_of_copy(const JobShape& shape, const JobState& state, PeId pe);
// The PEs of which that process has to make whole what is left on its node: their holders have died. Whoever takes one
// over does the same, but may go elsewhere or die first; who survives goes back only once, whatever plans there are.
[[nodiscard]] std::vector<PeId> left_beside(const JobShape& shape, const JobState& state, ProcId process);

}  // namespace sft
