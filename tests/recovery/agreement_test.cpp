// One process of the agreement, with messages by hand, where the order in which they come is the point. Whole jobs are
// simulated (tests/sim).
#include "recovery/membership/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "recovery/rules.hpp"
#include "tests/recovery/deaths.hpp"

namespace sft {
namespace {

// A sleeping spare of a job of two PEs and two spares: process 2.
class Spare : public ::testing::Test, public AgreementWorld {
public:
    void send(ProcId to, const Message& message) override { sent_.emplace_back(to, message); }
    void decided(const JobState& /*before*/, const JobState& /*after*/) override {}
    void heard_of_death(const Death& /*death*/) override {}
    void must_stop(const Stop& /*why*/) override { is_stopped_ = true; }

protected:
    void TearDown() override { EXPECT_EQ(is_stopped_, must_stop_); }

    bool is_stopped_ = false;
    bool must_stop_ = false;
    const JobShape shape_{.n_pes = 2, .n_processes = 4};
    const JobRules rules_{shape_};
    Agreement agreement_{
        {.shape = shape_, .self = ProcId(2), .rules = &rules_, .world = this, .first = JobRules::first_state(shape_)}};
    std::vector<std::pair<ProcId, Message>> sent_;

    // PE 1 is dead, and process 2 holds it now.
    [[nodiscard]] JobState planned() const {
        const std::vector<Death> dead{{ProcId(1), kKilled, true}};
        JobState state = JobRules::first_state(shape_);
        state.version = Version(7);
        state = rules_.after_deaths(state, dead).value();
        return rules_.after_restart(state, {Goal::restart, false, JobRules::hash_of(state.failed)}, dead).value();
    }
    [[nodiscard]] static Message message_of(MessageKind kind, const JobState& state, Ballot ballot = {}) {
        Message message;
        message.kind = kind;
        message.ballot = ballot;
        message.index = state.index;
        message.state = state;
        return message;
    }
};

TEST_F(Spare, WhatItIsReadyForBeforeTheBallotThatCallsItIsInItsAnswer) {
    const JobState state = planned();
    ASSERT_EQ(shape_.held_by(state, ProcId(2)), PeId(1));
    agreement_.receive(ProcId(3), message_of(MessageKind::report, state));
    ASSERT_EQ(agreement_.decided(), state);
    agreement_.ready(state.index, Goal::restore);
    Message collect = message_of(MessageKind::collect, state, {0, 5});
    collect.deaths = {{ProcId(1), kKilled, true}};
    agreement_.receive(ProcId(0), collect);
    ASSERT_FALSE(sent_.empty());
    const auto& [to, answer] = sent_.back();
    EXPECT_EQ(to, ProcId(0));
    EXPECT_EQ(answer.kind, MessageKind::report);
    EXPECT_EQ(answer.ready.goal, Goal::restore);
}

TEST_F(Spare, HearsNothingFromTheDeadAfterItHasAnsweredACensus) {
    const JobState before = agreement_.decided();
    Message census;
    census.kind = MessageKind::census;
    census.deaths = {{ProcId(0), kKilled, true}, {ProcId(1), kKilled, true}};
    agreement_.receive(ProcId(3), census);
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.front().second.kind, MessageKind::census_reply);
    JobState later = before;
    later.index = 1;
    later.stage = Stage::finished;
    agreement_.receive(ProcId(0), message_of(MessageKind::decide, later));
    EXPECT_EQ(agreement_.decided(), before);
}

TEST_F(Spare, NamesInACensusThoseWhoAreCertainlyDead) {
    agreement_.process_died({ProcId(0), kKilled, false});
    agreement_.process_died({ProcId(1), kKilled, true});
    ASSERT_FALSE(sent_.empty());
    ASSERT_EQ(sent_.back().second.kind, MessageKind::census);
    EXPECT_EQ(sent_.back().first, ProcId(3));
    EXPECT_EQ(sent_.back().second.deaths, (std::vector<Death>{{ProcId(1), kKilled, true}}));
}

TEST_F(Spare, EndsTheJobWhenACensusFindsNobodyAndTellsTheOthers) {
    agreement_.process_died({ProcId(0), kKilled, true});
    agreement_.process_died({ProcId(1), kKilled, true});
    Message reply = message_of(MessageKind::census_reply, agreement_.decided());
    reply.deaths = agreement_.known_deaths();
    sent_.clear();
    agreement_.receive(ProcId(3), reply);
    EXPECT_EQ(agreement_.decided().end_reason, EndReason::all_died);
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().first, ProcId(3));
    EXPECT_EQ(sent_.back().second.kind, MessageKind::decide);
    EXPECT_EQ(sent_.back().second.state, agreement_.decided());
}

