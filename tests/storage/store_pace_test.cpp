// Which versions go to files: the same ones on all PEs, and none while somebody is still writing.
#include "storage/store_pace.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.hpp"

namespace sft {
namespace {

using Kind = CheckpointInterval::Kind;

TEST(StorePace, CountsVersions) {
    StorePace pace;
    pace.begin({Kind::calls, 5}, 0);
    for (std::uint32_t version = 1; version < 30; ++version) {
        EXPECT_EQ(pace.asks(Version(version)), version % 5 == 0);
        if (version % 5 == 0) {
            EXPECT_EQ(pace.decide(true, version).is_due, 1U);
            EXPECT_EQ(pace.decide(false, version).is_due, 0U);
            pace.hear(pace.decide(version != 10, version), version);
        }
    }
}

// Versions of 10 ms: the first one, and then every 300 ms; asked about some ten times a second.
TEST(StorePace, KeepsTheTime) {
    StorePace first;
    StorePace other;
    first.begin({Kind::time, 300 * kNsPerMs}, 0);
    other.begin({Kind::time, 300 * kNsPerMs}, 0);
    std::vector<std::uint32_t> stored;
    int asked = 0;
    for (std::uint32_t version = 1; version <= 300; ++version) {
        const std::int64_t now = version * 10 * kNsPerMs;
        const bool asks = first.asks(Version(version));
        EXPECT_EQ(other.asks(Version(version)), asks);
        if (asks) {
            ++asked;
            const StorePace::Answer answer = first.decide(true, now);
            first.hear(answer, now);
            other.hear(answer, now + 5 * kNsPerMs);
            if (answer.is_due != 0) {
                stored.push_back(version);
            }
        }
        if (version == 150) {
            first.resume();
            other = StorePace();  // a substitute
            other.begin({Kind::time, 300 * kNsPerMs}, now);
        }
    }
    ASSERT_GE(stored.size(), 5U);
    EXPECT_EQ(stored.front(), 1U);
    EXPECT_LE(asked, 60);
    for (std::size_t i = 1; i < stored.size(); ++i) {
        EXPECT_GE(stored[i] - stored[i - 1], 30U);
        EXPECT_LE(stored[i] - stored[i - 1], 45U);
    }
}

TEST(StorePace, AutoIsAsSoonAsAllHaveWritten) {
    StorePace pace;
    pace.begin({Kind::automatic, 0}, 0);
    EXPECT_TRUE(pace.asks(Version(1)));
    EXPECT_EQ(pace.decide(true, kNsPerSecond).is_due, 1U);
    EXPECT_EQ(pace.decide(false, kNsPerSecond).is_due, 0U);
}

}  // namespace
}  // namespace sft
