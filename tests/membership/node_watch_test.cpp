// Silence between nodes: who asks whom, when a node is lost, and that none is lost that lives.
#include "shmem_ft/membership/node_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <random>

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

class OneOfFour : public testing::Test {
protected:
    // Nodes 0 ... 3 with three processes each.
    const NodeMap map_ = round_robin(4, 12);
    const JobShape shape_{.n_pes = 10, .n_processes = 12, .nodes = &map_};
    std::map<std::int32_t, std::uint32_t> beats_;

    [[nodiscard]] NodeWatch watch_of(std::int32_t self) const {
        NodeWatch watch({.shape = shape_, .self = ProcId(self), .bound_ns = kBound});
        watch.update({}, {}, 0);
        return watch;
    }
    NodeWatch::Round tick(NodeWatch& watch, std::int64_t now) {
        return watch.tick(now, [this](ProcId process) { return beats_[process.value()]; });
    }
    static std::vector<Death> dead(std::initializer_list<std::int32_t> processes) {
        std::vector<Death> list;
        for (const std::int32_t process : processes) {
            insert_sorted(list, {ProcId(process), {FailureKind::signal, 9}, true});
        }
        return list;
    }
};

TEST_F(OneOfFour, TheLowestAsksTheLowestOfTheNextNodes) {
    NodeWatch watch = watch_of(3);
    EXPECT_EQ(watch.watched(), (std::vector{NodeId(0), NodeId(1)}));
    const NodeWatch::Round round = tick(watch, kPeriod);
    EXPECT_TRUE(watch.is_speaker());
    EXPECT_EQ(round.ask, (std::vector{ProcId(0), ProcId(1), ProcId(2)})) << "those that it watches, and who watches it";
    EXPECT_TRUE(round.lost.empty());
}

TEST_F(OneOfFour, TheOthersAreSilentWhileTheLowestMoves) {
    NodeWatch watch = watch_of(4);
    for (int i = 1; i < 20; ++i) {
        ++beats_[0];
        EXPECT_TRUE(tick(watch, i * kPeriod).ask.empty());
    }
    EXPECT_FALSE(watch.is_speaker());
    for (int i = 20; i < 23; ++i) {
        EXPECT_TRUE(tick(watch, i * kPeriod).ask.empty()) << "it may be late";
    }
    const NodeWatch::Round round = tick(watch, 23 * kPeriod);
    EXPECT_TRUE(watch.is_speaker());
    EXPECT_EQ(round.ask, (std::vector{ProcId(1), ProcId(2), ProcId(3)}));
    EXPECT_TRUE(round.lost.empty()) << "nobody has been listening before";
    ++beats_[0];
    EXPECT_TRUE(tick(watch, 24 * kPeriod).ask.empty()) << "the lower one is back";
}

TEST_F(OneOfFour, WhoSpeaksIfTheLowestIsDead) {
    NodeWatch watch = watch_of(4);
    watch.update({}, dead({0}), kMilli);
    EXPECT_EQ(tick(watch, kPeriod).ask, (std::vector{ProcId(1), ProcId(2), ProcId(3)}));
}

TEST_F(OneOfFour, NodesWithoutALivingProcessAreSkipped) {
    NodeWatch watch = watch_of(0);
    watch.update({}, dead({1, 5, 9, 2}), kMilli);
    EXPECT_EQ(watch.watched(), (std::vector{NodeId(2), NodeId(3)}));
    EXPECT_EQ(tick(watch, kPeriod).ask, (std::vector{ProcId(6), ProcId(3)}));
    watch.update({}, dead({1, 5, 9, 2, 6, 10, 3, 7, 11}), kMilli);
    EXPECT_FALSE(watch.is_needed());
}

TEST_F(OneOfFour, WhoHasNotAnsweredYetMayBeStarting) {
    NodeWatch watch = watch_of(0);
    std::int64_t now = 0;
    while (now + kPeriod <= 10 * kBound) {
        now += kPeriod;
        ASSERT_TRUE(tick(watch, now).lost.empty());
    }
    EXPECT_FALSE(tick(watch, now + kPeriod).lost.empty()) << "not for ever";
}