TEST_F(Spare, AdoptsALaterValueFromNews) {
    agreement_.receive(ProcId(3), message_of(MessageKind::news, planned()));
    EXPECT_EQ(agreement_.decided(), planned());
}

TEST_F(Spare, TellsTheLeaderThatACensusHasFound) {
    agreement_.process_died({ProcId(0), kKilled, true});
    agreement_.process_died({ProcId(1), kKilled, true});
    ASSERT_FALSE(sent_.empty());
    ASSERT_EQ(sent_.back().second.kind, MessageKind::census);
    JobState later = planned();
    later.replacements.front().process = ProcId(3);  // which whoever decided that may not have lived to say
    Message reply = message_of(MessageKind::census_reply, later);
    reply.deaths = agreement_.known_deaths();
    sent_.clear();
    agreement_.receive(ProcId(3), reply);
    ASSERT_EQ(agreement_.leader(), ProcId(3));
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.front().first, ProcId(3));
    EXPECT_EQ(sent_.front().second.kind, MessageKind::report);
    EXPECT_EQ(sent_.front().second.state, later);
}

TEST_F(Spare, HasFinishedWhenOthersLeaveTheFinishedJob) {
    agreement_.process_left(ProcId(0), Stage::finished);
    EXPECT_EQ(agreement_.decided().stage, Stage::finished);
}

TEST_F(Spare, HasEndedWithAnErrorWhenOthersLeaveTheEndedJob) {
    agreement_.process_left(ProcId(0), Stage::ended);
    EXPECT_EQ(agreement_.decided().stage, Stage::ended);
    EXPECT_EQ(agreement_.decided().ended_by, ProcId(0));
    EXPECT_NE(agreement_.decided().exit_status, 0);
    sent_.clear();
    agreement_.receive(ProcId(3), message_of(MessageKind::census, agreement_.decided()));
    EXPECT_TRUE(sent_.empty()) << "it has made that value up, so it has nothing to say about it";
}

// The others have replaced it across a partition: they could not have finished without its consent.
TEST_F(Spare, StopsWhenOthersFinishWithoutAskingItThoughItHoldsAPe) {
    must_stop_ = true;
    agreement_.receive(ProcId(3), message_of(MessageKind::report, planned()));
    agreement_.process_left(ProcId(0), Stage::finished);
    EXPECT_EQ(agreement_.decided(), planned());
}

// The leader is dead; so may be the one that this process tells, of which others know.
class Reminding : public Spare {
protected:
    Reminding() { agreement_.process_died(kDeath); }
    // To whom news have gone in so many periods.
    std::vector<ProcId> reminded(int n_periods) {
        sent_.clear();
        for (int i = 0; i < n_periods; ++i) {
            agreement_.remind();
        }
        std::vector<ProcId> to;
        for (const auto& [process, message] : sent_) {
            EXPECT_EQ(message.kind, MessageKind::news);
            EXPECT_EQ(message.deaths, agreement_.known_deaths());
            to.push_back(process);
        }
        return to;
    }
    void hear_from_leader(std::vector<Death> deaths) {
        Message message;
        message.kind = MessageKind::deaths;
        message.deaths = std::move(deaths);
        agreement_.receive(ProcId(1), message);
    }
    const Death kDeath{ProcId(0), {FailureKind::node_lost, 0}, false};
};

TEST_F(Reminding, WhoGetsNoSignTellsThoseWhoWouldLeadNextOnce) {
    ASSERT_EQ(sent_.size(), 1U);  // the next leader
    EXPECT_EQ(sent_[0].first, ProcId(1));
    EXPECT_EQ(reminded(3), std::vector<ProcId>{}) << "two to wait in, one for the next in the line: itself";
    EXPECT_EQ(reminded(1), std::vector<ProcId>{ProcId(3)});
    EXPECT_EQ(reminded(40), std::vector<ProcId>{});
}

TEST_F(Reminding, EndsWithASignOfTheLeader) {
    hear_from_leader({});
    EXPECT_EQ(reminded(10), std::vector<ProcId>{ProcId(3)});
    hear_from_leader({kDeath});
    EXPECT_EQ(reminded(10), std::vector<ProcId>{});
}

TEST_F(Reminding, IsNotBegunAfterASignOfTheLeader) {
    hear_from_leader({kDeath});
    EXPECT_EQ(reminded(10), std::vector<ProcId>{});
}

// Its PE has nobody else yet, so the dead one still takes part.
TEST_F(Reminding, IsNotNeededOnceTheDeathIsAgreedOn) {
    JobState committed = agreement_.decided();
    committed.index += 3;
    committed.version = Version(1);
    const JobState faulted = rules_.after_deaths(committed, {{kDeath}}).value();
    ASSERT_EQ(faulted.stage, Stage::faulted);
    Message news = message_of(MessageKind::news, faulted);
    news.deaths = {kDeath};
    agreement_.receive(ProcId(3), news);
    ASSERT_EQ(agreement_.decided(), faulted);
    EXPECT_EQ(reminded(10), std::vector<ProcId>{});
}

