#include "shmem_ft/membership/node_watch.hpp"

#include <algorithm>
#include <utility>

#include "shmem_ft/membership/mutation.hpp"

namespace sft {
namespace {

// Short of the bound, so that an answer of somebody else there still comes in time.
constexpr std::int64_t kUnansweredByOne = 2;
constexpr std::int64_t kTicksUntilSilent = 2;
constexpr std::int64_t kStartBounds = 10;

}  // namespace

void NodeWatch::update(const JobState& state, std::span<const Death> dead, std::int64_t now_ns) {
    const JobShape& shape = options_.shape;
    if (shape.is_one_node()) {
        return;
    }
    std::vector<std::vector<ProcId>> living(static_cast<std::size_t>(shape.nodes->n_nodes()));
    const auto enter = [&](ProcId process, NodeId node) {
        if (!contains(dead, process) && node.value() >= 0 && node.index() < living.size()) {
            living[node.index()].push_back(process);
        }
    };
    for (std::int32_t process = 0; process < shape.n_processes; ++process) {
        enter(ProcId(process), shape.nodes->node_of(ProcId(process)));
    }
    for (const Joined& joined : state.joined) {
        enter(joined.process, joined.node);
    }
    const NodeId own = shape.node_of(state, options_.self);
    if (own.value() < 0) {
        return;  // it has not joined yet
    }
    began_ns_ = began_ns_ < 0 ? now_ns : began_ns_;
    std::vector<Watch> watches;
    const auto n_nodes = static_cast<std::int32_t>(living.size());
    for (std::int32_t i = 1; i < n_nodes && static_cast<std::int32_t>(watches.size()) < options_.fan; ++i) {
        const NodeId node((own.value() + i) % n_nodes);
        if (living[node.index()].empty()) {
            continue;
        }
        const auto old = std::find_if(watches_.begin(), watches_.end(), [&](const Watch& w) { return w.node == node; });
        // A new watch starts now: what happened before nobody was asking is no silence.
        watches.push_back(old != watches_.end() ? *old : Watch{.node = node, .living = {}, .heard_ns = now_ns});
        watches.back().living = std::move(living[node.index()]);
    }
    watches_ = std::move(watches);
    std::vector<Lower> lower;
    for (const ProcId process : living[own.index()]) {
        const auto old =
            std::find_if(lower_.begin(), lower_.end(), [&](auto& item) { return item.process == process; });
        if (process < options_.self) {
            lower.push_back(old != lower_.end() ? *old : Lower{.process = process});
        }
    }
    lower_ = std::move(lower);
}

void NodeWatch::heard(ProcId from, std::int64_t now_ns) {
    for (Watch& watch : watches_) {
        if (std::binary_search(watch.living.begin(), watch.living.end(), from)) {
            watch.heard_ns = std::max(watch.heard_ns, now_ns);
            watch.n_unanswered = 0;
            watch.is_lost = false;
            watch.has_answered = true;
        }
    }
}

void NodeWatch::listen_afresh(std::int64_t now_ns) {
    for (Watch& watch : watches_) {
        watch.heard_ns = std::max(watch.heard_ns, now_ns);
        watch.n_unanswered = 0;
        watch.is_lost = false;
    }
}

void NodeWatch::look_at_lower(std::int64_t now_ns, const std::function<std::uint32_t(ProcId)>& beat_of) {
    bool does_any_respond = false;
    for (Lower& item : lower_) {
        const std::uint32_t beat = beat_of(item.process);
        item.n_still = beat == item.beat ? item.n_still + 1 : 0;
        item.beat = beat;
        does_any_respond = does_any_respond || item.n_still < kTicksUntilSilent;
    }
    if (!is_speaker_ && !does_any_respond) {
        listen_afresh(now_ns);
    }
    is_speaker_ = !does_any_respond;
}

NodeWatch::Round NodeWatch::tick(std::int64_t now_ns, const std::function<std::uint32_t(ProcId)>& beat_of) {
    Round round;
    if (!is_needed()) {
        return round;
    }
    if (ticked_ns_ >= 0 && now_ns - ticked_ns_ > 2 * period_ns()) {
        listen_afresh(now_ns);
    }
    ticked_ns_ = now_ns;
    look_at_lower(now_ns, beat_of);
    if (!is_speaker_) {
        return round;
    }
    for (Watch& watch : watches_) {
        const bool may_be_starting = !watch.has_answered && now_ns - began_ns_ <= kStartBounds * options_.bound_ns;
        const bool is_silent =
            now_ns - watch.heard_ns > options_.bound_ns && watch.n_unanswered >= kPeriodsPerBound && !may_be_starting;
        if (is_silent && !watch.is_lost) {
            watch.is_lost = true;
            for (const ProcId process : watch.living) {
                round.lost.push_back({process, {FailureKind::node_lost, 0}, false});
            }
        }
        const auto n_asked = watch.n_unanswered >= kUnansweredByOne && !is_mutated(Mutation::ask_one_only)
                                 ? static_cast<std::ptrdiff_t>(watch.living.size())
                                 : std::ptrdiff_t{1};
        round.ask.insert(round.ask.end(), watch.living.begin(), watch.living.begin() + n_asked);
        ++watch.n_unanswered;
    }
    return round;
}

std::vector<NodeId> NodeWatch::watched() const {
    std::vector<NodeId> nodes;
    for (const Watch& watch : watches_) {
        nodes.push_back(watch.node);
    }
    return nodes;
}

}  // namespace sft
