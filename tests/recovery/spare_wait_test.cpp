#include "recovery/spare_wait.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace sft {
namespace {

class SpareWaitTest : public ::testing::Test {
protected:
    void open(bool asks_handler, std::uint32_t timeout_seconds = 300) {
        const Result<> opened = wait_.open({.asks_handler = asks_handler,
                                            .timeout_seconds = timeout_seconds,
                                            .remedy = "; do this",
                                            .ask_for_spare = [this](PeId pe) { asked_.push_back(pe); }});
        ASSERT_TRUE(opened.has_value());
    }
    // Whether it rings within a second.
    [[nodiscard]] bool rings(int timeout_ms = 1000) const {
        pollfd polled{wait_.fd(), POLLIN, 0};
        return ::poll(&polled, 1, timeout_ms) == 1;
    }
    // What the handler saw, and what it says.
    static int handle(int reason, const int* pes, std::size_t numpes, void* context) {
        auto& test = *static_cast<SpareWaitTest*>(context);
        ++test.n_handled_;
        test.reason_ = reason;
        test.handled_.assign(pes, pes + numpes);
        test.asked_before_answer_ = test.asked_;
        test.wait_.awaits(test.awaited_meanwhile_.empty() ? std::vector{PeId(1)} : test.awaited_meanwhile_);
        return test.answer_;
    }
    static int answer_only(int, const int*, std::size_t numpes, void* context) {
        auto& test = *static_cast<SpareWaitTest*>(context);
        ++test.n_handled_;
        test.handled_.resize(numpes);
        test.asked_before_answer_ = test.asked_;
        return test.answer_;
    }

    SpareWait wait_;
    std::vector<PeId> asked_;
    std::vector<PeId> asked_before_answer_;
    std::vector<PeId> awaited_meanwhile_;
    std::vector<int> handled_;
    int n_handled_ = 0;
    int reason_ = 0;
    int answer_ = 1;
};

// Each PE was asked for twice once, and before the handler had answered: a spare was started that nobody wanted.
TEST_F(SpareWaitTest, PolicyWaitAsksOnceAndSaysSo) {
    open(false);
    testing::internal::CaptureStderr();
    wait_.awaits({PeId(1), PeId(3)});
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "shmem-ft: warning: PE 1 has failed and no spare is left: waiting 300 s for one (SHMEM_FT_WAIT_TIMEOUT); "
              "do this\n");
    EXPECT_EQ(asked_, (std::vector<PeId>{PeId(1), PeId(3)}));
    EXPECT_FALSE(rings(0));
}

TEST_F(SpareWaitTest, HandlerIsAskedBeforeASpareIs) {
    open(true);
    wait_.set_handler(&answer_only, this);
    wait_.awaits({PeId(1)});
    EXPECT_TRUE(asked_.empty());
    ASSERT_TRUE(rings());
    EXPECT_FALSE(wait_.timer_rang().has_value());
    EXPECT_EQ(n_handled_, 1);
    EXPECT_TRUE(asked_before_answer_.empty());
    EXPECT_EQ(asked_, std::vector<PeId>{PeId(1)});
    EXPECT_FALSE(rings(0)) << "it waits for the bound now";
}

TEST_F(SpareWaitTest, HandlerThatSaysNoEndsTheJobWithoutASpare) {
    open(true);
    answer_ = 0;
    wait_.set_handler(&answer_only, this);
    wait_.awaits({PeId(1)});
    ASSERT_TRUE(rings());
    const auto end = wait_.timer_rang();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->why, SpareWait::End::Why::handler);
    EXPECT_EQ(end->pes, std::vector<PeId>{PeId(1)});
    EXPECT_TRUE(asked_.empty());
}

TEST_F(SpareWaitTest, WithoutAHandlerTheJobEnds) {
    open(true);
    wait_.awaits({PeId(2)});
    ASSERT_TRUE(rings());
    EXPECT_EQ(wait_.timer_rang().value().why, SpareWait::End::Why::handler);
}

TEST_F(SpareWaitTest, AnotherDeathWhileTheHandlerThinksIsAskedAboutAgain) {
    open(true);
    awaited_meanwhile_ = {PeId(1), PeId(2)};
    wait_.set_handler(&handle, this);
    wait_.awaits({PeId(1)});
    ASSERT_TRUE(rings());
    EXPECT_FALSE(wait_.timer_rang().has_value());
    EXPECT_EQ(reason_, kNoSpare);
    EXPECT_EQ(handled_, std::vector<int>{1});
    EXPECT_TRUE(asked_.empty()) << "nothing has been said about PE 2";
    wait_.set_handler(&answer_only, this);
    ASSERT_TRUE(rings());
    EXPECT_FALSE(wait_.timer_rang().has_value());
    EXPECT_EQ(handled_.size(), 2U);
    EXPECT_EQ(asked_, awaited_meanwhile_);
}

TEST_F(SpareWaitTest, BoundEndsTheJob) {
    open(false, 0);
    wait_.awaits({PeId(0)});
    ASSERT_TRUE(rings());
    const auto end = wait_.timer_rang();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->why, SpareWait::End::Why::timeout);
    EXPECT_EQ(end->pes, std::vector<PeId>{PeId(0)});
}

TEST_F(SpareWaitTest, SpareThatComesEndsTheWait) {
    open(false, 0);
    wait_.awaits({PeId(0)});
    ASSERT_TRUE(rings());
    wait_.awaits({});
    EXPECT_FALSE(rings(0));
    EXPECT_FALSE(wait_.timer_rang().has_value());
}

TEST_F(SpareWaitTest, HandlerHearsOfLostData) {
    open(true);
    EXPECT_TRUE(wait_.handler_ends(kDataLost, {PeId(3)})) << "there is none";
    wait_.set_handler(&answer_only, this);
    EXPECT_FALSE(wait_.handler_ends(kDataLost, {PeId(3)}));
    answer_ = 0;
    EXPECT_TRUE(wait_.handler_ends(kDataLost, {PeId(3)}));
}

}  // namespace
}  // namespace sft
