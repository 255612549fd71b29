#include "base/pending_watch.hpp"

#include <gtest/gtest.h>

namespace sft {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 1000 * kSecond;

TEST(PendingWatch, TellsOnceAfterTenSeconds) {
    PendingWatch watch;
    EXPECT_EQ(watch.timeout_ms(kStart), -1);
    EXPECT_FALSE(watch.tick(true, kStart));
    EXPECT_FALSE(watch.tick(true, kStart + 9 * kSecond));
    EXPECT_GE(watch.timeout_ms(kStart + 9 * kSecond), 1000);
    EXPECT_LE(watch.timeout_ms(kStart + 9 * kSecond), 1001);
    EXPECT_TRUE(watch.tick(true, kStart + 10 * kSecond));
    EXPECT_FALSE(watch.tick(true, kStart + 30 * kSecond)) << "twice for one fault";
    EXPECT_EQ(watch.timeout_ms(kStart + 30 * kSecond), -1) << "wakes the service thread for nothing";
}

TEST(PendingWatch, EachFaultHasItsOwnTime) {
    PendingWatch watch;
    EXPECT_FALSE(watch.tick(true, kStart));
    EXPECT_FALSE(watch.tick(false, kStart + 9 * kSecond));
    EXPECT_FALSE(watch.tick(true, kStart + 11 * kSecond)) << "the time of the fault before counts";
    // The next one is there before anybody has looked.
    watch.clear();
    EXPECT_FALSE(watch.tick(true, kStart + 22 * kSecond));
    EXPECT_TRUE(watch.tick(true, kStart + 32 * kSecond));
}

TEST(PendingWatch, SaysWhereThisPeIs) {
    PendingWatch watch;
    EXPECT_EQ(watch.where(), "it is in its own code and has made no call since that meets the fault");
    watch.met("shmem_quiet");
    EXPECT_EQ(watch.where(), "it is in its own code; 1 call has met the fault since, the last one in shmem_quiet");
    watch.met("shmem_long_test");
    {
        const PendingWatch::Inside inside(watch, "shmem_restart_pes");
        EXPECT_EQ(watch.where(), "it waits for the others in shmem_restart_pes");
    }
    EXPECT_EQ(watch.where(),
              "it is in its own code; 2 calls have met the fault since, the last one in shmem_long_test");
    watch.clear();
    EXPECT_EQ(watch.where(), "it is in its own code and has made no call since that meets the fault");
}

}  // namespace
}  // namespace sft
