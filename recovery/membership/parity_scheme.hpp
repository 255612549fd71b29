// The scheme of xor:G and rs:K+M (scheme.hpp): parity among groups of PEs.
//
// A group (parity_groups.hpp) of s PEs survives the loss of any m = min(M, s - 1) of them with all that their nodes
// have. Each member keeps a share: parity of the others' states, 1 / (s - m) of what the state of one takes, m times.
// What it is made of is its PE's number (Share::part), and it lies in memory of the node of that PE's holder. A PE
// whose node is lost is computed from the local copies and the shares of s - m other members; one whose process has
// died leaves its local copy on its node.
//
// In a job of one PE, on one node, with more than half of the PEs on one of several nodes, or where memory goes with
// its process, it is the scheme of one partner.
#pragma once

#include <cstdint>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

// data: K, from 1; parity: M, from 1 to kParityMax; together up to kParityGroupMax (base/config.hpp).
[[nodiscard]] const Scheme& parity(std::int32_t data, std::int32_t parity) noexcept;

// The group of a PE.
struct ParityGroup {
    std::vector<PeId> members;  // by position
    std::int32_t position = 0;  // of the PE
    std::int32_t n_parity = 0;  // losses that it survives
};
// Whether the scheme of the job is such a one, and it has what that needs. Takes O(PEs log PEs).
[[nodiscard]] bool has_parity(const JobShape& shape) noexcept;
// REQUIRES: has_parity().
[[nodiscard]] ParityGroup parity_group_of(const JobShape& shape, PeId pe);
// Who can give the local copy that the PE had when everybody was protected last; kNoProc: it is lost.
[[nodiscard]] ProcId holder_of_copy(const JobShape& shape, const JobState& state, PeId pe);
// The PEs of which that process has to make whole what is left on its node: their holders have died. Whoever takes one
// over does the same, but may go elsewhere or die first; who survives goes back only once, whatever plans there are.
[[nodiscard]] std::vector<PeId> left_beside(const JobShape& shape, const JobState& state, ProcId process);

}  // namespace sft
