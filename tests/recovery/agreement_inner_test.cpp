// A process in the middle of the tree of the agreement: what it passes on, sums up and says, and what it does not take.
#include "tests/recovery/agreement_tree.hpp"

namespace sft {
namespace {

class Inner : public Tree6 {
protected:
    Inner() : Tree6(1) {}
};

TEST_F(Inner, IsReadyWhenItsSubtreeIsAndSaysSoOnce) {
    EXPECT_EQ(agreement_->depends_on(), ProcId(0));
    ready(Goal::arrive);
    receive(2, ready_message(Goal::arrive));
    EXPECT_TRUE(sent_.empty());
    receive(5, ready_message(Goal::arrive));
    EXPECT_EQ(told(MessageKind::ready), List{0});
    receive(5, ready_message(Goal::arrive));
    EXPECT_EQ(told(MessageKind::ready), List{});
}

TEST_F(Inner, PassesAProposalOnAndAcceptsItWithItsSubtree) {
    const JobState next = rules_.after_ready(agreement_->decided(), Goal::arrive);
    receive(2, with(MessageKind::propose, next));
    EXPECT_TRUE(sent_.empty()) << "not from its parent";
    receive(0, with(MessageKind::propose, next));
    EXPECT_EQ(told(MessageKind::propose), List{5});
    Message accepted = message(MessageKind::accepted);
    ++accepted.index;
    receive(5, accepted);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].second.index, next.index);
    EXPECT_EQ(told(MessageKind::accepted), List{0});
    receive(5, accepted);
    EXPECT_EQ(told(MessageKind::accepted), List{});
    receive(0, with(MessageKind::decide, next));
    EXPECT_EQ(told(MessageKind::decide), List{5});
    receive(0, with(MessageKind::decide, next));
    EXPECT_EQ(told(MessageKind::decide), List{}) << "known";
    EXPECT_EQ(decided_.size(), 1U);
}

TEST_F(Inner, TakesADecisionOfAnotherBallotAndDoesNotPassItOn) {
    Message decide = with(MessageKind::decide, rules_.after_ready(agreement_->decided(), Goal::arrive));
    ++decide.ballot.number;
    receive(0, decide);
    EXPECT_EQ(decided_.size(), 1U);
    EXPECT_TRUE(sent_.empty());
}

TEST_F(Inner, LearnsOfDeathsFromADecision) {
    JobState next = rules_.after_deaths(agreement_->decided(), std::vector{certain(4)}).value();
    receive(0, with(MessageKind::decide, next));
    EXPECT_EQ(agreement_->known_deaths(), std::vector{certain(4)});
    EXPECT_EQ(heard_.size(), 1U);
    sent_.clear();
    next.index += 1;
    receive(0, with(MessageKind::decide, next));
    EXPECT_EQ(told(MessageKind::decide), List{5}) << "nothing is new about that death";
}

TEST_F(Inner, SaysWhatItsSubtreeHasAccepted) {
    ready(Goal::arrive);
    Message child = ready_message(Goal::arrive);
    child.accepted = {Acceptance::Kind::differs, {}};
    receive(5, child);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].second.accepted.kind, Acceptance::Kind::differs);
}

TEST_F(Inner, TellsAParticipantThatTakesItForTheLeaderOfALaterValue) {
    const JobState first = agreement_->decided();
    Message deaths = message(MessageKind::deaths);
    receive(0, with(MessageKind::decide, rules_.after_ready(first, Goal::arrive)));
    sent_.clear();
    receive(3, deaths);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].second.state, agreement_->decided());
    EXPECT_EQ(told(MessageKind::report), List{3});
    receive(7, deaths);
    EXPECT_EQ(told(MessageKind::report), List{}) << "a spare need not know";
    JobState ended = rules_.after_end_request(agreement_->decided(), {true, EndReason::requested, ProcId(0), 5}, {});
    receive(0, with(MessageKind::decide, ended));
    sent_.clear();
    receive(3, deaths);
    EXPECT_EQ(told(MessageKind::report), List{}) << "the job is over";
}

TEST_F(Inner, WhatIsKnownIsToldNobody) {
    Message deaths = message(MessageKind::deaths);
    deaths.deaths = {certain(4)};
    receive(2, deaths);
    EXPECT_EQ(told(MessageKind::deaths), List{0});
    receive(3, deaths);
    EXPECT_EQ(told(MessageKind::deaths), List{});
}

