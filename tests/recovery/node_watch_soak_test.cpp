// The watch between nodes over simulated time: nobody who lives is lost, and who is lost is found in time.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "base/clock.hpp"
#include "recovery/detection/node_watch.hpp"
#include "tests/recovery/deaths.hpp"
#include "tests/recovery/node_bound.hpp"
#include "tests/rounds.hpp"

namespace sft {
namespace {

// Process p runs on node p mod n_nodes.
// Everybody of a job with pauses and delays, over simulated time.
class Soak {
public:
    enum class Pauses : std::uint8_t { none, of_processes, of_nodes_too };
    enum class Witnesses : std::uint8_t { tell, say_nothing };
    Soak(std::uint64_t seed, std::int32_t n_nodes, std::int32_t n_processes, Pauses pauses,
         Witnesses witnesses = Witnesses::tell)
        : random_(seed),
          n_nodes_(n_nodes),
          map_(round_robin(n_nodes, n_processes)),
          pauses_nodes_(pauses == Pauses::of_nodes_too),
          do_witnesses_tell_(witnesses == Witnesses::tell) {
        const JobShape shape{.n_pes = n_processes, .n_processes = n_processes, .nodes = &map_};
        processes_.resize(static_cast<std::size_t>(n_processes));
        for (std::int32_t process = 0; process < n_processes; ++process) {
            Process& item = processes_[static_cast<std::size_t>(process)];
            item.watch = std::make_unique<NodeWatch>(
                NodeWatch::Options{.shape = shape, .self = ProcId(process), .bound_ns = kNodeBound});
            item.watch->update({}, {}, 0);
            push({.time = between(0, kPeriod), .process = process, .kind = Event::Kind::tick});
            if (pauses != Pauses::none) {
                push({.time = between(0, kNodeBound), .process = process, .kind = Event::Kind::pause});
            }
        }
    }

    // All processes of the node die then.
    void lose(std::int32_t node, std::int64_t when) {
        lost_ = node;
        lost_ns_ = when;
    }

    // When a node was called lost, or gave way, for the first time; -1: never.
    std::int64_t run(std::int64_t until) {
        while (!queue_.empty() && queue_.top().time <= until) {
            Event event = queue_.top();
            queue_.pop();
            Process& process = processes_[static_cast<std::size_t>(event.process)];
            if (is_dead(event.process, event.time)) {
                continue;
            }
            if (event.kind != Event::Kind::pause && process.paused_until > event.time) {
                // What has waited is handled in the order in which it came, messages before the tick.
                event.time = process.paused_until + (event.kind == Event::Kind::tick ? 1 : 0);
                push(event);
                continue;
            }
            handle(event, process);
            if (called_lost_ >= 0 || gave_way_ >= 0) {
                return event.time;
            }
        }
        return -1;
    }
    [[nodiscard]] std::int32_t called_lost() const noexcept { return called_lost_; }
    // What was under way from the lost node has come by then.
    [[nodiscard]] std::int64_t last_sign_ns() const noexcept { return last_sign_ns_; }
    [[nodiscard]] std::int32_t gave_way() const noexcept { return gave_way_; }

private:
    struct Process {
        std::unique_ptr<NodeWatch> watch;
        std::uint32_t beat = 0;
        std::int64_t paused_until = 0;
        std::map<NodeId, Testimony> testimonies{};  // since its last tick
    };
    struct Event {
        enum class Kind : std::uint8_t { tick, ping, heartbeat, pause };
        std::int64_t time = 0;
        std::uint64_t order = 0;
        std::int32_t process = 0;
        Kind kind{};
        std::int32_t from = -1;
        bool is_datagram = false;
        std::int64_t asked_ns = 0;
        NodeId about = kNoNode;
        Testimony testimony = Testimony::none;
        [[nodiscard]] bool operator<(const Event& other) const {
            return time != other.time ? time > other.time : order > other.order;
        }
    };

