// Two processes of two nodes that watch each other through real mailboxes, at times that the test chooses.
#include "recovery/detection/node_guard.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/recovery/node_bound.hpp"
#include "tests/recovery/two_nodes.hpp"

namespace sft {
namespace {

// What one process watches the other one with.
struct Watch {
    std::optional<Heartbeat> heartbeat;
    std::optional<Lease> lease;
    std::optional<NodeGuard> guard;
};

class TwoNodes : public TwoNodesTest {
protected:
    void open(std::int64_t bound_ns) {
        open_sides();
        for (std::int32_t process = 0; process < kTwo; ++process) {
            NodeSide& side = sides_[process];
            Watch& watch = watches_[process];
            const ProcId self(process);
            watch.heartbeat.emplace(side.control.slot(self));
            watch.heartbeat->begin();
            watch.lease.emplace(
                Lease::Options{.control = &side.control, .self = self, .bound_ns = bound_ns, .is_one_node = false});
            watch.lease->begin(kBeginNs, false);
            watch.guard.emplace(NodeGuard::Options{.coordinator = side.coordinator.get(),
                                                   .control = &side.control,
                                                   .heartbeat = &*watch.heartbeat,
                                                   .lease = &*watch.lease,
                                                   .self = self,
                                                   .bound_ns = bound_ns},
                                kBeginNs);
        }
    }

    // Both tick and answer; who is lost to either.
    std::vector<Death> live_through(std::int64_t& now, int n_periods) {
        std::vector<Death> lost;
        for (int i = 0; i < n_periods; ++i) {
            now += kPeriod;
            for (Watch& watch : watches_) {
                for (const Death& death : watch.guard->tick(now)) {
                    lost.push_back(death);
                }
            }
            pump(0, 1);
        }
        return lost;
    }

    Watch watches_[kTwo];
};

TEST_F(TwoNodes, NobodyIsLostWhileBothAnswer) {
    open(kNodeBound);
    std::int64_t now = kBeginNs;
    EXPECT_TRUE(live_through(now, 3 * NodeWatch::kPeriodsPerBound).empty());
    for (const Watch& watch : watches_) {
        EXPECT_TRUE(watch.lease->is_held(now)) << "the other one has heard it";
        EXPECT_FALSE(watch.lease->is_held(now + 2 * kNodeBound)) << "what has not been renewed ends";
    }
}

TEST_F(TwoNodes, WhoDoesNotAnswerIsLostAfterTheBoundAndNotBefore) {
    open(kNodeBound);
    std::int64_t now = kBeginNs;
    ASSERT_TRUE(live_through(now, NodeWatch::kPeriodsPerBound).empty());
    const std::int64_t silent_from = now;
    std::vector<Death> lost;
    while (lost.empty() && now < silent_from + 3 * kNodeBound) {
        now += kPeriod;
        lost = watches_[0].guard->tick(now);
        pump(0, 0);
    }
    ASSERT_EQ(lost.size(), 1U);
    EXPECT_EQ(lost[0].process, ProcId(1));
    EXPECT_FALSE(lost[0].is_certain) << "it may live behind a cut";
    EXPECT_GE(now - silent_from, kNodeBound);
    EXPECT_LE(now - silent_from, kNodeBound + 3 * kPeriod);
}

TEST_F(TwoNodes, WithoutABoundNobodyIsWatched) {
    open(0);
    EXPECT_EQ(watches_[0].guard->timeout_ms(kBeginNs), -1);
    EXPECT_TRUE(watches_[0].guard->tick(kBeginNs + 100 * kNodeBound).empty());
}

TEST_F(TwoNodes, NothingIsDueBeforeThePeriodIsOver) {
    open(kNodeBound);
    std::int64_t now = kBeginNs;
    ASSERT_TRUE(live_through(now, 1).empty());
    const std::uint32_t beat = sides_[0].control.slot(ProcId(0)).heartbeat.load();
    EXPECT_TRUE(watches_[0].guard->tick(now + kPeriod / 2).empty());
    EXPECT_EQ(sides_[0].control.slot(ProcId(0)).heartbeat.load(), beat);
    EXPECT_GT(watches_[0].guard->timeout_ms(now + kPeriod / 2), 0);
    EXPECT_EQ(watches_[0].guard->timeout_ms(now + 2 * kPeriod), 0);
}

}  // namespace
}  // namespace sft
