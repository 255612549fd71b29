// The rules ask the scheme of redundancy: with other schemes than the library's they decide otherwise.
#include <gtest/gtest.h>

#include "recovery/rules.hpp"
#include "tests/recovery/deaths.hpp"
#include "tests/recovery/two_partners.hpp"

namespace sft {
namespace {

// Five PEs, four spares, version 7.
class RulesOfAScheme : public testing::Test {
protected:
    RulesOfAScheme() { state_.version = Version(7); }

    [[nodiscard]] static JobShape shape_with(const Scheme& scheme) {
        return {.n_pes = 5, .n_processes = 9, .scheme = &scheme};
    }
    [[nodiscard]] JobState planned(const JobShape& shape, std::initializer_list<int> dead) const {
        const JobRules rules(shape);
        const std::vector<Death> deaths = deaths_of(dead);
        const JobState faulted = rules.after_deaths(state_, deaths).value();
        return rules.after_restart(faulted, {Goal::restart, false, JobRules::hash_of(faulted.failed)}, deaths).value();
    }
    [[nodiscard]] std::vector<PeId> unprotected(const JobShape& shape, std::initializer_list<int> dead) const {
        return JobRules(shape).after_deaths(state_, deaths_of(dead)).value().unprotected;
    }

    JobState state_;
};

TEST_F(RulesOfAScheme, TwoNeighboursMayDieIfTwoKeepACopy) {
    EXPECT_EQ(planned(shape_with(one_partner()), {1, 2}).end_reason, EndReason::copies_lost);
    const JobShape shape = shape_with(two_partners());
    const JobState planned = this->planned(shape, {1, 2});
    EXPECT_EQ(planned.stage, Stage::planned);
    EXPECT_EQ(shape.holder(planned, PeId(1)), ProcId(5));
    EXPECT_EQ(shape.holder(planned, PeId(2)), ProcId(6));
    EXPECT_EQ(planned.unprotected, std::vector{PeId(0)}) << "both of those that kept for it are dead";
    EXPECT_EQ(check_invariants(shape, planned, nullptr), "");
    // And it is lost if it dies now, unlike PE 4, of which one copy is left.
    const JobState again = JobRules(shape).after_deaths(planned, deaths_of({1, 2, 0})).value();
    EXPECT_EQ(again.end_reason, EndReason::copies_lost);
    EXPECT_EQ(again.lost, std::vector{PeId(0)});
    const JobState other = JobRules(shape).after_deaths(planned, deaths_of({1, 2, 4})).value();
    EXPECT_EQ(other.stage, Stage::planned);
}

TEST_F(RulesOfAScheme, ThreeNeighboursAreTooMany) {
    const JobState ended = planned(shape_with(two_partners()), {1, 2, 3});
    EXPECT_EQ(ended.end_reason, EndReason::copies_lost);
    EXPECT_EQ(ended.lost, std::vector{PeId(1)});
}

TEST_F(RulesOfAScheme, WhoIsUnprotectedIsForTheSchemeToSay) {
    EXPECT_EQ(unprotected(shape_with(one_partner()), {2}), std::vector{PeId(1)});
    EXPECT_EQ(unprotected(shape_with(two_partners()), {2}), std::vector<PeId>{});
    EXPECT_EQ(unprotected(shape_with(two_halves()), {2}), (std::vector{PeId(0), PeId(1)}));
    EXPECT_EQ(unprotected(shape_with(no_copies()), {2}), std::vector<PeId>{});
}

// Deaths that come one after the other add up.
TEST_F(RulesOfAScheme, EarlierDeathsCount) {
    const JobRules rules(shape_with(two_partners()));
    JobState faulted = rules.after_deaths(state_, deaths_of({2})).value();
    EXPECT_TRUE(faulted.unprotected.empty());
    const std::vector<Death> dead = deaths_of({1, 2});
    const JobState planned =
        rules.after_restart(faulted, {Goal::restart, false, JobRules::hash_of(faulted.failed)}, dead).value();
    EXPECT_EQ(planned.unprotected, std::vector{PeId(0)});
}

TEST_F(RulesOfAScheme, SurvivesAsManyLossesAsTheSchemeSaysAndSparesAreThere) {
    const JobRules two(shape_with(two_partners()));
    EXPECT_EQ(two.protected_losses(state_, {}), 2);
    EXPECT_EQ(two.protected_losses(state_, deaths_of({6, 7, 8})), 1) << "one spare";
    EXPECT_EQ(two.protected_losses(state_, deaths_of({2})), 1) << "one of two is left of PE 1";
    EXPECT_EQ(JobRules(shape_with(two_halves())).protected_losses(state_, {}), 1);
}

// Memory that a node holds is gone with the last process there: PE 1 keeps for PE 0 on a node of its own, with a spare.
TEST_F(RulesOfAScheme, TheLastDeathOnANodeTakesAlongWhatOthersHaveLeft) {
    const NodeMap nodes({NodeId(0), NodeId(1), NodeId(2), NodeId(1), NodeId(0), NodeId(2)});
    const JobShape shape{.n_pes = 3, .n_processes = 6, .nodes = &nodes, .memory = &node_memory()};
    const JobRules rules(shape);
    const JobState faulted = rules.after_deaths(state_, deaths_of({1})).value();
    EXPECT_TRUE(faulted.unprotected.empty());
    const Readiness ready{Goal::restart, false, JobRules::hash_of(faulted.failed)};
    const JobState planned = rules.after_restart(faulted, ready, deaths_of({1, 3})).value();
    EXPECT_EQ(planned.unprotected, std::vector{PeId(0)});
    EXPECT_EQ(rules.after_restart(faulted, ready, deaths_of({1, 5})).value().unprotected, std::vector<PeId>{});
}

// Spare 2 sleeps on node 0, and 3 where PE 1 was, with what that one has kept: it takes the PE, and the next one leads
// after it whatever its number is.
TEST_F(RulesOfAScheme, APeStaysOnItsNodeIfASpareIsThere) {
    const NodeMap nodes({NodeId(0), NodeId(1), NodeId(0), NodeId(1)});
    const JobShape shape{.n_pes = 2, .n_processes = 4, .nodes = &nodes, .memory = &node_memory()};
    const JobRules rules(shape);
    const auto plan_after = [&](const JobState& before, std::initializer_list<int> dead) {
        const JobState faulted = rules.after_deaths(before, deaths_of(dead)).value();
        EXPECT_TRUE(faulted.unprotected.empty());
        return rules.after_restart(faulted, {Goal::restart, false, JobRules::hash_of(faulted.failed)}, deaths_of(dead))
            .value();
    };
    const JobState moved = plan_after(state_, {1});
    EXPECT_EQ(moved.stage, Stage::planned);
    EXPECT_EQ(moved.unprotected, std::vector<PeId>{});
    EXPECT_EQ(moved.replacements, (std::vector<Replacement>{{PeId(1), ProcId(3), 3}}));
    const JobState whole = rules.after_ready(rules.after_ready(moved, Goal::restore), Goal::protect);
    const JobState both = plan_after(whole, {0, 1});
    EXPECT_EQ(both.replacements, (std::vector<Replacement>{{PeId(0), ProcId(2), 4}, {PeId(1), ProcId(3), 3}}));
    EXPECT_EQ(check_invariants(shape, both, nullptr), "");
}

// On one node those that sleep find out by themselves who leads: the lowest.
TEST_F(RulesOfAScheme, OnOneNodeTheLowestSparesTakeOver) {
    const JobRules rules({.n_pes = 2, .n_processes = 5, .memory = &node_memory()});
    const JobState faulted = rules.after_deaths(state_, deaths_of({1})).value();
    const Readiness ready{Goal::restart, false, JobRules::hash_of(faulted.failed)};
    EXPECT_EQ(rules.after_restart(faulted, ready, deaths_of({1, 2})).value().replacements,
              (std::vector<Replacement>{{PeId(1), ProcId(3), 3}}));
}

// Nodes 0 to 2 with two PEs and three spares each: both of those that keep for PE 1 are on node 1, with PE 0 it is one.
TEST_F(RulesOfAScheme, WhichNodesMayBeLostIsForTheSchemeToSay) {
    std::vector<NodeId> of_process;
    for (const int node : {0, 0, 1, 1, 2, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}) {
        of_process.emplace_back(node);
    }
    const NodeMap nodes(of_process);
    const auto losses = [&](const Scheme& scheme, std::initializer_list<int> dead) {
        const JobShape shape{.n_pes = 6, .n_processes = 15, .nodes = &nodes, .scheme = &scheme};
        return JobRules(shape).node_losses(state_, deaths_of(dead), 0);
    };
    EXPECT_EQ(losses(two_partners(), {}).n_survived, 3);
    EXPECT_EQ(losses(two_halves(), {}).why, NodeLoss::copy_beside) << "half of PE 0 is with PE 1";
    EXPECT_EQ(losses(no_copies(), {}).why, NodeLoss::nothing_committed);
    // PE 1 has failed, and all of it is on node 1; PE 0 has a copy left there.
    const NodeLosses after = losses(two_partners(), {1});
    EXPECT_EQ(after.fatal, NodeId(1));
    EXPECT_EQ(after.why, NodeLoss::copy_beside);
    EXPECT_EQ(after.n_survived, 2);
}

}  // namespace
}  // namespace sft
