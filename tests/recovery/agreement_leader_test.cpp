// The leader of the agreement: what it says to whom, once, and what it does not count. Whole jobs are simulated
// (tests/sim).
#include <algorithm>

#include "tests/recovery/agreement_tree.hpp"

namespace sft {
namespace {

class Leader : public Tree6 {
protected:
    Leader() : Tree6(0) {}
    void all_ready(Goal goal) {
        for (int child = 1; child <= 4; ++child) {
            receive(child, ready_message(goal));
        }
        ready(goal);
    }
};

TEST_F(Leader, DecidesWhenAllAreReadyAndTellsItsChildren) {
    ready(Goal::arrive);
    for (int child = 1; child <= 3; ++child) {
        receive(child, ready_message(Goal::arrive));
    }
    receive(5, ready_message(Goal::arrive));  // no child
    EXPECT_TRUE(decided_.empty());
    receive(4, ready_message(Goal::arrive));
    ASSERT_EQ(decided_.size(), 1U);
    EXPECT_EQ(decided_[0].stage, Stage::replicating);
    EXPECT_EQ(told(MessageKind::decide), (List{1, 2, 3, 4}));
    EXPECT_EQ(agreement_->depends_on(), kNoProc);
    EXPECT_EQ(agreement_->leader(), self_);
}

TEST_F(Leader, ProposesWhatClaimsSomethingAboutAllAndDecidesItWhenAllHaveAccepted) {
    all_ready(Goal::arrive);
    sent_.clear();
    all_ready(Goal::replicate);
    EXPECT_EQ(told(MessageKind::propose), (List{1, 2, 3, 4}));
    Message accepted = message(MessageKind::accepted);
    ++accepted.index;
    for (int child = 1; child <= 3; ++child) {
        receive(child, accepted);
    }
    Message stale = accepted;
    --stale.index;
    receive(4, stale);
    receive(5, accepted);
    EXPECT_EQ(decided_.size(), 1U);
    receive(4, accepted);
    ASSERT_EQ(decided_.size(), 2U);
    EXPECT_EQ(decided_[1].stage, Stage::updating);
    EXPECT_EQ(told(MessageKind::decide), (List{1, 2, 3, 4}));
}

TEST_F(Leader, WhoIsReadyUnderAnotherValueOrBallotIsNotCounted) {
    for (int child = 1; child <= 3; ++child) {
        receive(child, ready_message(Goal::arrive));
    }
    ready(Goal::arrive);
    Message stale = ready_message(Goal::arrive);
    ++stale.index;
    receive(4, stale);
    stale = ready_message(Goal::arrive);
    ++stale.ballot.number;
    receive(4, stale);
    EXPECT_TRUE(decided_.empty());
    agreement_->ready(agreement_->decided().index + 1, Goal::replicate);
    receive(4, ready_message(Goal::arrive));
    ASSERT_EQ(decided_.size(), 1U) << "being ready for what is not decided yet changes nothing";
}

TEST_F(Leader, BeginsABallotWhenAParticipantDiesAndAsksOnce) {
    agreement_->process_died(certain(5));
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
    EXPECT_EQ(agreement_->ballot().number, 1U);
    agreement_->process_died(certain(5));
    EXPECT_EQ(told(MessageKind::collect), List{}) << "that is known";
    agreement_->process_died(certain(7));
    EXPECT_EQ(told(MessageKind::collect), List{}) << "a spare takes no part";
    EXPECT_EQ(heard_.size(), 2U);
    // All have answered: the fault is proposed.
    for (int child = 1; child <= 4; ++child) {
        Message report = message(MessageKind::report);
        report.accepted = {Acceptance::Kind::by_ready, {}};
        receive(child, report);
    }
    EXPECT_EQ(told(MessageKind::propose), (List{1, 2, 3, 4}));
}

TEST_F(Leader, BeginsAgainFromALaterValue) {
    agreement_->process_died(certain(5));
    sent_.clear();
    const JobState later = rules_.after_ready(agreement_->decided(), Goal::arrive);
    receive(2, with(MessageKind::report, later));
    ASSERT_EQ(decided_.size(), 1U);
    EXPECT_EQ(decided_[0], later);
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
    receive(3, with(MessageKind::report, later));
    EXPECT_EQ(told(MessageKind::collect), List{}) << "no later one";
}

TEST_F(Leader, StopsWithoutAQuorumAndSaysHowManyThereAre) {
    agreement_->process_died(uncertain(3));
    agreement_->process_died(uncertain(4));
    EXPECT_TRUE(stops_.empty());
    agreement_->process_died(uncertain(5));
    EXPECT_TRUE(stops_.empty()) << "half, with the lowest";
    agreement_->process_died(uncertain(2));
    ASSERT_EQ(stops_.size(), 1U);
    EXPECT_EQ(stops_[0].reason, Stop::Reason::no_quorum);
    EXPECT_EQ(stops_[0].n_reachable, 2);
    EXPECT_EQ(stops_[0].n_all, 6);
    sent_.clear();
    receive(1, message(MessageKind::excluded));
    receive(1, message(MessageKind::ping));
    EXPECT_EQ(stops_.size(), 1U) << "who has stopped hears nothing";
    EXPECT_TRUE(sent_.empty());
}

TEST_F(Leader, TellsThoseItTookForDeadToStop) {
    agreement_->process_died(certain(4));
    agreement_->process_died(uncertain(5));
    sent_.clear();
    receive(5, ready_message(Goal::arrive));
    EXPECT_EQ(told(MessageKind::excluded), List{5});
    receive(4, ready_message(Goal::arrive));
    EXPECT_EQ(told(MessageKind::excluded), List{}) << "it is dead";
}

TEST_F(Leader, EndsTheJobOnRequestAndTellsSparesAsWell) {
    agreement_->request_end(EndReason::requested, 9);
    EXPECT_EQ(told(MessageKind::propose), (List{1, 2, 3, 4}));
    Message accepted = message(MessageKind::accepted);
    ++accepted.index;
    for (int child = 1; child <= 4; ++child) {
        receive(child, accepted);
    }
    ASSERT_EQ(decided_.size(), 1U);
    EXPECT_EQ(decided_[0].exit_status, 9);
    EXPECT_EQ(decided_[0].ended_by, self_);
    for (const auto& [process, message] : sent_) {
        EXPECT_EQ(message.state, decided_[0]) << "to " << process.value();
    }
    List to = told(MessageKind::decide);
    std::sort(to.begin(), to.end());
    to.erase(std::unique(to.begin(), to.end()), to.end());
    EXPECT_EQ(to, (List{1, 2, 3, 4, 6, 7}));
    agreement_->request_end(EndReason::requested, 9);
    agreement_->process_died(certain(3));
    EXPECT_TRUE(sent_.empty()) << "after the end nothing matters";
}

TEST_F(Leader, CountsASpareInThatJoins) {
    Message join = message(MessageKind::join);
    join.node = NodeId(0);
    receive(8, join);
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_[0].second.state->joined, (std::vector<Joined>{{ProcId(8), NodeId(0)}}));
    EXPECT_EQ(told(MessageKind::propose), (List{1, 2, 3, 4}));
}

TEST_F(Leader, CountsNobodyInBetweenTheStepsOfACommit) {
    all_ready(Goal::arrive);
    ASSERT_EQ(agreement_->decided().stage, Stage::replicating);
    sent_.clear();
    Message join = message(MessageKind::join);
    join.node = NodeId(0);
    receive(8, join);
    EXPECT_TRUE(sent_.empty());
}

// Its request must reach whoever leads next, and the same leader only once.
class Leaf : public Tree6 {
protected:
    Leaf() : Tree6(2) {}
};

TEST_F(Leaf, AsksEveryLeaderForTheEndOnce) {
    agreement_->request_end(EndReason::requested, 3);
    EXPECT_EQ(told(MessageKind::end_request), List{0});
    agreement_->process_died(certain(4));
    EXPECT_EQ(told(MessageKind::deaths), List{0});
    agreement_->process_died(certain(0));
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].second.kind, MessageKind::deaths);
    EXPECT_EQ(sent_[0].second.deaths, (std::vector{certain(0), certain(4)}));
    EXPECT_EQ(sent_[1].second.kind, MessageKind::end_request);
    EXPECT_EQ(sent_[1].second.end.exit_status, 3);
    EXPECT_EQ(sent_[1].first, ProcId(1));
}

