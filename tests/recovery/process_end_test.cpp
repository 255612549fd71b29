#include "recovery/detection/process_end.hpp"

#include <gtest/gtest.h>

namespace sft {
namespace {

constexpr FailureReason kBySignal{FailureKind::signal, 11};
constexpr FailureReason kDied{FailureKind::died, 0};  // the kernel tells no more

TEST(MeaningOfEnd, WhoWasThroughHasLeft) {
    EXPECT_EQ(meaning_of_end({.by_kernel = kDied, .state = ProcessState::finalized}).left, Stage::finished);
    EXPECT_EQ(meaning_of_end({.by_kernel = kDied, .state = ProcessState::ended}).left, Stage::ended);
    EXPECT_EQ(meaning_of_end({.by_kernel = kBySignal, .state = ProcessState::finalized}).left, Stage::finished)
        << "what it does behind shmem_finalize is its own business";
    EXPECT_EQ(meaning_of_end({.by_kernel = kDied, .state = ProcessState::finalized, .is_hung = true}).left,
              Stage::finished);
}

TEST(MeaningOfEnd, WhatTheKernelSays) {
    const ProcessEnd end = meaning_of_end({.by_kernel = kBySignal});
    EXPECT_FALSE(end.left);
    EXPECT_EQ(end.reason, kBySignal);
}

TEST(MeaningOfEnd, WhoWasKilledForStandingStillHung) {
    const ProcessEnd end = meaning_of_end({.by_kernel = {FailureKind::signal, 9}, .is_hung = true, .exit_status = 4});
    EXPECT_EQ(end.reason, (FailureReason{FailureKind::hung, 0}));
}

TEST(MeaningOfEnd, LastWordsAreForKernelsThatDoNotTell) {
    EXPECT_EQ(meaning_of_end({.by_kernel = kDied}).reason, kDied);
    EXPECT_EQ(meaning_of_end({.by_kernel = kDied, .exit_status = 1}).reason, (FailureReason{FailureKind::exited, 0}));
    EXPECT_EQ(meaning_of_end({.by_kernel = kDied, .exit_status = 4}).reason, (FailureReason{FailureKind::exited, 3}));
    EXPECT_EQ(meaning_of_end({.by_kernel = kBySignal, .exit_status = 4}).reason, kBySignal)
        << "it died in its exit handlers";
}

TEST(StageOfGoodbye, Known) {
    EXPECT_EQ(stage_of_goodbye(static_cast<std::uint64_t>(Stage::ended)), Stage::ended);
    EXPECT_EQ(stage_of_goodbye(static_cast<std::uint64_t>(Stage::finished)), Stage::finished);
}

}  // namespace
}  // namespace sft
