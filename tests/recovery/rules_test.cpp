#include "recovery/rules.hpp"

#include <gtest/gtest.h>

#include "tests/recovery/deaths.hpp"
#include "tests/recovery/keeper.hpp"

namespace sft {
namespace {

// Four PEs, two spares, version 7.
class Rules4 : public ::testing::Test {
protected:
    Rules4() { state_.version = Version(7); }

    const JobShape shape_{.n_pes = 4, .n_processes = 6};
    JobRules rules_{shape_};
    JobState state_ = JobRules::first_state(shape_);

    [[nodiscard]] JobState planned_after(std::vector<Death> dead) const {
        const JobState faulted = rules_.after_deaths(state_, dead).value();
        const Readiness ready{Goal::restart, false, JobRules::hash_of(faulted.failed)};
        return rules_.after_restart(faulted, ready, dead).value();
    }
};

TEST_F(Rules4, CommitTakesThreeSteps) {
    const JobState replicating = rules_.after_ready(state_, Goal::arrive);
    EXPECT_EQ(replicating.stage, Stage::replicating);
    const JobState updating = rules_.after_ready(replicating, Goal::replicate);
    EXPECT_EQ(updating.stage, Stage::updating);
    EXPECT_EQ(updating.version, Version(7));
    const JobState running = rules_.after_ready(updating, Goal::update);
    EXPECT_EQ(running.stage, Stage::running);
    EXPECT_EQ(running.version, Version(8));
    EXPECT_EQ(check_invariants(shape_, running, &updating), "");
}

// What was loaded from files is committed under the number that it had.
TEST(Rules, AJobThatGoesOnBeginsWithTheNumberOfItsVersion) {
    const JobShape shape{.n_pes = 4, .n_processes = 6, .first_version = Version(40)};
    const JobRules rules{shape};
    JobState state = JobRules::first_state(shape);
    EXPECT_EQ(state.version, kNoVersion);
    for (const std::uint32_t version : {40U, 41U}) {
        for (const Goal goal : {Goal::arrive, Goal::replicate, Goal::update}) {
            const JobState next = rules.after_ready(state, goal);
            EXPECT_EQ(check_invariants(shape, next, &state), "");
            state = next;
        }
        EXPECT_EQ(state.version, Version(version));
    }
}

TEST_F(Rules4, DeathOfASpareIsNoFault) {
    const std::vector<Death> dead{death_of(5)};
    EXPECT_FALSE(rules_.after_deaths(state_, dead).has_value());
}

TEST_F(Rules4, DeathInACommitThatIsDecidedWaits) {
    state_.stage = Stage::updating;
    const std::vector<Death> dead{death_of(1)};
    EXPECT_FALSE(rules_.after_deaths(state_, dead).has_value());
}

TEST_F(Rules4, DeadPeGetsASpareAndItsNeighbourIsExposed) {
    const JobState planned = planned_after({death_of(2)});
    EXPECT_EQ(planned.stage, Stage::planned);
    EXPECT_EQ(shape_.holder(planned, PeId(2)), ProcId(4));
    EXPECT_EQ(keeper_of(shape_, planned, PeId(2)), ProcId(3));
    EXPECT_EQ(keeper_of(shape_, planned, PeId(1)), kNoProc);
    EXPECT_EQ(keeper_to_be(shape_, planned, PeId(1)), ProcId(4));
    EXPECT_EQ(planned.failed, (std::vector<FailedPe>{{PeId(2), kKilled}}));
}

TEST_F(Rules4, PartnersAtOnceAreLost) {
    const JobState ended = planned_after({death_of(1), death_of(2)});
    EXPECT_EQ(ended.stage, Stage::ended);
    EXPECT_EQ(ended.end_reason, EndReason::copies_lost);
    EXPECT_EQ(ended.lost, std::vector<PeId>{PeId(1)});
}

TEST_F(Rules4, DeadSpareIsNotTaken) {
    const JobState planned = planned_after({death_of(0), death_of(4)});
    EXPECT_EQ(shape_.holder(planned, PeId(0)), ProcId(5));
}

TEST_F(Rules4, NoSpareEndsTheJobUnlessItMayWait) {
    const JobState ended = planned_after({death_of(0), death_of(4), death_of(5)});
    EXPECT_EQ(ended.end_reason, EndReason::no_spare);
    EXPECT_EQ(ended.lost, std::vector<PeId>{PeId(0)});

    rules_.set_policy(UnreplacedPolicy::wait);
    const std::vector<Death> dead{death_of(0), death_of(4), death_of(5)};
    const JobState faulted = rules_.after_deaths(state_, dead).value();
    EXPECT_FALSE(
        rules_.after_restart(faulted, {Goal::restart, false, JobRules::hash_of(faulted.failed)}, dead).has_value());
}

TEST_F(Rules4, AwaitsOneSparePerPeThatHasNone) {
    const std::vector<Death> dead{death_of(0), death_of(2), death_of(4)};
    EXPECT_TRUE(rules_.awaiting_spares(rules_.after_deaths(state_, dead).value(), dead).empty()) << "policy abort";
    rules_.set_policy(UnreplacedPolicy::wait);
    const JobState faulted = rules_.after_deaths(state_, dead).value();
    EXPECT_EQ(rules_.awaiting_spares(faulted, dead), std::vector<PeId>{PeId(2)});
    EXPECT_TRUE(rules_.awaiting_spares(state_, dead).empty()) << "the fault is not decided yet";
    JobState joined = faulted;
    joined.joined = {{ProcId(6), NodeId(0)}};
    EXPECT_TRUE(rules_.awaiting_spares(joined, dead).empty()) << "one has come";
}

TEST_F(Rules4, SubstituteThatDiesIsReplacedAndTheOtherKeepsItsPe) {
    const JobState planned = planned_after({death_of(0), death_of(2)});
    ASSERT_EQ(shape_.holder(planned, PeId(0)), ProcId(4));
    ASSERT_EQ(shape_.holder(planned, PeId(2)), ProcId(5));
    // PE 3's shadow was at PE 0, PE 1's at PE 2; nobody is left for PE 2.
    const std::vector<Death> dead{death_of(0), death_of(2), death_of(5)};
    const JobState again = rules_.after_deaths(planned, dead).value();
    EXPECT_EQ(again.end_reason, EndReason::no_spare);
    EXPECT_EQ(again.lost, std::vector<PeId>{PeId(2)});
}

TEST_F(Rules4, DeathOfAnUnprotectedPeLosesItsData) {
    const JobState planned = planned_after({death_of(2)});
    const std::vector<Death> dead{death_of(1), death_of(2)};
    const JobState again = rules_.after_deaths(planned, dead).value();
    EXPECT_EQ(again.end_reason, EndReason::copies_lost);
    EXPECT_EQ(again.lost, std::vector<PeId>{PeId(1)});
}

TEST_F(Rules4, ProtectionEndsTheRestart) {
    const JobState planned = planned_after({death_of(2)});
    const JobState restored = rules_.after_ready(planned, Goal::restore);
    EXPECT_EQ(restored.stage, Stage::restored);
    const JobState running = rules_.after_ready(restored, Goal::protect);
    EXPECT_EQ(running.stage, Stage::running);
    EXPECT_EQ(running.view, 1U);
    EXPECT_TRUE(running.unprotected.empty() && running.failed.empty() && running.attempt == 0);
    EXPECT_EQ(check_invariants(shape_, running, &restored), "");
    EXPECT_EQ(rules_.protected_losses(running, running.deaths), 1);
}

TEST_F(Rules4, WrongListIsRejectedAndChangesNothingElse) {
    const std::vector<Death> dead{death_of(2)};
    const JobState faulted = rules_.after_deaths(state_, dead).value();
    JobState rejected = rules_.after_restart(faulted, {Goal::restart, false, 1234}, dead).value();
    EXPECT_EQ(rejected.rejections, faulted.rejections + 1);
    rejected.rejections = faulted.rejections;
    rejected.index = faulted.index;
    EXPECT_EQ(rejected, faulted);
}

TEST_F(Rules4, NothingCommittedEndsTheJob) {
    state_.version = kNoVersion;
    const std::vector<Death> dead{death_of(3)};
    const JobState ended = rules_.after_deaths(state_, dead).value();
    EXPECT_EQ(ended.end_reason, EndReason::nothing_committed);
    EXPECT_EQ(ended.lost, std::vector<PeId>{PeId(3)});
}

TEST_F(Rules4, LossOfAllClaimsNothingAboutCommits) {
    // A spare that has slept knows the first value only, whatever was committed since.
    const JobState first = JobRules::first_state(shape_);
    const JobState ended =
        rules_.after_loss_of_all(first, std::vector{death_of(0), death_of(1), death_of(2), death_of(3)});
    EXPECT_EQ(ended.stage, Stage::ended);
    EXPECT_EQ(ended.end_reason, EndReason::all_died);
    EXPECT_EQ(ended.lost, (std::vector<PeId>{PeId(0), PeId(1), PeId(2), PeId(3)}));
}

// What they had agreed on last is known: a fault of all, and at once the plan, since nobody asks for the restart.
TEST_F(Rules4, LossOfAllHoldersIsAFaultLikeOthers) {
    const JobShape shape{.n_pes = 2, .n_processes = 5, .memory = &node_memory()};
    const JobRules rules(shape);
    const std::vector<Death> dead{death_of(0), death_of(1)};
    JobState state;
    state.version = Version(3);
    state.stage = Stage::updating;
    const JobState committed = rules.after_loss_of_holders(state, dead);
    EXPECT_EQ(committed.stage, Stage::running) << "every copy of the new version is there";
    EXPECT_EQ(committed.version, Version(4));
    const JobState faulted = rules.after_loss_of_holders(committed, dead);
    EXPECT_EQ(faulted.stage, Stage::faulted);
    EXPECT_EQ(faulted.failed.size(), 2U);
    const JobState planned = rules.after_loss_of_holders(faulted, dead);
    EXPECT_EQ(planned.stage, Stage::planned);
    EXPECT_EQ(planned.version, Version(4));
    EXPECT_EQ(shape.holder(planned, PeId(0)), ProcId(2));
    EXPECT_EQ(shape.holder(planned, PeId(1)), ProcId(3));
    EXPECT_TRUE(planned.unprotected.empty());
    // Of the substitutes, too.
    const std::vector<Death> more{death_of(0), death_of(1), death_of(2), death_of(3)};
    const JobState ended = rules.after_loss_of_holders(planned, more);
    EXPECT_EQ(ended.end_reason, EndReason::no_spare) << "one is left for two";
}

TEST_F(Rules4, LossOfAllHoldersWaitsForNobody) {
    const JobShape shape{.n_pes = 2, .n_processes = 3, .memory = &node_memory()};
    JobRules rules(shape);
    rules.set_policy(UnreplacedPolicy::wait);
    JobState state;
    state.version = Version(3);
    state.stage = Stage::faulted;
    EXPECT_EQ(rules.after_loss_of_holders(state, std::vector{death_of(0), death_of(1)}).end_reason,
              EndReason::no_spare);
    state.version = kNoVersion;
    state.stage = Stage::running;
    EXPECT_EQ(rules.after_loss_of_holders(state, std::vector{death_of(0), death_of(1)}).end_reason,
              EndReason::nothing_committed);
}

TEST_F(Rules4, CallsOutOfOrderEndTheJob) {
    const JobState ended = rules_.after_restart(state_, {Goal::finish, true, 0}, {}).value();
    EXPECT_EQ(ended.stage, Stage::ended);
    EXPECT_EQ(ended.end_reason, EndReason::mismatched_calls);
    EXPECT_EQ(ended.index, state_.index + 1);
    EXPECT_NE(ended.exit_status, 0);
    EXPECT_TRUE(ended.lost.empty());
}

TEST_F(Rules4, ListsThatDifferAreRefusedNotEnded) {
    const std::vector<Death> dead{death_of(2)};
    const JobState faulted = rules_.after_deaths(state_, dead).value();
    const Readiness mixed{Goal::restart, true, JobRules::hash_of(faulted.failed)};
    const JobState refused = rules_.after_restart(faulted, mixed, dead).value();
    EXPECT_EQ(refused.stage, Stage::faulted);
    EXPECT_EQ(refused.rejections, 1U);
}

TEST_F(Rules4, OneFurtherLossIsSurvivedWithASpareAndAllCopies) {
    EXPECT_EQ(rules_.protected_losses(state_, {}), 1);
    EXPECT_EQ(rules_.protected_losses(state_, std::vector{death_of(5)}), 1);
    EXPECT_EQ(rules_.protected_losses(state_, std::vector{death_of(4), death_of(5)}), 0) << "no spare";
    EXPECT_EQ(rules_.protected_losses(state_, std::vector{death_of(1)}), 0) << "a PE is unprotected";
    const JobShape without{.n_pes = 4, .n_processes = 6, .scheme = &no_copies()};
    EXPECT_EQ(JobRules(without).protected_losses(state_, {}), 0);
    state_.version = kNoVersion;
    EXPECT_EQ(rules_.protected_losses(state_, {}), 0) << "nothing is committed";
}

TEST_F(Rules4, WithoutCopiesNobodyIsBroughtBack) {
    rules_ = JobRules({.n_pes = 4, .n_processes = 6, .scheme = &no_copies()});
    const JobState ended = planned_after({death_of(2)});
    EXPECT_EQ(ended.end_reason, EndReason::copies_lost);
    EXPECT_EQ(ended.lost, std::vector<PeId>{PeId(2)});
}

TEST_F(Rules4, WhoEndsTheJobSaysHow) {
    const std::vector<Death> dead{death_of(1)};
    const JobState ended = rules_.after_end_request(state_, {true, EndReason::past_the_end, ProcId(3), 7}, dead);
    EXPECT_EQ(ended.stage, Stage::ended);
    EXPECT_EQ(ended.end_reason, EndReason::past_the_end);
    EXPECT_EQ(ended.ended_by, ProcId(3));
    EXPECT_EQ(ended.exit_status, 7);
    EXPECT_EQ(ended.deaths, dead);
    EXPECT_EQ(ended.index, state_.index + 1);
    EXPECT_TRUE(ended.lost.empty());
}

// The loss of a node must leave a copy.
TEST(RulesOfOnePe, WitnessIsOnAnotherNodeIfThereIsOne) {
    const NodeMap nodes({NodeId(0), NodeId(0), NodeId(1)});
    EXPECT_EQ(JobRules::first_state({.n_pes = 1, .n_processes = 3, .nodes = &nodes}).witness, ProcId(2));
    const NodeMap other({NodeId(0), NodeId(1), NodeId(1)});
    EXPECT_EQ(JobRules::first_state({.n_pes = 1, .n_processes = 3, .nodes = &other}).witness, ProcId(1));
    const NodeMap turned({NodeId(1), NodeId(1), NodeId(0)});
    EXPECT_EQ(JobRules::first_state({.n_pes = 1, .n_processes = 3, .nodes = &turned}).witness, ProcId(2));
    EXPECT_EQ(JobRules::first_state({.n_pes = 1, .n_processes = 1}).witness, kNoProc);
}

TEST(RulesOfOnePe, WitnessTakesOverAloneAndAnotherSpareKeepsTheCopy) {
    const JobShape shape{.n_pes = 1, .n_processes = 3};
    const JobRules rules{shape};
    JobState state = JobRules::first_state(shape);
    ASSERT_EQ(state.witness, ProcId(1));
    state.version = Version(2);
    const std::vector<Death> dead{death_of(0)};
    const JobState faulted = rules.after_deaths(state, dead).value();
    ASSERT_EQ(faulted.stage, Stage::faulted);
    const JobState planned = rules.after_deaths(faulted, dead).value();
    ASSERT_EQ(planned.stage, Stage::planned);
    EXPECT_EQ(shape.holder(planned, PeId(0)), ProcId(1));
    EXPECT_EQ(keeper_of(shape, planned, PeId(0)), ProcId(1));
    const JobState restored = rules.after_ready(planned, Goal::restore);
    EXPECT_EQ(restored.witness, ProcId(2));
    EXPECT_EQ(keeper_of(shape, restored, PeId(0)), kNoProc);
    const JobState running = rules.after_ready(restored, Goal::protect);
    EXPECT_EQ(keeper_of(shape, running, PeId(0)), ProcId(2));
}

TEST(RulesOfOnePe, WithoutASpareItIsUnprotected) {
    const JobShape shape{.n_pes = 1, .n_processes = 1};
    const JobRules rules{shape};
    JobState state = JobRules::first_state(shape);
    state.version = Version(2);
    const JobState planned =
        rules.after_restart(state, {Goal::restart, false, JobRules::hash_of(state.failed)}, {}).value();
    const JobState restored = rules.after_ready(planned, Goal::restore);
    EXPECT_EQ(restored.unprotected, std::vector{PeId(0)});
    EXPECT_EQ(rules.after_ready(restored, Goal::protect).unprotected, std::vector{PeId(0)});
}

// Its node has the copies, also of one that dies together with the lowest spare.
TEST(RulesOfOnePe, InMemoryOfItsNodeItNeedsNoWitness) {
    const JobShape shape{.n_pes = 1, .n_processes = 4, .memory = &node_memory()};
    const JobRules rules{shape};
    JobState state = JobRules::first_state(shape);
    EXPECT_EQ(state.witness, kNoProc);
    state.version = Version(2);
    EXPECT_EQ(rules.protected_losses(state, {}), 1);
    const std::vector<Death> dead{death_of(0), death_of(1)};
    const JobState faulted = rules.after_loss_of_holders(state, dead);
    ASSERT_EQ(faulted.stage, Stage::faulted);
    const JobState planned = rules.after_loss_of_holders(faulted, dead);
    ASSERT_EQ(planned.stage, Stage::planned);
    EXPECT_EQ(shape.holder(planned, PeId(0)), ProcId(2));
    EXPECT_TRUE(missing_shares(shape, planned, PeId(0)).empty()) << "nothing is sent again";
    const JobState restored = rules.after_ready(planned, Goal::restore);
    const JobState running = rules.after_ready(restored, Goal::protect);
    EXPECT_TRUE(running.unprotected.empty());
    EXPECT_EQ(running.witness, kNoProc);
    EXPECT_EQ(rules.protected_losses(running, dead), 1) << "process 3 is left";
    const std::vector<Death> all{death_of(0), death_of(1), death_of(2), death_of(3)};
    EXPECT_EQ(rules.protected_losses(running, all), 0);
}

// Whoever does not take part counts on that.
TEST(RulesOfOnePe, WitnessIsTheLowestSpareWhateverTheMemoryDomains) {
    const DomainMap domains({DomainId(0), DomainId(0), kNoDomain, DomainId(1)});
    EXPECT_EQ(JobRules::first_state({.n_pes = 1, .n_processes = 4, .domains = &domains}).witness, ProcId(1));
}

// Fewer shadows have to move.
TEST(Rules, ASpareOfTheSameMemoryDomainTakesOver) {
    const DomainMap domains({DomainId(0), DomainId(0), DomainId(1), DomainId(1), DomainId(1), DomainId(0)});
    const JobShape shape{.n_pes = 4, .n_processes = 6, .domains = &domains};
    const JobRules rules{shape};
    JobState state;
    state.version = Version(1);
    // PEs 1 and 2 are in different domains, so they are not each other's keepers.
    const std::vector<Death> dead{death_of(1), death_of(2)};
    const JobState faulted = rules.after_deaths(state, dead).value();
    EXPECT_EQ(faulted.unprotected, (std::vector<PeId>{PeId(0), PeId(3)}));
    const Readiness ready{Goal::restart, false, JobRules::hash_of(faulted.failed)};
    const JobState planned = rules.after_restart(faulted, ready, dead).value();
    EXPECT_EQ(planned.stage, Stage::planned);
    EXPECT_EQ(shape.holder(planned, PeId(1)), ProcId(5));
    EXPECT_EQ(shape.holder(planned, PeId(2)), ProcId(4));
}

// Nodes 0, 1, 2 with two PEs and one spare each, version 1.
class RulesOfNodes : public ::testing::Test {
protected:
    RulesOfNodes() { state_.version = Version(1); }

