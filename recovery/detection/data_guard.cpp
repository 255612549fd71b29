#include "recovery/detection/data_guard.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/poll_timeout.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// Connections of the kernel are told apart by their ports, those of the mailbox by the process.
constexpr std::uint64_t kMailFlows = std::uint64_t{1} << 48;

// What has been seen holds for that long.
constexpr std::int64_t kSeenNs = 3 * FlowWatch::kPeriodNs;

// A node that shows no sign of life is not meant: it is lost long before, or, if nobody watches for these, never.
std::int64_t bound_of(const DataGuard::Options& options) {
    if (options.silence_ns == 0 || options.bound_ns == 0) {
        return 0;
    }
    return std::max({options.bound_ns, 2 * options.silence_ns, FlowWatch::kBoundMinNs});
}

}  // namespace

DataGuard::DataGuard(Options options, std::int64_t now_ns)
    : options_(std::move(options)),
      bound_ns_(bound_of(options_)),
      self_(options_.control->header().node),
      watch_(self_, bound_ns_),
      ticked_ns_(now_ns) {
    if (options_.is_on) {
        SFT_ASSERT(bound_ns_ == 0 || bound_ns_ >= FlowWatch::kBoundMinNs);
        learn_nodes();
    }
}

void DataGuard::learn_nodes() {
    std::vector<bool> is_known(static_cast<std::size_t>(options_.control->header().n_nodes));
    for (std::int32_t process = 0; process < options_.control->n_processes(); ++process) {
        const Contact* contact = options_.control->contact(ProcId(process));
        const NodeId node(contact == nullptr ? -1 : contact->node);
        if (node.value() < 0 || node.index() >= is_known.size() || is_known[node.index()]) {
            continue;
        }
        is_known[node.index()] = true;
        NodeEntry entry{.node = node, .address = contact->mail, .lowest = ProcId(process)};
        entry.address.port = 0;
        SFT_ASSERT(entry.node.index() == nodes_.size());  // numbered in the order of their lowest processes
        nodes_.push_back(entry);
    }
}

int DataGuard::timeout_ms(std::int64_t now_ns) const noexcept {
    return options_.is_on ? ms_until(ticked_ns_ + FlowWatch::kPeriodNs, now_ns) : kNoTimeout;
}

// Those with a living process, as far as this one knows.
std::vector<NodeWeight> DataGuard::weigh() const {
    const Coordinator::Knowledge known = options_.coordinator->knowledge();
    const JobShape& shape = options_.coordinator->shape();
    std::vector<NodeWeight> nodes(nodes_.size());
    std::vector<bool> lives(nodes_.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        nodes[i].node = NodeId(static_cast<std::int32_t>(i));
    }
    const auto enter = [&](ProcId process) {
        const NodeId node = shape.node_of(known.state, process);
        if (node.value() >= 0 && node.index() < nodes.size() && !contains(known.deaths, process)) {
            lives[node.index()] = true;
            nodes[node.index()].n_pes += shape.held_by(known.state, process) == kNoPe ? 0 : 1;
        }
    };
    for (std::int32_t process = 0; process < shape.n_processes; ++process) {
        enter(ProcId(process));
    }
    for (const Joined& joined : known.state.joined) {
        enter(joined.process);
    }
    std::erase_if(nodes, [&](const NodeWeight& item) { return !lives[item.node.index()]; });
    return nodes;
}

std::vector<FlowSample> DataGuard::sample() {
    std::vector<FlowSample> samples;
    for (const TcpFlow& flow : options_.flows()) {
        const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                        [&](const NodeEntry& entry) { return entry.address == flow.peer; });
        if (found == nodes_.end() || found->node == self_) {
            continue;
        }
        samples.push_back({.node = found->node,
                           .flow = flow.ports,
                           .n_moved = flow.acked_bytes,
                           .is_under_way = flow.n_unacked != 0,
                           .n_repeated = flow.n_repeated,
                           .sent_bytes = flow.sent_bytes,
                           .repeated_bytes = flow.repeated_bytes});
        if (flow.n_repeated != 0) {
            segment_bytes_ = flow.segment_bytes;
        }
    }
    for (const RemoteMail::Stuck& item : options_.coordinator->stuck()) {
        const Contact* contact = options_.control->contact(item.process);
        if (contact != nullptr) {
            samples.push_back({.node = NodeId(contact->node),
                               .flow = kMailFlows + static_cast<std::uint64_t>(item.process.value()),
                               .n_moved = item.n_moved,
                               .is_under_way = true,
                               .n_repeated = item.n_failed});
        }
    }
    return samples;
}

const char* DataGuard::name_of(NodeId node) const {
    SFT_ASSERT(node.value() >= 0 && node.index() < nodes_.size());
    const Contact* contact = options_.control->contact(nodes_[node.index()].lowest);
    SFT_ASSERT(contact != nullptr);  // learn_nodes() has found it, and contacts stay
    return contact->node_name;
}

