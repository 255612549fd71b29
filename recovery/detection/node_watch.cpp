#include "recovery/detection/node_watch.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"

namespace sft {
namespace {

// Short of the bound, so that an answer of somebody else there still comes in time.
constexpr std::int64_t kUnansweredByOne = 4;
constexpr std::int64_t kTicksUntilSilent = 4;
// This process has not run: it has missed some of its own ticks.
constexpr std::int64_t kTicksMissed = 4;
// So long datagrams count without mail.
constexpr std::int64_t kMailBounds = 4;
constexpr std::int64_t kStartBounds = 10;
// Who is asked about a node gets that long to answer.
constexpr std::int64_t kTicksToTestify = 4;
// Shares of the bound: so long a testimony counts, and so long a node is silent before it is asked about.
constexpr std::int64_t kTestimonyShare = 2;

// Everybody on a silent node is asked while an answer can still come within the bound, and witnesses before it is over.
static_assert(kUnansweredByOne < NodeWatch::kPeriodsPerBound);
static_assert(kTicksToTestify < NodeWatch::kPeriodsPerBound);
static_assert(NodeWatch::kPeriodsPerBound % kTestimonyShare == 0);
static_assert(kMailBounds > 1 && kStartBounds > kMailBounds);
static_assert(NodeWatch::kNever < 0 && NodeWatch::kAlways > 0);

}  // namespace

bool has_lease(ProcId self, const std::function<std::int64_t(ProcId)>& lease_of, std::int64_t now_ns,
               std::int64_t bound_ns) {
    if (bound_ns <= 0 || is_mutated(Mutation::trust_every_port)) {
        return true;
    }
    std::int64_t lease_ns = NodeWatch::kNever;
    for (std::int32_t process = 0; process <= self.value(); ++process) {
        lease_ns = std::max(lease_ns, lease_of(ProcId(process)));
    }
    return now_ns - lease_ns < bound_ns;
}

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
        lease_ns_ = kNever;
        return;
    }
    own_ = own;
    SFT_ASSERT(own.index() < living.size());
    SFT_ASSERT(state.index >= state_.index);
    if (state_.index != state.index) {  // the first value is what it begins with
        state_ = state;
    }
    if (began_ns_ < 0) {
        began_ns_ = now_ns;
        lease_ns_ = options_.self.value() < shape.n_processes ? now_ns : kNever;
    }
    const std::vector<ProcId> living_here = living[own.index()];
    has_living_.clear();
    for (const std::vector<ProcId>& list : living) {
        has_living_.push_back(!list.empty());
    }
    note_lost_watchers(living, state, dead);
    neighbours_ = find_neighbours(std::move(living), own, now_ns);
    SFT_ASSERT(neighbours_.size() <= 2 * static_cast<std::size_t>(options_.fan));
    for (Neighbour& neighbour : neighbours_) {
        SFT_ASSERT(neighbour.node != own_ && !neighbour.living.empty());
        SFT_ASSERT(neighbour.is_watched || neighbour.watches_us);
        const bool is_of_pes = neighbour.living.front().value() < shape.n_pes;
        neighbour.has_answered = neighbour.has_answered || (state.index > 0 && is_of_pes);
    }
    take_lease();
    std::vector<Lower> lower;
    for (const ProcId process : living_here) {
        const auto old =
            std::find_if(lower_.begin(), lower_.end(), [&](auto& item) { return item.process == process; });
        if (process < options_.self) {
            lower.push_back(old != lower_.end() ? *old : Lower{.process = process});
        }
    }
    lower_ = std::move(lower);
}

