// Which of its initialisations a substitute skips, and when going back would lose one.
#include "recovery/init_calls.hpp"

#include <gtest/gtest.h>

namespace sft {
namespace {

TEST(InitCalls, APeInitialisesEachTimeAndIsAheadUntilTheNextCommit) {
    InitCalls calls;
    EXPECT_FALSE(calls.is_ahead());
    EXPECT_TRUE(calls.enter(false));
    EXPECT_TRUE(calls.enter(false));
    EXPECT_EQ(calls.count(), 2U);
    EXPECT_TRUE(calls.is_ahead());
    calls.commit(1);
    EXPECT_TRUE(calls.is_ahead()) << "the version was made between the two";
    calls.commit(2);
    EXPECT_FALSE(calls.is_ahead());
}

TEST(InitCalls, ASubstituteSkipsWhatItsPredecessorHadDone) {
    InitCalls calls;
    calls.fetch(2);
    EXPECT_EQ(calls.count(), 2U) << "it belongs to the state that it was given";
    EXPECT_FALSE(calls.enter(true));
    EXPECT_FALSE(calls.enter(true));
    calls.commit_fetched();
    EXPECT_FALSE(calls.is_ahead());
    EXPECT_TRUE(calls.enter(true)) << "this one is new";
    EXPECT_EQ(calls.count(), 3U);
    EXPECT_TRUE(calls.is_ahead());
}

// It need not come by all of them before it joins.
TEST(InitCalls, ASubstituteThatHasSkippedNoneYetCountsThemAll) {
    InitCalls calls;
    calls.fetch(3);
    EXPECT_FALSE(calls.enter(true));
    EXPECT_EQ(calls.count(), 3U);
    calls.commit(3);
    EXPECT_FALSE(calls.is_ahead());
}

}  // namespace
}  // namespace sft