TEST_F(Reminding, TheSignOfAnotherOneIsNone) {
    Message message;
    message.kind = MessageKind::deaths;
    message.deaths = {kDeath};
    agreement_.receive(ProcId(3), message);
    EXPECT_EQ(reminded(10), std::vector<ProcId>{ProcId(3)});
}

TEST_F(Reminding, EndsWithTheJob) {
    agreement_.process_left(ProcId(1), Stage::finished);
    EXPECT_EQ(reminded(10), std::vector<ProcId>{});
}

TEST_F(Reminding, BeginsAnewWithEveryDeath) {
    hear_from_leader({kDeath});
    agreement_.process_died({ProcId(1), kKilled, true});
    EXPECT_EQ(reminded(10), std::vector<ProcId>{ProcId(3)});
}

TEST_F(Reminding, WhoIsToldTellsItsLeader) {
    sent_.clear();
    Message news;
    news.kind = MessageKind::news;
    news.state = agreement_.decided();
    news.deaths = {{ProcId(1), kKilled, false}};
    agreement_.receive(ProcId(3), news);
    EXPECT_EQ(agreement_.known_deaths().size(), 2U);
    EXPECT_EQ(agreement_.leader(), kNoProc);
    ASSERT_FALSE(sent_.empty());  // nobody is left to lead: the lowest spare asks the others
    EXPECT_EQ(sent_.back().second.kind, MessageKind::census);
}

// A sleeping spare, process 2, of such a job whose node has what the dead have decided.
class OrphanOfANode : public ::testing::Test, public AgreementWorld {
public:
    void send(ProcId to, const Message& message) override { sent_.emplace_back(to, message); }
    void record(const JobState& value) override { recorded_.push_back(value); }
    void decided(const JobState& /*before*/, const JobState& after) override {
        EXPECT_FALSE(recorded_.empty());
        EXPECT_EQ(recorded_.back(), after) << "before anything is done because of it";
    }
    void heard_of_death(const Death& /*death*/) override {}
    void must_stop(const Stop& /*why*/) override { FAIL(); }
    [[nodiscard]] std::optional<JobState> decided_by(std::span<const Death> dead) const override {
        EXPECT_EQ(dead.size(), 2U);
        return left_;
    }

protected:
    // All holders die, and the other spare knows no more than this one.
    void lose_holders() {
        agreement_.process_died({ProcId(0), kKilled, true});
        agreement_.process_died({ProcId(1), kKilled, true});
        Message reply;
        reply.kind = MessageKind::census_reply;
        reply.state = JobRules::first_state(shape_);
        reply.deaths = agreement_.known_deaths();
        sent_.clear();
        agreement_.receive(ProcId(3), reply);
    }

    const JobShape shape_{.n_pes = 2, .n_processes = 4, .memory = &node_memory()};
    const JobRules rules_{shape_};
    Agreement agreement_{
        {.shape = shape_, .self = ProcId(2), .rules = &rules_, .world = this, .first = JobRules::first_state(shape_)}};
    JobState left_ = JobRules::first_state(shape_);
    std::vector<JobState> recorded_;
    std::vector<std::pair<ProcId, Message>> sent_;
};

TEST_F(OrphanOfANode, GoesOnFromWhatTheDeadHaveDecidedAndLeads) {
    left_.index = 40;
    left_.version = Version(7);
    left_.stage = Stage::updating;
    lose_holders();
    const JobState& state = agreement_.decided();
    EXPECT_EQ(state.stage, Stage::planned);
    EXPECT_EQ(state.version, Version(8)) << "a commit that was decided is completed";
    EXPECT_EQ(shape_.holder(state, PeId(0)), ProcId(2));
    EXPECT_EQ(shape_.holder(state, PeId(1)), ProcId(3));
    EXPECT_EQ(state.failed.size(), 2U);
    EXPECT_EQ(agreement_.leader(), ProcId(2));
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().first, ProcId(3));
    EXPECT_EQ(sent_.back().second.kind, MessageKind::collect);
    std::vector<Stage> stages;
    for (const JobState& value : recorded_) {
        stages.push_back(value.stage);
    }
    EXPECT_EQ(stages, (std::vector{Stage::updating, Stage::running, Stage::faulted, Stage::planned}));
}

TEST_F(OrphanOfANode, TellsTheOthersOfAnEndThatOnlyTheDeadHaveKnown) {
    left_.index = 40;
    left_.stage = Stage::finished;
    lose_holders();
    EXPECT_EQ(agreement_.decided(), left_);
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().first, ProcId(3));
    EXPECT_EQ(sent_.back().second.kind, MessageKind::decide);
    EXPECT_EQ(sent_.back().second.state, left_);
}