// The next ones in the ring, and those before.
std::vector<NodeWatch::Neighbour> NodeWatch::find_neighbours(std::vector<std::vector<ProcId>> living, NodeId own,
                                                             std::int64_t now_ns) const {
    std::vector<Neighbour> found;
    const auto n_nodes = static_cast<std::int32_t>(living.size());
    const auto walk = [&](std::int32_t step, bool Neighbour::*role) {
        std::int32_t n_left = options_.fan;
        for (std::int32_t i = 1; i < n_nodes && n_left > 0; ++i) {
            const NodeId node(((own.value() + step * i) % n_nodes + n_nodes) % n_nodes);
            SFT_ASSERT(node != own);
            const auto is_it = [&](const Neighbour& neighbour) { return neighbour.node == node; };
            auto at = std::find_if(found.begin(), found.end(), is_it);
            if (at == found.end() && living[node.index()].empty()) {
                continue;
            }
            if (at == found.end()) {
                const auto old = std::find_if(neighbours_.begin(), neighbours_.end(), is_it);
                // A new watch starts now: what happened before nobody was asking is no silence.
                at = found.insert(found.end(),
                                  old != neighbours_.end()
                                      ? *old
                                      : Neighbour{.node = node, .living = {}, .heard_ns = now_ns, .mail_ns = now_ns});
                if (!std::includes(at->living.begin(), at->living.end(), living[node.index()].begin(),
                                   living[node.index()].end())) {
                    listen_afresh_to(*at, now_ns);  // who has joined there has not been called lost with the others
                    at->mail_ns = std::max(at->mail_ns, now_ns);
                }
                at->living = std::move(living[node.index()]);
                SFT_ASSERT_SLOW(std::is_sorted(at->living.begin(), at->living.end()));  // the lowest one is asked first
                at->is_watched = false;
                // Who watches from now on knows nothing of this node yet.
                at->has_heard_ns = at->watches_us ? at->has_heard_ns : std::min(lease_ns_, now_ns);
                at->watches_us = false;
            }
            (*at).*role = true;
            --n_left;
        }
    };
    walk(1, &Neighbour::is_watched);
    walk(-1, &Neighbour::watches_us);
    return found;
}

// REQUIRES: neighbours_ is as it was before these deaths.
void NodeWatch::note_lost_watchers(const std::vector<std::vector<ProcId>>& living, const JobState& state,
                                   std::span<const Death> dead) {
    const auto is_disputed = [&](NodeId node) {
        return std::any_of(dead.begin(), dead.end(), [&](const Death& death) {
            return !death.is_certain && options_.shape.node_of(state, death.process) == node &&
                   std::none_of(state.deaths.begin(), state.deaths.end(),
                                [&](const Death& agreed) { return agreed.process == death.process; });
        });
    };
    std::erase_if(lost_watchers_, [&](const LostWatcher& item) { return !is_disputed(item.node); });
    for (const Neighbour& neighbour : neighbours_) {
        if (neighbour.watches_us && living[neighbour.node.index()].empty() && is_disputed(neighbour.node) &&
            !is_mutated(Mutation::forget_lost_watchers)) {
            lost_watchers_.push_back({neighbour.node, neighbour.has_heard_ns});
        }
    }
}

void NodeWatch::take_lease() {
    lease_ns_ = kAlways;
    for (const LostWatcher& item : lost_watchers_) {
        lease_ns_ = std::min(lease_ns_, item.has_heard_ns);
    }
    for (const Neighbour& neighbour : neighbours_) {
        if (neighbour.watches_us) {
            lease_ns_ = std::min(lease_ns_, neighbour.has_heard_ns);
        }
    }
}

NodeWatch::Neighbour* NodeWatch::neighbour_with(ProcId process) {
    const auto at = std::find_if(neighbours_.begin(), neighbours_.end(), [&](const Neighbour& neighbour) {
        return std::binary_search(neighbour.living.begin(), neighbour.living.end(), process);
    });
    return at == neighbours_.end() ? nullptr : &*at;
}

void NodeWatch::heard(ProcId from, std::int64_t now_ns, std::int64_t asked_ns) {
    if (Neighbour* const neighbour = neighbour_with(from)) {
        neighbour->mail_ns = std::max(neighbour->mail_ns, now_ns);
    }
    heard_datagram(from, now_ns, asked_ns);
}

void NodeWatch::heard_datagram(ProcId from, std::int64_t now_ns, std::int64_t asked_ns) {
    Neighbour* const neighbour = neighbour_with(from);
    if (neighbour == nullptr || now_ns - neighbour->mail_ns > kMailBounds * options_.bound_ns) {
        return;
    }
    listen_afresh_to(*neighbour, now_ns);
    neighbour->really_ns = std::max(neighbour->really_ns, now_ns);
    neighbour->has_answered = true;
    SFT_ASSERT(neighbour->really_ns <= now_ns && neighbour->missed_ns < 0);
    if (asked_ns <= now_ns) {  // what else somebody sends is no time of this node
        neighbour->has_heard_ns = std::max(neighbour->has_heard_ns, asked_ns);
    }
    take_lease();
}

