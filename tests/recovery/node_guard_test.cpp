// Two processes of two nodes that watch each other through real mailboxes, at times that the test chooses.
#include "recovery/detection/node_guard.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "recovery/membership/scheme.hpp"
#include "tests/recovery/deaths.hpp"
#include "tests/recovery/nobody.hpp"
#include "tests/recovery/node_bound.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::int32_t kProcesses = 2;
constexpr std::int64_t kBegin = 1'000 * kNsPerSecond;

// One process, on a node of its own.
struct Side {
    ControlSegment control;
    Mailbox mailbox;
    Nobody nobody;
    std::unique_ptr<Coordinator> coordinator;
    std::optional<Heartbeat> heartbeat;
    std::optional<Lease> lease;
    std::optional<NodeGuard> guard;
};

class TwoNodes : public testing::Test {
protected:
    void open(std::int64_t bound_ns) {
        const std::optional<MailToken> token = make_mail_token();
        ASSERT_TRUE(token);
        for (std::int32_t process = 0; process < kProcesses; ++process) {
            Side& side = sides_[process];
            const ProcId self(process);
            ASSERT_TRUE(good(side.control.create(kProcesses, kProcesses)));
            ASSERT_TRUE(good(side.mailbox.open(
                {.token = *token,
                 .self = self,
                 .bytes_max = kMessageBytesMax,
                 .remote = {.listen_on = {.family = AF_INET, .bytes = {127, 0, 0, 1}},
                            .is_remote = [self](ProcId other) { return other != self; },
                            .address_of = [this](ProcId other) { return sides_[other.value()].mailbox.address(); },
                            .introduced = [](ProcId, const Contact&) {}}})));
            side.coordinator = std::make_unique<Coordinator>(Coordinator::Options{
                .shape = {.n_pes = kProcesses, .n_processes = kProcesses, .nodes = &map_, .scheme = &one_partner()},
                .self = self,
                .mailbox = &side.mailbox,
                .actions = &side.nobody,
                .observer = &side.nobody});
            side.heartbeat.emplace(side.control.slot(self));
            side.heartbeat->begin();
            side.lease.emplace(
                Lease::Options{.control = &side.control, .self = self, .bound_ns = bound_ns, .is_one_node = false});
            side.lease->begin(kBegin, false);
            side.guard.emplace(NodeGuard::Options{.coordinator = side.coordinator.get(),
                                                  .control = &side.control,
                                                  .heartbeat = &*side.heartbeat,
                                                  .lease = &*side.lease,
                                                  .self = self,
                                                  .bound_ns = bound_ns},
                               kBegin);
        }
    }

    // Questions and answers are on their way in the kernel, which takes a moment.
    void pump(std::int32_t first, std::int32_t last) {
        constexpr int kQuietMs = 20;
        for (;;) {
            pollfd entries[] = {{sides_[first].mailbox.fd(), POLLIN, 0}, {sides_[last].mailbox.fd(), POLLIN, 0}};
            if (poll(entries, 2, kQuietMs) <= 0) {
                return;
            }
            sides_[first].coordinator->pump();
            sides_[last].coordinator->pump();
        }
    }

    // Both tick and answer; who is lost to either.
    std::vector<Death> live_through(std::int64_t& now, int n_periods) {
        std::vector<Death> lost;
        for (int i = 0; i < n_periods; ++i) {
            now += kPeriod;
            for (Side& side : sides_) {
                for (const Death& death : side.guard->tick(now)) {
                    lost.push_back(death);
                }
            }
            pump(0, 1);
        }
        return lost;
    }

    const NodeMap map_ = round_robin(kProcesses, kProcesses);
    Side sides_[kProcesses];
};

TEST_F(TwoNodes, NobodyIsLostWhileBothAnswer) {
    open(kNodeBound);
    std::int64_t now = kBegin;
    EXPECT_TRUE(live_through(now, 3 * NodeWatch::kPeriodsPerBound).empty());
    for (const Side& side : sides_) {
        EXPECT_TRUE(side.lease->is_held(now)) << "the other one has heard it";
        EXPECT_FALSE(side.lease->is_held(now + 2 * kNodeBound)) << "what has not been renewed ends";
    }
}

TEST_F(TwoNodes, WhoDoesNotAnswerIsLostAfterTheBoundAndNotBefore) {
    open(kNodeBound);
    std::int64_t now = kBegin;
    ASSERT_TRUE(live_through(now, NodeWatch::kPeriodsPerBound).empty());
    const std::int64_t silent_from = now;
    std::vector<Death> lost;
    while (lost.empty() && now < silent_from + 3 * kNodeBound) {
        now += kPeriod;
        lost = sides_[0].guard->tick(now);
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
    EXPECT_EQ(sides_[0].guard->timeout_ms(kBegin), -1);
    EXPECT_TRUE(sides_[0].guard->tick(kBegin + 100 * kNodeBound).empty());
}

TEST_F(TwoNodes, NothingIsDueBeforeThePeriodIsOver) {
    open(kNodeBound);
    std::int64_t now = kBegin;
    ASSERT_TRUE(live_through(now, 1).empty());
    const std::uint32_t beat = sides_[0].control.slot(ProcId(0)).heartbeat.load();
    EXPECT_TRUE(sides_[0].guard->tick(now + kPeriod / 2).empty());
    EXPECT_EQ(sides_[0].control.slot(ProcId(0)).heartbeat.load(), beat);
    EXPECT_GT(sides_[0].guard->timeout_ms(now + kPeriod / 2), 0);
    EXPECT_EQ(sides_[0].guard->timeout_ms(now + 2 * kPeriod), 0);
}

}  // namespace
}  // namespace sft
