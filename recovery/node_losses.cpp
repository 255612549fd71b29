// Which nodes a job can lose as it is now. Nobody acts on it: it is for people who look at the job from outside.

#include <algorithm>

#include "base/assert.hpp"
#include "recovery/membership/quorum.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/rules.hpp"

namespace sft {
namespace {

// What is on one node.
struct OnNode {
    std::int32_t pes = 0;
    std::int32_t spares = 0;
    std::int32_t voters = 0;  // who takes part in the agreement
    bool has_first_voter = false;
    bool has_unprotected_pe = false;
    bool keeps_last_shares = false;  // of PEs there, or of PEs that have failed already
    bool keeps_shares = false;

    [[nodiscard]] bool is_in_use() const noexcept { return pes + spares + voters > 0; }
};

struct OnNodes {
    std::vector<OnNode> nodes;
    std::int32_t n_voters = 0;
    std::int32_t n_failed = 0;  // PEs that have nobody as it is
    std::int32_t n_spares = 0;  // that may take over
    bool has_shares = false;    // somebody is there who could keep any
};

OnNode& node_of(OnNodes& all, NodeId node) {
    SFT_ASSERT(node.value() >= 0 && node.index() < all.nodes.size());
    return all.nodes[node.index()];
}

void count_voters(const JobShape& shape, const JobState& now, std::vector<ProcId> voters, OnNodes& all) {
    if (now.witness != kNoProc) {
        voters.push_back(now.witness);
    }
    SFT_ASSERT(voters.size() <= static_cast<std::size_t>(shape.n_pes) + 1);
    all.n_voters = static_cast<std::int32_t>(voters.size());
    const auto first = std::min_element(voters.begin(), voters.end(), [&](ProcId a, ProcId b) {
        return shape.turn_of(now, a) < shape.turn_of(now, b);
    });
    for (const ProcId& voter : voters) {
        OnNode& node = node_of(all, shape.node_of(now, voter));
        ++node.voters;
        node.has_first_voter |= voter == *first;
    }
}

// now: with the deaths of `dead`.
class Look {
public:
    Look(const JobShape& shape, const JobState& now, std::span<const Death> dead)
        : shape_(shape),
          now_(now),
          dead_(dead),
          shares_(shape.scheme->place(shape, now, now.protected_layout)),
          left_(shape, now),
          without_one_(left_) {
        all_.nodes.resize(static_cast<std::size_t>(shape.nodes->n_nodes()));
    }

    [[nodiscard]] OnNodes at_all() {
        for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
            look_at(PeId(pe));
        }
        count_voters(shape_, now_, std::move(holders_), all_);
        for (const ProcId spare : shape_.idle_spares(now_, dead_)) {
            ++node_of(all_, shape_.node_of(now_, spare)).spares;
            ++all_.n_spares;
        }
        return std::move(all_);
    }

private:
    void look_at(PeId pe) {
        const ProcId holder = shape_.holder(now_, pe);
        const bool has_failed = contains(dead_, holder);
        const bool is_unprotected = std::binary_search(now_.unprotected.begin(), now_.unprotected.end(), pe) ||
                                    !shares_->can_rebuild(pe, left_);
        if (has_failed) {
            ++all_.n_failed;
        } else {
            OnNode& node = node_of(all_, shape_.node_of(now_, holder));
            ++node.pes;
            node.has_unprotected_pe |= is_unprotected;
            holders_.push_back(holder);
        }
        if (!has_failed && !is_unprotected) {
            const NodeId own = shape_.node_of(now_, holder);
            node_of(all_, own).keeps_last_shares |= !survives_loss_of(own, pe);
        }
        for (const Share& share : shares_->of(pe)) {
            all_.has_shares = true;
            if (!is_unprotected && left_.has(share.holder, Memory::kept_shadows)) {
                const NodeId at = shape_.node_of(now_, share.holder);
                node_of(all_, at).keeps_shares = true;
                node_of(all_, at).keeps_last_shares |= has_failed && !survives_loss_of(at, pe);
            }
        }
    }

    [[nodiscard]] bool survives_loss_of(NodeId node, PeId pe) {
        without_one_.lose(node);
        return shares_->can_rebuild(pe, without_one_);
    }

    const JobShape& shape_;
    const JobState& now_;
    std::span<const Death> dead_;
    std::unique_ptr<const Shares> shares_;  // that exist
    LeftMemory left_;
    LeftMemory without_one_;  // of the nodes, whichever is looked at
    std::vector<ProcId> holders_;
    OnNodes all_;
};

NodeLoss judge(const OnNode& node, const OnNodes& all, std::int32_t n_on_demand) {
    SFT_ASSERT(node.voters >= 0 && node.voters <= all.n_voters);
    if (node.voters > 0 && !is_quorum(all.n_voters - node.voters, all.n_voters, !node.has_first_voter)) {
        return NodeLoss::majority;
    }
    if (node.pes == 0 && !node.keeps_last_shares) {
        return NodeLoss::survived;
    }
    if (node.has_unprotected_pe) {
        return NodeLoss::unprotected_pe;
    }
    if (node.keeps_last_shares) {
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
    const JobState now = with_deaths(state, dead);
    const OnNodes all = Look(shape_, now, dead).at_all();
    const bool has_nothing = state.version == kNoVersion || !all.has_shares;
    for (std::size_t number = 0; number < all.nodes.size(); ++number) {
        const OnNode& node = all.nodes[number];
        if (!node.is_in_use()) {
            continue;
        }
        ++losses.n_nodes;
        NodeLoss loss = judge(node, all, n_on_demand);
        if (loss != NodeLoss::majority && node.pes > 0) {
            loss = has_nothing                              ? NodeLoss::nothing_committed
                   : shape_.keeps_near && node.keeps_shares ? NodeLoss::copies_stay
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
