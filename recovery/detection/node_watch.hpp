// Suspicion between nodes, without I/O: which node has fallen silent.
//
// The nodes that have a living process form a ring in the order of their numbers. Each node watches the next `fan` of
// them and is watched by as many before it: once in a period its speaker asks the lowest living process of each of
// these for a sign of life (message ping; Agreement answers with heartbeat). So a node sends and gets O(1) messages in
// a period, however many processes and nodes there are, and only who asks has to know who lives: nobody must begin or
// cease to send because of a death that it has not heard of yet, as a sleeping spare may not. Whatever arrives from any
// process of the node is a sign of life; after four periods without any everybody there is asked.
//
// Questions and answers go as mail and as datagrams. Mail (TCP) may be silent for as long again as a link was away, so
// datagrams tell how long a link really was. But a job lives by mail: datagrams count only while some mail has come
// within the last four bounds.
//
// The speaker of a node is its lowest living process that responds. The others look at the heartbeat words of the lower
// ones in the memory that they share; whoever finds that none of those has moved for four of its own ticks speaks, and
// starts to listen afresh. Two may speak for a while; that costs messages only.
//
// A node is lost when nothing has come from it for the bound and more than a bound's worth of questions of this process
// has gone unanswered. All processes there are dead then, not certainly: the network may be cut, or the node stand
// still. (If the owner can find out more, for example that the port of a process refuses connections, it should do that
// first: a certain death needs no majority.)
//
// Of two nodes that cannot reach each other one has to go, and it is the one that counts for less: fewer PEs, or as
// many and not the lowest turn among their holders, or no PE and the higher number. So whoever misses a node that
// counts for less calls it lost. Whoever misses one that counts for more first hears what others say of it, who are
// asked along with the questions that they get anyway: if all that watch it or are watched by it say that it is silent,
// or nobody can be asked, it is lost, and after four more periods even if one of them does not know; if somebody hears
// it the link alone is cut, and this node is the one to go. The others have called it lost by then, or it gives way
// after one more bound. What is counted follows from the last value, so that both sides count alike. All this can only
// keep a node from being called lost; safety rests on quorums (agreement.hpp), as ever.
//
// A node of which nothing has been heard yet may still be on its way through shmem_init: nobody is called lost before
// he has answered once, in the first ten bounds of a job. As soon as anything has been decided all PEs have taken part
// in that, so it is over for the nodes that they began on. The owner should tick once at the very beginning.
//
// Lease. Who has been cut off or has stood still may have been called lost, and those who did so may have died or
// left since: it then finds nothing but refused ports, and would go on alone. So a death that is told by nothing but a
// port is certain only for who has a lease: each node that watches this one has heard it less than a bound ago.
// For that a node asks those that watch it as well; the question carries the time, the answer brings it back. Whoever
// answers has heard the question, so it calls nobody here lost before that time and the bound. What the speaker knows
// of it the others of the node read in shared memory. All on the clock of one node; clocks must only go at the same
// pace. The lease is not renewed because a node that watched this one is taken for lost: it may have called this one
// lost before. Only when its loss is agreed on, which takes a majority that this process has heard of, it counts no
// more. A spare that comes while the job runs has proven nothing before it has been answered, and then nothing about
// those that were there before it: they may have been called lost before it came. So a process goes by those of its
// node with lower numbers than its own: who knew it knew these.
//
// Fault model: any process may stand still at any time, this one included; messages take any time. Who has not run
// itself could not hear, and starts afresh. A node whose link is cut for less than the bound is not called lost: at
// most ten questions fall into that time, and the eleventh, which comes after it, has a period for its answer. One
// whose link is cut for the bound and two periods is.
//
// Between two nodes of which neither watches the other silence is not noticed here. A loss is told by those who watch
// the node (agreement.hpp, "news"); a cut of just that link, which needs six nodes with a fan of 2, by who sends on it.
//
// Time: nanoseconds of any clock that only goes forward. Threads: the owner's, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "recovery/membership/job_state.hpp"
#include "recovery/membership/message.hpp"

namespace sft {

class NodeWatch {
public:
    static constexpr std::int64_t kPeriodsPerBound = 10;
    static constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min() / 2;  // differences fit

    struct Options {
        JobShape shape;
        ProcId self = kNoProc;
        std::int64_t bound_ns = 0;  // silence that makes a node lost; 0: none ever is
        std::int32_t fan = 2;
    };
    explicit NodeWatch(const Options& options) : options_(options) {
        SFT_ASSERT(options.self != kNoProc && options.fan > 0 && options.bound_ns >= 0);
    }

    // Who lives, and where, as far as this process knows; has to be called before the first tick, and when that
    // changes.
    void update(const JobState& state, std::span<const Death> dead, std::int64_t now_ns);
    // Something has come from this process of another node. asked_ns: if it is the answer to a question, when that was
    // asked.
    void heard(ProcId from, std::int64_t now_ns, std::int64_t asked_ns = 0);
    void heard_datagram(ProcId from, std::int64_t now_ns, std::int64_t asked_ns = 0);

