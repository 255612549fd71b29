// Who tells whom of a death that it has heard of in passing: whatever message brings it, whoever has to know must hear
// of it, for nobody else may be left to tell. And what is forgotten, or is not, when a ballot or a value follows
// another one.
#include <algorithm>

#include "tests/recovery/agreement_tree.hpp"

namespace sft {
namespace {

using Sent = std::vector<std::pair<ProcId, Message>>;

std::vector<int> receivers(const Sent& sent, MessageKind kind) {
    std::vector<int> to;
    for (const auto& [process, message] : sent) {
        if (message.kind == kind) {
            to.push_back(process.value());
        }
    }
    return to;
}

// The last message of a kind.
Message last_of(const Sent& sent, MessageKind kind) {
    const auto at =
        std::find_if(sent.rbegin(), sent.rend(), [&](const auto& item) { return item.second.kind == kind; });
    EXPECT_NE(at, sent.rend()) << name_of(kind);
    return at == sent.rend() ? Message{} : at->second;
}

std::vector<Death> all_certain(int first, int last) {
    std::vector<Death> dead;
    for (int process = first; process <= last; ++process) {
        dead.push_back(certain(process));
    }
    return dead;
}

class LeafHears : public Tree6 {
protected:
    LeafHears() : Tree6(2) {}
    [[nodiscard]] Message collect(const JobState& state, std::uint32_t number, std::vector<Death> dead = {}) const {
        Message made = with(MessageKind::collect, state);
        made.ballot = {0, number};
        made.deaths = std::move(dead);
        return made;
    }
};

TEST_F(LeafHears, PassesOnWhatADeadLeaderKnewWhenItAskedAboutAnOldValue) {
    const JobState first = agreement_->decided();
    receive(0, with(MessageKind::decide, rules_.after_ready(first, Goal::arrive)));
    agreement_->process_died(certain(0));
    sent_.clear();
    receive(1, collect(first, 1, {certain(4)}));
    EXPECT_EQ(receivers(sent_, MessageKind::deaths), List{1});
    EXPECT_EQ(last_of(sent_, MessageKind::deaths).deaths, (std::vector{certain(0), certain(4)}));
}

TEST_F(LeafHears, TellsOfDeathsTogetherWithALaterValue) {
    const JobState first = agreement_->decided();
    receive(0, with(MessageKind::decide, rules_.after_ready(first, Goal::arrive)));
    agreement_->process_died(certain(4));
    sent_.clear();
    receive(0, collect(first, 1));
    EXPECT_EQ(receivers(sent_, MessageKind::deaths), List{}) << "nothing is new";
    EXPECT_EQ(last_of(sent_, MessageKind::report).deaths, std::vector{certain(4)});
}

TEST_F(LeafHears, AnswersWithTheDeathsThatTheLeaderDidNotName) {
    agreement_->process_died(certain(3));
    agreement_->process_died(certain(4));
    sent_.clear();
    receive(0, collect(agreement_->decided(), 1, {certain(3)}));
    EXPECT_EQ(last_of(sent_, MessageKind::report).deaths, std::vector{certain(4)});
    sent_.clear();
    receive(0, collect(agreement_->decided(), 2, {certain(3), certain(4)}));
    EXPECT_EQ(told(MessageKind::report), List{0}) << "the leader knows";
}

TEST_F(LeafHears, LeadsWhenADecisionTellsItThatItIsTheOne) {
    agreement_->process_died(certain(1));
    const JobState next = rules_.after_deaths(agreement_->decided(), std::vector{certain(0)}).value();
    sent_.clear();
    receive(3, with(MessageKind::decide, next));
    EXPECT_EQ(receivers(sent_, MessageKind::collect), (List{3, 4, 5}));
}

TEST_F(LeafHears, GoesOnFromALateDecisionOfADeadLeader) {
    const JobState first = agreement_->decided();
    Message late = with(MessageKind::decide, rules_.after_ready(first, Goal::arrive));
    agreement_->process_died(certain(0));
    agreement_->process_died(certain(1));
    for (const int child : {3, 4, 5}) {
        receive(child, message(MessageKind::report));
    }
    EXPECT_EQ(last_of(sent_, MessageKind::propose).index, first.index + 1);
    sent_.clear();
    receive(3, late);
    EXPECT_EQ(receivers(sent_, MessageKind::propose), (List{3, 4, 5}));
    EXPECT_EQ(last_of(sent_, MessageKind::propose).index, first.index + 2);
}

TEST_F(LeafHears, WhatAValueSaysOfDeathsIsKnown) {
    const JobState next = rules_.after_deaths(agreement_->decided(), std::vector{certain(4)}).value();
    receive(0, collect(next, 1));
    EXPECT_EQ(agreement_->known_deaths(), std::vector{certain(4)});
}

// The leader's ballot shows that it knows; what is not in it is said to others in the end.
TEST_F(LeafHears, DoubtsWhetherTheLeaderKnowsUntilItSaysSo) {
    agreement_->process_died(certain(4));
    sent_.clear();
    for (int period = 0; period < 2; ++period) {
        agreement_->remind();
        EXPECT_TRUE(sent_.empty());
    }
    agreement_->remind();
    EXPECT_EQ(told(MessageKind::news), List{1});
    receive(0, collect(agreement_->decided(), 1, {certain(4)}));
    sent_.clear();
    for (int period = 0; period < 6; ++period) {
        agreement_->remind();
    }
    EXPECT_TRUE(sent_.empty());
    agreement_->process_died(certain(5));
    sent_.clear();
    for (int period = 0; period < 3; ++period) {
        agreement_->remind();
    }
    EXPECT_EQ(told(MessageKind::news), List{1});
}

// Deaths of a value are in the order in which they were agreed on, and were looked for as if they were sorted.
TEST_F(LeafHears, DoubtsNothingThatTheValueSaysInWhicheverOrder) {
    JobState next = rules_.after_deaths(agreement_->decided(), all_certain(3, 4)).value();
    std::reverse(next.deaths.begin(), next.deaths.end());
    receive(0, with(MessageKind::decide, next));
    for (int period = 0; period < 6; ++period) {
        agreement_->remind();
    }
    EXPECT_EQ(receivers(sent_, MessageKind::news), List{});
}

class InnerHears : public Tree6 {
protected:
    InnerHears() : Tree6(1) {}
};

TEST_F(InnerHears, TellsALeaderThatWaitsForADeadChildOfItsOwn) {
    agreement_->process_died(certain(5));
    sent_.clear();
    Message collect = with(MessageKind::collect, agreement_->decided());
    collect.ballot = {0, 1};
    receive(0, collect);
    EXPECT_EQ(receivers(sent_, MessageKind::collect), List{5});
    EXPECT_EQ(receivers(sent_, MessageKind::report), List{}) << "its child has not answered";
    EXPECT_EQ(last_of(sent_, MessageKind::deaths).deaths, std::vector{certain(5)});
    sent_.clear();
    ++collect.ballot.number;
    collect.deaths = {certain(5)};
    receive(0, collect);
    EXPECT_EQ(told(MessageKind::report), List{0});
}

TEST_F(InnerHears, EveryProposalIsAcceptedAnewByItsChild) {
    for (const Goal goal : {Goal::arrive, Goal::replicate}) {
        const JobState next = rules_.after_ready(agreement_->decided(), goal);
        receive(0, with(MessageKind::propose, next));
        EXPECT_EQ(told(MessageKind::propose), List{5});
        Message accepted = message(MessageKind::accepted);
        ++accepted.index;
        receive(5, accepted);
        EXPECT_EQ(told(MessageKind::accepted), List{0});
        receive(0, with(MessageKind::decide, next));
        EXPECT_EQ(told(MessageKind::decide), List{5});
    }
}

class LeaderHears : public Tree6 {
protected:
    LeaderHears() : Tree6(0) {}
    void report_from(std::initializer_list<int> children, Acceptance accepted = {Acceptance::Kind::differs, {}}) {
        for (const int child : children) {
            Message report = message(MessageKind::report);
            report.accepted = accepted;
            receive(child, report);
        }
    }
    void accept_by(std::initializer_list<int> children) {
        Message accepted = message(MessageKind::accepted);
        ++accepted.index;
        for (const int child : children) {
            receive(child, accepted);
        }
    }
};

TEST_F(LeaderHears, BeginsABallotForADeathThatComesWithAValueItKnows) {
    Message report = with(MessageKind::report, agreement_->decided());
    report.deaths = {certain(5)};
    receive(2, report);
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
    receive(3, report);
    EXPECT_EQ(told(MessageKind::collect), List{});
}

TEST_F(LeaderHears, EveryProposalIsAcceptedAnewByItsChildren) {
    agreement_->process_died(certain(5));
    report_from({1, 2, 3, 4});
    accept_by({1, 2, 3, 4});
    ASSERT_EQ(decided_.size(), 1U);
    agreement_->request_end(EndReason::requested, 4);
    EXPECT_EQ(decided_.size(), 1U) << "nobody has accepted that";
    accept_by({1, 2, 3, 4});
    EXPECT_EQ(decided_.size(), 2U);
}

// All have accepted it in an earlier ballot, this process as well.
TEST_F(LeaderHears, DecidesWhatItHasProposedBeforeIfAllHaveAcceptedThat) {
    agreement_->process_died(certain(5));
    report_from({1, 2, 3, 4});
    const Ballot proposed = agreement_->ballot();
    agreement_->process_died(certain(4));
    report_from({1, 2, 3}, {Acceptance::Kind::proposal, proposed});
    ASSERT_FALSE(decided_.empty());
    ASSERT_EQ(decided_[0].failed.size(), 1U);
    EXPECT_EQ(decided_[0].failed[0].pe, PeId(5));
}

// Those who take part then get it with the next ballot, in the tree of which the substitute has its place.
TEST_F(LeaderHears, TellsOfAChangeOfTheTreeByABallotOnly) {
    agreement_->process_died(certain(5));
    report_from({1, 2, 3, 4});
    accept_by({1, 2, 3, 4});
    ASSERT_EQ(agreement_->decided().stage, Stage::faulted);
    sent_.clear();
    const std::uint64_t hash = JobRules::hash_of(agreement_->decided().failed);
    agreement_->ready(agreement_->decided().index, Goal::restart, hash);
    for (const int child : {1, 2, 3, 4}) {
        Message ready = ready_message(Goal::restart);
        ready.ready.hash = hash;
        receive(child, ready);
    }
    EXPECT_EQ(told(MessageKind::propose), (List{1, 2, 3, 4}));
    accept_by({1, 2, 3, 4});
    ASSERT_EQ(agreement_->decided().stage, Stage::planned);
    EXPECT_EQ(receivers(sent_, MessageKind::decide), List{7}) << "the spare that is left";
    EXPECT_EQ(receivers(sent_, MessageKind::collect), (List{1, 2, 3, 4}));
}

TEST_F(LeaderHears, TellsItsShareOfTheSparesWhenItSeesOthersLeave) {
    agreement_->request_end(EndReason::requested, 4);
    sent_.clear();
    agreement_->process_left(ProcId(3), Stage::ended);
    EXPECT_EQ(told(MessageKind::decide), List{6});
}

// It has to be counted in when that is possible again, without asking once more.
TEST_F(LeaderHears, WhoWantsToJoinIsNotForgottenUnlessItDies) {
    const auto all_ready = [this](Goal goal) {
        for (const int child : {1, 2, 3, 4}) {
            receive(child, ready_message(goal));
        }
        ready(goal);
    };
    all_ready(Goal::arrive);
    for (const int process : {8, 9}) {
        Message join = message(MessageKind::join);
        join.node = NodeId(0);
        receive(process, join);
    }
    agreement_->process_died(certain(8));
    all_ready(Goal::replicate);
    accept_by({1, 2, 3, 4});
    ASSERT_EQ(agreement_->decided().stage, Stage::updating);
    sent_.clear();
    all_ready(Goal::update);
    ASSERT_EQ(agreement_->decided().stage, Stage::running);
    EXPECT_EQ(last_of(sent_, MessageKind::propose).state->joined, (std::vector<Joined>{{ProcId(9), NodeId(0)}}));
}

// One PE and a spare that is its witness, without which nobody would know what was decided.
class Alone : public ::testing::Test, public AgreementWorld {
public:
    void send(ProcId to, const Message& message) override { sent_.emplace_back(to, message); }
    void decided(const JobState& /*before*/, const JobState& after) override { decided_.push_back(after); }
    void heard_of_death(const Death& /*death*/) override {}
    void must_stop(const Stop& /*why*/) override { ADD_FAILURE(); }

protected:
    const JobShape shape_{.n_pes = 1, .n_processes = 3};
    const JobRules rules_{shape_};
    Sent sent_;
    std::vector<JobState> decided_;
    Agreement agreement_{Agreement::Options{
        .shape = shape_, .self = ProcId(0), .rules = &rules_, .world = this, .first = JobRules::first_state(shape_)}};

