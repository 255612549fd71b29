// One process in its calls: every value means one thing to it. What many of them make of each other is simulated
// (tests/sim).
#include "recovery/participant.hpp"

#include <gtest/gtest.h>

namespace sft {
namespace {

using Do = Participant::Do;
using Outcome = Participant::Outcome;

constexpr std::uint64_t kHash = 77;

class InACall : public ::testing::Test {
protected:
    Participant participant_;
    std::uint64_t index_ = 4;
    std::uint32_t view_ = 2;
    std::uint32_t rejections_ = 0;
    JobState now_;

    // The next value.
    const JobState& value(Stage stage) {
        now_.index = ++index_;
        now_.stage = stage;
        now_.view = view_;
        now_.rejections = rejections_;
        now_.version = Version(3);
        return now_;
    }
    void expect_ready(Goal goal, std::uint64_t hash = 0) const {
        EXPECT_EQ(participant_.ready().goal, goal);
        EXPECT_EQ(participant_.ready().hash, hash);
        if (goal != Goal::none) {
            EXPECT_EQ(participant_.ready_index(), now_.index);
        }
    }
};

TEST_F(InACall, ACheckpointShipsAndFoldsAndReturns) {
    EXPECT_EQ(participant_.checkpoint(value(Stage::running)), Do::wait);
    expect_ready(Goal::arrive);
    EXPECT_EQ(participant_.decided(value(Stage::replicating)), Do::replicate);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    expect_ready(Goal::replicate);
    EXPECT_EQ(participant_.decided(value(Stage::updating)), Do::update_local_copy);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    expect_ready(Goal::update);
    EXPECT_EQ(participant_.decided(value(Stage::running)), Do::committed);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.decided(value(Stage::replicating)), Do::wait) << "it has left the call";
    expect_ready(Goal::none);
}

TEST_F(InACall, EveryCheckpointShipsAndFoldsAnew) {
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(participant_.checkpoint(value(Stage::running)), Do::wait);
        EXPECT_EQ(participant_.decided(value(Stage::replicating)), Do::replicate);
        EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
        EXPECT_EQ(participant_.decided(value(Stage::replicating)), Do::wait)
            << "without the witness: it has replicated";
        expect_ready(Goal::replicate);
        EXPECT_EQ(participant_.decided(value(Stage::updating)), Do::update_local_copy);
        EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
        EXPECT_EQ(participant_.decided(value(Stage::updating)), Do::wait) << "it has updated";
        expect_ready(Goal::update);
        EXPECT_EQ(participant_.decided(value(Stage::running)), Do::committed);
    }
}

TEST_F(InACall, ACheckpointThatMeetsAFaultFails) {
    EXPECT_EQ(participant_.checkpoint(value(Stage::faulted)), Do::fault);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.checkpoint(value(Stage::running)), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::faulted)), Do::fault);
    expect_ready(Goal::none);
}

TEST_F(InACall, AFaultBehindACommitIsTheNextCalls) {
    EXPECT_EQ(participant_.checkpoint(value(Stage::running)), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::replicating)), Do::replicate);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::updating)), Do::update_local_copy);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::faulted)), Do::committed);
}

TEST_F(InACall, WhoIsAtItsEndHasEndedACheckpoint) {
    EXPECT_EQ(participant_.checkpoint(value(Stage::finished)), Do::ended);
    EXPECT_EQ(participant_.checkpoint(value(Stage::ended)), Do::ended);
    EXPECT_EQ(participant_.decided(value(Stage::ended)), Do::wait) << "no call";
}

TEST_F(InACall, WorkIsCompletedWhateverIsDecidedMeanwhile) {
    EXPECT_EQ(participant_.checkpoint(value(Stage::replicating)), Do::replicate);
    EXPECT_EQ(participant_.decided(value(Stage::faulted)), Do::replicate);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::fault);
}

TEST_F(InACall, WorkThatIsOvertakenIsNotDoneAgain) {
    EXPECT_EQ(participant_.restart(value(Stage::planned), kHash, true), Do::restore);
    EXPECT_EQ(participant_.decided(value(Stage::planned)), Do::restore);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    expect_ready(Goal::restore);
}

