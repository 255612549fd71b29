#include "base/mutex.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "base/report.hpp"

namespace sft {
namespace {

TEST(Mutex, AreTakenInTheOrderOfTheirRanks) {
    Mutex first{MutexRank::calls};
    Mutex second{MutexRank::peers};
    const Locked outer(first);
    { const Locked inner(second); }
    const Locked again(second);
}

TEST(MutexDeathTest, TheOtherOrderAborts) {
    Mutex first{MutexRank::calls};
    Mutex second{MutexRank::peers};
    EXPECT_EXIT(
        {
            const Locked inner(second);
            const Locked outer(first);
        },
        testing::ExitedWithCode(kExitError), "defect of the library.*t_held < bit_");
}

TEST(MutexDeathTest, NobodyWaitsForHimself) {
    Mutex mutex{MutexRank::list};
    Mutex other{MutexRank::list};
    EXPECT_EXIT(
        {
            const Locked one(mutex);
            const Locked two(other);
        },
        testing::ExitedWithCode(kExitError), "defect of the library.*t_held < bit_");
}

TEST(MutexDeathTest, WhoIsSureToHoldItIsWrong) {
    const Mutex mutex{MutexRank::told};
    EXPECT_DEATH(mutex.assert_held(), "defect of the library");
}

// Ranks of what is taken for each message are checked where that costs nothing.
TEST(MutexDeathTest, AllRanksAreCheckedInBuildsForDebugging) {
    static_assert(is_rank_checked(MutexRank::network) == (SFT_SLOW_ASSERTIONS != 0));
    static_assert(is_rank_checked(MutexRank::calls));
}

TEST(Mutex, WhoTriesWaitsForNobody) {
    Mutex mutex{MutexRank::network};
    bool is_taken = true;
    {
        const Locked held(mutex);
        std::thread([&] {
            is_taken = false;
            if (mutex.try_lock()) {
                is_taken = true;
                mutex.unlock();
            }
        }).join();
        EXPECT_FALSE(is_taken);
    }
    if (mutex.try_lock()) {
        const Locked adopted(mutex, AdoptMutex{});
        is_taken = true;
    }
    EXPECT_TRUE(is_taken);
    const Locked free_again(mutex);
}

TEST(Condition, WakesWhoWaits) {
    struct {
        Mutex mutex{MutexRank::coordinator};
        Condition changed;
        bool is_done SFT_GUARDED_BY(mutex) = false;
    } shared;
    std::thread thread([&] {
        {
            const Locked lock(shared.mutex);
            shared.is_done = true;
        }
        shared.changed.notify_all();
    });
    {
        const Locked lock(shared.mutex);
        while (!shared.is_done) {
            shared.changed.wait(shared.mutex);
        }
    }
    thread.join();
    const Locked lock(shared.mutex);
    EXPECT_FALSE(shared.changed.wait_until(shared.mutex, std::chrono::steady_clock::now()));
}

}  // namespace
}  // namespace sft
