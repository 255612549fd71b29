// Who watches whom changes when nodes are lost and come back: what a role meant before must not count for the next one.
#include <gtest/gtest.h>

#include "recovery/detection/node_watch.hpp"
#include "tests/recovery/deaths.hpp"
#include "tests/recovery/node_bound.hpp"

namespace sft {
namespace {

// Process 0 on node 0, of five nodes with a process each: it watches nodes 1 and 2, and nodes 4 and 3 watch it.
class OneOfFive : public testing::Test {
protected:
    const NodeMap map_{std::vector<NodeId>{NodeId(0), NodeId(1), NodeId(2), NodeId(3), NodeId(4)}};
    const JobShape shape_{.n_pes = 5, .n_processes = 5, .nodes = &map_};
    NodeWatch watch_{NodeWatch::Options{.shape = shape_, .self = ProcId(0), .bound_ns = kNodeBound}};

    OneOfFive() { watch_.update({}, {}, 0); }

    // It dies, and a spare joins on its node.
    void comes_back(int node, std::int64_t now) {
        const std::vector<Death> dead{death_of(node)};
        watch_.update({}, dead, now);
        JobState joined;
        joined.index = 1;
        joined.deaths = dead;
        joined.joined = {{ProcId(5), NodeId(node)}};
        watch_.update(joined, dead, now);
    }
    void answer_of(int process, std::int64_t asked_ns) { watch_.heard(ProcId(process), asked_ns + 1, asked_ns); }
};

TEST_F(OneOfFive, WhoeverIsWatchedForAnotherIsNotWatchedAnyMoreWhenThatIsBack) {
    const std::vector<Death> dead{death_of(1)};
    watch_.update({}, dead, 1);
    EXPECT_EQ(watch_.watched(), (std::vector{NodeId(2), NodeId(3)}));
    comes_back(1, 2);
    EXPECT_EQ(watch_.watched(), (std::vector{NodeId(1), NodeId(2)}));
}

TEST_F(OneOfFive, WhoHasWatchedForAnotherNeedNotHearItAnyMore) {
    comes_back(4, kPeriod);
    for (const int process : {5, 3}) {
        answer_of(process, kNodeBound);
    }
    EXPECT_EQ(watch_.lease_ns(), kNodeBound);
}

TEST_F(OneOfFive, WhoBeginsToWatchIsTakenToKnowNoMoreThanAllTheOthers) {
    answer_of(3, 2 * kPeriod);
    answer_of(4, kPeriod);
    answer_of(2, 2 * kPeriod);
    EXPECT_EQ(watch_.lease_ns(), kPeriod);
    const std::vector<Death> dead{death_of(4)};
    watch_.update({}, dead, 3 * kPeriod);
    EXPECT_EQ(watch_.lease_ns(), kPeriod) << "node 2 may not have listened to this one";
    answer_of(2, 4 * kPeriod);
    EXPECT_EQ(watch_.lease_ns(), 2 * kPeriod) << "what node 3 has heard is still true";
}

TEST_F(OneOfFive, WhatALostWatcherHadHeardCountsUntilItsLossIsAgreedOn) {
    answer_of(3, 2 * kPeriod);
    answer_of(4, kPeriod);
    std::vector<Death> dead{death_of(1), death_of(2), death_of(3), death_of(4, false)};
    watch_.update({}, dead, kNodeBound);
    EXPECT_EQ(watch_.lease_ns(), kPeriod);
    JobState state;
    state.index = 1;
    state.deaths = {dead[0]};
    watch_.update(state, dead, kNodeBound);
    EXPECT_EQ(watch_.lease_ns(), kPeriod) << "that is another one";
    state.deaths = dead;
    watch_.update(state, dead, kNodeBound);
    EXPECT_EQ(watch_.lease_ns(), NodeWatch::kAlways);
}

// Nothing has come from node 1 for long, so that datagrams of its own would not count any more.
TEST_F(OneOfFive, WhoHasJoinedOnASilentNodeIsListenedToByItself) {
    const auto tick = [this](std::int64_t now) {
        for (int other = 2; other < 5; ++other) {
            watch_.heard(ProcId(other), now);
        }
        return watch_.tick(now, [](ProcId) { return 0U; });
    };
    JobState state;
    state.index = 1;
    watch_.update(state, {}, 0);
    std::int64_t now = 0;
    for (; now < 10 * kNodeBound; now += kPeriod) {
        static_cast<void>(tick(now));
    }
    ++state.index;
    state.joined = {{ProcId(5), NodeId(1)}};
    watch_.update(state, {}, now);
    for (; now < 13 * kNodeBound; now += kPeriod) {
        watch_.heard_datagram(ProcId(5), now);
        EXPECT_TRUE(tick(now).lost.empty());
    }
}

// The same for all whom a process begins to listen to because it has stood still.
TEST_F(OneOfFive, AfterAPauseDatagramsCountAgain) {
    JobState state;
    state.index = 1;
    watch_.update(state, {}, 0);
    const auto tick = [this](std::int64_t now) { return watch_.tick(now, [](ProcId) { return 0U; }); };
    static_cast<void>(tick(0));
    for (std::int64_t now = 10 * kNodeBound; now < 13 * kNodeBound; now += kPeriod) {
        EXPECT_TRUE(tick(now).lost.empty());
        for (int other = 1; other < 5; ++other) {
            watch_.heard_datagram(ProcId(other), now);
        }
    }
}

TEST_F(OneOfFive, WhoHasJoinedHasBeenHeardByNobody) {
    NodeWatch watch({.shape = shape_, .self = ProcId(5), .bound_ns = kNodeBound});
    JobState joined;
    joined.joined = {{ProcId(5), NodeId(0)}};
    watch.update(joined, {}, kNodeBound);
    EXPECT_EQ(watch.lease_ns(), NodeWatch::kNever);
}

// Node 4 misses node 0, which counts for more, and asks the others, who say nothing.
TEST_F(OneOfFive, WhoIsMissedOnceMoreIsAskedAboutOnceMore) {
    NodeWatch watch({.shape = shape_, .self = ProcId(4), .bound_ns = kNodeBound});
    JobState state;
    state.index = 1;
    watch.update(state, {}, 0);
    const std::int64_t sign_ns = kNodeBound + 3 * kPeriod;  // it has been missed by then
    std::int64_t lost_ns = -1;
    for (std::int64_t now = kPeriod; now < 5 * kNodeBound && lost_ns < 0; now += kPeriod) {
        for (int other = 1; other < 4; ++other) {
            watch.heard(ProcId(other), now);
        }
        if (now == sign_ns) {
            watch.heard(ProcId(0), now);
        }
        lost_ns = watch.tick(now, [](ProcId) { return 0U; }).lost.empty() ? -1 : now;
    }
    EXPECT_GT(lost_ns, sign_ns + kNodeBound + 4 * kPeriod);
}

// It had asked nearly often enough before it stood still, and what has come meanwhile has not been looked at.
TEST_F(OneOfFive, WhoHasStoodStillBeginsToListenAnew) {
    JobState state;
    state.index = 1;
    watch_.update(state, {}, 0);
    const auto tick = [this](std::int64_t now) { return watch_.tick(now, [](ProcId) { return 0U; }); };
    for (std::int64_t n = 1; n <= NodeWatch::kPeriodsPerBound; ++n) {
        EXPECT_TRUE(tick(n * kPeriod).lost.empty());
    }
    for (std::int64_t n = 0; n <= NodeWatch::kPeriodsPerBound; ++n) {
        EXPECT_TRUE(tick(5 * kNodeBound + n * kPeriod).lost.empty()) << n;
    }
    EXPECT_FALSE(tick(6 * kNodeBound + 2 * kPeriod).lost.empty());
}

// Of eight nodes in a ring node 7 misses node 0, which counts for more. Who listens to node 0 is waited for until it
// says that node 0 is silent for it, too; who does not listen to it is not.
std::int64_t lost_after(int dead, std::initializer_list<int> sure) {
    const NodeMap map({NodeId(0), NodeId(1), NodeId(2), NodeId(3), NodeId(4), NodeId(5), NodeId(6), NodeId(7)});
    NodeWatch watch(
        {.shape = {.n_pes = 8, .n_processes = 8, .nodes = &map}, .self = ProcId(7), .bound_ns = kNodeBound});
    JobState state;
    state.index = 1;
    watch.update(state, {}, 0);
    if (dead >= 0) {
        watch.update(state, std::vector<Death>{{ProcId(dead), {FailureKind::signal, 9}, true}}, 0);
    }
    for (std::int64_t now = kPeriod; now < 5 * kNodeBound; now += kPeriod) {
        for (int other = 1; other < 7; ++other) {
            if (other != dead) {
                watch.heard(ProcId(other), now);
            }
        }
        const NodeWatch::Round round = watch.tick(now, [](ProcId) { return 0U; });
        if (!round.lost.empty()) {
            return now;
        }
        for (const int other : sure) {
            watch.testified(ProcId(other), NodeId(0), Testimony::silent, now);
        }
    }
    return -1;
}

TEST(NodeWatchRoles, WhoListensToTheMissingNodeIsWaitedFor) {
    EXPECT_GT(lost_after(-1, {1}), kNodeBound + 4 * kPeriod) << "node 6 watches node 0";
    EXPECT_GT(lost_after(-1, {6}), kNodeBound + 4 * kPeriod) << "node 0 watches node 1";
    EXPECT_LE(lost_after(-1, {1, 6}), kNodeBound + 2 * kPeriod) << "node 5 does not know";
    EXPECT_GT(lost_after(6, {1}), kNodeBound + 4 * kPeriod) << "node 5 watches node 0 instead of node 6";
    EXPECT_LE(lost_after(6, {1, 5}), kNodeBound + 2 * kPeriod) << "node 4 does not";
}

// Nodes count what they hold now: PE 0 has gone from node 0 to node 1.
TEST(NodeWatchRoles, ANodeCountsForWhatItHoldsNow) {
    const NodeMap map({NodeId(0), NodeId(1), NodeId(1), NodeId(2), NodeId(0)});
    const JobShape shape{.n_pes = 2, .n_processes = 5, .nodes = &map};
    NodeWatch watch({.shape = shape, .self = ProcId(1), .bound_ns = kNodeBound});
    watch.update({}, {}, 0);
    const std::vector<Death> dead{{ProcId(0), {FailureKind::signal, 9}, true}};
    JobState state;
    state.index = 5;
    state.deaths = dead;
    state.replacements = {{PeId(0), ProcId(2)}};
    watch.update(state, dead, 0);
    watch.heard(ProcId(4), 1);  // it is not starting any more
    bool is_lost = false;
    bool gives_way = false;
    for (std::int64_t now = kPeriod; now < 4 * kNodeBound && !is_lost && !gives_way; now += kPeriod) {
        watch.heard(ProcId(3), now);
        watch.testified(ProcId(3), NodeId(0), Testimony::heard, now);
        const NodeWatch::Round round = watch.tick(now, [](ProcId) { return 0U; });
        is_lost = !round.lost.empty();
        gives_way = round.gives_way;
    }
    EXPECT_TRUE(is_lost);
    EXPECT_FALSE(gives_way);
}

}  // namespace
}  // namespace sft
