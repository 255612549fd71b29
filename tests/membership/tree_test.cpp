// The tree of a ballot: everybody but the root is somebody's child, once, whoever is missing.
#include "shmem_ft/membership/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace sft {
namespace {

// A job and who is dead in it. The tree keeps references to it.
struct Case {
    JobShape shape;
    JobState state;
    std::vector<Death> dead;
    std::int32_t fan_out = kFanOut;

    [[nodiscard]] Tree tree() const { return {shape, state, dead, fan_out}; }
    [[nodiscard]] std::vector<std::int32_t> living_slots() const {
        std::vector<std::int32_t> living;
        for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
            if (!contains(dead, shape.holder(state, PeId(pe)))) {
                living.push_back(pe);
            }
        }
        if (shape.n_pes == 1 && state.witness != kNoProc && !contains(dead, state.witness)) {
            living.push_back(1);
        }
        return living;
    }
};

Case job_of(std::int32_t n_pes, std::int32_t n_spares, std::int32_t fan_out = kFanOut) {
    return {.shape = {n_pes, n_pes + n_spares}, .state = {}, .dead = {}, .fan_out = fan_out};
}

// Some PEs are held by spares, some processes are dead: holders, spares, and those whose PE is elsewhere by now.
Case random_case(std::mt19937_64& random) {
    Case job = job_of(static_cast<std::int32_t>(1 + random() % 40), static_cast<std::int32_t>(random() % 12),
                      static_cast<std::int32_t>(1 + random() % 5));
    std::int32_t spare = job.shape.n_pes;
    for (std::int32_t pe = 0; pe < job.shape.n_pes && spare < job.shape.n_processes; ++pe) {
        if (random() % 4 == 0) {
            job.state.replacements.push_back({PeId(pe), ProcId(spare++)});
            insert_sorted(job.dead, {ProcId(pe), {}, true});
        }
    }
    if (job.shape.n_pes == 1 && spare < job.shape.n_processes) {
        job.state.witness = ProcId(spare);
    }
    const std::uint64_t odds = 1 + random() % 6;
    for (std::int32_t process = 0; process < job.shape.n_processes; ++process) {
        if (random() % 6 >= odds) {
            insert_sorted(job.dead, {ProcId(process), {}, true});
        }
    }
    return job;
}

void check(const Case& job) {
    const Tree tree = job.tree();
    const std::vector<std::int32_t> living = job.living_slots();
    ASSERT_EQ(tree.n_living(), static_cast<std::int32_t>(living.size()));
    if (living.empty()) {
        EXPECT_EQ(tree.root_slot(), -1);
        return;
    }
    ASSERT_EQ(tree.root_slot(), living.front()) << "the lowest living slot leads";
    std::map<ProcId, ProcId> parents;
    for (const std::int32_t slot : living) {
        const ProcId process = tree.process_at(slot);
        ASSERT_EQ(tree.slot_of(process), slot);
        ASSERT_FALSE(contains(job.dead, process));
        const auto children = tree.children_of(slot);
        ASSERT_LE(static_cast<std::int32_t>(children.size()), job.fan_out);
        for (const ProcId child : children) {
            ASSERT_TRUE(parents.emplace(child, process).second) << child.value() << " has two parents";
            ASSERT_GT(tree.slot_of(child), slot) << "so there is no cycle";
            ASSERT_EQ(tree.parent_of(tree.slot_of(child)), process);
        }
    }
    ASSERT_EQ(parents.size(), living.size() - 1) << "everybody but the root is somebody's child";
    ASSERT_FALSE(parents.contains(tree.process_at(tree.root_slot())));
    ASSERT_EQ(tree.parent_of(tree.root_slot()), kNoProc);
    for (const Death& death : job.dead) {
        ASSERT_EQ(tree.slot_of(death.process), -1);
    }
}

