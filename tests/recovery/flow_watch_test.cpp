#include "recovery/detection/flow_watch.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kFlowBound = 30 * kSecond;

std::vector<NodeWeight> nodes(std::vector<std::int32_t> n_pes) {
    std::vector<NodeWeight> all;
    for (std::size_t i = 0; i < n_pes.size(); ++i) {
        all.push_back({NodeId(static_cast<std::int32_t>(i)), n_pes[i]});
    }
    return all;
}

// Repeated often enough to be no chance.
FlowSample stuck(std::int32_t node, std::uint64_t n_moved = 7) {
    return {.node = NodeId(node), .flow = 1, .n_moved = n_moved, .is_under_way = true, .n_repeated = 9};
}

// One node and what it sees, second by second.
class Watcher {
public:
    Watcher(std::int32_t self, std::vector<NodeWeight> all, std::int64_t bound_ns = kFlowBound)
        : watch_(NodeId(self), bound_ns), nodes_(std::move(all)) {}

    FlowWatch::Round see(const std::vector<FlowSample>& samples, const std::vector<Standstill>& told = {}) {
        now_ += kSecond;
        return watch_.tick(now_, samples, told, nodes_);
    }
    // The second in which this node leaves, of so many; 0: it stays.
    int leaves_after(int seconds, const std::vector<FlowSample>& samples) {
        for (int second = 0; second <= seconds; ++second) {
            if (see(samples).leaves_over) {
                return second;
            }
        }
        return 0;
    }
    // The second in which it says that data stands still.
    int tells_after(int seconds, const std::vector<FlowSample>& samples) {
        for (int second = 0; second <= seconds; ++second) {
            if (!see(samples).stands_still.empty()) {
                return second;
            }
        }
        return 0;
    }
    void sleep(std::int64_t ns) { now_ += ns; }
    [[nodiscard]] std::int64_t now() const { return now_; }

private:
    FlowWatch watch_;
    std::vector<NodeWeight> nodes_;
    std::int64_t now_ = 1000 * kSecond;
};

TEST(FlowWatch, TellsOnceWithinTenSeconds) {
    Watcher watcher(0, nodes({2, 2}));
    EXPECT_EQ(watcher.tells_after(9, {stuck(1)}), 5);
    EXPECT_EQ(watcher.tells_after(5, {stuck(1)}), 0) << "it has been told";
    EXPECT_EQ(watcher.see({stuck(1, 8)}).moves_again, std::vector<NodeId>{NodeId(1)});
    EXPECT_EQ(watcher.tells_after(9, {stuck(1, 8)}), 4) << "a byte has moved: all begins anew";
}

TEST(FlowWatch, AnyByteIsProgress) {
    Watcher watcher(0, nodes({2, 2}));
    for (std::uint64_t second = 0; second < 200; ++second) {
        const FlowWatch::Round round = watcher.see({stuck(1, second / 4)});
        EXPECT_TRUE(round.stands_still.empty() && !round.leaves_over) << second;
    }
}

TEST(FlowWatch, NothingUnderWayIsNoStandstill) {
    Watcher watcher(0, nodes({2, 2}));
    FlowSample idle = stuck(1);
    idle.is_under_way = false;  // it computes, is stopped, has no room
    EXPECT_EQ(watcher.tells_after(200, {idle}), 0);
}

TEST(FlowWatch, ASlowLinkGetsMoreTime) {
    Watcher watcher(0, nodes({2, 2}));
    FlowSample slow = stuck(1);
    slow.n_repeated = FlowWatch::kRepeatedMin - 1;  // the kernel waits long in between
    EXPECT_EQ(watcher.tells_after(200, {slow}), 0);
}

