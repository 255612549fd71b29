// Whether data gets through between two nodes whose mailboxes are real and whose connections of the kernel are what the
// test says, at times that it chooses. The rules themselves: flow_watch_test.cpp.
#include "recovery/detection/data_guard.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "tests/recovery/two_nodes.hpp"

namespace sft {
namespace {

constexpr std::int64_t kPeriod = FlowWatch::kPeriodNs;
constexpr std::int64_t kBound = FlowWatch::kBoundMinNs;
constexpr std::int64_t kSilence = 2 * kNsPerSecond;

std::vector<TcpFlow> flows_;  // of whoever ticks

std::vector<TcpFlow> flows_of_test() { return flows_; }

MailAddress address_of(std::int32_t node) {
    return {.family = AF_INET, .bytes = {127, 0, 0, static_cast<std::uint8_t>(node + 1)}};
}

// A connection to that node: since it stands still the kernel has repeated what is under way so often.
TcpFlow flow_to(std::int32_t node, std::uint32_t n_repeated) {
    return {.peer = address_of(node),
            .ports = 7,
            .acked_bytes = 1000,
            .n_unacked = 3,
            .n_repeated = n_repeated,
            .segment_bytes = 1448,
            .sent_bytes = 20'000,
            .repeated_bytes = 100};
}

class DataGuardTest : public TwoNodesTest {
protected:
    void open(std::int64_t bound_ns = kBound, std::int64_t silence_ns = kSilence) {
        flows_.clear();
        open_sides();
        for (std::int32_t self = 0; self < kTwo; ++self) {
            ControlSegment& control = sides_[self].control;
            control.header().node = self;
            control.header().n_nodes = kTwo;
            for (std::int32_t other = 0; other < kTwo; ++other) {
                Contact contact;
                contact.node = other;
                contact.mail = address_of(other);
                contact.mail.port = 1234;
                std::snprintf(contact.node_name, sizeof contact.node_name, "n%d", other);
                control.set_contact(ProcId(other), contact);
            }
            guards_[self].emplace(options_of(self, bound_ns, silence_ns), kBeginNs);
        }
    }
    [[nodiscard]] DataGuard::Options options_of(std::int32_t self, std::int64_t bound_ns, std::int64_t silence_ns) {
        DataGuard::Options options;
        options.coordinator = sides_[self].coordinator.get();
        options.control = &sides_[self].control;
        options.is_on = true;
        options.bound_ns = bound_ns;
        options.silence_ns = silence_ns;
        options.interface = "eth7";
        options.flows = &flows_of_test;
        return options;
    }
    // Both look once in a period; data of node `from` to the other one stands still. When the first one leaves, seen
    // from the beginning; nothing: neither has, in that time.
    struct Left {
        std::int32_t node = -1;
        std::int64_t after_ns = 0;
    };
    [[nodiscard]] Left live_through(std::int64_t& now, std::int32_t from, int n_periods) {
        const std::int64_t begin = now;
        for (int i = 1; i <= n_periods; ++i) {
            now += kPeriod;
            for (std::int32_t self = 0; self < kTwo; ++self) {
                flows_.clear();
                if (self == from) {
                    flows_.push_back(flow_to(1 - self, static_cast<std::uint32_t>(4 * i)));
                }
                if (guards_[self]->tick(now)) {
                    return {self, now - begin};
                }
            }
            pump(0, 1);
        }
        return {};
    }