TEST(Tree, AWholeJobIsACompleteTree) {
    const Case job = job_of(7, 0, 2);
    const Tree tree = job.tree();
    EXPECT_EQ(tree.n_slots(), 7);
    EXPECT_EQ(tree.children_of(0), (std::vector<ProcId>{ProcId(1), ProcId(2)}));
    EXPECT_EQ(tree.children_of(2), (std::vector<ProcId>{ProcId(5), ProcId(6)}));
    EXPECT_TRUE(tree.children_of(3).empty());
    EXPECT_EQ(tree.parent_of(6), ProcId(2));
    check(job);
}

TEST(Tree, TheDeadAreLeftOut) {
    Case job = job_of(6, 0, 2);
    job.dead = {{ProcId(0), {}, true}, {ProcId(3), {}, true}};
    const Tree tree = job.tree();
    EXPECT_EQ(tree.root_slot(), 1);
    EXPECT_EQ(tree.children_of(1), (std::vector<ProcId>{ProcId(2), ProcId(4)}));
    EXPECT_EQ(tree.children_of(2), (std::vector<ProcId>{ProcId(5)}));
    EXPECT_EQ(tree.parent_of(5), ProcId(2));
    check(job);
}

TEST(Tree, ASubstituteHasTheSlotOfItsPe) {
    Case job = job_of(4, 2);
    job.state.replacements = {{PeId(1), ProcId(4)}};
    job.dead = {{ProcId(1), {}, true}};
    const Tree tree = job.tree();
    EXPECT_EQ(tree.n_living(), 4);
    EXPECT_EQ(tree.slot_of(ProcId(4)), 1);
    EXPECT_EQ(tree.slot_of(ProcId(1)), -1) << "it was replaced";
    EXPECT_EQ(tree.slot_of(ProcId(5)), -1) << "an idle spare takes no part";
    check(job);
}

TEST(Tree, AJobOfOnePeHasItsWitness) {
    Case job = job_of(1, 3);
    EXPECT_EQ(job.tree().n_slots(), 1) << "there is none yet";
    job.state.witness = ProcId(2);
    EXPECT_EQ(job.tree().n_slots(), 2);
    EXPECT_EQ(job.tree().slot_of(ProcId(2)), 1);
    EXPECT_EQ(job.tree().parent_of(1), ProcId(0));
    check(job);
    job.dead = {{ProcId(0), {}, true}};
    EXPECT_EQ(job.tree().root_slot(), 1) << "the witness leads";
    check(job);
    job.dead = {{ProcId(0), {}, true}, {ProcId(2), {}, true}};
    EXPECT_EQ(job.tree().root_slot(), -1);
    check(job);
}

TEST(Tree, WhoeverIsMissing) {
    std::mt19937_64 random(17);
    for (int i = 0; i < 3000; ++i) {
        ASSERT_NO_FATAL_FAILURE(check(random_case(random))) << "case " << i;
    }
}

// All sets of dead processes of small jobs.
TEST(Tree, WhoeverIsMissingInASmallJob) {
    for (std::int32_t n = 1; n <= 8; ++n) {
        for (std::int32_t fan_out = 1; fan_out <= 4; ++fan_out) {
            for (std::uint32_t set = 0; set < 1U << n; ++set) {
                Case job = job_of(n, 0, fan_out);
                for (std::int32_t process = 0; process < n; ++process) {
                    if ((set >> process & 1U) != 0) {
                        job.dead.push_back({ProcId(process), {}, true});
                    }
                }
                ASSERT_NO_FATAL_FAILURE(check(job)) << n << " fan-out " << fan_out << " dead " << set;
            }
        }
    }
}

TEST(Tree, ItIsAsFlatAsItCanBe) {
    const Case job = job_of(4095, 0);
    const Tree tree = job.tree();
    std::int32_t depth = 0;
    for (ProcId process(4094); process != ProcId(0); process = tree.parent_of(tree.slot_of(process))) {
        ++depth;
    }
    EXPECT_EQ(depth, 6) << "4^6 = 4096";
    check(job);
}

}  // namespace
}  // namespace sft