// One packet of three gets lost: five repetitions in a row are nothing special then, and were called a standstill.
TEST(FlowWatch, ALinkThatLosesMuchGetsMoreRepetitions) {
    Watcher watcher(0, nodes({2, 2}));
    FlowSample other = stuck(1);
    other.flow = 2;
    const auto next = [&other](std::uint64_t repeated_bytes) {
        ++other.n_moved;
        other.sent_bytes += 9000;
        other.repeated_bytes += repeated_bytes;
        return other;
    };
    for (int second = 0; second < 30; ++second) {
        EXPECT_TRUE(watcher.see({next(3000)}).stands_still.empty());
    }
    FlowSample unlucky = stuck(1);
    for (int second = 0; second < 60; ++second) {
        EXPECT_TRUE(watcher.see({unlucky, next(3000)}).stands_still.empty()) << second;
    }
    unlucky.n_repeated = 14;
    EXPECT_FALSE(watcher.see({unlucky, next(3000)}).stands_still.empty());

    Watcher good(0, nodes({2, 2}));
    bool is_told = false;
    for (int second = 0; second < 9; ++second) {
        is_told = is_told || !good.see({stuck(1), next(90)}).stands_still.empty();
    }
    EXPECT_TRUE(is_told) << "a link that loses one of a hundred";
}

TEST(FlowWatch, AnotherConnectionThatMovesIsNoExcuse) {
    Watcher watcher(0, nodes({2, 2}));
    FlowSample other = stuck(1);
    other.flow = 2;
    int told = 0;
    for (int second = 0; second <= 9 && told == 0; ++second) {
        other.n_moved += 1000;
        told = watcher.see({stuck(1), other}).stands_still.empty() ? 0 : second;
    }
    EXPECT_EQ(told, 5);
}

// Of several that stand still the one that began first counts, whatever comes first in the list.
TEST(FlowWatch, ANodeStandsStillSinceTheFirstOfItsConnectionsDid) {
    Watcher watcher(0, nodes({2, 2}));
    FlowSample later = stuck(1);
    later.flow = 0;
    const std::int64_t began_ns = watcher.now() + kSecond;
    for (int second = 0; second < 10; ++second) {
        if (second == 3) {
            ++later.n_moved;
        }
        const FlowWatch::Round round = watcher.see({later, stuck(1)});
        if (second == 9) {
            ASSERT_EQ(round.own.size(), 1U);
            EXPECT_EQ(round.own[0].node, NodeId(1));
            EXPECT_EQ(round.own[0].since_ns, began_ns);
        }
    }
}

TEST(FlowWatch, WhatTheOtherSideHasSeenForLongerCounts) {
    Watcher watcher(1, nodes({2, 2}));
    const std::int64_t since_ns = watcher.now() - 20 * kSecond;
    int left_after = 0;
    for (int second = 1; second <= 100 && left_after == 0; ++second) {
        left_after = watcher.see({stuck(0)}, {{NodeId(0), since_ns}}).leaves_over ? second : 0;
    }
    EXPECT_EQ(left_after, 10);
}

// A node without PEs that is not in the list either, as it is said to be dead elsewhere, weighs nothing.
TEST(FlowWatch, WhoIsNotCountedWeighsNothing) {
    const std::vector<NodeWeight> others = {{NodeId(1), 0}, {NodeId(2), 1}};
    EXPECT_EQ(Watcher(0, others).leaves_after(100, {stuck(1)}), 60) << "the other one has the higher number";
    EXPECT_EQ(Watcher(3, others).leaves_after(100, {stuck(1)}), 45) << "and here the lower one";
    EXPECT_EQ(Watcher(0, others).leaves_after(100, {stuck(2)}), 30) << "and one PE counts for more";
}

TEST(FlowWatch, WhoHasNotLookedDoesNotKnowThatDataMovesAgain) {
    Watcher watcher(0, nodes({1, 1}));
    EXPECT_NE(watcher.tells_after(10, {stuck(1)}), 0);
    watcher.sleep(20 * kSecond);
    EXPECT_TRUE(watcher.see({stuck(1)}).moves_again.empty());
}

