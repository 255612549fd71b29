// Endings of a job of one process: its agreement is with itself. What a whole job does is in tests/fault.
#include "shmem_ft/process/job_exit.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/report.hpp"
#include "tests/process/guardian.hpp"

namespace sft {
namespace {

class NoActions final : public CheckpointActions {
public:
    void replicate(Version) override {}
    void update_local_copy(Version) override {}
    Outcome restore(const JobState&) override { return Outcome::ok; }
    Outcome protect(const JobState&) override { return Outcome::ok; }
};

class JobExitDeathTest : public ::testing::Test, private JobObserver {
protected:
    void SetUp() override {
        exit_.open({.self = ProcId(0),
                    .slot = &slot_,
                    .gate = &gate_,
                    .coordinator = &coordinator_,
                    .explain = [](const JobState& state) { return state.lost.empty() ? "" : "somebody is lost"; },
                    .tell_data_lost = [](const std::vector<PeId>&) {},
                    .say_goodbye = [](Stage) {}});
    }

    Guardian guardian_;
    JobChannel channel_;
    OwnPe me_{PeId(0)};
    JobExit exit_{channel_, me_};
    ProcessSlot slot_{};
    FaultGate gate_;
    Mailbox mailbox_;
    NoActions actions_;
    Coordinator coordinator_{{.shape = {.n_pes = 1, .n_processes = 1},
                              .self = ProcId(0),
                              .mailbox = &mailbox_,
                              .actions = &actions_,
                              .observer = this}};

private:
    void heard_of_death(const Death&) override {}
    void decided(const JobState&, const JobState& after) override {
        if (after.stage == Stage::ended && !exit_.is_finished()) {
            exit_.leave_ended_job();
        }
    }
    void must_stop(const Stop&) override {}
    void awaits_spares(const std::vector<PeId>&) override {}
};

TEST_F(JobExitDeathTest, FailingEndsTheJobWithOneLine) {
    EXPECT_EXIT(exit_.fail_job("nothing works"), testing::ExitedWithCode(kExitError),
                "^shmem-ft: error: nothing works\n$");
}

TEST_F(JobExitDeathTest, OshrunSaysTheLineIfItIsThere) {
    guardian_.connect(channel_);
    EXPECT_EXIT(exit_.fail_job("nothing works"), testing::ExitedWithCode(kExitError), "^$");
    const JobEvent told = guardian_.told();
    EXPECT_EQ(told.kind, JobEventKind::unrecoverable);
    EXPECT_EQ(told.code, kExitError);
    EXPECT_EQ(told.pe, 0);
    EXPECT_STREQ(told.text, "nothing works");
}

TEST_F(JobExitDeathTest, FirstLineOfTheServiceThreadCounts) {
    EXPECT_EXIT(
        {
            exit_.note_finished();  // decided() goes on
            exit_.end_by_service("the first");
            exit_.end_by_service("the second");
            exit_.leave_ended_job();
        },
        testing::ExitedWithCode(kExitError), "^shmem-ft: error: the first\n$");
}

TEST_F(JobExitDeathTest, ServiceThreadLeavesAloneIfNobodyHears) {
    exit_.leave_if_unheard(INT64_MAX);  // it has not asked for anything
    EXPECT_FALSE(exit_.is_ending());
    EXPECT_EXIT(
        {
            exit_.note_finished();
            exit_.end_by_service("the first");
            exit_.leave_if_unheard(now_ns());
            std::fprintf(stderr, "still here %d\n", exit_.is_ending());
            exit_.leave_if_unheard(now_ns() + 60'000'000'000);
        },
        testing::ExitedWithCode(kExitError), "still here 1\n$");
}

TEST_F(JobExitDeathTest, GlobalExitEndsWithItsStatusAndExitHandlers) {
    guardian_.connect(channel_);
    EXPECT_EXIT(
        {
            std::atexit([] { std::fputs("handler\n", stderr); });
            exit_.global_exit(3);
        },
        testing::ExitedWithCode(3), "^handler\n$");
    EXPECT_EQ(guardian_.told().kind, JobEventKind::global_exit);
}

TEST_F(JobExitDeathTest, LastWordsOfExit) {
    guardian_.connect(channel_);
    exit_.record_exit(260);
    EXPECT_EQ(slot_.exit_status.load(), 5U);
    EXPECT_EQ(guardian_.told().kind, JobEventKind::exiting);
    EXPECT_FALSE(gate_.is_pending());
    exit_.wait_for_nobody(7);
    EXPECT_EQ(slot_.exit_status.load(), 8U);
    EXPECT_TRUE(gate_.is_pending());
    exit_.note_finished();
    exit_.record_exit(1);
    EXPECT_EQ(slot_.exit_status.load(), 8U);
    EXPECT_EQ(guardian_.told().text[0], '\0');
}

// Others would recover from a death before oshrun has ended them.
TEST_F(JobExitDeathTest, FailedAssertionIsOshrunsLineAndWaitsForItsSignal) {
    guardian_.connect(channel_);
    EXPECT_EXIT(
        {
            exit_.hear_of_defects();
            ::ualarm(100'000, 0);
            SFT_ASSERT(slot_.pid == 17);
        },
        testing::KilledBySignal(SIGALRM), "^$");
    const JobEvent told = guardian_.told();
    EXPECT_EQ(told.kind, JobEventKind::unrecoverable);
    EXPECT_NE(std::strstr(told.text, "slot_.pid == 17"), nullptr) << told.text;
}

TEST_F(JobExitDeathTest, FailedAssertionDoesNotWaitForAnOshrunThatIsGone) {
    guardian_.connect(channel_);
    guardian_.hang_up();
    EXPECT_EXIT(
        {
            exit_.hear_of_defects();
            SFT_ASSERT(slot_.pid == 17);
        },
        testing::ExitedWithCode(kExitError), "^$");
}

TEST_F(JobExitDeathTest, FailedAssertionWithoutOshrunIsSaid) {
    EXPECT_EXIT(
        {
            exit_.hear_of_defects();
            SFT_ASSERT(slot_.pid == 17);
        },
        testing::ExitedWithCode(kExitError), "^shmem-ft: error: defect .*slot_.pid == 17\n$");
}

TEST_F(JobExitDeathTest, ReservedDescriptorsAreGivenBackOnce) {
    const int before = ::dup(STDERR_FILENO);
    ::close(before);
    ASSERT_TRUE(exit_.reserve_descriptors(STDERR_FILENO).has_value());
    const int behind = ::dup(STDERR_FILENO);
    ::close(behind);
    EXPECT_GT(behind, before);
    exit_.release_descriptors();
    exit_.release_descriptors();
    const int after = ::dup(STDERR_FILENO);
    ::close(after);
    EXPECT_EQ(after, before);
    EXPECT_FALSE(exit_.reserve_descriptors(-1).has_value());
}

}  // namespace
}  // namespace sft
