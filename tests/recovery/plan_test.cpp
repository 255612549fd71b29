// The recovery plan: who takes over, and that readers of half-written bindings reach the same plan.
#include "recovery/plan.hpp"

#include <gtest/gtest.h>

#include <random>

namespace sft {
namespace {

// n PEs held by processes 0..n-1, each kept by the next, s spares behind them.
struct Job {
    Job(std::int32_t n_pes, std::int32_t n_spares) : first_spare(n_pes) {
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            assignments.push_back({ProcId(pe), n_pes > 1 ? ProcId((pe + 1) % n_pes) : kNoProc});
        }
        bound.assign(static_cast<std::size_t>(n_pes + n_spares), kNoPe);
    }
    [[nodiscard]] Plan plan() const { return make_plan({assignments, dead, bound, first_spare, version_exists}); }

    std::int32_t first_spare;
    std::vector<Assignment> assignments;
    std::vector<ProcId> dead;
    std::vector<PeId> bound;
    bool version_exists = true;
};

TEST(Plan, NobodyDeadChangesNothing) {
    const Job job(4, 1);
    const Plan plan = job.plan();
    EXPECT_EQ(plan.outcome, PlanOutcome::possible);
    EXPECT_EQ(plan.assignments, job.assignments);
    EXPECT_TRUE(plan.replaced.empty());
}

TEST(Plan, ASpareTakesOverAndTheLostKeeperIsGone) {
    Job job(4, 2);
    job.dead = {ProcId(2)};
    const Plan plan = job.plan();
    ASSERT_EQ(plan.outcome, PlanOutcome::possible);
    EXPECT_EQ(plan.assignments[2].holder, ProcId(4));
    EXPECT_EQ(plan.assignments[2].keeper, ProcId(3));
    EXPECT_EQ(plan.assignments[1].keeper, kNoProc) << "process 2 kept the shadow of PE 1";
}

TEST(Plan, DeadSparesAreSkipped) {
    Job job(3, 3);
    job.dead = {ProcId(3), ProcId(0), ProcId(4)};
    const Plan plan = job.plan();
    ASSERT_EQ(plan.outcome, PlanOutcome::possible);
    EXPECT_EQ(plan.assignments[0].holder, ProcId(5));
}

TEST(Plan, PartnersLostTogetherLoseTheData) {
    Job job(4, 4);
    job.dead = {ProcId(1), ProcId(2)};
    const Plan plan = job.plan();
    EXPECT_EQ(plan.outcome, PlanOutcome::copies_lost);
    EXPECT_EQ(plan.affected, std::vector<PeId>{PeId(1)}) << "PE 2's shadow is safe with process 3";
}

TEST(Plan, NoSpareNamesThePe) {
    Job job(4, 1);
    job.dead = {ProcId(0), ProcId(2)};
    const Plan plan = job.plan();
    EXPECT_EQ(plan.outcome, PlanOutcome::no_spare);
    EXPECT_EQ(plan.affected, std::vector<PeId>{PeId(2)}) << "the first death gets the spare";
}

TEST(Plan, NothingCommittedIsNamed) {
    Job job(4, 4);
    job.dead = {ProcId(1)};
    job.version_exists = false;
    EXPECT_EQ(job.plan().outcome, PlanOutcome::nothing_committed);
}

TEST(Plan, ABoundSpareIsNeverGivenAnotherPe) {
    Job job(4, 3);
    job.bound[4] = PeId(1);
    job.bound[5] = PeId(3);
    job.dead = {ProcId(1), ProcId(3), ProcId(4)};  // the first substitute died too
    const Plan plan = job.plan();
    ASSERT_EQ(plan.outcome, PlanOutcome::possible);
    EXPECT_EQ(plan.assignments[3].holder, ProcId(5));
    EXPECT_EQ(plan.assignments[1].holder, ProcId(6));
}

// Invariant 3: while some process writes the bindings of an attempt, others read any part of them.
TEST(Plan, PartlyWrittenBindingsGiveTheSamePlan) {
    std::mt19937 random(7);
    for (int round = 0; round < 3000; ++round) {
        Job job(static_cast<std::int32_t>(2 + random() % 9), static_cast<std::int32_t>(random() % 8));
        for (std::size_t process = 0; process < job.bound.size(); ++process) {
            if (random() % 3 == 0) {
                job.dead.push_back(ProcId(static_cast<std::int32_t>(process)));
            }
        }
        std::shuffle(job.dead.begin(), job.dead.end(), random);
        const Plan whole = job.plan();
        Job partly = job;
        for (const PeId pe : whole.replaced) {
            const ProcId holder = whole.assignments[pe.index()].holder;
            if (holder != kNoProc && random() % 2 == 0) {
                partly.bound[holder.index()] = pe;
            }
        }
        const Plan again = partly.plan();
        ASSERT_EQ(again.assignments, whole.assignments);
        ASSERT_EQ(again.outcome, whole.outcome);
        ASSERT_EQ(again.affected, whole.affected);
    }
}

}  // namespace
}  // namespace sft