TEST_F(OneOfFour, NobodyIsStartingAnyMoreWhenSomethingHasBeenDecided) {
    NodeWatch watch = watch_of(0);
    JobState state;
    state.index = 1;
    watch.update(state, {}, kMilli);
    std::int64_t now = 0;
    while (now <= kBound + 2 * kPeriod) {
        now += kPeriod;
        if (!tick(watch, now).lost.empty()) {
            return;
        }
    }
    FAIL() << "nobody was lost within the bound and two periods";
}

TEST_F(OneOfFour, SilenceMakesAllOfANodeDeadButNotCertainly) {
    NodeWatch watch = watch_of(0);
    watch.heard(ProcId(1), 0);
    std::int64_t now = 0;
    std::vector<Death> lost;
    while (lost.empty()) {
        now += kPeriod;
        ASSERT_LE(now, kBound + 2 * kPeriod);
        watch.heard(ProcId(6), now);  // node 2 answers
        const NodeWatch::Round round = tick(watch, now);
        lost = round.lost;
        if (now > 4 * kPeriod && lost.empty()) {
            EXPECT_EQ(round.ask, (std::vector<ProcId>{ProcId(1), ProcId(5), ProcId(9), ProcId(2), ProcId(3), ProcId(7),
                                                      ProcId(11)}))
                << "everybody of the nodes that are silent";
        }
    }
    EXPECT_GT(now, kBound);
    const FailureReason reason{FailureKind::node_lost, 0};
    EXPECT_EQ(lost,
              (std::vector<Death>{{ProcId(1), reason, false}, {ProcId(5), reason, false}, {ProcId(9), reason, false}}));
    EXPECT_TRUE(tick(watch, now + kPeriod).lost.empty()) << "once";
}

// Whether node 1 is called lost because of a cut of its link; it answers a millisecond after each question that gets
// there.
bool is_lost_by_cut(std::int64_t begin, std::int64_t length) {
    const NodeMap map = round_robin(2, 2);
    NodeWatch watch({.shape = {.n_pes = 2, .n_processes = 2, .nodes = &map}, .self = ProcId(0), .bound_ns = kBound});
    JobState state;
    state.index = 1;
    watch.update(state, {}, 0);
    for (std::int64_t now = kPeriod; now < begin + length + 2 * kBound; now += kPeriod) {
        if (!watch.tick(now, [](ProcId) { return 0U; }).lost.empty()) {
            return true;
        }
        if (now < begin || now >= begin + length) {
            watch.heard_datagram(ProcId(1), now + kMilli);
        }
        // Mail waits for as long again as the link was away.
        if (now < begin || now >= begin + 2 * length) {
            watch.heard(ProcId(1), now + kMilli);
        }
    }
    return false;
}

TEST(NodeWatch, ACutShorterThanTheBoundIsNoLossWheneverItBegins) {
    for (std::int64_t phase = 0; phase < kPeriod; phase += kPeriod / 16) {
        const std::int64_t begin = 3 * kBound + phase;
        for (const std::int64_t length : {kBound / 4, kBound / 2, 3 * kBound / 4, 9 * kBound / 10, kBound - 1}) {
            EXPECT_FALSE(is_lost_by_cut(begin, length)) << phase << " " << length;
        }
        EXPECT_TRUE(is_lost_by_cut(begin, kBound + 2 * kPeriod)) << phase;
    }
}

// Otherwise a job whose mail gets nowhere would wait for ever.
TEST_F(OneOfFour, DatagramsAloneDoNotKeepANodeForEver) {
    NodeWatch watch = watch_of(0);
    for (std::int32_t other = 1; other < 4; ++other) {
        watch.heard(ProcId(other), 0);
    }
    std::int64_t now = 0;
    std::vector<Death> lost;
    while (lost.empty() && now < 10 * kBound) {
        now += kPeriod;
        watch.heard_datagram(ProcId(1), now);
        watch.heard(ProcId(2), now);
        watch.heard(ProcId(3), now);
        lost = tick(watch, now).lost;
    }
    ASSERT_EQ(lost.size(), 3U);
    EXPECT_EQ(lost.front().process, ProcId(1));
    EXPECT_GT(now, 4 * kBound);
}