    std::optional<DataGuard> guards_[kTwo];
};

int count(const std::string& text, const std::string& what) {
    int n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++n;
    }
    return n;
}

TEST_F(DataGuardTest, NothingIsSaidWhileDataMoves) {
    open();
    testing::internal::CaptureStderr();
    std::int64_t now = kBeginNs;
    for (std::uint64_t i = 0; i < 40; ++i) {
        now += kPeriod;
        for (std::int32_t self = 0; self < kTwo; ++self) {
            TcpFlow flow = flow_to(1 - self, 1);  // some of it is repeated, and gets through then
            flow.acked_bytes += i;
            flows_ = {flow};
            EXPECT_FALSE(guards_[self]->tick(now));
        }
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(DataGuardTest, StandstillIsSaidOnceWithWhatIsKnownOfIt) {
    open();
    testing::internal::CaptureStderr();
    std::int64_t now = kBeginNs;
    EXPECT_EQ(live_through(now, 0, 8).node, -1);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(count(said, "warning: data from n0 to n1 does not get through"), 1) << said;
    EXPECT_EQ(count(said, "packets of full size (1448 bytes of data)"), 1) << said;
    EXPECT_EQ(count(said, "MTU of eth7"), 1) << said;
    EXPECT_EQ(count(said, "after 10000 ms of it (SHMEM_FT_STALL_TIMEOUT)"), 1) << said;
    testing::internal::CaptureStderr();
    for (int i = 0; i < 3; ++i) {
        now += kPeriod;
        TcpFlow flow = flow_to(1, 0);
        flow.acked_bytes += 5000;
        flow.n_unacked = 0;
        flows_ = {flow};
        EXPECT_FALSE(guards_[0]->tick(now));
    }
    const std::string then = testing::internal::GetCapturedStderr();
    EXPECT_EQ(count(then, "warning: data from n0 to n1 gets through again"), 1) << then;
}

// What one of the node's processes has said, the others do not repeat: the word for it is in the slot.
TEST_F(DataGuardTest, AnotherProcessOfTheNodeDoesNotSayItAgain) {
    open();
    DataGuard second(options_of(0, kBound, kSilence), kBeginNs);
    testing::internal::CaptureStderr();
    std::int64_t now = kBeginNs;
    for (std::uint32_t i = 1; i <= 8; ++i) {
        now += kPeriod;
        flows_ = {flow_to(1, 4 * i)};
        EXPECT_FALSE(guards_[0]->tick(now));
        EXPECT_FALSE(second.tick(now));
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(count(said, "does not get through"), 1) << said;
}

// Of two equal sides the one without the lowest node goes, at the bound, whichever direction is broken: it hears of it.
TEST_F(DataGuardTest, TheOtherNodeHearsOfItAndOneOfTheTwoLeaves) {
    for (const std::int32_t from : {0, 1}) {
        for (NodeSide& side : sides_) {
            side.coordinator.reset();
            side.mailbox.close();
            side.control.detach();
        }
        open();
        testing::internal::CaptureStderr();
        std::int64_t now = kBeginNs;
        const Left left = live_through(now, from, 25);
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_EQ(left.node, 1) << "from " << from;
        EXPECT_GE(left.after_ns, kBound);
        EXPECT_LE(left.after_ns, kBound + 3 * kPeriod);
        EXPECT_EQ(count(said, "warning: n1 leaves the job: data from there to n0 has not got through for 10000 ms"), 1)
            << said;
    }
}

// If the node that should leave never does (it has not heard), the other one goes.
TEST_F(DataGuardTest, WhoIsNotHeardIsNotWaitedForForEver) {
    open();
    testing::internal::CaptureStderr();
    std::int64_t now = kBeginNs;
    bool has_left = false;
    for (std::uint32_t i = 1; i <= 30 && !has_left; ++i) {
        now += kPeriod;
        flows_ = {flow_to(1, 4 * i)};
        has_left = guards_[0]->tick(now);
    }
    static_cast<void>(testing::internal::GetCapturedStderr());
    EXPECT_TRUE(has_left);
    EXPECT_GE(now - kBeginNs, 2 * kBound);
    EXPECT_LE(now - kBeginNs, 2 * kBound + 3 * kPeriod);
}

TEST_F(DataGuardTest, WithoutABoundTheJobWaits) {
    open(kBound, 0);
    testing::internal::CaptureStderr();
    std::int64_t now = kBeginNs;
    EXPECT_EQ(live_through(now, 0, 60).node, -1);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(count(said, "; the job waits"), 1) << said;
    EXPECT_EQ(count(said, "a link that is cut, a firewall"), 1) << said;
}

TEST_F(DataGuardTest, NothingIsDueBeforeThePeriodIsOver) {
    open();
    EXPECT_EQ(guards_[0]->timeout_ms(kBeginNs), static_cast<int>(kPeriod / kNsPerMs));
    flows_ = {flow_to(1, 50)};
    EXPECT_FALSE(guards_[0]->tick(kBeginNs + kPeriod / 2));
    EXPECT_EQ(guards_[0]->timeout_ms(kBeginNs + 2 * kPeriod), 0);
    DataGuard::Options options = options_of(0, kBound, kSilence);
    options.is_on = false;
    EXPECT_EQ(DataGuard(options, kBeginNs).timeout_ms(kBeginNs), -1);
}

}  // namespace
}  // namespace sft