void NodeWatch::listen_afresh_to(Neighbour& neighbour, std::int64_t now_ns) {
    neighbour.heard_ns = std::max(neighbour.heard_ns, now_ns);
    neighbour.n_unanswered = 0;
    neighbour.is_lost = false;
    neighbour.missed_ns = -1;
}

// ---- one of two nodes that cannot reach each other ----

void NodeWatch::testified(ProcId from, NodeId about, Testimony testimony, std::int64_t now_ns) {
    Neighbour* const witness = neighbour_with(from);
    if (witness == nullptr || about == kNoNode) {
        return;
    }
    std::erase_if(witness->told, [&](const Told& told) { return told.about == about; });
    witness->told.push_back({about, testimony, now_ns});
}

Testimony NodeWatch::testimony_about(NodeId node, std::int64_t now_ns) const {
    const auto at = std::find_if(neighbours_.begin(), neighbours_.end(),
                                 [&](const Neighbour& neighbour) { return neighbour.node == node; });
    if (at == neighbours_.end()) {
        return Testimony::none;
    }
    const std::int64_t share_ns = options_.bound_ns / kTestimonyShare;
    if (now_ns - at->really_ns <= share_ns) {
        return Testimony::heard;
    }
    // Who does not ask does not hear.
    return is_speaker_ && now_ns - at->heard_ns > share_ns ? Testimony::silent : Testimony::none;
}

bool NodeWatch::counts_for_less(NodeId node) const {
    struct Count {
        std::int32_t n_pes = 0;
        std::int32_t first = std::numeric_limits<std::int32_t>::max();
    };
    Count own;
    Count other;
    for (std::int32_t pe = 0; pe < options_.shape.n_pes; ++pe) {
        const ProcId holder = options_.shape.holder(state_, PeId(pe));
        const NodeId at = options_.shape.node_of(state_, holder);
        if (at == own_ || at == node) {
            Count& count = at == own_ ? own : other;
            ++count.n_pes;
            count.first = std::min(count.first, options_.shape.turn_of(state_, holder));
        }
    }
    SFT_ASSERT(node != own_ && own.n_pes + other.n_pes <= options_.shape.n_pes);
    if (own.n_pes != other.n_pes) {
        return other.n_pes < own.n_pes;
    }
    SFT_ASSERT(own.n_pes == 0 || own.first != other.first);  // a process is on one node
    return own.n_pes == 0 ? own_ < node : own.first < other.first;
}

// One of them watches the other, as far as this process knows who lives.
bool NodeWatch::are_neighbours(NodeId a, NodeId b) const {
    const auto n_nodes = static_cast<std::int32_t>(has_living_.size());
    SFT_ASSERT(a.value() >= 0 && a.value() < n_nodes && b.value() >= 0 && b.value() < n_nodes);
    const auto is_near = [&](NodeId from, NodeId to) {
        std::int32_t n_between = 0;
        for (std::int32_t at = (from.value() + 1) % n_nodes; at != to.value(); at = (at + 1) % n_nodes) {
            n_between += has_living_[static_cast<std::size_t>(at)] ? 1 : 0;
        }
        return n_between < options_.fan;
    };
    return is_near(a, b) || is_near(b, a);
}

NodeWatch::Verdict NodeWatch::judge(const Neighbour& silent, std::int64_t now_ns) const {
    if (counts_for_less(silent.node) || is_mutated(Mutation::accuse_whoever)) {
        return Verdict::lost;
    }
    const std::int64_t share_ns = options_.bound_ns / kTestimonyShare;
    bool does_any_hear = false;
    bool are_all_sure = true;
    for (const Neighbour& witness : neighbours_) {
        if (witness.node == silent.node || witness.is_lost || now_ns - witness.heard_ns > share_ns) {
            continue;
        }
        const auto told = std::find_if(witness.told.begin(), witness.told.end(),
                                       [&](const Told& item) { return item.about == silent.node; });
        const bool has_told = told != witness.told.end() && now_ns - told->told_ns <= share_ns;
        does_any_hear = does_any_hear || (has_told && told->testimony == Testimony::heard);
        // Who does not listen to it will never know; all that it says is that it hears it.
        are_all_sure = are_all_sure && (!are_neighbours(witness.node, silent.node) ||
                                        (has_told && told->testimony == Testimony::silent));
    }
    SFT_ASSERT(silent.missed_ns >= 0 && silent.missed_ns <= now_ns);
    const std::int64_t waited_ns = now_ns - silent.missed_ns;
    if (does_any_hear) {
        return waited_ns > options_.bound_ns ? Verdict::gives_way : Verdict::not_yet;
    }
    return are_all_sure || waited_ns >= kTicksToTestify * period_ns() ? Verdict::lost : Verdict::not_yet;
}