    Message message(MessageKind kind, std::uint64_t later = 0) {
        Message made;
        made.kind = kind;
        made.ballot = agreement_.ballot();
        made.index = agreement_.decided().index + later;
        return made;
    }
    void ready(Goal goal) { agreement_.ready(agreement_.decided().index, goal); }
};

TEST_F(Alone, WhatTheWitnessHasAcceptedIsHistoryWithTheNextValue) {
    ASSERT_EQ(agreement_.decided().witness, ProcId(1));
    Message report = message(MessageKind::report);
    report.ready.goal = Goal::any;
    report.accepted = {Acceptance::Kind::differs, {}};
    agreement_.receive(ProcId(1), report);
    ready(Goal::arrive);
    EXPECT_TRUE(decided_.empty());
    agreement_.receive(ProcId(1), message(MessageKind::accepted, 1));
    ready(Goal::replicate);
    agreement_.receive(ProcId(1), message(MessageKind::accepted, 1));
    ASSERT_EQ(decided_.size(), 2U);
    ready(Goal::update);
    ASSERT_EQ(decided_.size(), 3U) << "at once";
    EXPECT_EQ(decided_[2].stage, Stage::running);
}

// Nobody is left to answer its ballot, so it goes on by itself.
TEST_F(Alone, GoesOnFromALaterValueWithoutAWitness) {
    agreement_.request_end(EndReason::requested, 4);
    EXPECT_TRUE(decided_.empty());
    JobState later = agreement_.decided();
    ++later.index;
    later.witness = kNoProc;
    Message report = message(MessageKind::report, 1);
    report.state = later;
    agreement_.receive(ProcId(2), report);
    ASSERT_EQ(decided_.size(), 2U);
    EXPECT_EQ(decided_[1].stage, Stage::ended);
    EXPECT_EQ(decided_[1].exit_status, 4);
}

// Sleeping spares when every holder is dead: the lowest one, of three.
class Orphan : public Alone {
protected:
    const JobShape six_{.n_pes = 6, .n_processes = 9};
    const JobRules six_rules_{six_};
    Agreement spare_{Agreement::Options{
        .shape = six_, .self = ProcId(6), .fan_out = 4, .rules = &six_rules_, .world = this, .first = {}}};

