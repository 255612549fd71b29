// A value, or a step from one to the next, that breaks an invariant ends the process with the line that names it.
#include "recovery/membership/state_invariants.hpp"

#include <gtest/gtest.h>

#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// Four PEs and two spares; PE 2 has been lost at version 3, and process 4 has taken it over.
class StateInvariants : public testing::Test {
protected:
    StateInvariants() {
        before_.index = 20;
        before_.version = Version(3);
        before_.view = 1;
        before_.deaths = {{ProcId(2), {FailureKind::signal, 9}, true}};
        before_.replacements = before_.protected_layout = {{PeId(2), ProcId(4)}};
        next_ = before_;
        ++next_.index;
        next_.stage = Stage::replicating;
    }
    // As after the death of PE 1, whose holder keeps the shadow of PE 0.
    void fault() {
        next_.stage = Stage::faulted;
        next_.deaths.push_back({ProcId(1), {FailureKind::signal, 9}, true});
        next_.failed = {{PeId(1), {FailureKind::signal, 9}}};
        next_.unprotected = {PeId(0)};
    }
    void plan() {
        fault();
        before_ = next_;
        ++next_.index;
        next_.stage = Stage::planned;
        next_.attempt = 1;
        next_.replacements = {{PeId(1), ProcId(5)}, {PeId(2), ProcId(4)}};
    }
    void check() const {
        assert_value(shape_, before_);
        assert_value(shape_, next_);
        assert_step(shape_, before_, next_);
    }

    const JobShape shape_{.n_pes = 4, .n_processes = 6};
    JobState before_;
    JobState next_;
};
using StateInvariantsDeathTest = StateInvariants;

#define EXPECT_DEFECT(statement, what) EXPECT_EXIT(statement, testing::ExitedWithCode(kExitError), "defect.*" what)

TEST_F(StateInvariants, HoldInACheckpointAndAFault) {
    check();
    fault();
    check();
}

TEST_F(StateInvariants, HoldWhenARestartIsOver) {
    plan();
    check();
    before_ = next_;
    ++next_.index;
    next_.stage = Stage::restored;
    check();
    before_ = next_;
    ++next_.index;
    next_.stage = Stage::running;
    ++next_.view;
    next_.attempt = 0;
    next_.unprotected.clear();
    next_.failed.clear();
    next_.protected_layout = next_.replacements;
    check();
}

TEST_F(StateInvariantsDeathTest, ACommitTakesAllStages) {
    next_.stage = Stage::updating;
    EXPECT_DEFECT(check(), "may_follow");
    next_.stage = Stage::replicating;
    next_.version = Version(4);
    EXPECT_DEFECT(check(), "after.version ==");
}

TEST_F(StateInvariantsDeathTest, NothingFollowsTheEnd) {
    before_.stage = Stage::finished;
    EXPECT_DEFECT(check(), "may_follow");
}

TEST_F(StateInvariantsDeathTest, AFaultNamesWhoHasFailed) {
    fault();
    next_.failed.clear();
    EXPECT_DEFECT(check(), "failed.empty");
}

TEST_F(StateInvariantsDeathTest, WhereShadowsAreChangesWhenARestartIsOverOnly) {
    next_.protected_layout.clear();
    EXPECT_DEFECT(assert_value(shape_, next_), "protected_layout.size");
}

TEST_F(StateInvariantsDeathTest, AViewIsOverWithARestartOnly) {
    ++next_.view;
    EXPECT_DEFECT(check(), "after.view ==");
}

TEST_F(StateInvariantsDeathTest, OnlyAPlanGivesPesToOthers) {
    plan();
    next_.stage = Stage::faulted;
    next_.attempt = 0;
    EXPECT_DEFECT(assert_step(shape_, before_, next_), "replacements.size");
}

TEST_F(StateInvariantsDeathTest, ADeathIsNeverForgotten) {
    next_.deaths.clear();
    EXPECT_DEFECT(check(), "after.deaths.size");
}

TEST_F(StateInvariantsDeathTest, OnlyAJobThatHasEndedHasAReason) {
    next_.end_reason = EndReason::no_spare;
    EXPECT_DEFECT(check(), "end_reason");
}

#if SFT_SLOW_ASSERTIONS
TEST_F(StateInvariantsDeathTest, WhoLivesKeepsItsPe) {
    plan();
    next_.replacements = {{PeId(1), ProcId(4)}, {PeId(2), ProcId(5)}};
    EXPECT_DEFECT(check(), "do_living_holders_stay");
}

TEST_F(StateInvariantsDeathTest, APlanLeavesNobodyWithoutHolder) {
    plan();
    next_.replacements = before_.replacements;
    EXPECT_DEFECT(check(), "n_without_holder");
}

TEST_F(StateInvariantsDeathTest, APeWhoseKeeperIsDeadIsExposed) {
    fault();
    next_.unprotected.clear();
    EXPECT_DEFECT(check(), "check_invariants");
}
#endif

}  // namespace
}  // namespace sft