TEST_F(InACall, WhoseSourceIsGoneWaitsForWhatFollowsFromThat) {
    EXPECT_EQ(participant_.restart(value(Stage::planned), kHash, true), Do::restore);
    EXPECT_EQ(participant_.done(now_, Outcome::source_gone), Do::wait);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.decided(value(Stage::planned)), Do::restore) << "from another one";
    EXPECT_EQ(participant_.decided(value(Stage::planned)), Do::restore);
    EXPECT_EQ(participant_.done(now_, Outcome::source_gone), Do::restore) << "what follows has been decided already";
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::restored)), Do::protect);
    EXPECT_EQ(participant_.done(now_, Outcome::source_gone), Do::wait);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.decided(value(Stage::planned)), Do::wait) << "it is restored";
    expect_ready(Goal::restore);
    EXPECT_EQ(participant_.decided(value(Stage::restored)), Do::protect) << "the keepers may be others";
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    expect_ready(Goal::protect);
}

TEST_F(InACall, ACorruptCopyIsGivenUp) {
    EXPECT_EQ(participant_.restart(value(Stage::planned), kHash, false), Do::restore);
    EXPECT_EQ(participant_.done(now_, Outcome::corrupt), Do::give_up);
    EXPECT_EQ(participant_.decided(value(Stage::planned)), Do::wait) << "it has left the call";
}

TEST_F(InACall, ARestartRestoresProtectsAndResumes) {
    EXPECT_EQ(participant_.restart(value(Stage::faulted), kHash, false), Do::wait);
    expect_ready(Goal::restart, kHash);
    EXPECT_EQ(participant_.decided(value(Stage::planned)), Do::restore);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    expect_ready(Goal::restore);
    EXPECT_EQ(participant_.decided(value(Stage::restored)), Do::protect);
    EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
    expect_ready(Goal::protect);
    EXPECT_EQ(participant_.decided(now_), Do::wait) << "nothing has changed";
    expect_ready(Goal::protect);
    ++view_;
    EXPECT_EQ(participant_.decided(value(Stage::running)), Do::resumed);
    expect_ready(Goal::none);
}

TEST_F(InACall, EveryRestartRestoresAndProtectsAnew) {
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(participant_.restart(value(Stage::faulted), kHash, false), Do::wait);
        EXPECT_EQ(participant_.decided(value(Stage::planned)), Do::restore);
        EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
        EXPECT_EQ(participant_.decided(value(Stage::restored)), Do::protect);
        EXPECT_EQ(participant_.done(now_, Outcome::ok), Do::wait);
        ++view_;
        EXPECT_EQ(participant_.decided(value(Stage::running)), Do::resumed);
    }
}

TEST_F(InACall, ASlowOneResumesThoughTheNextFaultIsThere) {
    EXPECT_EQ(participant_.restart(value(Stage::faulted), kHash, false), Do::wait);
    ++view_;
    EXPECT_EQ(participant_.decided(value(Stage::faulted)), Do::resumed);
}

TEST_F(InACall, AnotherListIsRejectedOncePerCall) {
    rejections_ = 3;
    EXPECT_EQ(participant_.restart(value(Stage::faulted), kHash, false), Do::wait) << "these were earlier";
    expect_ready(Goal::restart, kHash);
    ++rejections_;
    EXPECT_EQ(participant_.decided(value(Stage::faulted)), Do::rejected);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.restart(value(Stage::running), kHash + 1, false), Do::wait);
    expect_ready(Goal::restart, kHash + 1);
}

TEST_F(InACall, ASubstituteThatComesWhenItIsOverResumes) {
    EXPECT_EQ(participant_.restart(value(Stage::running), kHash, true), Do::resumed);
    EXPECT_EQ(participant_.restart(value(Stage::faulted), kHash, true), Do::resumed);
    EXPECT_EQ(participant_.restart(value(Stage::faulted), kHash, false), Do::wait) << "joins no more";
}

TEST_F(InACall, ARestartIsEndedWithTheJob) {
    EXPECT_EQ(participant_.restart(value(Stage::faulted), kHash, false), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::ended)), Do::ended);
    expect_ready(Goal::none);
}

TEST_F(InACall, WhoFinishesIsFinishedOrMeetsAFault) {
    EXPECT_EQ(participant_.finish(value(Stage::running)), Do::wait);
    expect_ready(Goal::finish);
    EXPECT_EQ(participant_.decided(value(Stage::finished)), Do::finished);
    EXPECT_EQ(participant_.finish(value(Stage::running)), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::faulted)), Do::fault);
    expect_ready(Goal::none);
    EXPECT_EQ(participant_.finish(value(Stage::running)), Do::wait);
    EXPECT_EQ(participant_.decided(value(Stage::ended)), Do::ended);
}

}  // namespace
}  // namespace sft
