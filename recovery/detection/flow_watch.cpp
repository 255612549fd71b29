#include "recovery/detection/flow_watch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.hpp"

namespace sft {
namespace {

// Of its own: who has not looked for so long does not know what happened meanwhile.
constexpr std::int64_t kPausePeriods = 3;

// A standstill that would be chance so rarely is none.
constexpr double kChance = 1e-6;
constexpr double kLossMin = 0.01;
constexpr double kLossMax = 0.9;
// What the last period counts, however much was sent in it: a link may become bad after much has gone well.
constexpr double kNewest = 0.2;
static_assert(0 < kLossMin && kLossMin < kLossMax && kLossMax < 1);  // logarithms of it are taken
static_assert(0 < kChance && kChance < 1 && 0 < kNewest && kNewest <= 1);
static_assert(FlowWatch::kBoundMinNs >= FlowWatch::kStandstillNs + kPausePeriods * FlowWatch::kPeriodNs);

bool is_among(std::span<const NodeWeight> nodes, NodeId node) {
    return std::any_of(nodes.begin(), nodes.end(), [node](const NodeWeight& item) { return item.node == node; });
}

std::int32_t weight_of(std::span<const NodeWeight> nodes, NodeId node) {
    const auto found =
        std::find_if(nodes.begin(), nodes.end(), [node](const NodeWeight& item) { return item.node == node; });
    return found == nodes.end() ? 0 : found->n_pes;
}

}  // namespace

// From connections of which something has been acknowledged in the last period: those that stand still repeat all they
// send, which is no sign of a bad link.
void FlowWatch::learn_loss(std::span<const FlowSample> samples) {
    struct Sum {
        double sent = 0;
        double repeated = 0;
    };
    std::map<NodeId, Sum> sums;
    for (const FlowSample& sample : samples) {
        const auto before = flows_.find({sample.node, sample.flow});
        if (before != flows_.end() && before->second.n_moved != sample.n_moved &&
            sample.sent_bytes > before->second.sent_bytes && sample.repeated_bytes >= before->second.repeated_bytes) {
            Sum& sum = sums[sample.node];
            sum.sent += static_cast<double>(sample.sent_bytes - before->second.sent_bytes);
            sum.repeated += static_cast<double>(sample.repeated_bytes - before->second.repeated_bytes);
        }
    }
    for (const auto& [node, sum] : sums) {
        SFT_ASSERT(sum.sent > 0 && sum.repeated >= 0);
        double& loss = loss_[node];
        loss += kNewest * (sum.repeated / sum.sent - loss);
    }
}

std::uint32_t FlowWatch::repeats_needed(NodeId node) const {
    const auto found = loss_.find(node);
    const double loss = std::clamp(found == loss_.end() ? 0.0 : found->second, kLossMin, kLossMax);
    SFT_ASSERT(loss > 0 && loss < 1);  // no number would be clamped to none
    return std::max(kRepeatedMin, static_cast<std::uint32_t>(std::ceil(std::log(kChance) / std::log(loss))));
}

void FlowWatch::enter(std::int64_t now_ns, std::span<const FlowSample> samples) {
    std::map<std::pair<NodeId, std::uint64_t>, Flow> flows;
    for (const FlowSample& sample : samples) {
        Flow flow{.n_moved = sample.n_moved,
                  .since_ns = now_ns,
                  .sent_bytes = sample.sent_bytes,
                  .repeated_bytes = sample.repeated_bytes,
                  .n_repeated = sample.n_repeated,
                  .is_under_way = sample.is_under_way};
        const auto before = flows_.find({sample.node, sample.flow});
        SFT_ASSERT(sample.node != self_);  // only data between nodes is looked at
        if (before != flows_.end() && before->second.is_under_way && before->second.n_moved == sample.n_moved) {
            SFT_ASSERT(before->second.since_ns <= now_ns);
            flow.since_ns = before->second.since_ns;
        }
        flows[{sample.node, sample.flow}] = flow;
    }
    flows_ = std::move(flows);
}

FlowWatch::Round FlowWatch::tick(std::int64_t now_ns, std::span<const FlowSample> samples,
                                 std::span<const Standstill> told, std::span<const NodeWeight> nodes) {
    SFT_ASSERT(now_ns >= ticked_ns_);
    SFT_ASSERT_SLOW(std::is_sorted(nodes.begin(), nodes.end(),
                                   [](const NodeWeight& a, const NodeWeight& b) { return a.node < b.node; }));
    Round round;
    if (ticked_ns_ >= 0 && now_ns - ticked_ns_ > kPausePeriods * kPeriodNs) {
        flows_.clear();
        standing_.clear();
    }
    ticked_ns_ = now_ns;
    learn_loss(samples);
    enter(now_ns, samples);
    Standing standing;
    for (const auto& [key, flow] : flows_) {
        if (flow.is_under_way && is_among(nodes, key.first) && flow.n_repeated >= repeats_needed(key.first) &&
            now_ns - flow.since_ns >= kStandstillNs) {
            const auto [at, is_new] = standing.emplace(key.first, flow.since_ns);
            at->second = std::min(at->second, flow.since_ns);
        }
    }
    for (const auto& [node, since_ns] : standing) {
        round.own.push_back({node, since_ns});
        if (!standing_.contains(node)) {
            round.stands_still.push_back(node);
        }
    }
    for (const auto& [node, since_ns] : standing_) {
        if (!standing.contains(node) && is_among(nodes, node)) {
            round.moves_again.push_back(node);
        }
    }
    SFT_ASSERT(round.own.size() == standing.size());
    standing_ = standing;
    for (const Standstill& item : told) {
        const auto [at, is_new] = standing.emplace(item.node, item.since_ns);
        at->second = std::min(at->second, item.since_ns);
    }
    round.leaves_over = leaves(now_ns, standing, nodes);
    return round;
}

std::optional<NodeId> FlowWatch::leaves(std::int64_t now_ns, const Standing& standing,
                                        std::span<const NodeWeight> nodes) const {
    std::int32_t lost = 0;
    std::int32_t all = 0;
    bool is_lowest_lost = false;
    std::optional<NodeId> over;
    for (const NodeWeight& item : nodes) {
        SFT_ASSERT(item.n_pes >= 0);
        all += item.n_pes;
        const auto found = standing.find(item.node);
        if (bound_ns_ == 0 || found == standing.end()) {
            continue;
        }
        const std::int64_t age_ns = now_ns - found->second;
        if (age_ns >= 2 * bound_ns_) {
            return item.node;
        }
        const std::int32_t own = weight_of(nodes, self_);
        const bool weighs_less = own < item.n_pes || (own == item.n_pes && item.node < self_);
        if (age_ns >= bound_ns_ + bound_ns_ / 2 && weighs_less) {
            return item.node;
        }
        if (age_ns >= bound_ns_) {
            lost += item.n_pes;
            over = item.node;
            is_lowest_lost = is_lowest_lost || item.node == nodes.front().node;
        }
    }
    SFT_ASSERT(lost <= all);
    const bool is_this_side_lighter = 2 * lost > all || (2 * lost == all && is_lowest_lost);
    return over && is_this_side_lighter ? over : std::nullopt;
}

}  // namespace sft
