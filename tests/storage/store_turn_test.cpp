// Whose turn it is to write a file, without files and threads.
#include "storage/store_turn.hpp"

#include <gtest/gtest.h>

namespace sft {
namespace {

TEST(StoreTurn, ComesAtOnceIfNobodyIsBefore) {
    StoreTurn turn;
    EXPECT_FALSE(turn.awaited());
    turn.begin(Version(3), {});
    ASSERT_TRUE(turn.awaited());
    EXPECT_TRUE(turn.awaited()->before.empty());
    EXPECT_FALSE(turn.hold()) << "it writes";
    EXPECT_TRUE(turn.take(turn.awaited()->ticket));
}

TEST(StoreTurn, DoesNotComeBetweenQuestionAndAnswer) {
    StoreTurn turn;
    turn.begin(Version(3), {PeId(1), PeId(2)});
    const std::uint64_t ticket = turn.awaited()->ticket;
    EXPECT_EQ(turn.awaited()->before.size(), 2U);
    EXPECT_EQ(turn.awaited()->version, Version(3));
    ASSERT_TRUE(turn.hold());
    EXPECT_FALSE(turn.take(ticket));
    turn.release();
    EXPECT_TRUE(turn.take(ticket));
    EXPECT_FALSE(turn.hold());
    turn.release();  // of nothing
    EXPECT_TRUE(turn.awaited()->before.empty());
    turn.end();
    EXPECT_FALSE(turn.awaited()) << "the next one waits for its own turn";
    EXPECT_FALSE(turn.take(ticket));
}

// The thread has looked for the files of the version that was given up.
TEST(StoreTurn, OfAVersionThatWasGivenUpIsNotThatOfTheNext) {
    StoreTurn turn;
    turn.begin(Version(3), {PeId(1)});
    const std::uint64_t old = turn.awaited()->ticket;
    ASSERT_TRUE(turn.hold());
    turn.drop();
    EXPECT_FALSE(turn.awaited());
    EXPECT_FALSE(turn.take(old));
    turn.begin(Version(4), {PeId(1)});
    EXPECT_FALSE(turn.take(old));
    EXPECT_TRUE(turn.hold());
    turn.release();
    EXPECT_TRUE(turn.take(turn.awaited()->ticket));
}

}  // namespace
}  // namespace sft
