// Which nodes a job can lose as it is now. Nobody acts on it: it is for people who look at the job from outside.

#include <algorithm>

#include "base/assert.hpp"
#include "recovery/membership/placement.hpp"
#include "recovery/rules.hpp"

namespace sft {
namespace {

// What is on one node.
struct OnNode {
    std::int32_t pes = 0;
    std::int32_t spares = 0;
    std::int32_t voters = 0;  // who takes part in the agreement
    bool has_lowest_voter = false;
    bool has_unprotected_pe = false;
    bool keeps_last_copies = false;  // of PEs there, or of PEs that have failed already
    bool keeps_copies = false;

    [[nodiscard]] bool is_in_use() const noexcept { return pes + spares + voters > 0; }
};

struct OnNodes {
    std::vector<OnNode> nodes;
    std::int32_t n_voters = 0;
    std::int32_t n_failed = 0;  // PEs that have nobody as it is
    std::int32_t n_spares = 0;  // that may take over
};

void count_voters(const JobShape& shape, const JobState& now, std::vector<ProcId> voters, OnNodes& all) {
    if (now.witness != kNoProc) {
        voters.push_back(now.witness);
    }
    SFT_ASSERT(voters.size() <= static_cast<std::size_t>(shape.n_pes) + 1);
    all.n_voters = static_cast<std::int32_t>(voters.size());
    const auto lowest = std::min_element(voters.begin(), voters.end());
    for (const ProcId& voter : voters) {
        const NodeId at = shape.node_of(now, voter);
        SFT_ASSERT(at.value() >= 0 && at.index() < all.nodes.size());
        OnNode& node = all.nodes[at.index()];
        ++node.voters;
        node.has_lowest_voter |= voter == *lowest;
    }
}

// now: with the deaths of `dead`.
OnNodes look_at(const JobShape& shape, const JobState& now, std::span<const Death> dead) {
    OnNodes all;
    all.nodes.resize(static_cast<std::size_t>(shape.nodes->n_nodes()));
    const auto node_of = [&](ProcId process) -> OnNode& {
        const NodeId node = shape.node_of(now, process);
        SFT_ASSERT(node.value() >= 0 && node.index() < all.nodes.size());
        return all.nodes[node.index()];
    };
    std::vector<ProcId> holders;
    const Placement placement(shape, now, now.protected_layout);
    for (std::int32_t number = 0; number < shape.n_pes; ++number) {
        const PeId pe(number);
        const ProcId holder = shape.holder(now, pe);
        const bool is_unprotected = std::binary_search(now.unprotected.begin(), now.unprotected.end(), pe);
        const ProcId kept_by =
            shape.n_pes == 1 ? now.witness : holder_in(now.protected_layout, placement.keeper_of(pe));
        const ProcId keeper = is_unprotected ? kNoProc : kept_by;
        const bool has_failed = contains(dead, holder);
        if (has_failed) {
            ++all.n_failed;
        } else {
            ++node_of(holder).pes;
            node_of(holder).has_unprotected_pe |= keeper == kNoProc;
            holders.push_back(holder);
        }
        if (keeper != kNoProc) {
            node_of(keeper).keeps_copies = true;
            node_of(keeper).keeps_last_copies |= has_failed || &node_of(holder) == &node_of(keeper);
        }
    }
    count_voters(shape, now, std::move(holders), all);
    for (const ProcId spare : shape.idle_spares(now, dead)) {
        ++node_of(spare).spares;
        ++all.n_spares;
    }
    return all;
}

NodeLoss judge(const OnNode& node, const OnNodes& all, std::int32_t n_on_demand) {
    const std::int32_t n_left = all.n_voters - node.voters;
    SFT_ASSERT(n_left >= 0);
    if (node.voters > 0 && (n_left < node.voters || (n_left == node.voters && node.has_lowest_voter))) {
        return NodeLoss::majority;
    }
    if (node.pes == 0 && !node.keeps_last_copies) {
        return NodeLoss::survived;
    }
    if (node.has_unprotected_pe) {
        return NodeLoss::unprotected_pe;
    }
    if (node.keeps_last_copies) {
        return NodeLoss::copy_beside;
    }
    SFT_ASSERT(all.n_spares >= node.spares && n_on_demand >= 0);
    const std::int32_t n_elsewhere = all.n_spares - node.spares + n_on_demand;
    return n_elsewhere < node.pes + all.n_failed ? NodeLoss::too_few_spares : NodeLoss::survived;
}

}  // namespace

NodeLosses JobRules::node_losses(const JobState& state, std::span<const Death> dead, std::int32_t n_on_demand) const {
    NodeLosses losses;
    if (shape_.is_one_node()) {
        return losses;
    }
    const OnNodes all = look_at(shape_, with_deaths(state, dead), dead);
    const bool has_nothing = state.version == kNoVersion || !keeps_copies_;
    for (std::size_t number = 0; number < all.nodes.size(); ++number) {
        const OnNode& node = all.nodes[number];
        if (!node.is_in_use()) {
            continue;
        }
        ++losses.n_nodes;
        NodeLoss loss = judge(node, all, n_on_demand);
        if (loss != NodeLoss::majority && node.pes > 0) {
            loss = has_nothing                              ? NodeLoss::nothing_committed
                   : shape_.keeps_near && node.keeps_copies ? NodeLoss::copies_stay
                                                            : loss;
        }
        losses.n_survived += loss == NodeLoss::survived ? 1 : 0;
        if (loss != NodeLoss::survived && losses.fatal == kNoNode) {
            losses.fatal = NodeId(static_cast<std::int32_t>(number));
            losses.why = loss;
        }
    }
    SFT_ASSERT((losses.fatal == kNoNode) == (losses.n_survived == losses.n_nodes));
    return losses;
}

}  // namespace sft