TEST_F(Leaf, TellsTheNextLeaderWhatTheLastOneKnew) {
    Message collect = with(MessageKind::collect, agreement_->decided());
    collect.ballot = {0, 1};
    collect.deaths = {certain(4)};
    receive(0, collect);
    sent_.clear();
    agreement_->process_died(certain(0));
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].first, ProcId(1));
    EXPECT_EQ(sent_[0].second.deaths, (std::vector{certain(0), certain(4)}));
}

// A spare that comes while the job runs.
class Newcomer : public Tree6 {
protected:
    Newcomer() : Tree6(8) {}
};

TEST_F(Newcomer, AsksEverybodyAndAgainAtEveryDeathUntilItIsCountedIn) {
    agreement_->request_join({ProcId(0), ProcId(1), ProcId(7)}, NodeId(0));
    for (const auto& [to, message] : sent_) {
        EXPECT_EQ(message.node, NodeId(0));
    }
    EXPECT_EQ(told(MessageKind::join), (List{0, 1, 7}));
    agreement_->process_died(certain(1));
    std::erase_if(sent_, [](const auto& item) { return item.second.kind == MessageKind::deaths; });
    EXPECT_EQ(told(MessageKind::join), (List{0, 7}));
    JobState joined = agreement_->decided();
    ++joined.index;
    joined.joined = {{ProcId(8), NodeId(0)}};
    receive(0, with(MessageKind::decide, joined));
    sent_.clear();
    agreement_->process_died(certain(2));
    EXPECT_EQ(told(MessageKind::deaths), List{0});
}

