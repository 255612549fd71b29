// The agreed word: packing, and which transitions exist.
#include "shmem_ft/membership/agreed.hpp"

#include <gtest/gtest.h>

#include <random>

namespace sft {
namespace {

Agreed running(std::uint32_t version, std::uint16_t round, std::uint16_t deaths = 0) {
    return {Stage::running, Epoch(3), DeathCount(deaths), Version(version), Round(round)};
}

TEST(Agreed, PackingKeepsEveryField) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 10'000; ++i) {
        const std::uint64_t bits = random();
        Agreed agreed;
        agreed.stage = static_cast<Stage>(bits % 7);
        agreed.epoch = Epoch(static_cast<std::uint8_t>((bits >> 8) % 32));
        agreed.deaths = DeathCount(static_cast<std::uint16_t>((bits >> 16) % (kDeathsMax + 1)));
        agreed.version = Version(static_cast<std::uint32_t>((bits >> 32) % (1U << kVersionBits)));
        agreed.round = Round(static_cast<std::uint16_t>(random()));
        ASSERT_EQ(unpack(pack(agreed)), agreed);
    }
}

TEST(Agreed, CommitRaisesTheVersionOnceARound) {
    const auto next = commit(running(4, 9), Round(10));
    ASSERT_TRUE(next);
    EXPECT_EQ(next->version, Version(5));
    EXPECT_EQ(next->round, Round(10));
    EXPECT_FALSE(commit(*next, Round(10))) << "the round is over";
    EXPECT_FALSE(commit(running(4, 9), Round(11))) << "a round was skipped";
}

TEST(Agreed, RoundsWrapAround) {
    const auto next = commit(running(4, 0xffff), Round(0));
    ASSERT_TRUE(next);
    EXPECT_EQ(next->round, Round(0));
}

TEST(Agreed, AFaultEndsTheRoundWithoutAVersion) {
    const auto fault = declare_fault(running(4, 9), Round(10), DeathCount(2));
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->version, Version(4));
    EXPECT_FALSE(commit(*fault, Round(11))) << "nothing is committed while a fault is pending";
    EXPECT_FALSE(declare_fault(running(4, 9, 3), Round(10), DeathCount(2))) << "deaths never shrink";
}

TEST(Agreed, ARestartGoesThroughPlanRestoredRunning) {
    const auto fault = declare_fault(running(4, 9), Round(10), DeathCount(1));
    const auto planned = plan(*fault, Round(11), DeathCount(1));
    ASSERT_TRUE(planned);
    EXPECT_FALSE(resume(*planned)) << "nothing is restored yet";
    const auto back = restored(*planned);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->epoch, next_epoch(planned->epoch));
    const auto on = resume(*back);
    ASSERT_TRUE(on);
    EXPECT_EQ(on->stage, Stage::running);
    EXPECT_EQ(on->epoch, next_epoch(back->epoch));
    EXPECT_EQ(on->version, Version(4));
    EXPECT_TRUE(commit(*on, Round(12)));
}

TEST(Agreed, ARestartBeginsAgainOnlyWithMoreDeaths) {
    const auto planned = plan(running(4, 9), Round(10), DeathCount(1));
    ASSERT_TRUE(planned);
    EXPECT_FALSE(plan(*planned, Round(10), DeathCount(1)));
    EXPECT_TRUE(plan(*planned, Round(10), DeathCount(2)));
    EXPECT_FALSE(plan(*planned, Round(11), DeathCount(2))) << "another round cannot begin inside this one";
    EXPECT_TRUE(plan(*restored(*planned), Round(10), DeathCount(2)));
}

TEST(Agreed, ARejectedRestartChangesNothingButTheRound) {
    const auto fault = declare_fault(running(4, 9), Round(10), DeathCount(1));
    const auto rejected = reject(*fault, Round(11));
    ASSERT_TRUE(rejected);
    EXPECT_EQ(rejected->stage, Stage::fault);
    EXPECT_EQ(rejected->epoch, fault->epoch);
    EXPECT_TRUE(plan(*rejected, Round(12), DeathCount(1)));
}

TEST(Agreed, TheEndIsFinal) {
    const auto over = end(running(4, 9));
    ASSERT_TRUE(over);
    EXPECT_FALSE(end(*over));
    EXPECT_FALSE(commit(*over, Round(10)));
    EXPECT_FALSE(plan(*over, Round(10), DeathCount(5)));
    EXPECT_FALSE(finish(*over));
    EXPECT_FALSE(end(*finish(running(4, 9)))) << "a job that finished cannot fail any more";
}

}  // namespace
}  // namespace sft