TEST_F(OneOfFour, WhoHasNotRunAccusesNobody) {
    NodeWatch watch = watch_of(0);
    for (int i = 1; i <= 5; ++i) {
        EXPECT_TRUE(tick(watch, i * kPeriod).lost.empty());
    }
    EXPECT_TRUE(tick(watch, 50 * kPeriod).lost.empty());
    EXPECT_TRUE(tick(watch, 54 * kPeriod).lost.empty());
}

TEST_F(OneOfFour, SparesThatHaveJoinedBelongToTheirNode) {
    NodeWatch watch = watch_of(0);
    JobState state;
    state.joined = {{ProcId(12), NodeId(1)}};
    watch.update(state, dead({1, 5, 9}), kMilli);
    EXPECT_EQ(tick(watch, kPeriod).ask, (std::vector{ProcId(12), ProcId(2), ProcId(3)}));
}

TEST(NodeWatch, IsNotNeededOnOneNodeOrWhenOff) {
    const NodeMap one;
    NodeWatch watch({.shape = {.n_pes = 2, .n_processes = 2, .nodes = &one}, .self = ProcId(0), .bound_ns = kBound});
    watch.update({}, {}, 0);
    EXPECT_FALSE(watch.is_needed());
    const NodeMap two = round_robin(2, 2);
    NodeWatch off({.shape = {.n_pes = 2, .n_processes = 2, .nodes = &two}, .self = ProcId(0), .bound_ns = 0});
    off.update({}, {}, 0);
    EXPECT_FALSE(off.is_needed());
    EXPECT_TRUE(off.tick(100 * kBound, [](ProcId) { return 0U; }).lost.empty());
}

// Whoever has not been heard for a bound by those that watch it may have been called lost.
class Presence : public OneOfFour {
protected:
    static bool is_present(const NodeWatch& watch, std::int64_t now) {
        return sft::is_present(
            ProcId(0), [&](ProcId) { return watch.presence_ns(); }, now, kBound);
    }
};

TEST_F(Presence, LastsForABoundAfterTheQuestionThatWasAnswered) {
    NodeWatch watch = watch_of(0);  // nodes 2 and 3 watch it
    EXPECT_TRUE(is_present(watch, kBound - 1));
    EXPECT_FALSE(is_present(watch, kBound)) << "nobody has answered";
    watch.heard(ProcId(2), kBound, kBound - kMilli);
    EXPECT_FALSE(is_present(watch, kBound)) << "node 3 may have called it lost";
    watch.heard(ProcId(3), kBound, 2 * kPeriod);
    EXPECT_TRUE(is_present(watch, kBound));
    EXPECT_TRUE(is_present(watch, 2 * kPeriod + kBound - 1));
    EXPECT_FALSE(is_present(watch, 2 * kPeriod + kBound)) << "since the question, not since the answer";
    watch.heard(ProcId(3), 2 * kBound);
    EXPECT_FALSE(is_present(watch, 2 * kBound)) << "what comes without a question proves nothing";
    watch.heard(ProcId(1), 2 * kBound, 2 * kBound);
    EXPECT_FALSE(is_present(watch, 2 * kBound)) << "node 1 does not watch it";
}

TEST_F(Presence, IsNotMovedByTimesThatAreNotOfThisNode) {
    NodeWatch watch = watch_of(0);
    watch.heard(ProcId(2), kPeriod, 100 * kBound);
    watch.heard(ProcId(3), kPeriod, 100 * kBound);
    EXPECT_FALSE(is_present(watch, kBound));
}

TEST_F(Presence, WhoWatchesFromNowOnKnowsNothingYet) {
    NodeWatch watch = watch_of(0);
    watch.heard(ProcId(2), 2 * kBound, 2 * kBound - kMilli);
    watch.heard(ProcId(3), 2 * kBound, 2 * kBound - kMilli);
    watch.heard(ProcId(1), 2 * kBound, 2 * kBound - kMilli);
    // Node 3 is dead: node 1 watches now.
    watch.update({}, dead({3, 7, 11}), 2 * kBound + kMilli);
    EXPECT_TRUE(is_present(watch, 3 * kBound - 2 * kMilli));
    watch.heard(ProcId(2), 3 * kBound, 3 * kBound);
    EXPECT_FALSE(is_present(watch, 3 * kBound)) << "node 1 has not answered since";
}