TEST_F(Inner, SendsAwayWhoJoinsTooLateOrNowhere) {
    Message join = message(MessageKind::join);
    join.node = NodeId(1);
    receive(8, join);
    EXPECT_EQ(told(MessageKind::excluded), List{8}) << "there is no such node";
    JobState joined = agreement_->decided();
    ++joined.index;
    joined.joined = {{ProcId(9), NodeId(0)}};
    receive(0, with(MessageKind::decide, joined));
    sent_.clear();
    join.node = NodeId(0);
    receive(8, join);
    EXPECT_EQ(told(MessageKind::excluded), List{8});
    receive(9, join);
    EXPECT_EQ(sent_[0].second.state, joined);
    EXPECT_EQ(told(MessageKind::decide), List{9}) << "it may not know that it has joined";
    receive(7, join);
    EXPECT_TRUE(sent_.empty()) << "it has been there from the start";
}

TEST_F(Inner, JoinsHigherBallotsOnlyAndAnswersWithItsSubtree) {
    Message collect = with(MessageKind::collect, agreement_->decided());
    receive(0, collect);
    EXPECT_TRUE(sent_.empty()) << "that is the ballot it is in";
    collect.ballot = {0, 1};
    collect.deaths = {certain(7)};
    ready(Goal::arrive);
    sent_.clear();
    receive(0, collect);
    EXPECT_EQ(told(MessageKind::collect), List{5});
    EXPECT_EQ(agreement_->known_deaths(), std::vector{certain(7)});
    Message report = message(MessageKind::report);
    report.ready = {Goal::arrive, false, 0};
    report.accepted = {Acceptance::Kind::by_ready, {}};
    report.deaths = {certain(6)};
    report.end = {true, EndReason::requested, ProcId(5), 2};
    receive(5, report);
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].second.kind, MessageKind::deaths) << "the leader may wait for that one";
    const auto& [to, answer] = sent_[1];
    EXPECT_EQ(to, ProcId(0));
    EXPECT_EQ(answer.kind, MessageKind::report);
    EXPECT_EQ(answer.end, report.end);
    EXPECT_EQ(answer.ready.goal, Goal::arrive);
    EXPECT_EQ(answer.accepted.kind, Acceptance::Kind::by_ready);
    EXPECT_EQ(agreement_->known_deaths(), (std::vector{certain(6), certain(7)}));
}

TEST_F(Inner, AnswersALeaderThatIsBehindWithTheLaterValue) {
    const JobState first = agreement_->decided();
    receive(0, with(MessageKind::decide, rules_.after_ready(first, Goal::arrive)));
    sent_.clear();
    Message collect = with(MessageKind::collect, first);
    collect.ballot = {0, 1};
    receive(0, collect);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].first, ProcId(0));
    EXPECT_EQ(sent_[0].second.kind, MessageKind::report);
    EXPECT_EQ(sent_[0].second.state, agreement_->decided());
    EXPECT_EQ(agreement_->ballot().number, 0U) << "it has not joined";
}

TEST_F(Inner, TellsTheLeaderOfADeathAndTheNextOneOfAll) {
    agreement_->process_died(certain(4));
    EXPECT_EQ(told(MessageKind::deaths), List{0});
    agreement_->process_died(certain(4));
    EXPECT_EQ(told(MessageKind::deaths), List{});
    agreement_->request_end(EndReason::requested, 3);
    EXPECT_EQ(told(MessageKind::end_request), List{0});
    // Now it leads itself, and asks.
    agreement_->process_died(certain(0));
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_[0].second.deaths, (std::vector{certain(0), certain(4)}));
    EXPECT_EQ(told(MessageKind::collect), (List{2, 3, 5}));
    EXPECT_EQ(agreement_->ballot(), (Ballot{1, 1}));
}

TEST_F(Inner, AnswersAQuestionWithItsTime) {
    Message ping = message(MessageKind::ping);
    ping.asked_ns = 5;
    receive(3, ping);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].second.asked_ns, 5);
    EXPECT_EQ(told(MessageKind::heartbeat), List{3});
}

TEST_F(Inner, PassesARequestForTheEndOn) {
    Message request = message(MessageKind::end_request);
    receive(5, request);
    EXPECT_TRUE(sent_.empty()) << "that asks for nothing";
    request.end = {true, EndReason::requested, ProcId(5), 2};
    receive(5, request);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].second.end, request.end);
    EXPECT_EQ(told(MessageKind::end_request), List{0});
}

