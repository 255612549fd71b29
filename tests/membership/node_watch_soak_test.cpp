// The watch between nodes over simulated time: nobody who lives is lost, and who is lost is found in time.
#include <gtest/gtest.h>

#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "shmem_ft/membership/node_watch.hpp"

namespace sft {
namespace {

constexpr std::int64_t kMilli = 1'000'000;
constexpr std::int64_t kBound = 2000 * kMilli;
constexpr std::int64_t kPeriod = kBound / NodeWatch::kPeriodsPerBound;

// Process p runs on node p mod n_nodes.
NodeMap round_robin(std::int32_t n_nodes, std::int32_t n_processes) {
    std::vector<NodeId> nodes;
    for (std::int32_t process = 0; process < n_processes; ++process) {
        nodes.emplace_back(process % n_nodes);
    }
    return NodeMap(std::move(nodes));
}

// Everybody of a job with pauses and delays, over simulated time.
class Soak {
public:
    enum class Pauses : std::uint8_t { none, of_processes, of_nodes_too };
    Soak(std::uint64_t seed, std::int32_t n_nodes, std::int32_t n_processes, Pauses pauses)
        : random_(seed),
          n_nodes_(n_nodes),
          map_(round_robin(n_nodes, n_processes)),
          pauses_nodes_(pauses == Pauses::of_nodes_too) {
        const JobShape shape{.n_pes = n_processes, .n_processes = n_processes, .nodes = &map_};
        processes_.resize(static_cast<std::size_t>(n_processes));
        for (std::int32_t process = 0; process < n_processes; ++process) {
            Process& item = processes_[static_cast<std::size_t>(process)];
            item.watch = std::make_unique<NodeWatch>(
                NodeWatch::Options{.shape = shape, .self = ProcId(process), .bound_ns = kBound});
            item.watch->update({}, {}, 0);
            push(between(0, kPeriod), process, Event::Kind::tick, -1);
            if (pauses != Pauses::none) {
                push(between(0, kBound), process, Event::Kind::pause, -1);
            }
        }
    }

    // All processes of the node die then.
    void lose(std::int32_t node, std::int64_t when) {
        lost_ = node;
        lost_ns_ = when;
    }

    // When a node was called lost for the first time; -1: never.
    std::int64_t run(std::int64_t until) {
        while (!queue_.empty() && queue_.top().time <= until) {
            const Event event = queue_.top();
            queue_.pop();
            Process& process = processes_[static_cast<std::size_t>(event.process)];
            if (is_dead(event.process, event.time)) {
                continue;
            }
            if (event.kind != Event::Kind::pause && process.paused_until > event.time) {
                // What has waited is handled in the order in which it came, messages before the tick.
                push(process.paused_until + (event.kind == Event::Kind::tick ? 1 : 0), event.process, event.kind,
                     event.from);
                continue;
            }
            if (handle(event, process) && lost_ < 0) {
                return event.time;
            }
            if (called_lost_ >= 0) {
                return event.time;
            }
        }
        return -1;
    }
    [[nodiscard]] std::int32_t called_lost() const noexcept { return called_lost_; }

private:
    struct Process {
        std::unique_ptr<NodeWatch> watch;
        std::uint32_t beat = 0;
        std::int64_t paused_until = 0;
    };
    struct Event {
        enum class Kind : std::uint8_t { tick, ping, heartbeat, pause };
        std::int64_t time = 0;
        std::uint64_t order = 0;
        std::int32_t process = 0;
        Kind kind{};
        std::int32_t from = -1;
        [[nodiscard]] bool operator<(const Event& other) const {
            return time != other.time ? time > other.time : order > other.order;
        }
    };

    std::int64_t between(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    void push(std::int64_t time, std::int32_t process, Event::Kind kind, std::int32_t from) {
        queue_.push({time, order_++, process, kind, from});
    }
    [[nodiscard]] bool is_dead(std::int32_t process, std::int64_t now) const {
        return lost_ >= 0 && process % n_nodes_ == lost_ && now >= lost_ns_;
    }

    bool handle(const Event& event, Process& process) {
        switch (event.kind) {
            case Event::Kind::pause: pause(event); return false;
            case Event::Kind::ping:
                push(event.time + delay(), event.from, Event::Kind::heartbeat, event.process);
                process.watch->heard(ProcId(event.from), event.time);
                return false;
            case Event::Kind::heartbeat: process.watch->heard(ProcId(event.from), event.time); return false;
            case Event::Kind::tick: break;
        }
        ++process.beat;
        const NodeWatch::Round round =
            process.watch->tick(event.time, [this](ProcId other) { return processes_[other.index()].beat; });
        for (const ProcId to : round.ask) {
            push(event.time + delay(), to.value(), Event::Kind::ping, event.process);
        }
        push(event.time + kPeriod, event.process, Event::Kind::tick, -1);
        if (!round.lost.empty()) {
            called_lost_ = round.lost.front().process.value() % n_nodes_;
        }
        return !round.lost.empty();
    }
    // Up to half of the bound, of one process or of its whole node. It runs for two periods before the next one.
    void pause(const Event& event) {
        const std::int64_t end = event.time + between(0, kBound / 2);
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
        push(end + between(2 * kPeriod, 20 * kBound), event.process, Event::Kind::pause, -1);
    }
    std::int64_t delay() { return between(0, 9) == 0 ? between(0, kPeriod / 2) : between(10'000, kMilli); }

    std::mt19937_64 random_;
    std::int32_t n_nodes_;
    NodeMap map_;
    bool pauses_nodes_;
    std::vector<Process> processes_;
    std::priority_queue<Event> queue_;
    std::uint64_t order_ = 0;
    std::int32_t lost_ = -1;
    std::int64_t lost_ns_ = 0;
    std::int32_t called_lost_ = -1;
};

TEST(NodeWatchSoak, NobodyWhoLivesIsLostInAnHour) {
    constexpr std::int64_t kHour = 3600LL * 1000 * kMilli;
    for (const std::int32_t n_nodes : {2, 3, 5}) {
        Soak soak(static_cast<std::uint64_t>(n_nodes), n_nodes, 4 * n_nodes, Soak::Pauses::of_nodes_too);
        EXPECT_EQ(soak.run(kHour), -1) << "node " << soak.called_lost() << " of " << n_nodes;
    }
}

// The longest time until a lost node was called lost.
std::int64_t detection_time(Soak::Pauses pauses) {
    std::int64_t longest = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const auto n_nodes = static_cast<std::int32_t>(2 + seed % 4);
        const auto lost = static_cast<std::int32_t>(seed) % n_nodes;
        Soak soak(seed, n_nodes, 3 * n_nodes, pauses);
        const auto when = static_cast<std::int64_t>(seed) * (kPeriod + kMilli);
        soak.lose(lost, when);
        const std::int64_t found = soak.run(when + 10 * kBound);
        EXPECT_GT(found, when) << seed;
        EXPECT_EQ(soak.called_lost(), lost);
        longest = std::max(longest, found - when);
    }
    return longest;
}

TEST(NodeWatchSoak, ALostNodeIsFoundWithinTheBoundAndTwoPeriods) {
    EXPECT_LE(detection_time(Soak::Pauses::none), kBound + 2 * kPeriod);
    // Who watches may have to start afresh on the way.
    EXPECT_LE(detection_time(Soak::Pauses::of_processes), 3 * kBound);
}

}  // namespace
}  // namespace sft
