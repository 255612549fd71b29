// Which process keeps the shadow of which PE: pure arithmetic over the holders.
//
// PEs on two nodes or more: the nodes that hold PEs form a ring in the order of their numbers, and the i-th PE of a
// node keeps its shadow with the i-th PE of the next node (modulo how many that one has). So a shadow never is on the
// node of its PE, the loss of one node loses no copy together with its original, and no table has to be agreed on: the
// holders say it all. If shadows are kept near (JobShape::keeps_near), PEs that are not alone on their node keep them
// with the next PE there instead. Several keepers of each PE: the i-th PE of each of the next nodes, as many as there
// are besides its own, so that each loss of a node loses one copy at most.
//
// If areas of nodes are known (JobShape::areas) and there are PEs in two of them or more, the same ring of areas
// instead of nodes: so no two copies are in one area.
//
// A job on one node whose PEs are bound to two memory domains or more: the same ring, of the domains. PEs of which no
// domain is known are a member of it, too. Else the next PE's holder keeps, also if a job has several nodes and all PEs
// are on one. On one node nobody needs more than one keeper. For an only PE nobody is
// looked for here.
//
// Made for one value and asked as long as that is looked at; takes O(PEs) of memory in a job of several groups (nodes
// or domains) and nothing in a job of one. Threads: constant after construction.
#pragma once

#include <span>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

class Placement {
public:
    // REQUIRES: n_pes > 1 to be asked anything. replacements: who holds what (sorted by PE); state: who has joined
    // where. n_wanted: keepers of each PE.
    Placement(const JobShape& shape, const JobState& state, std::span<const Replacement> replacements,
              std::int32_t n_wanted = 1);

    // Of each PE, at least one.
    [[nodiscard]] std::int32_t n_keepers() const noexcept { return n_keepers_; }
    // The PE whose holder keeps a shadow of `pe`; number: below n_keepers(), the nearest first.
    [[nodiscard]] PeId keeper_of(PeId pe, std::int32_t number = 0) const noexcept;
    // The PEs whose shadows the holder of `pe` keeps, ascending.
    [[nodiscard]] std::vector<PeId> kept_by(PeId pe) const;

private:
    // Fills what is below; whether there is more than one. of: by PE.
    [[nodiscard]] bool arrange(const std::vector<GroupId>& of);
    [[nodiscard]] bool is_keeper_of(PeId keeper, PeId pe) const noexcept;
    [[nodiscard]] bool is_one_group() const noexcept { return begin_.empty(); }
    [[nodiscard]] std::int32_t size_of(std::size_t group) const noexcept { return begin_[group + 1] - begin_[group]; }
    [[nodiscard]] bool is_kept_within(std::size_t group) const noexcept { return keeps_near_ && size_of(group) > 1; }

    std::int32_t n_pes_;
    std::int32_t n_keepers_ = 1;
    bool keeps_near_ = false;
    // Several groups: the PEs group by group, where each group's begin (one more at the end; groups without PEs left
    // out), and the place of each PE among them.
    std::vector<PeId> by_group_;
    std::vector<std::int32_t> begin_;
    std::vector<std::int32_t> place_;
    std::vector<std::int32_t> group_;  // of each PE: which of the groups
};

}  // namespace sft
