// Which process keeps the shadow of which PE: pure arithmetic over the holders.
//
// PEs on two nodes or more stand on a circle, node by node in the order of their numbers, and the keepers of each are
// the PEs that come one, two, ... steps behind it. A step is as long as the PEs are many that the fullest node had when
// the job began: so no copy is on the node of its PE or on that of another copy, the loss of one node loses one copy of
// a PE at most, every PE keeps as many shadows as every other one, and no table has to be agreed on: the holders say it
// all. On nodes of one size that is the i-th PE of each of the next nodes.
//   The step stays what it is, so few shadows move when PEs go to other nodes. Where a keeper is on a wrong node
// then, since one has more PEs than a step is long, it changes places with that of the next PE for which both fit; if
// there is none, one of those that have to keep the fewest more keeps as well.
//   Nodes of such different sizes that a circle does not fit (as many steps as copies, and one more, are longer than
// it) form a ring instead: the i-th PE of a node keeps with the i-th PE of each of the next nodes, modulo how many that
// one has. PEs of small nodes keep more there.
//   There are no more keepers of a PE than there are other nodes with PEs. If shadows are kept near
// (JobShape::keeps_near), PEs that are not alone on their node keep them with the next PE there.
//
// If areas of nodes are known (JobShape::areas) and there are PEs in two of them or more, the same with areas instead
// of nodes: so no two copies are in one area.
//
// A job on one node whose PEs are bound to two memory domains or more: the same, with domains. PEs of which no domain
// is known are in one of their own. Else the next PE's holder keeps, also if a job has several nodes and all PEs are on
// one. On one node nobody needs more than one keeper. For an only PE nobody is looked for here.
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
    // A keeper that is not where the circle wants it.
    struct Misfit {
        PeId pe = kNoPe;
        std::int32_t number = 0;
        PeId keeper = kNoPe;
    };
    // Fills what is below; whether there is more than one. of: by PE.
    [[nodiscard]] bool arrange(const std::vector<GroupId>& of);
    // How long a step of the circle is; 0: it does not fit. first: by PE, as the job began.
    [[nodiscard]] std::int32_t find_step(std::vector<GroupId> first, std::int32_t n_wanted) const;
    void mend();
    [[nodiscard]] bool fits(PeId pe, std::int32_t number, PeId keeper) const noexcept;
    void change_places(std::int32_t place, std::int32_t number, std::vector<std::int32_t>& n_more);
    void set_keeper(PeId pe, std::int32_t number, PeId keeper);
    // At so many places behind that one, or before it.
    [[nodiscard]] PeId at(std::int64_t place) const noexcept;
    [[nodiscard]] std::int32_t place_on_circle(PeId pe) const noexcept {
        return begin_[static_cast<std::size_t>(group_[pe.index()])] + place_[pe.index()];
    }
    [[nodiscard]] const Misfit* find_misfit(PeId pe, std::int32_t number) const noexcept;
    [[nodiscard]] std::vector<PeId> kept_on_circle(PeId pe) const;
    [[nodiscard]] bool is_keeper_of(PeId keeper, PeId pe) const noexcept;
    [[nodiscard]] bool is_one_group() const noexcept { return begin_.empty(); }
    [[nodiscard]] std::int32_t size_of(std::size_t group) const noexcept { return begin_[group + 1] - begin_[group]; }
    [[nodiscard]] bool is_kept_within(std::size_t group) const noexcept { return keeps_near_ && size_of(group) > 1; }

    std::int32_t n_pes_;
    std::int32_t n_keepers_ = 1;
    bool keeps_near_ = false;
    std::int32_t step_ = 0;        // 0: a ring
    std::vector<Misfit> misfits_;  // sorted by PE and number
    // Several groups: the PEs group by group, where each group's begin (one more at the end; groups without PEs left
    // out), and the place of each PE among them.
    std::vector<PeId> by_group_;
    std::vector<std::int32_t> begin_;
    std::vector<std::int32_t> place_;
    std::vector<std::int32_t> group_;  // of each PE: which of the groups
};

}  // namespace sft