TEST(FlowWatch, WhoHasNotLookedStartsAfresh) {
    Watcher watcher(0, nodes({2, 2}));
    EXPECT_EQ(watcher.tells_after(4, {stuck(1)}), 0);
    watcher.sleep(20 * kSecond);
    EXPECT_EQ(watcher.tells_after(4, {stuck(1)}), 0);
    EXPECT_TRUE(!watcher.see({stuck(1)}).stands_still.empty());
}

TEST(FlowWatch, NodesThatAreDeadDoNotCount) {
    Watcher watcher(0, nodes({2, 2}));
    EXPECT_EQ(watcher.tells_after(200, {stuck(2)}), 0);
}

TEST(FlowWatch, WithoutABoundNobodyLeaves) {
    Watcher watcher(1, nodes({2, 2}), 0);
    EXPECT_EQ(watcher.leaves_after(1000, {stuck(0)}), 0);
}

// Of two nodes that see each other stand still exactly one leaves before the other one would.
TEST(FlowWatch, OneOfTwoLeaves) {
    struct Case {
        std::vector<std::int32_t> n_pes;
        int first, second;
    };
    for (const Case& item : {Case{{2, 2}, 60, 30}, Case{{3, 2}, 60, 30}, Case{{2, 3}, 30, 60}, Case{{0, 2}, 30, 60}}) {
        EXPECT_EQ(Watcher(0, nodes(item.n_pes)).leaves_after(100, {stuck(1)}), item.first) << item.n_pes[0];
        EXPECT_EQ(Watcher(1, nodes(item.n_pes)).leaves_after(100, {stuck(0)}), item.second) << item.n_pes[0];
    }
}

TEST(FlowWatch, TheNodeThatReachesNoOtherLeaves) {
    const std::vector<NodeWeight> all = nodes({3, 2, 2});
    EXPECT_EQ(Watcher(0, all).leaves_after(100, {stuck(1), stuck(2)}), 30) << "it weighs most, and reaches nobody";
    EXPECT_EQ(Watcher(1, all).leaves_after(100, {stuck(0)}), 45);
    EXPECT_EQ(Watcher(2, all).leaves_after(100, {stuck(0)}), 45);
}

// Shadows go round the ring, so each connection moves data in one direction: node 1 sees itself only what it cannot
// send.
TEST(FlowWatch, WhatOthersSeeCounts) {
    Watcher watcher(1, nodes({2, 2, 2}));
    const std::int64_t since_ns = watcher.now();
    int left_after = 0;
    for (int second = 1; second <= 100 && left_after == 0; ++second) {
        const FlowWatch::Round round = watcher.see({stuck(2)}, {{NodeId(0), since_ns}});
        EXPECT_TRUE(round.own.empty() || round.own.front().node == NodeId(2));
        EXPECT_TRUE(round.stands_still.empty() || round.stands_still.front() == NodeId(2)) << "others say it of theirs";
        left_after = round.leaves_over ? second : 0;
    }
    EXPECT_EQ(left_after, 31);
}

TEST(FlowWatch, OfAPairAmongOthersTheLighterLeaves) {
    const std::vector<NodeWeight> all = nodes({2, 3, 1, 2});
    EXPECT_EQ(Watcher(1, all).leaves_after(100, {stuck(2)}), 60);
    EXPECT_EQ(Watcher(2, all).leaves_after(100, {stuck(1)}), 45);
}

// A switch between two halves.
TEST(FlowWatch, OfTwoHalvesThatWithTheLowestNodeStays) {
    const std::vector<NodeWeight> all = nodes({1, 1, 1, 1});
    EXPECT_EQ(Watcher(2, all).leaves_after(100, {stuck(0), stuck(1)}), 30);
    EXPECT_EQ(Watcher(3, all).leaves_after(100, {stuck(0), stuck(1)}), 30);
    EXPECT_GT(Watcher(0, all).leaves_after(100, {stuck(2), stuck(3)}), 45);
    EXPECT_GT(Watcher(1, all).leaves_after(100, {stuck(2), stuck(3)}), 45);
}

}  // namespace
}  // namespace sft