// All who were there when it came may be dead, and one of them may have counted it in.
TEST_F(Newcomer, AsksThoseWhoHaveComeLaterAsWell) {
    agreement_->request_join({ProcId(0), ProcId(1)}, NodeId(0));
    Message join = message(MessageKind::join);
    join.node = NodeId(0);
    receive(9, join);
    receive(9, join);
    sent_.clear();
    agreement_->process_died(certain(0));
    std::erase_if(sent_, [](const auto& item) { return item.second.kind == MessageKind::deaths; });
    EXPECT_EQ(told(MessageKind::join), (List{1, 9}));
}

// Between nodes a sleeping spare may be the only one that can tell of a death on its node, and has to know whom.
class LeaderOfNodes : public Leader {
protected:
    const NodeMap nodes_{
        std::vector<NodeId>{NodeId(0), NodeId(0), NodeId(0), NodeId(1), NodeId(1), NodeId(1), NodeId(0), NodeId(1)}};
};

TEST_F(LeaderOfNodes, TellsSleepingSparesOfTheDead) {
    JobShape shape = shape_;
    shape.nodes = &nodes_;
    const JobRules rules(shape);
    Agreement agreement({.shape = shape, .self = self_, .rules = &rules, .world = this, .first = {}});
    agreement.process_died(certain(5));
    std::erase_if(sent_, [](const auto& item) { return item.second.kind == MessageKind::collect; });
    for (const auto& [to, message] : sent_) {
        EXPECT_EQ(message.deaths, std::vector{certain(5)});
    }
    EXPECT_EQ(told(MessageKind::deaths), (List{6, 7}));
}

}  // namespace
}  // namespace sft
