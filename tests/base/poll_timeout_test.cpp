#include "base/poll_timeout.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace sft {
namespace {

TEST(PollTimeout, TheTimeHasComeWhenPollReturns) {
    EXPECT_EQ(ms_until(1'000'000, 0), 1);
    EXPECT_EQ(ms_until(1'000'001, 0), 2);
    EXPECT_EQ(ms_until(1, 0), 1);
    EXPECT_EQ(ms_until(0, 0), 0);
    EXPECT_EQ(ms_until(0, 5'000'000), 0) << "it is past";
    EXPECT_EQ(ms_until(std::numeric_limits<std::int64_t>::max() / 2, 0), 3'600'000);
}

TEST(PollTimeout, ShorterThanForEver) {
    EXPECT_EQ(shorter_timeout(3, 7), 3);
    EXPECT_EQ(shorter_timeout(7, 3), 3);
    EXPECT_EQ(shorter_timeout(kNoTimeout, 7), 7);
    EXPECT_EQ(shorter_timeout(0, kNoTimeout), 0);
    EXPECT_EQ(shorter_timeout(kNoTimeout, kNoTimeout), kNoTimeout);
}

}  // namespace
}  // namespace sft
