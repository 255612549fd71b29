#include "base/assert.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/report.hpp"

namespace sft {
namespace {

TEST(Assert, WhatHoldsCostsNothingAndDoesNothing) {
    SFT_ASSERT(1 + 1 == 2);
    SFT_ASSERT_SLOW(1 + 1 == 2);
}

TEST(AssertDeathTest, WhatDoesNotHoldEndsTheProcessWithOneLine) {
    const int n = 3;
    EXPECT_EXIT(SFT_ASSERT(n == 4), testing::ExitedWithCode(kExitError),
                "^shmem-ft: error: defect of the library, please report: .*assert_test.cpp:[0-9]+: n == 4\n$");
}

TEST(AssertDeathTest, TheOthersAreToldFirst) {
    EXPECT_EXIT(
        {
            set_defect_hook([](const char* line) { std::fprintf(stderr, "told: %s\n", line); });
            SFT_UNREACHABLE();
        },
        testing::ExitedWithCode(kExitError), "^told: defect .*never reached\nshmem-ft: error: defect ");
}

#if !SFT_SLOW_ASSERTIONS
TEST(Assert, SlowOnesAreNotEvenAskedInReleases) {
    int asked = 0;
    SFT_ASSERT_SLOW(++asked == 7);
    EXPECT_EQ(asked, 0);
}
#endif

}  // namespace
}  // namespace sft