TEST_F(OrphanOfANode, EndsWhereNothingWasCommitted) {
    lose_holders();
    EXPECT_EQ(agreement_.decided().end_reason, EndReason::nothing_committed);
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().second.state, agreement_.decided());
}

// A sleeping spare, process 2, on the node of PE 0; process 3 sleeps where PE 1 is.
class OrphanOfNodes : public ::testing::Test, public AgreementWorld {
public:
    void send(ProcId to, const Message& message) override { sent_.emplace_back(to, message); }
    void decided(const JobState& /*before*/, const JobState& /*after*/) override {}
    void heard_of_death(const Death& /*death*/) override {}
    void must_stop(const Stop& /*why*/) override { FAIL(); }
    [[nodiscard]] std::optional<JobState> decided_by(std::span<const Death> dead) const override {
        EXPECT_TRUE(std::all_of(dead.begin(), dead.end(), [](const Death& death) {
            return death.process == ProcId(0);
        })) << "what is on the other node it cannot read";
        return left_;
    }

protected:
    void lose_holders() {
        left_.index = 40;
        left_.version = Version(7);
        agreement_.process_died({ProcId(0), kKilled, true});
        agreement_.process_died({ProcId(1), kKilled, true});
    }
    [[nodiscard]] static Message reply(const JobState& state, std::vector<Death> dead) {
        Message made;
        made.kind = MessageKind::census_reply;
        made.state = state;
        made.index = state.index;
        made.deaths = std::move(dead);
        return made;
    }
    [[nodiscard]] std::size_t asked() const {
        return static_cast<std::size_t>(std::count_if(sent_.begin(), sent_.end(), [](const auto& item) {
            return item.second.kind == MessageKind::census;
        }));
    }

    const NodeMap nodes_{{NodeId(0), NodeId(1), NodeId(0), NodeId(1)}};
    const JobShape shape_{.n_pes = 2, .n_processes = 4, .nodes = &nodes_, .memory = &node_memory()};
    const JobRules rules_{shape_};
    Agreement agreement_{
        {.shape = shape_, .self = ProcId(2), .rules = &rules_, .world = this, .first = JobRules::first_state(shape_)}};
    JobState left_ = JobRules::first_state(shape_);
    std::vector<std::pair<ProcId, Message>> sent_;
};

TEST_F(OrphanOfNodes, GoesOnFromTheLatestThatAnyNodeHas) {
    lose_holders();
    EXPECT_EQ(asked(), 1U);
    JobState later = left_;
    later.index = 41;
    later.version = Version(8);
    agreement_.receive(ProcId(3), reply(later, agreement_.known_deaths()));
    const JobState& state = agreement_.decided();
    EXPECT_EQ(state.stage, Stage::planned);
    EXPECT_EQ(state.version, Version(8));
    EXPECT_EQ(shape_.holder(state, PeId(0)), ProcId(2)) << "each on its node";
    EXPECT_EQ(shape_.holder(state, PeId(1)), ProcId(3));
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().second.kind, MessageKind::collect);
}

TEST_F(OrphanOfNodes, AsksAgainWhoHadNotHeardOfADeathThere) {
    lose_holders();
    agreement_.receive(ProcId(3), reply(left_, {{ProcId(0), kKilled, true}}));
    EXPECT_EQ(agreement_.decided().stage, Stage::running) << "process 3 may have read before process 1 wrote its last";
    EXPECT_EQ(asked(), 2U);
    agreement_.receive(ProcId(3), reply(left_, agreement_.known_deaths()));
    EXPECT_EQ(agreement_.decided().stage, Stage::planned);
}

TEST_F(OrphanOfNodes, EndsIfNobodyIsLeftOnANode) {
    agreement_.process_died({ProcId(3), kKilled, true});
    lose_holders();
    EXPECT_EQ(agreement_.decided().stage, Stage::ended);
    EXPECT_EQ(agreement_.decided().end_reason, EndReason::all_died);
}

TEST_F(OrphanOfNodes, AnswersWithWhatItHasRead) {
    left_.index = 40;
    left_.version = Version(7);
    Message census;
    census.kind = MessageKind::census;
    census.deaths = {{ProcId(0), kKilled, true}, {ProcId(1), kKilled, true}};
    agreement_.receive(ProcId(3), census);
    const auto answer = std::find_if(sent_.begin(), sent_.end(),
                                     [](const auto& item) { return item.second.kind == MessageKind::census_reply; });
    ASSERT_NE(answer, sent_.end());
    EXPECT_EQ(answer->second.state, left_);
}

}  // namespace
}  // namespace sft