    [[nodiscard]] static NodeMap nodes_of(std::vector<int> numbers) {
        std::vector<NodeId> nodes;
        for (const int number : numbers) {
            nodes.emplace_back(number);
        }
        return NodeMap(nodes);
    }
    [[nodiscard]] NodeLosses losses(const JobShape& shape, std::vector<Death> dead = {}, int n_on_demand = 0) const {
        return JobRules(shape).node_losses(state_, dead, n_on_demand);
    }
    static void expect(const NodeLosses& seen, int n_nodes, int n_survived, int fatal, NodeLoss why) {
        EXPECT_EQ(seen.n_nodes, n_nodes);
        EXPECT_EQ(seen.n_survived, n_survived);
        EXPECT_EQ(seen.fatal, NodeId(fatal));
        EXPECT_EQ(seen.why, why);
    }

    NodeMap nodes_ = nodes_of({0, 0, 1, 1, 2, 2, 0, 1, 2});
    JobShape shape_{.n_pes = 6, .n_processes = 9, .nodes = &nodes_};
    JobState state_;
};

TEST_F(RulesOfNodes, AnyMayBeLost) {
    EXPECT_EQ(losses({.n_pes = 6, .n_processes = 9}).n_nodes, 0) << "a job on one node";
    expect(losses(shape_), 3, 3, -1, NodeLoss::survived);
}

TEST_F(RulesOfNodes, SparesAreNeededElsewhere) {
    // The spare of node 0 is gone: if node 1 is lost, one is left for two PEs.
    expect(losses(shape_, {death_of(6)}), 3, 1, 1, NodeLoss::too_few_spares);
    expect(losses(shape_, {death_of(6)}, 1), 3, 3, -1, NodeLoss::survived);
}

TEST_F(RulesOfNodes, WithoutALocalCopyNoNodeMayBeLost) {
    shape_.keeps_near = true;
    expect(losses(shape_), 3, 0, 0, NodeLoss::copies_stay);
}

TEST_F(RulesOfNodes, NothingToGoBackTo) {
    state_.version = kNoVersion;
    expect(losses(shape_), 3, 0, 0, NodeLoss::nothing_committed);
}

TEST_F(RulesOfNodes, TheMajorityHasToLive) {
    const NodeMap two = nodes_of({0, 0, 1, 1, 0, 0, 1, 1});
    expect(losses({.n_pes = 4, .n_processes = 8, .nodes = &two}), 2, 1, 0, NodeLoss::majority);
    const NodeMap uneven = nodes_of({0, 1, 1, 1, 0, 0, 0, 1});
    expect(losses({.n_pes = 4, .n_processes = 8, .nodes = &uneven}), 2, 1, 1, NodeLoss::majority);
}

// The kept copies of PEs 2 and 3 are on node 2, those of 4 and 5 on node 0.
TEST_F(RulesOfNodes, WhatADeathLeavesOpen) {
    const std::vector<Death> dead{death_of(2)};
    // PE 0, on node 0, has lost its copy; PE 2 has only the one on node 2.
    expect(losses(shape_, dead), 3, 1, 0, NodeLoss::unprotected_pe);
    state_ = JobRules(shape_).after_deaths(state_, dead).value();
    expect(losses(shape_, dead), 3, 1, 0, NodeLoss::unprotected_pe);
}

TEST_F(RulesOfNodes, ANodeOfSparesIsNoLoss) {
    const NodeMap spare_node = nodes_of({0, 0, 1, 1, 2, 2});
    expect(losses({.n_pes = 4, .n_processes = 6, .nodes = &spare_node}), 3, 2, 0, NodeLoss::majority);
    const NodeMap only = nodes_of({0, 0, 0, 1, 1, 1});
    expect(losses({.n_pes = 3, .n_processes = 6, .nodes = &only}), 2, 1, 0, NodeLoss::majority);
}

TEST_F(RulesOfNodes, ANodeWhereNobodyLivesDoesNotCount) {
    const NodeMap spare_node = nodes_of({0, 0, 1, 1, 2, 3});
    expect(losses({.n_pes = 4, .n_processes = 6, .nodes = &spare_node}, {death_of(4)}), 3, 1, 0, NodeLoss::majority);
}

TEST(HashOfAList, DependsOnOrderAndLength) {
    const std::vector<std::int32_t> ab{1, 2};
    const std::vector<std::int32_t> ba{2, 1};
    const std::vector<std::int32_t> a{1};
    EXPECT_NE(JobRules::hash_of(ab), JobRules::hash_of(ba));
    EXPECT_NE(JobRules::hash_of(ab), JobRules::hash_of(a));
    const std::vector<FailedPe> failed{{PeId(1), kKilled}, {PeId(2), kKilled}};
    EXPECT_EQ(JobRules::hash_of(ab), JobRules::hash_of(failed));
}

}  // namespace
}  // namespace sft
