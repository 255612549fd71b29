#include "shmem_ft/ops/copy_room.hpp"

#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

constexpr std::uint64_t kLeft = 6300;

RoomWanted wanted(std::int32_t node, std::uint64_t next, std::uint64_t most, std::uint64_t used = 100) {
    return {.node = node, .used = used, .next = next, .most = most, .left = kLeft};
}

TEST(CopyRoom, WhatAllOfANodeTakeCounts) {
    const RoomWanted half = wanted(0, 3150, 3150);
    const RoomVerdict fits = judge_room(std::vector{half, half}, 0);
    EXPECT_TRUE(fits.is_there);
    EXPECT_TRUE(fits.is_there_for_ever);
    const RoomVerdict verdict = judge_room(std::vector{half, wanted(0, 3151, 3151)}, 0);
    EXPECT_FALSE(verdict.is_there);
    EXPECT_EQ(verdict.n_pes, 2);
    EXPECT_EQ(verdict.next, 6301U);
    EXPECT_EQ(verdict.left, 6300U);
    EXPECT_EQ(verdict.used, 200U);
}

TEST(CopyRoom, NowButNotForEver) {
    const RoomVerdict verdict = judge_room(std::vector{wanted(0, 10, 6301)}, 0);
    EXPECT_TRUE(verdict.is_there);
    EXPECT_FALSE(verdict.is_there_for_ever);
}

TEST(CopyRoom, TheNodeThatLacksMostIsNamed) {
    const std::vector<RoomWanted> all{wanted(0, 100, 100), wanted(2, 6400, 6400), wanted(1, 6500, 6500),
                                      wanted(0, 100, 100), wanted(1, 10, 10)};
    const RoomVerdict verdict = judge_room(all, 0);
    EXPECT_FALSE(verdict.is_there);
    EXPECT_EQ(verdict.node, 1);
    EXPECT_EQ(verdict.n_pes, 2);
    EXPECT_EQ(verdict.next, 6510U);
}

TEST(CopyRoom, TheLeastThatAnybodySeesIsLeft) {
    std::vector<RoomWanted> all{wanted(0, 100, 100), wanted(0, 100, 100)};
    all[1].left = 126;
    const RoomVerdict verdict = judge_room(all, 0);
    EXPECT_FALSE(verdict.is_there) << "a control group of its own";
    EXPECT_EQ(verdict.left, 126U);
}

TEST(CopyRoom, ALimit) {
    const std::vector<RoomWanted> all{wanted(0, 300, 300), wanted(0, 300, 300), wanted(1, 400, 400)};
    EXPECT_TRUE(judge_room(all, 800).is_there);
    EXPECT_FALSE(judge_room(all, 799).is_there);
    EXPECT_FALSE(judge_room(all, 100).is_there) << "more is used already";
    EXPECT_EQ(judge_room(all, 100).left, 0U);
}

TEST(CopyRoom, NobodyTellsWhatIsLeft) {
    RoomWanted item = wanted(0, UINT64_MAX / 2, UINT64_MAX / 2);
    item.left = UINT64_MAX;
    EXPECT_TRUE(judge_room(std::vector{item}, 0).is_there);
    item.left = UINT64_MAX - 1;
    EXPECT_TRUE(judge_room(std::vector{item}, 0).is_there);
    EXPECT_FALSE(judge_room(std::vector{item, item, item}, 0).is_there) << "sums do not begin anew";
}

TEST(CopyRoom, APauseOfQuestionsIsPe0sWhileThereIsRoom) {
    RoomWanted first = wanted(0, 100, 7000);
    first.pause = 9;
    RoomWanted second = wanted(0, 100, 7000);
    second.pause = 5;
    EXPECT_EQ(judge_room(std::vector{first, second}, 0).pause, 9U);
    second.next = 7000;
    EXPECT_EQ(judge_room(std::vector{first, second}, 0).pause, 0U);
}

class CopyRoomTest : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Jobs, CopyRoomTest, kJobSizes);

TEST_P(CopyRoomTest, AllHearTheSame) {
    run([](Pe& pe) {
        for (int round = 0; round < 50; ++round) {
            const int poor = round % pe.n();
            const RoomWanted own = wanted(0, pe.me() == poor && round % 3 == 0 ? 7000 : 10, 10);
            const std::optional<RoomVerdict> verdict = agree_on_room(pe.engine, own, 0);
            ASSERT_TRUE(verdict);
            EXPECT_EQ(verdict->is_there, round % 3 != 0);
            EXPECT_EQ(verdict->n_pes, pe.n());
        }
    });
}

}  // namespace
}  // namespace sft::testing