ProcessSlot& DataGuard::slot_of(NodeId node) const {
    SFT_ASSERT(node.value() >= 0 && node.index() < nodes_.size());
    return options_.control->slot(nodes_[node.index()].lowest);
}

// Any process of this node may write at the same time; what is lost by that comes again in a period.
void DataGuard::share(NodeId node, std::int64_t since_ns, std::int64_t now_ns) const {
    SFT_ASSERT(since_ns <= now_ns);
    ProcessSlot& slot = slot_of(node);
    if (now_ns - slot.stall_seen_ns.load() > kSeenNs || since_ns < slot.stalled_since_ns.load()) {
        slot.stalled_since_ns.store(since_ns);
    }
    slot.stall_seen_ns.store(now_ns);
}

void DataGuard::hear(std::int64_t now_ns) {
    for (const Coordinator::Stalled& item : options_.coordinator->take_stalled()) {
        const Contact* contact = options_.control->contact(item.from);
        if (contact != nullptr && static_cast<std::size_t>(contact->node) < nodes_.size() && item.age_ns >= 0) {
            share(NodeId(contact->node), now_ns - item.age_ns, now_ns);
        }
    }
}

std::vector<Standstill> DataGuard::shared(std::int64_t now_ns) const {
    std::vector<Standstill> found;
    for (const NodeEntry& entry : nodes_) {
        const ProcessSlot& slot = slot_of(entry.node);
        if (slot.stall_seen_ns.load() != 0 && now_ns - slot.stall_seen_ns.load() <= kSeenNs) {
            found.push_back({entry.node, slot.stalled_since_ns.load()});
        }
    }
    return found;
}

// One of the other node's processes is enough: they share what they hear.
void DataGuard::tell_nodes(const FlowWatch::Round& round, std::int64_t now_ns) const {
    for (const Standstill& item : round.own) {
        share(item.node, item.since_ns, now_ns);
        const Coordinator::Knowledge known = options_.coordinator->knowledge();
        const JobShape& shape = options_.coordinator->shape();
        for (std::int32_t process = 0; process < shape.n_processes; ++process) {
            if (shape.nodes->node_of(ProcId(process)) == item.node && !contains(known.deaths, ProcId(process))) {
                options_.coordinator->tell_stalled(ProcId(process), now_ns - item.since_ns);
                break;
            }
        }
    }
}

// Once for each pair of nodes, by whoever of this one is first.
void DataGuard::say_to_user(const FlowWatch::Round& round) const {
    const auto told = [this](NodeId node) -> std::atomic<std::uint32_t>& { return slot_of(node).is_stall_said; };
    const bool are_nodes_heard = options_.silence_ns != 0 && options_.silence_ns <= FlowWatch::kStandstillNs;
    for (const NodeId node : round.stands_still) {
        if (told(node).exchange(1) == 0) {
            const std::string reason = are_nodes_heard ? format(
                                                             "though signs of life do: packets of full size (%u bytes "
                                                             "of data) seem to be lost on the way. "
                                                             "Compare the MTU of %s on both with what lies between",
                                                             segment_bytes_, options_.interface.c_str())
                                                       : format(
                                                             "by interface %s: a link that is cut, a firewall, or an "
                                                             "MTU that something on the way does not "
                                                             "take",
                                                             options_.interface.c_str());
            const std::string outlook = bound_ns_ == 0 ? std::string("the job waits")
                                                       : format(
                                                             "one of the two leaves the job after %lld ms of it "
                                                             "(SHMEM_FT_STALL_TIMEOUT)",
                                                             static_cast<long long>(bound_ns_ / kNsPerMs));
            say("warning: data from %s to %s does not get through, %s; %s", name_of(self_), name_of(node),
                reason.c_str(), outlook.c_str());
        }
    }
    for (const NodeId node : round.moves_again) {
        if (told(node).exchange(0) != 0) {
            say("warning: data from %s to %s gets through again", name_of(self_), name_of(node));
        }
    }
}

bool DataGuard::tick(std::int64_t now_ns) {
    SFT_ASSERT(now_ns >= ticked_ns_);
    if (!options_.is_on || now_ns - ticked_ns_ < FlowWatch::kPeriodNs) {
        return false;
    }
    ticked_ns_ = now_ns;
    hear(now_ns);
    const FlowWatch::Round round = watch_.tick(now_ns, sample(), shared(now_ns), weigh());
    tell_nodes(round, now_ns);
    say_to_user(round);
    if (!round.leaves_over) {
        return false;
    }
    say("warning: %s leaves the job: data from there to %s has not got through for %lld ms (SHMEM_FT_STALL_TIMEOUT)",
        name_of(self_), name_of(*round.leaves_over), static_cast<long long>(bound_ns_ / kNsPerMs));
    return true;
}

}  // namespace sft
