// Silence between nodes: who asks whom, when a node is lost, and that none is lost that lives.
#include "recovery/detection/node_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/clock.hpp"
#include "tests/recovery/deaths.hpp"
#include "tests/recovery/node_bound.hpp"

namespace sft {
namespace {

// Process p runs on node p mod n_nodes.
class OneOfFour : public testing::Test {
protected:
    // Nodes 0 ... 3 with three processes each.
    const NodeMap map_ = round_robin(4, 12);
    const JobShape shape_{.n_pes = 10, .n_processes = 12, .nodes = &map_};
    std::map<std::int32_t, std::uint32_t> beats_;

    [[nodiscard]] NodeWatch watch_of(std::int32_t self) const {
        NodeWatch watch({.shape = shape_, .self = ProcId(self), .bound_ns = kNodeBound});
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
    EXPECT_EQ(watch.neighbours(), (std::vector{NodeId(0), NodeId(1), NodeId(2)}));
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
    watch.update({}, dead({0}), kNsPerMs);
    EXPECT_EQ(tick(watch, kPeriod).ask, (std::vector{ProcId(1), ProcId(2), ProcId(3)}));
}

TEST_F(OneOfFour, NodesWithoutALivingProcessAreSkipped) {
    NodeWatch watch = watch_of(0);
    watch.update({}, dead({1, 5, 9, 2}), kNsPerMs);
    EXPECT_EQ(watch.watched(), (std::vector{NodeId(2), NodeId(3)}));
    EXPECT_EQ(tick(watch, kPeriod).ask, (std::vector{ProcId(6), ProcId(3)}));
    watch.update({}, dead({1, 5, 9, 2, 6, 10, 3, 7, 11}), kNsPerMs);
    EXPECT_FALSE(watch.is_needed());
}

TEST_F(OneOfFour, WhoHasNotAnsweredYetMayBeStarting) {
    NodeWatch watch = watch_of(0);
    std::int64_t now = 0;
    while (now + kPeriod <= 10 * kNodeBound) {
        now += kPeriod;
        ASSERT_TRUE(tick(watch, now).lost.empty());
    }
    EXPECT_FALSE(tick(watch, now + kPeriod).lost.empty()) << "not for ever";
}

TEST_F(OneOfFour, NobodyIsStartingAnyMoreWhenSomethingHasBeenDecided) {
    NodeWatch watch = watch_of(0);
    JobState state;
    state.index = 1;
    watch.update(state, {}, kNsPerMs);
    std::int64_t now = 0;
    while (now <= kNodeBound + 2 * kPeriod) {
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
        ASSERT_LE(now, kNodeBound + 2 * kPeriod);
        watch.heard(ProcId(6), now);  // node 2 answers
        const NodeWatch::Round round = tick(watch, now);
        lost = round.lost;
        if (now > 4 * kPeriod && lost.empty()) {
            EXPECT_EQ(round.ask, (std::vector<ProcId>{ProcId(1), ProcId(5), ProcId(9), ProcId(2), ProcId(3), ProcId(7),
                                                      ProcId(11)}))
                << "everybody of the nodes that are silent";
        }
    }
    EXPECT_GT(now, kNodeBound);
    const FailureReason reason{FailureKind::node_lost, 0};
    EXPECT_EQ(lost,
              (std::vector<Death>{{ProcId(1), reason, false}, {ProcId(5), reason, false}, {ProcId(9), reason, false}}));
    EXPECT_TRUE(tick(watch, now + kPeriod).lost.empty()) << "once";
}

// Whether node 1 is called lost because of a cut of its link; it answers a millisecond after each question that gets
// there.
bool is_lost_by_cut(std::int64_t begin, std::int64_t length) {
    const NodeMap map = round_robin(2, 2);
    NodeWatch watch(
        {.shape = {.n_pes = 2, .n_processes = 2, .nodes = &map}, .self = ProcId(0), .bound_ns = kNodeBound});
    JobState state;
    state.index = 1;
    watch.update(state, {}, 0);
    for (std::int64_t now = kPeriod; now < begin + length + 2 * kNodeBound; now += kPeriod) {
        if (!watch.tick(now, [](ProcId) { return 0U; }).lost.empty()) {
            return true;
        }
        if (now < begin || now >= begin + length) {
            watch.heard_datagram(ProcId(1), now + kNsPerMs);
        }
        // Mail waits for as long again as the link was away.
        if (now < begin || now >= begin + 2 * length) {
            watch.heard(ProcId(1), now + kNsPerMs);
        }
    }
    return false;
}

TEST(NodeWatch, ACutShorterThanTheBoundIsNoLossWheneverItBegins) {
    for (std::int64_t phase = 0; phase < kPeriod; phase += kPeriod / 16) {
        const std::int64_t begin = 3 * kNodeBound + phase;
        for (const std::int64_t length :
             {kNodeBound / 4, kNodeBound / 2, 3 * kNodeBound / 4, 9 * kNodeBound / 10, kNodeBound - 1}) {
            EXPECT_FALSE(is_lost_by_cut(begin, length)) << phase << " " << length;
        }
        EXPECT_TRUE(is_lost_by_cut(begin, kNodeBound + 2 * kPeriod)) << phase;
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
    while (lost.empty() && now < 10 * kNodeBound) {
        now += kPeriod;
        watch.heard_datagram(ProcId(1), now);
        watch.heard(ProcId(2), now);
        watch.heard(ProcId(3), now);
        lost = tick(watch, now).lost;
    }
    ASSERT_EQ(lost.size(), 3U);
    EXPECT_EQ(lost.front().process, ProcId(1));
    EXPECT_GT(now, 4 * kNodeBound);
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
    watch.update(state, dead({1, 5, 9}), kNsPerMs);
    EXPECT_EQ(tick(watch, kPeriod).ask, (std::vector{ProcId(12), ProcId(2), ProcId(3)}));
}

// Node 3 misses node 0, which counts for more: it has three PEs of ten, node 3 two.
class OneOfTwoGoes : public OneOfFour {
protected:
    struct Course {
        std::int64_t lost_ns = -1;
        std::int64_t gave_way_ns = -1;
    };
    // Until something follows from it. testimony: of the others, about node 0.
    Course miss_node_0(std::int32_t self, std::optional<Testimony> testimony) {
        NodeWatch watch = watch_of(self);
        JobState state;
        state.index = 1;
        watch.update(state, {}, 0);
        for (std::int64_t now = kPeriod; now < 5 * kNodeBound; now += kPeriod) {
            for (std::int32_t other = 1; other < 4; ++other) {
                watch.heard(ProcId(other), now);
            }
            const NodeWatch::Round round = tick(watch, now);
            if (!round.lost.empty() || round.gives_way) {
                return {round.lost.empty() ? -1 : now, round.gives_way ? now : -1};
            }
            for (std::int32_t other = 1; testimony && round.about != kNoNode && other < 4; ++other) {
                watch.testified(ProcId(other), round.about, *testimony, now);
            }
        }
        return {};
    }
};

TEST_F(OneOfTwoGoes, WhoCountsForLessGivesWayIfSomebodyHearsTheOther) {
    const Course course = miss_node_0(3, Testimony::heard);
    EXPECT_EQ(course.lost_ns, -1);
    EXPECT_GT(course.gave_way_ns, 2 * kNodeBound) << "the others may have said so before";
    EXPECT_LT(course.gave_way_ns, 3 * kNodeBound);
}

// Of two nodes that cannot reach each other, and that all others hear.
TEST(NodeWatch, TheNodeThatCountsForLessGoes) {
    struct Case {
        const char* what;
        std::int32_t n_pes;
        std::vector<NodeId> nodes;
        std::int32_t stays;  // a process, the lowest of its node
        std::int32_t goes;
        std::vector<Replacement> replacements{};
    };
    const NodeId a(0);
    const NodeId b(1);
    const NodeId c(2);
    const std::vector<Case> cases = {
        {"fewer PEs, though the lowest", 4, {a, b, b, c}, 1, 0},
        {"fewer PEs", 4, {a, a, b, c}, 0, 2},
        {"as many, without the lowest", 3, {a, b, c}, 0, 1},
        {"as many, without the lowest of the two", 3, {a, b, c}, 1, 2},
        {"none at all", 2, {a, b, c}, 1, 2},
        {"none on either, the higher number", 1, {a, b, c}, 1, 2},
        {"as many, behind the other in the order of leaders",
         3,
         {a, b, c, a, b},
         4,
         3,
         {{PeId(0), ProcId(3), 5}, {PeId(1), ProcId(4), 4}}},
    };
    for (const Case& item : cases) {
        const NodeMap map(item.nodes);
        const JobShape shape{
            .n_pes = item.n_pes, .n_processes = static_cast<std::int32_t>(item.nodes.size()), .nodes = &map};
        for (const auto& [self, silent] : {std::pair(item.stays, item.goes), std::pair(item.goes, item.stays)}) {
            NodeWatch watch({.shape = shape, .self = ProcId(self), .bound_ns = kNodeBound});
            JobState state;
            state.index = 1;
            state.replacements = item.replacements;
            std::vector<Death> dead;
            for (const Replacement& replacement : item.replacements) {
                dead.push_back(death_of(replacement.pe.value()));
            }
            watch.update(state, dead, 0);
            bool is_lost = false;
            bool gives_way = false;
            for (std::int64_t now = 0; now < 4 * kNodeBound && !is_lost && !gives_way; now += kPeriod) {
                for (std::int32_t other = 0; other < shape.n_processes; ++other) {
                    if (now == 0 || map.node_of(ProcId(other)) != map.node_of(ProcId(silent))) {
                        watch.heard(ProcId(other), now);
                        watch.testified(ProcId(other), map.node_of(ProcId(silent)), Testimony::heard, now);
                    }
                }
                const NodeWatch::Round round = watch.tick(now, [](ProcId) { return 0U; });
                is_lost = !round.lost.empty();
                gives_way = round.gives_way;
            }
            EXPECT_EQ(is_lost, self == item.stays) << item.what;
            EXPECT_EQ(gives_way, self == item.goes) << item.what;
        }
    }
}

TEST_F(OneOfTwoGoes, WhomNobodyHearsIsLost) {
    EXPECT_LE(miss_node_0(3, Testimony::silent).lost_ns, kNodeBound + 2 * kPeriod);
    for (const std::optional<Testimony> testimony : {std::optional(Testimony::none), std::optional<Testimony>()}) {
        const std::int64_t lost_ns = miss_node_0(3, testimony).lost_ns;
        EXPECT_GT(lost_ns, kNodeBound + 4 * kPeriod) << "who may know is waited for";
        EXPECT_LE(lost_ns, kNodeBound + 6 * kPeriod) << "but not for long";
    }
}

TEST_F(OneOfTwoGoes, WhoIsAskedTellsWhatItKnows) {
    NodeWatch watch = watch_of(0);
    NodeWatch other = watch_of(4);
    for (std::int64_t now = kPeriod; now <= kNodeBound; now += kPeriod) {
        ++beats_[0];
        static_cast<void>(tick(watch, now));
        static_cast<void>(tick(other, now));
        watch.heard(ProcId(1), now);
        // It has listened since its first tick.
        const Testimony expected = now > kPeriod + kNodeBound / 2 ? Testimony::silent : Testimony::none;
        EXPECT_EQ(watch.testimony_about(NodeId(2), now), expected) << now / kPeriod;
        EXPECT_EQ(watch.testimony_about(NodeId(1), now), Testimony::heard) << now / kPeriod;
        EXPECT_EQ(watch.testimony_about(NodeId(7), now), Testimony::none) << "it is no neighbour";
        EXPECT_EQ(other.testimony_about(NodeId(2), now), Testimony::none) << "it does not ask, so it does not hear";
    }
    EXPECT_EQ(watch.testimony_about(NodeId(1), kNodeBound + kNodeBound / 2), Testimony::heard);
    EXPECT_EQ(watch.testimony_about(NodeId(1), kNodeBound + kNodeBound / 2 + 1), Testimony::silent);
}

TEST(NodeWatch, IsNotNeededOnOneNodeOrWhenOff) {
    const NodeMap one;
    NodeWatch watch(
        {.shape = {.n_pes = 2, .n_processes = 2, .nodes = &one}, .self = ProcId(0), .bound_ns = kNodeBound});
    watch.update({}, {}, 0);
    EXPECT_FALSE(watch.is_needed());
    const NodeMap two = round_robin(2, 2);
    NodeWatch off({.shape = {.n_pes = 2, .n_processes = 2, .nodes = &two}, .self = ProcId(0), .bound_ns = 0});
    off.update({}, {}, 0);
    EXPECT_FALSE(off.is_needed());
    EXPECT_TRUE(off.tick(100 * kNodeBound, [](ProcId) { return 0U; }).lost.empty());
}

// Whoever has not been heard for a bound by those that watch it may have been called lost.
class Presence : public OneOfFour {
protected:
    static bool has_lease(const NodeWatch& watch, std::int64_t now) {
        return sft::has_lease(
            ProcId(0), [&](ProcId) { return watch.lease_ns(); }, now, kNodeBound);
    }
};

TEST_F(Presence, LastsForABoundAfterTheQuestionThatWasAnswered) {
    NodeWatch watch = watch_of(0);  // nodes 2 and 3 watch it
    EXPECT_TRUE(has_lease(watch, kNodeBound - 1));
    EXPECT_FALSE(has_lease(watch, kNodeBound)) << "nobody has answered";
    watch.heard(ProcId(2), kNodeBound, kNodeBound - kNsPerMs);
    EXPECT_FALSE(has_lease(watch, kNodeBound)) << "node 3 may have called it lost";
    watch.heard(ProcId(3), kNodeBound, 2 * kPeriod);
    EXPECT_TRUE(has_lease(watch, kNodeBound));
    EXPECT_TRUE(has_lease(watch, 2 * kPeriod + kNodeBound - 1));
    EXPECT_FALSE(has_lease(watch, 2 * kPeriod + kNodeBound)) << "since the question, not since the answer";
    watch.heard(ProcId(3), 2 * kNodeBound);
    EXPECT_FALSE(has_lease(watch, 2 * kNodeBound)) << "what comes without a question proves nothing";
    watch.heard(ProcId(1), 2 * kNodeBound, 2 * kNodeBound);
    EXPECT_FALSE(has_lease(watch, 2 * kNodeBound)) << "node 1 does not watch it";
}

TEST_F(Presence, IsNotMovedByTimesThatAreNotOfThisNode) {
    NodeWatch watch = watch_of(0);
    watch.heard(ProcId(2), kPeriod, 100 * kNodeBound);
    watch.heard(ProcId(3), kPeriod, 100 * kNodeBound);
    EXPECT_FALSE(has_lease(watch, kNodeBound));
}

TEST_F(Presence, WhoWatchesFromNowOnKnowsNothingYet) {
    NodeWatch watch = watch_of(0);
    watch.heard(ProcId(2), 2 * kNodeBound, 2 * kNodeBound - kNsPerMs);
    watch.heard(ProcId(3), 2 * kNodeBound, 2 * kNodeBound - kNsPerMs);
    watch.heard(ProcId(1), 2 * kNodeBound, 2 * kNodeBound - kNsPerMs);
    // Node 3 is dead: node 1 watches now.
    watch.update({}, dead({3, 7, 11}), 2 * kNodeBound + kNsPerMs);
    EXPECT_TRUE(has_lease(watch, 3 * kNodeBound - 2 * kNsPerMs));
    watch.heard(ProcId(2), 3 * kNodeBound, 3 * kNodeBound);
    EXPECT_FALSE(has_lease(watch, 3 * kNodeBound)) << "node 1 has not answered since";
}

TEST_F(Presence, IsCertainWhenNobodyElseLives) {
    NodeWatch watch = watch_of(0);
    watch.update({}, dead({1, 5, 9, 2, 6, 10, 3, 7, 11}), kNsPerMs);
    EXPECT_TRUE(has_lease(watch, 100 * kNodeBound));
}

// Whoever has called this node lost may be lost itself before this node runs again.
TEST_F(Presence, DoesNotRiseBecauseAWatcherIsTakenForLost) {
    NodeWatch watch = watch_of(0);
    watch.heard(ProcId(2), kPeriod, kPeriod);
    watch.heard(ProcId(3), kPeriod, kPeriod);
    std::vector<Death> lost = dead({1, 5, 9, 2, 6, 10, 3, 7});
    insert_sorted(lost, {ProcId(11), {FailureKind::node_lost, 0}, false});
    watch.update({}, lost, 2 * kNodeBound);
    EXPECT_FALSE(has_lease(watch, 2 * kNodeBound)) << "node 3 has not heard it for long, and may have said so";
    JobState agreed;
    agreed.index = 1;
    agreed.deaths = lost;
    watch.update(agreed, lost, 2 * kNodeBound);
    EXPECT_TRUE(has_lease(watch, 100 * kNodeBound));
}

// Its node may have been called lost before it came, and all who said so may be gone.
TEST_F(Presence, ASpareThatComesLaterProvesNothingBeforeItIsAnswered) {
    NodeWatch watch({.shape = shape_, .self = ProcId(12), .bound_ns = kNodeBound});
    watch.update({}, {}, kNodeBound);
    EXPECT_FALSE(has_lease(watch, kNodeBound));
    JobState joined;
    joined.index = 1;
    joined.joined = {{ProcId(12), NodeId(0)}};
    watch.update(joined, {}, kNodeBound);
    EXPECT_FALSE(has_lease(watch, kNodeBound));
    watch.heard(ProcId(2), kNodeBound, kNodeBound);
    watch.heard(ProcId(3), kNodeBound, kNodeBound);
    EXPECT_TRUE(has_lease(watch, kNodeBound));
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
    const std::vector<Death> first = lost_until(2 * kNodeBound);
    ASSERT_EQ(first.size(), 3U);
    state.joined = {{ProcId(12), NodeId(1)}};
    watch.update(state, first, now);
    const std::vector<Death> second = lost_until(15 * kNodeBound);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second.front().process, ProcId(12));
}

TEST_F(Presence, IsProvenByThoseOfLowerNumbersOnly) {
    const auto lease_of = [](ProcId process) { return process == ProcId(12) ? 5 * kNodeBound : NodeWatch::kNever; };
    EXPECT_FALSE(sft::has_lease(ProcId(4), lease_of, 5 * kNodeBound, kNodeBound))
        << "12 came when 4 had been called lost";
    EXPECT_TRUE(sft::has_lease(ProcId(12), lease_of, 5 * kNodeBound, kNodeBound));
    EXPECT_TRUE(sft::has_lease(ProcId(14), lease_of, 5 * kNodeBound, kNodeBound)) << "who knew 14 knew 12";
    EXPECT_TRUE(sft::has_lease(ProcId(4), lease_of, 5 * kNodeBound, 0)) << "no node is ever called lost";
}

}  // namespace
}  // namespace sft