// One at a time; there are seldom more.
NodeId NodeWatch::choose_doubt(std::int64_t now_ns) {
    std::vector<NodeId> silent;
    for (const Neighbour& neighbour : neighbours_) {
        if (neighbour.is_watched && !neighbour.is_lost &&
            now_ns - neighbour.heard_ns > options_.bound_ns / kTestimonyShare) {
            silent.push_back(neighbour.node);
        }
    }
    return silent.empty() ? kNoNode : silent[n_doubts_++ % silent.size()];
}

void NodeWatch::listen_afresh(std::int64_t now_ns) {
    for (Neighbour& neighbour : neighbours_) {
        listen_afresh_to(neighbour, now_ns);
        neighbour.mail_ns = std::max(neighbour.mail_ns, now_ns);
    }
}

void NodeWatch::look_at_lower(std::int64_t now_ns, const std::function<std::uint32_t(ProcId)>& beat_of) {
    bool does_any_respond = false;
    for (Lower& item : lower_) {
        SFT_ASSERT(item.process < options_.self);
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
    SFT_ASSERT(began_ns_ >= 0 && now_ns >= began_ns_);  // update() has said who lives
    SFT_ASSERT(now_ns >= ticked_ns_);
    if (ticked_ns_ >= 0 && now_ns - ticked_ns_ > kTicksMissed * period_ns()) {
        listen_afresh(now_ns);
    }
    ticked_ns_ = now_ns;
    look_at_lower(now_ns, beat_of);
    if (!is_speaker_) {
        return round;
    }
    round.about = choose_doubt(now_ns);
    for (Neighbour& neighbour : neighbours_) {
        const bool may_be_starting = !neighbour.has_answered && now_ns - began_ns_ <= kStartBounds * options_.bound_ns;
        const bool is_silent = now_ns - neighbour.heard_ns > options_.bound_ns &&
                               neighbour.n_unanswered > kPeriodsPerBound && !may_be_starting;
        if (is_silent && neighbour.missed_ns < 0) {
            neighbour.missed_ns = now_ns;
        }
        const Verdict verdict =
            neighbour.is_watched && is_silent && !neighbour.is_lost ? judge(neighbour, now_ns) : Verdict::not_yet;
        round.gives_way = round.gives_way || verdict == Verdict::gives_way;
        if (verdict == Verdict::lost) {
            neighbour.is_lost = true;
            SFT_ASSERT(neighbour.is_watched && neighbour.node != own_);
            SFT_ASSERT(now_ns - neighbour.really_ns > options_.bound_ns);  // nobody who was heard is lost
            for (const ProcId process : neighbour.living) {
                SFT_ASSERT(process != options_.self);
                round.lost.push_back({process, {FailureKind::node_lost, 0}, false});
            }
        }
        const auto n_asked = neighbour.n_unanswered >= kUnansweredByOne && !is_mutated(Mutation::ask_one_only)
                                 ? static_cast<std::ptrdiff_t>(neighbour.living.size())
                                 : std::ptrdiff_t{1};
        round.ask.insert(round.ask.end(), neighbour.living.begin(), neighbour.living.begin() + n_asked);
        ++neighbour.n_unanswered;
    }
    SFT_ASSERT(round.ask.size() >= neighbours_.size());  // somebody of each
    return round;
}

std::vector<NodeId> NodeWatch::neighbours() const {
    std::vector<NodeId> nodes;
    for (const Neighbour& neighbour : neighbours_) {
        nodes.push_back(neighbour.node);
    }
    return nodes;
}

std::vector<NodeId> NodeWatch::watched() const {
    std::vector<NodeId> nodes;
    for (const Neighbour& neighbour : neighbours_) {
        if (neighbour.is_watched) {
            nodes.push_back(neighbour.node);
        }
    }
    return nodes;
}

}  // namespace sft