// Who has no lease can have been called lost itself: what it is told proves nothing.
TEST_F(Inner, WhatItIsToldIsCertainOnlyIfItIsPresent) {
    Message deaths = message(MessageKind::deaths);
    deaths.deaths = {certain(4)};
    has_lease_ = false;
    receive(2, deaths);
    ASSERT_EQ(agreement_->known_deaths().size(), 1U);
    EXPECT_FALSE(agreement_->known_deaths()[0].is_certain);
}

TEST_F(Inner, StopsWhenItReadsItsOwnNumberAmongTheDead) {
    Message deaths = message(MessageKind::deaths);
    deaths.deaths = {certain(1)};
    receive(2, deaths);
    ASSERT_EQ(stops_.size(), 1U);
    EXPECT_EQ(stops_[0].reason, Stop::Reason::excluded);
    EXPECT_TRUE(agreement_->known_deaths().empty());
}

TEST_F(Inner, WhoLeavesSaysThatTheJobIsOver) {
    const JobState ended =
        rules_.after_end_request(agreement_->decided(), {true, EndReason::requested, ProcId(0), 5}, {});
    receive(0, with(MessageKind::propose, ended));
    sent_.clear();
    agreement_->process_left(ProcId(0), Stage::ended);
    ASSERT_EQ(decided_.size(), 1U);
    EXPECT_EQ(decided_[0], ended);
    EXPECT_EQ(agreement_->depends_on(), kNoProc);
    agreement_->process_left(ProcId(2), Stage::ended);
    EXPECT_EQ(decided_.size(), 1U);
    EXPECT_TRUE(stops_.empty());
}

// The leader may die before it has told them.
TEST_F(Inner, TellsItsShareOfTheSparesThatTheJobIsOver) {
    const JobState ended =
        rules_.after_end_request(agreement_->decided(), {true, EndReason::requested, ProcId(0), 5}, {});
    receive(0, with(MessageKind::decide, ended));
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[1].second.state, ended);
    EXPECT_EQ(told(MessageKind::decide), (List{5, 7})) << "its child, and the second of two spares";
}

TEST_F(Inner, GivesWayWithAllOfItsNode) {
    JobState joined = agreement_->decided();
    ++joined.index;
    joined.joined = {{ProcId(9), NodeId(0)}};
    receive(0, with(MessageKind::decide, joined));
    agreement_->process_died(certain(3));
    sent_.clear();
    agreement_->give_way();
    EXPECT_EQ(told(MessageKind::excluded), (List{0, 2, 4, 5, 6, 7, 9}));
    ASSERT_EQ(stops_.size(), 1U);
    EXPECT_EQ(stops_[0].reason, Stop::Reason::gives_way);
    agreement_->give_way();
    EXPECT_EQ(stops_.size(), 1U);
    EXPECT_TRUE(sent_.empty());
}

// News say nothing about whom the sender takes for the leader; it may have to hear what it is.
TEST_F(Inner, TellsWhoSendsNewsThatItTakesPart) {
    JobState planned = rules_.after_deaths(agreement_->decided(), std::vector{certain(4)}).value();
    planned = rules_.after_restart(planned, {Goal::restart, false, JobRules::hash_of(planned.failed)}, planned.deaths)
                  .value();
    ASSERT_EQ(shape_.held_by(planned, ProcId(6)), PeId(4));
    Message news = with(MessageKind::news, agreement_->decided());
    news.deaths = {certain(4)};
    receive(0, with(MessageKind::decide, planned));
    sent_.clear();
    receive(6, news);
    EXPECT_EQ(told(MessageKind::report), List{6});
    receive(2, news);
    EXPECT_EQ(told(MessageKind::report), List{}) << "it knows that it takes part";
    receive(7, news);
    EXPECT_EQ(told(MessageKind::report), List{}) << "it does not";
    ++planned.index;
    receive(6, with(MessageKind::news, planned));
    EXPECT_EQ(agreement_->decided().index, planned.index - 1) << "a participant hears of values by the tree";
}

TEST_F(Inner, WhoLeavesFromAValueThatItHasNotAcceptedHasExcludedIt) {
    agreement_->process_left(ProcId(0), Stage::finished);
    EXPECT_EQ(stops_.size(), 1U);
    EXPECT_TRUE(decided_.empty());
}

}  // namespace
}  // namespace sft