    // The second one.
    Agreement next_{Agreement::Options{
        .shape = six_, .self = ProcId(7), .fan_out = 4, .rules = &six_rules_, .world = this, .first = {}}};
    void all_holders_die(Agreement& agreement) {
        for (const Death& death : all_certain(0, 5)) {
            agreement.process_died(death);
        }
    }
    Message reply(std::vector<Death> dead) {
        Message made;
        made.kind = MessageKind::census_reply;
        made.state = spare_.decided();
        made.index = made.state->index;
        made.deaths = std::move(dead);
        return made;
    }
    // A plan that an orphan has missed: this spare takes over PE 0.
    static JobState planned(ProcId substitute) {
        JobState state;
        state.index = 5;
        state.stage = Stage::planned;
        state.version = Version(1);
        state.attempt = 1;
        state.deaths = {certain(0)};
        state.failed = {{PeId(0), state.deaths[0].reason}};
        state.replacements = {{PeId(0), substitute}};
        state.unprotected = {PeId(5)};
        return state;
    }
};

TEST_F(Orphan, AnswersWithAllItKnowsAndAsksForItself) {
    Message census;
    census.kind = MessageKind::census;
    census.deaths = all_certain(0, 5);
    spare_.receive(ProcId(7), census);
    const Message answer = last_of(sent_, MessageKind::census_reply);
    EXPECT_EQ(answer.state, spare_.decided());
    EXPECT_EQ(answer.deaths, all_certain(0, 5));
    EXPECT_EQ(receivers(sent_, MessageKind::census), (std::vector<int>{7, 8}));
    sent_.clear();
    spare_.receive(ProcId(7), census);
    EXPECT_EQ(receivers(sent_, MessageKind::census), std::vector<int>{}) << "once";
}

// It knew of all of these deaths before it heard that it is a spare of this job.
TEST_F(Orphan, AsksWhenAValueShowsThatNobodyIsLeft) {
    Agreement joined{Agreement::Options{
        .shape = six_, .self = ProcId(9), .fan_out = 4, .rules = &six_rules_, .world = this, .first = {}}};
    for (const Death& death : all_certain(0, 8)) {
        joined.process_died(death);
    }
    sent_.clear();
    Message decide;
    decide.kind = MessageKind::decide;
    decide.state = JobState{};
    decide.state->index = 3;
    decide.state->version = Version(1);
    decide.state->joined = {{ProcId(9), NodeId(0)}, {ProcId(10), NodeId(0)}};
    decide.index = 3;
    joined.receive(ProcId(10), decide);
    EXPECT_EQ(receivers(sent_, MessageKind::census), std::vector<int>{10});
}

TEST_F(Orphan, WaitsForNobodyOfWhomItHearsThatHeIsDead) {
    all_holders_die(spare_);
    EXPECT_TRUE(decided_.empty());
    spare_.receive(ProcId(7), reply({certain(8)}));
    ASSERT_EQ(decided_.size(), 1U);
    EXPECT_EQ(decided_[0].stage, Stage::ended);
}

TEST_F(Orphan, AsksAgainWhenSomebodyHasLedInBetween) {
    all_holders_die(spare_);
    sent_.clear();
    Message taken = reply({});
    taken.state = planned(ProcId(7));
    taken.index = taken.state->index;
    spare_.receive(ProcId(7), taken);
    ASSERT_EQ(decided_.size(), 1U);
    EXPECT_EQ(receivers(sent_, MessageKind::census), std::vector<int>{}) << "that one leads";
    spare_.process_died(certain(7));
    EXPECT_EQ(receivers(sent_, MessageKind::census), std::vector<int>{8});
    EXPECT_EQ(decided_.size(), 1U) << "before the answer has come";
}

// On one node the lowest hears of every death from the kernel, but not of who has joined.
TEST_F(Orphan, TellsTheLowestWhatItKnowsIfThatMayNotKnow) {
    all_holders_die(next_);
    EXPECT_EQ(receivers(sent_, MessageKind::news), std::vector<int>{});
    Message decide;
    decide.kind = MessageKind::decide;
    decide.state = next_.decided();
    ++decide.state->index;
    decide.state->joined = {{ProcId(9), NodeId(0)}};
    decide.index = decide.state->index;
    next_.receive(ProcId(8), decide);
    sent_.clear();
    next_.process_died(certain(8));
    EXPECT_EQ(receivers(sent_, MessageKind::news), std::vector<int>{6});
}

TEST_F(Orphan, SaysWhatItKnowsToALeaderOfWhomItHearsByNews) {
    all_holders_die(next_);
    sent_.clear();
    Message news;
    news.kind = MessageKind::news;
    news.state = planned(ProcId(6));
    news.index = news.state->index;
    next_.receive(ProcId(8), news);
    EXPECT_EQ(last_of(sent_, MessageKind::deaths).deaths, all_certain(0, 5));
    EXPECT_EQ(receivers(sent_, MessageKind::deaths), std::vector<int>{6});
}

}  // namespace
}  // namespace sft
