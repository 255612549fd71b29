// Does data get through to the other nodes? Without I/O.
//
// A node may answer every question in time and still get no data: where large packets are lost on the way and small
// ones are not (a card or a switch with a smaller MTU), or where one connection has lost its way through a firewall.
// Signs of life say nothing of that, so the connections themselves are looked at. Progress is any byte that the other
// side's kernel has acknowledged: a process that computes or is stopped, and one that takes in nothing, have a kernel
// that acknowledges (or has room for nothing, and then nothing is under way), and a slow link moves something now and
// then. A connection stands still if bytes are under way, none of them has been acknowledged since, and the kernel has
// repeated them more often in a row than the share of packets that such a link loses explains: that share is learnt
// from the connections that move. The pauses between repetitions grow with the time that the link needs. So a slow link
// that loses much is given more time.
//
// Who goes. Nobody declares the other node dead: small messages between the two pass, so both would. Instead a node
// leaves the job of its own accord, and then its death is certain and needs no majority. Data may go, and stand still,
// in one direction only; so whoever sees it tells the other node (message stalled), once in a period, and the processes
// of a node share what they see and hear. Each node decides about itself alone:
//  1. after the bound, if the nodes to which its data stands still weigh more than all others, itself included (the
//     fault is near this one); of two equal sides the one without the lowest node;
//  2. after one and a half bounds, if it weighs less than some node to which its data stands still; of two equal ones
//     that with the higher number;
//  3. after two bounds in any case: the other one has not heard of it, or sees it differently.
// A node's weight is the number of its PEs: the loss of spares costs nothing now. If two nodes both leave, because they
// knew different values when they decided, that is a loss of two nodes, which is recovered from or ends the job.
//
// Fault model: as above; this process may stand still itself, and then it starts afresh, because it has not looked.
//
// Time: nanoseconds of any clock that only goes forward. Threads: the owner's, one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.hpp"

namespace sft {

// One connection to another node, as it is now.
struct FlowSample {
    NodeId node;
    std::uint64_t flow = 0;     // tells connections to one node apart
    std::uint64_t n_moved = 0;  // rises with every byte that is acknowledged
    bool is_under_way = false;  // something has been sent and not been acknowledged
    std::uint32_t n_repeated = 0;
    std::uint64_t sent_bytes = 0;      // repetitions included; 0: not known
    std::uint64_t repeated_bytes = 0;  // of these
};

// What one node counts when it is to be decided who leaves.
struct NodeWeight {
    NodeId node;
    std::int32_t n_pes = 0;
};

// Data between this node and that one stands still.
struct Standstill {
    NodeId node;
    std::int64_t since_ns = 0;
};

class FlowWatch {
public:
    static constexpr std::int64_t kPeriodNs = 1'000'000'000;
    static constexpr std::int64_t kStandstillNs = 5'000'000'000;
    static constexpr std::uint32_t kRepeatedMin = 5;
    static constexpr std::int64_t kBoundMinNs = 2 * kStandstillNs;

    // bound_ns: how long data may stand still; 0: for ever, which is only told. Both sides must have seen it, and heard
    // of each other, before either can be out of patience.
    FlowWatch(NodeId self, std::int64_t bound_ns)
        : self_(self), bound_ns_(bound_ns == 0 ? 0 : std::max(bound_ns, kBoundMinNs)) {}

    struct Round {
        std::vector<NodeId> stands_still;   // told once each
        std::vector<NodeId> moves_again;    // it had been told that it does not
        std::vector<Standstill> own;        // what this process itself sees, for the others of both nodes
        std::optional<NodeId> leaves_over;  // this node has to leave, because of that one
    };
    // Once in a period. told: what others see, of this node and of those that it concerns. nodes: those with a living
    // process, this one included, in the order of their numbers.
    [[nodiscard]] Round tick(std::int64_t now_ns, std::span<const FlowSample> samples, std::span<const Standstill> told,
                             std::span<const NodeWeight> nodes);

private:
    struct Flow {
        std::uint64_t n_moved = 0;
        std::int64_t since_ns = 0;
        std::uint64_t sent_bytes = 0;
        std::uint64_t repeated_bytes = 0;
        std::uint32_t n_repeated = 0;
        bool is_under_way = false;
    };
    void learn_loss(std::span<const FlowSample> samples);
    [[nodiscard]] std::uint32_t repeats_needed(NodeId node) const;
    void enter(std::int64_t now_ns, std::span<const FlowSample> samples);
    using Standing = std::map<NodeId, std::int64_t>;  // by node: since when
    [[nodiscard]] std::optional<NodeId> leaves(std::int64_t now_ns, const Standing& standing,
                                               std::span<const NodeWeight> nodes) const;

    NodeId self_;
    std::int64_t bound_ns_;
    std::int64_t ticked_ns_ = -1;
    std::map<std::pair<NodeId, std::uint64_t>, Flow> flows_;
    std::map<NodeId, double> loss_;  // the share of bytes that had to be repeated lately
    Standing standing_;              // as this process itself sees it
};

}  // namespace sft