    std::int64_t between(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    void push(Event event) {
        event.order = order_++;
        queue_.push(event);
    }
    [[nodiscard]] bool is_dead(std::int32_t process, std::int64_t now) const {
        return lost_ >= 0 && process % n_nodes_ == lost_ && now >= lost_ns_;
    }

    void handle(const Event& event, Process& process) {
        if (event.kind == Event::Kind::pause) {
            pause(event);
        } else if (event.kind == Event::Kind::tick) {
            tick(event, process);
        } else {
            take(event, process);
        }
    }
    void take(const Event& event, Process& process) {
        if (event.from % n_nodes_ == lost_) {
            last_sign_ns_ = event.time;
        }
        const bool is_answer = event.kind == Event::Kind::heartbeat;
        const std::int64_t asked_ns = is_answer ? event.asked_ns : 0;
        if (event.is_datagram) {
            process.watch->heard_datagram(ProcId(event.from), event.time, asked_ns);
        } else {
            process.watch->heard(ProcId(event.from), event.time, asked_ns);
        }
        if (is_answer) {
            process.watch->testified(ProcId(event.from), event.about, event.testimony, event.time);
            return;
        }
        // An answer goes the way of its question.
        Event answer = event;
        answer.time = event.time + delay();
        answer.process = event.from;
        answer.from = event.process;
        answer.kind = Event::Kind::heartbeat;
        const auto at = process.testimonies.find(event.about);
        answer.testimony = at != process.testimonies.end() && do_witnesses_tell_ ? at->second : Testimony::none;
        push(answer);
    }
    void tick(const Event& event, Process& process) {
        ++process.beat;
        const NodeWatch::Round round =
            process.watch->tick(event.time, [this](ProcId other) { return processes_[other.index()].beat; });
        process.testimonies.clear();
        for (const NodeId node : process.watch->neighbours()) {
            process.testimonies[node] = process.watch->testimony_about(node, event.time);
        }
        for (const ProcId to : round.ask) {
            for (const bool is_datagram : {false, true}) {
                push({.time = event.time + delay(),
                      .process = to.value(),
                      .kind = Event::Kind::ping,
                      .from = event.process,
                      .is_datagram = is_datagram,
                      .asked_ns = event.time,
                      .about = round.about});
            }
        }
        push({.time = event.time + kPeriod, .process = event.process, .kind = Event::Kind::tick});
        if (!round.lost.empty()) {
            called_lost_ = round.lost.front().process.value() % n_nodes_;
        }
        if (round.gives_way) {
            gave_way_ = event.process % n_nodes_;
        }
    }
    // Up to half of the bound, of one process or of its whole node. It runs for two periods before the next one.
    void pause(const Event& event) {
        const std::int64_t end = event.time + between(0, kNodeBound / 2);
        const bool is_of_node = pauses_nodes_ && between(0, 3) == 0;
        for (std::size_t other = 0; other < processes_.size(); ++other) {
            const auto number = static_cast<std::int32_t>(other);
            if (number == event.process || (is_of_node && number % n_nodes_ == event.process % n_nodes_)) {
                Process& stopped = processes_[other];
                if (event.time >= stopped.paused_until + 2 * kPeriod) {
                    stopped.paused_until = end;
                }
            }
        }
        push({.time = end + between(2 * kPeriod, 20 * kNodeBound),
              .process = event.process,
              .kind = Event::Kind::pause});
    }
    std::int64_t delay() { return between(0, 9) == 0 ? between(0, kPeriod / 2) : between(10'000, kNsPerMs); }

    std::mt19937_64 random_;
    std::int32_t n_nodes_;
    NodeMap map_;
    bool pauses_nodes_;
    bool do_witnesses_tell_;
    std::vector<Process> processes_;
    std::priority_queue<Event> queue_;
    std::uint64_t order_ = 0;
    std::int32_t lost_ = -1;
    std::int64_t last_sign_ns_ = 0;
    std::int64_t lost_ns_ = 0;
    std::int32_t called_lost_ = -1;
    std::int32_t gave_way_ = -1;
};

TEST(NodeWatchSoak, NobodyWhoLivesIsLostInAnHour) {
    const std::int64_t long_enough = rounds(std::int64_t{3600}) * kNsPerSecond;
    for (const std::int32_t n_nodes : {2, 3, 5}) {
        Soak soak(static_cast<std::uint64_t>(n_nodes), n_nodes, 4 * n_nodes, Soak::Pauses::of_nodes_too);
        EXPECT_EQ(soak.run(long_enough), -1)
            << "node " << soak.called_lost() << " of " << n_nodes << ", gave way: " << soak.gave_way();
    }
}

// The longest time from the last sign of life of a lost node until it was called lost.
std::int64_t detection_time(Soak::Pauses pauses, Soak::Witnesses witnesses = Soak::Witnesses::tell) {
    std::int64_t longest = 0;
    for (std::uint64_t seed = 1; seed <= rounds(200U); ++seed) {
        const auto n_nodes = static_cast<std::int32_t>(2 + seed % 7);
        const auto lost = static_cast<std::int32_t>(seed) % n_nodes;
        Soak soak(seed, n_nodes, 3 * n_nodes, pauses, witnesses);
        const auto when = static_cast<std::int64_t>(seed) * (kPeriod + kNsPerMs);
        soak.lose(lost, when);
        const std::int64_t found = soak.run(when + 10 * kNodeBound);
        EXPECT_GT(found, when) << seed;
        EXPECT_EQ(soak.called_lost(), lost) << seed;
        EXPECT_EQ(soak.gave_way(), -1) << seed;
        EXPECT_LE(soak.last_sign_ns(), when + kNodeBound) << seed;
        longest = std::max(longest, found - std::max(when, soak.last_sign_ns()));
    }
    return longest;
}

TEST(NodeWatchSoak, ALostNodeIsFoundWithinTheBoundAndTwoPeriods) {
    EXPECT_LE(detection_time(Soak::Pauses::none), kNodeBound + 2 * kPeriod);
    // Who counts for less waits for those who could have heard it.
    const std::int64_t untold = detection_time(Soak::Pauses::none, Soak::Witnesses::say_nothing);
    EXPECT_LE(untold, kNodeBound + 6 * kPeriod);
    EXPECT_GT(untold, kNodeBound + 3 * kPeriod) << "witnesses have not been waited for";
    // Who watches may have to start afresh on the way.
    EXPECT_LE(detection_time(Soak::Pauses::of_processes), 3 * kNodeBound);
}

}  // namespace
}  // namespace sft