TEST_F(Presence, IsCertainWhenNobodyElseLives) {
    NodeWatch watch = watch_of(0);
    watch.update({}, dead({1, 5, 9, 2, 6, 10, 3, 7, 11}), kMilli);
    EXPECT_TRUE(is_present(watch, 100 * kBound));
}

// Whoever has called this node lost may be lost itself before this node runs again.
TEST_F(Presence, DoesNotRiseBecauseAWatcherIsTakenForLost) {
    NodeWatch watch = watch_of(0);
    watch.heard(ProcId(2), kPeriod, kPeriod);
    watch.heard(ProcId(3), kPeriod, kPeriod);
    std::vector<Death> lost = dead({1, 5, 9, 2, 6, 10, 3, 7});
    insert_sorted(lost, {ProcId(11), {FailureKind::node_lost, 0}, false});
    watch.update({}, lost, 2 * kBound);
    EXPECT_FALSE(is_present(watch, 2 * kBound)) << "node 3 has not heard it for long, and may have said so";
    JobState agreed;
    agreed.index = 1;
    agreed.deaths = lost;
    watch.update(agreed, lost, 2 * kBound);
    EXPECT_TRUE(is_present(watch, 100 * kBound));
}

// Its node may have been called lost before it came, and all who said so may be gone.
TEST_F(Presence, ASpareThatComesLaterProvesNothingBeforeItIsAnswered) {
    NodeWatch watch({.shape = shape_, .self = ProcId(12), .bound_ns = kBound});
    watch.update({}, {}, kBound);
    EXPECT_FALSE(is_present(watch, kBound));
    JobState joined;
    joined.index = 1;
    joined.joined = {{ProcId(12), NodeId(0)}};
    watch.update(joined, {}, kBound);
    EXPECT_FALSE(is_present(watch, kBound));
    watch.heard(ProcId(2), kBound, kBound);
    watch.heard(ProcId(3), kBound, kBound);
    EXPECT_TRUE(is_present(watch, kBound));
}

// It came there, was counted in and died while nobody had heard of it.
TEST_F(OneOfFour, WhoHasJoinedOnALostNodeIsLostAsWell) {
    NodeWatch watch = watch_of(0);
    JobState state;
    state.index = 1;
    watch.update(state, {}, 0);
    std::int64_t now = 0;
    const auto lost_until = [&](std::int64_t end) {
        std::vector<Death> lost;
        for (; now < end; now += kPeriod) {
            watch.heard(ProcId(2), now);
            watch.heard(ProcId(3), now);
            const NodeWatch::Round round = tick(watch, now);
            lost.insert(lost.end(), round.lost.begin(), round.lost.end());
        }
        return lost;
    };
    const std::vector<Death> first = lost_until(2 * kBound);
    ASSERT_EQ(first.size(), 3U);
    state.joined = {{ProcId(12), NodeId(1)}};
    watch.update(state, first, now);
    const std::vector<Death> second = lost_until(15 * kBound);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second.front().process, ProcId(12));
}

TEST_F(Presence, IsProvenByThoseOfLowerNumbersOnly) {
    const auto presence_of = [](ProcId process) { return process == ProcId(12) ? 5 * kBound : NodeWatch::kNever; };
    EXPECT_FALSE(sft::is_present(ProcId(4), presence_of, 5 * kBound, kBound)) << "12 came when 4 had been called lost";
    EXPECT_TRUE(sft::is_present(ProcId(12), presence_of, 5 * kBound, kBound));
    EXPECT_TRUE(sft::is_present(ProcId(14), presence_of, 5 * kBound, kBound)) << "who knew 14 knew 12";
    EXPECT_TRUE(sft::is_present(ProcId(4), presence_of, 5 * kBound, 0)) << "no node is ever called lost";
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