    struct Round {
        std::vector<ProcId> ask;  // send each of them a ping
        std::vector<Death> lost;  // each named once, unless something is heard of its node again
        NodeId about = kNoNode;   // to be asked about with the questions
        bool gives_way = false;   // this node has to go
    };
    // What `from` says of a node that it was asked about.
    void testified(ProcId from, NodeId about, Testimony testimony, std::int64_t now_ns);
    // What this process can say of a node.
    [[nodiscard]] Testimony testimony_about(NodeId node, std::int64_t now_ns) const;
    // One period is over; to be called after all has been handled that has arrived. beat_of: the heartbeat word of a
    // process of this node.
    [[nodiscard]] Round tick(std::int64_t now_ns, const std::function<std::uint32_t(ProcId)>& beat_of);

    [[nodiscard]] std::int64_t period_ns() const noexcept { return options_.bound_ns / kPeriodsPerBound; }
    // False: there is nothing to do in ticks.
    [[nodiscard]] bool is_needed() const noexcept { return options_.bound_ns > 0 && !neighbours_.empty(); }
    [[nodiscard]] bool is_speaker() const noexcept { return is_speaker_; }
    [[nodiscard]] std::vector<NodeId> watched() const;
    // Those that it watches, and those that watch it.
    [[nodiscard]] std::vector<NodeId> neighbours() const;

    // Up to when everybody who watches this node is known to have heard it, as far as this process knows; for the
    // others of the node. kAlways: nobody watches it. kNever: it has not joined yet, and knows nothing of its node.
    [[nodiscard]] std::int64_t lease_ns() const noexcept { return lease_ns_; }

private:
    struct Told {
        NodeId about;
        Testimony testimony{};
        std::int64_t told_ns = 0;
    };
    struct Neighbour {
        NodeId node;
        std::vector<ProcId> living;  // ascending
        bool is_watched = false;
        bool watches_us = false;
        std::int64_t heard_ns = 0;
        std::int64_t mail_ns = 0;       // the last time that was not a datagram
        std::int64_t n_unanswered = 0;  // questions since
        bool is_lost = false;
        std::int64_t missed_ns = -1;      // since it was silent for the bound; -1: it is not
        std::int64_t really_ns = kNever;  // something has come from it
        std::vector<Told> told{};         // by it, of others
        bool has_answered = false;        // ever
        std::int64_t has_heard_ns = 0;    // it has heard this node since, if it watches it
    };
    struct Lower {  // a living process of this node with a lower number
        ProcId process;
        std::uint32_t beat = 0;
        std::int64_t n_still = 0;  // ticks since the word has moved
    };
    [[nodiscard]] Neighbour* neighbour_with(ProcId process);
    static void listen_afresh_to(Neighbour& neighbour, std::int64_t now_ns);
    void listen_afresh(std::int64_t now_ns);
    enum class Verdict : std::uint8_t { lost, not_yet, gives_way };
    [[nodiscard]] Verdict judge(const Neighbour& silent, std::int64_t now_ns) const;
    [[nodiscard]] bool counts_for_less(NodeId node) const;
    [[nodiscard]] bool are_neighbours(NodeId a, NodeId b) const;
    [[nodiscard]] NodeId choose_doubt(std::int64_t now_ns);
    void look_at_lower(std::int64_t now_ns, const std::function<std::uint32_t(ProcId)>& beat_of);

    struct LostWatcher {  // its loss is uncertain and not agreed on
        NodeId node;
        std::int64_t has_heard_ns = 0;
    };
    void note_lost_watchers(const std::vector<std::vector<ProcId>>& living, const JobState& state,
                            std::span<const Death> dead);
    void take_lease();
    [[nodiscard]] std::vector<Neighbour> find_neighbours(std::vector<std::vector<ProcId>> living, NodeId own,
                                                         std::int64_t now_ns) const;

    Options options_;
    JobState state_;  // who holds what: what nodes count
    NodeId own_ = kNoNode;
    std::vector<bool> has_living_;  // by node
    std::size_t n_doubts_ = 0;
    std::vector<Neighbour> neighbours_;
    std::vector<LostWatcher> lost_watchers_;
    std::int64_t lease_ns_ = kAlways;
    std::vector<Lower> lower_;
    std::int64_t began_ns_ = -1;
    std::int64_t ticked_ns_ = -1;
    bool is_speaker_ = false;
};

// Nobody can have called `self` and its node lost. lease_of: NodeWatch::lease_ns() of a process of this node that
// started with the job or has come; else kNever. bound_ns: 0 if no node is ever lost.
[[nodiscard]] bool has_lease(ProcId self, const std::function<std::int64_t(ProcId)>& lease_of, std::int64_t now_ns,
                             std::int64_t bound_ns);

}  // namespace sft
