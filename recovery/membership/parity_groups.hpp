// Groups of PEs that keep parity of each other's state: pure arithmetic over where the PEs began, done once in a job.
//
// A group has at most `size` PEs, no two of them on one node, or in one area where areas are known, as far as there are
// so many nodes. All groups have the same size, give or take one. Who is in a group never changes: parity is of the
// states of all of them, and a recovery that moves PEs about would have to make all of it anew. So two PEs of a group
// may come to be on one node after a recovery, and both are lost with it; Scheme::losses_survived says so.
//
// The PEs in the order of their nodes are dealt out to the groups in turn: PEs of one node follow each other, and there
// are at least as many groups as PEs on any node.
//
// Takes O(PEs log PEs). Threads: constant after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

// That of a PE.
struct ParityGroup {
    std::vector<PeId> members;  // by position
    std::int32_t position = 0;  // of the PE
    std::int32_t n_parity = 0;  // losses that it survives
};

class ParityGroups {
public:
    // n_parity: losses that a group survives, as far as it has so many members besides one. REQUIRES: several nodes,
    // several PEs, size > n_parity > 0.
    ParityGroups(const JobShape& shape, std::int32_t size, std::int32_t n_parity);

    // False: more than half of the PEs are on one node, and some would have no other in their group.
    [[nodiscard]] bool are_possible() const noexcept { return smallest() > 1; }
    [[nodiscard]] std::int32_t smallest() const noexcept {
        return static_cast<std::int32_t>(dealt_.size()) / n_groups_;
    }
    [[nodiscard]] std::int32_t largest() const noexcept { return size_of(0); }
    [[nodiscard]] std::int32_t n_groups() const noexcept { return n_groups_; }
    [[nodiscard]] std::int32_t group_of(PeId pe) const noexcept { return place_[pe.index()] % n_groups_; }
    // Its place in its group.
    [[nodiscard]] std::int32_t position_of(PeId pe) const noexcept { return place_[pe.index()] / n_groups_; }
    [[nodiscard]] std::int32_t size_of(std::int32_t group) const noexcept;
    [[nodiscard]] PeId member(std::int32_t group, std::int32_t position) const noexcept;
    // How many of its members it can lose.
    [[nodiscard]] std::int32_t tolerated(std::int32_t group) const noexcept;
    [[nodiscard]] ParityGroup of(PeId pe) const;

private:
    std::vector<PeId> dealt_;          // in the order in which they are dealt out
    std::vector<std::int32_t> place_;  // of each PE in that
    std::int32_t n_groups_ = 1;
    std::int32_t n_parity_;
};

}  // namespace sft
