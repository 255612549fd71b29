// One process of the agreement, with messages by hand, where the order in which they come is the point. Whole jobs are
// simulated (tests/sim).
#include "shmem_ft/membership/agreement.hpp"

#include <gtest/gtest.h>

#include "recovery/rules.hpp"

namespace sft {
namespace {

constexpr FailureReason kKilled{FailureKind::signal, 9};

// A sleeping spare of a job of two PEs and two spares: process 2.
class Spare : public ::testing::Test, public AgreementWorld {
public:
    void send(ProcId to, const Message& message) override { sent_.emplace_back(to, message); }
    void decided(const JobState& /*before*/, const JobState& /*after*/) override {}
    void heard_of_death(const Death& /*death*/) override {}
    void must_stop(const Stop& /*why*/) override { ADD_FAILURE(); }

protected:
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

}  // namespace
}  // namespace sft
