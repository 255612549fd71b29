// Checks of calls that need several threads or levels at will; the others are made in whole jobs
// (tests/conformance/checking_test.py).
#include "shmem_ft/ops/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "shmem_ft/ops/teams.hpp"

namespace sft {
namespace {

class CheckTest : public ::testing::Test {
protected:
    CheckTest() {
        engine_->peers.n_pes = 1;
        engine_->peers.me = PeId(0);
        reset_handles(*engine_);
        start(ThreadLevel::multiple);
    }

    void start(ThreadLevel level) {
        checker_->start(*engine_, {CheckMode::warn, {}, nullptr});
        checker_->set_thread_level(static_cast<int>(level));
        engine_->checker = checker_.get();
    }

    CtxId context(ContextOption option) {
        CtxId id;
        EXPECT_TRUE(create_context(*engine_, kTeamWorld, static_cast<long>(option), &id));
        checker_->note_creator(id);
        return id;
    }

    template <class Work>
    static std::string in_thread(Work&& work) {
        ::testing::internal::CaptureStderr();
        std::thread(work).join();
        return ::testing::internal::GetCapturedStderr();
    }

    std::unique_ptr<Engine> engine_ = std::make_unique<Engine>();
    std::unique_ptr<Checker> checker_ = std::make_unique<Checker>();
};

TEST_F(CheckTest, ASerializedContextIsForOneThreadAtATime) {
    const CtxId id = context(ContextOption::serialized);
    ASSERT_TRUE(checker_->enter_context("shmem_ctx_quiet", id));
    EXPECT_EQ(in_thread([&] { EXPECT_FALSE(checker_->enter_context("shmem_ctx_long_p", id)); }),
              "shmem-ft: PE 0: shmem_ctx_long_p: ctx is SHMEM_CTX_SERIALIZED and used by two threads at once\n");
    checker_->leave_context(id);
    EXPECT_EQ(in_thread([&] {
                  EXPECT_TRUE(checker_->enter_context("shmem_ctx_long_p", id));
                  checker_->leave_context(id);
              }),
              "");
}

TEST_F(CheckTest, APrivateContextBelongsToItsCreator) {
    const CtxId id = context(ContextOption::is_private);
    const auto use = [&] { static_cast<void>(checker_->enter_context("shmem_ctx_fence", id)); };
    EXPECT_EQ(
        in_thread(use),
        "shmem-ft: PE 0: shmem_ctx_fence: ctx is SHMEM_CTX_PRIVATE and used by a thread that did not create it\n");
    // Who created it is forgotten at a rollback: then it belongs to who comes first.
    checker_->forget_users();
    EXPECT_EQ(in_thread(use), "");
}

TEST_F(CheckTest, AtLevelMultipleAnyThreadMayCall) {
    EXPECT_FALSE(checker_->enter("shmem_quiet"));
    EXPECT_EQ(in_thread([&] { checker_->check_thread("shmem_my_pe"); }), "");
}

TEST_F(CheckTest, AtLevelSerializedOneAtATime) {
    start(ThreadLevel::serialized);
    EXPECT_EQ(in_thread([&] { checker_->check_thread("shmem_my_pe"); }), "");
    ASSERT_TRUE(checker_->enter("shmem_quiet"));
    EXPECT_EQ(in_thread([&] { EXPECT_FALSE(checker_->enter("shmem_long_p")); }),
              "shmem-ft: PE 0: shmem_long_p: called while another thread is in a call, but the thread level is "
              "SHMEM_THREAD_SERIALIZED\n");
    // A call within a call, as of a handler, is no second thread.
    EXPECT_FALSE(checker_->enter("shmem_long_p"));
    checker_->leave();
    EXPECT_EQ(in_thread([&] { checker_->check_thread("shmem_my_pe"); }), "");
}

TEST_F(CheckTest, SaysNoMoreThanAHundredLines) {
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 1000; ++i) {
        checker_->report("shmem_long_p", "wrong");
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 101);
    EXPECT_TRUE(said.ends_with("further wrong calls of this PE are not shown\n"));
}

TEST_F(CheckTest, ExtentsThatDoNotFitAreAsLargeAsCanBe) {
    EXPECT_EQ(elements(SIZE_MAX / 2, 8).span(), SIZE_MAX);
    EXPECT_EQ((Extent{8, SIZE_MAX / 2, 16, 8}).span(), SIZE_MAX);
    EXPECT_EQ((Extent{8, 3, 16, 8}).span(), 40U);
    EXPECT_EQ((Extent{8, 0, 16, 8}).span(), 0U);
}

}  // namespace
}  // namespace sft
