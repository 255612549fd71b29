// The value that a job agrees on: who holds and keeps what, and what must never be.
#include "recovery/membership/job_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/recovery/keeper.hpp"

namespace sft {
namespace {

struct Job {
    JobShape shape;
    JobState state;
};

Job random_job(std::mt19937_64& random) {
    Job job;
    job.shape.n_pes = static_cast<std::int32_t>(1 + random() % 20);
    job.shape.n_processes = job.shape.n_pes + static_cast<std::int32_t>(random() % 10);
    std::vector<std::int32_t> spares;
    for (std::int32_t process = job.shape.n_pes; process < job.shape.n_processes; ++process) {
        spares.push_back(process);
    }
    std::shuffle(spares.begin(), spares.end(), random);
    for (std::int32_t pe = 0; pe < job.shape.n_pes; ++pe) {
        if (!spares.empty() && random() % 3 == 0) {
            job.state.deaths.push_back({ProcId(pe), {FailureKind::signal, 9}, true});
            job.state.replacements.push_back({PeId(pe), ProcId(spares.back())});
            spares.pop_back();
        }
        if (random() % 4 == 0) {
            job.state.unprotected.push_back(PeId(pe));
        }
    }
    job.state.protected_layout = job.state.replacements;
    if (job.shape.n_pes == 1 && !spares.empty()) {
        job.state.witness = ProcId(spares.back());
    }
    return job;
}

TEST(JobShape, HolderAndHeldByAreInverse) {
    std::mt19937_64 random(2);
    for (int i = 0; i < 2000; ++i) {
        const auto [shape, state] = random_job(random);
        std::set<ProcId> holders;
        for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
            const ProcId holder = shape.holder(state, PeId(pe));
            ASSERT_TRUE(holders.insert(holder).second) << "one process holds one PE";
            ASSERT_EQ(shape.held_by(state, holder), PeId(pe));
        }
        for (std::int32_t process = -1; process <= shape.n_processes; ++process) {
            const PeId pe = shape.held_by(state, ProcId(process));
            ASSERT_EQ(pe != kNoPe, holders.contains(ProcId(process)));
            ASSERT_TRUE(pe == kNoPe || shape.holder(state, pe) == ProcId(process));
        }
        ASSERT_EQ(check_invariants(shape, state, nullptr), "");
    }
}

TEST(JobShape, TheNextPesHolderKeeps) {
    std::mt19937_64 random(3);
    for (int i = 0; i < 2000; ++i) {
        const auto [shape, state] = random_job(random);
        std::multiset<ProcId> keepers;
        for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
            const ProcId keeper = keeper_to_be(shape, state, PeId(pe));
            ASSERT_NE(keeper, shape.holder(state, PeId(pe))) << "a copy with its original is none";
            if (shape.n_pes > 1) {
                ASSERT_EQ(keeper, shape.holder(state, PeId((pe + 1) % shape.n_pes)));
            } else {
                ASSERT_EQ(keeper, state.witness);
            }
            const bool is_unprotected =
                std::find(state.unprotected.begin(), state.unprotected.end(), PeId(pe)) != state.unprotected.end();
            ASSERT_EQ(keeper_of(shape, state, PeId(pe)), is_unprotected ? kNoProc : keeper);
            keepers.insert(keeper);
        }
        for (const ProcId keeper : keepers) {
            ASSERT_EQ(keepers.count(keeper), 1U) << "everybody keeps one";
        }
    }
}

TEST(JobShape, WhoHoldsAPeKeepsAShadow) {
    const JobShape shape{.n_pes = 3, .n_processes = 5};
    JobState state;
    state.replacements = {{PeId(1), ProcId(4)}};
    EXPECT_EQ(kept_by(shape, state, ProcId(4)), std::vector{PeId(0)});
    EXPECT_EQ(kept_by(shape, state, ProcId(0)), std::vector{PeId(2)});
    EXPECT_TRUE(kept_by(shape, state, ProcId(1)).empty()) << "it has been replaced";
    EXPECT_TRUE(kept_by(shape, state, ProcId(3)).empty());
}

TEST(JobShape, TheWitnessKeepsForAnOnlyPe) {
    const JobShape shape{.n_pes = 1, .n_processes = 3};
    JobState state;
    state.witness = ProcId(2);
    EXPECT_EQ(keeper_of(shape, state, PeId(0)), ProcId(2));
    EXPECT_EQ(kept_by(shape, state, ProcId(2)), std::vector{PeId(0)});
    EXPECT_TRUE(kept_by(shape, state, ProcId(1)).empty());
    EXPECT_FALSE(needs_new_shadow(shape, state, PeId(0)));
    state.unprotected = {PeId(0)};
    EXPECT_TRUE(needs_new_shadow(shape, state, PeId(0)));
    state.witness = kNoProc;
    EXPECT_FALSE(needs_new_shadow(shape, state, PeId(0))) << "nobody is there to have it";
    EXPECT_TRUE(kept_by(shape, state, kNoProc).empty());
}

TEST(JobShape, AShadowIsSentWhenItIsGoneOrHasMovedAndNeverElse) {
    const JobShape shape{.n_pes = 3, .n_processes = 5};
    JobState state;
    EXPECT_FALSE(needs_new_shadow(shape, state, PeId(0)));
    state.replacements = {{PeId(1), ProcId(3)}};
    EXPECT_TRUE(needs_new_shadow(shape, state, PeId(0))) << "it is with process 1";
    EXPECT_FALSE(needs_new_shadow(shape, state, PeId(1)));
    EXPECT_FALSE(needs_new_shadow(shape, state, PeId(2)));
    state.protected_layout = state.replacements;
    EXPECT_FALSE(needs_new_shadow(shape, state, PeId(0)));
    state.unprotected = {PeId(2)};
    EXPECT_TRUE(needs_new_shadow(shape, state, PeId(2)));
}

TEST(JobShape, OnOneNodeAllAreThereAndInOneGroup) {
    const JobShape shape{.n_pes = 2, .n_processes = 3};
    EXPECT_EQ(shape.node_of({}, ProcId(2)), NodeId(0));
    EXPECT_EQ(shape.group_of({}, ProcId(2)), GroupId(0));
    const NodeMap nodes({NodeId(0), NodeId(1), NodeId(1)});
    const JobShape two{.n_pes = 2, .n_processes = 3, .nodes = &nodes};
    EXPECT_EQ(two.group_of({}, ProcId(2)), GroupId(1));
    JobState state;
    state.joined = {{ProcId(3), NodeId(1)}};
    EXPECT_EQ(two.node_of(state, ProcId(3)), NodeId(1));
    EXPECT_EQ(two.node_of(state, ProcId(4)), kNoNode);
}

TEST(JobShape, SparesThatHaveJoinedAreIdleToo) {
    const JobShape shape{.n_pes = 3, .n_processes = 4};
    JobState before;
    JobState state = before;
    state.index = 1;
    state.joined = {{ProcId(6), NodeId(0)}, {ProcId(9), NodeId(0)}};
    EXPECT_EQ(shape.idle_spares(state, {}), (std::vector<ProcId>{ProcId(3), ProcId(6), ProcId(9)}));
    EXPECT_EQ(check_invariants(shape, state, &before), "");
    std::swap(before, state);
    state.index = 2;
    EXPECT_NE(check_invariants(shape, state, &before), "") << "nobody leaves the list";
    state.joined = {{ProcId(6), NodeId(0)}, {ProcId(9), NodeId(0)}, {ProcId(9), NodeId(0)}};
    EXPECT_NE(check_invariants(shape, state, &before), "");
    state.joined = {{ProcId(6), NodeId(0)}, {ProcId(9), NodeId(0)}, {ProcId(7), NodeId(0)}};
    EXPECT_NE(check_invariants(shape, state, &before), "") << "it might lead after a higher one";
    state.joined = {{ProcId(2), NodeId(0)}, {ProcId(6), NodeId(0)}, {ProcId(9), NodeId(0)}};
    EXPECT_NE(check_invariants(shape, state, &before), "") << "it was there from the start";

    state.joined = {{ProcId(6), NodeId(0)}, {ProcId(9), NodeId(0)}};
    state.replacements = {{PeId(1), ProcId(9)}};
    EXPECT_EQ(shape.idle_spares(state, {}), (std::vector<ProcId>{ProcId(3), ProcId(6)}));
    EXPECT_EQ(shape.held_by(state, ProcId(9)), PeId(1));
}

TEST(JobShape, SparesAreIdleUntilTheyHoldOrDie) {
    const JobShape shape{3, 7};
    JobState state;
    EXPECT_EQ(shape.idle_spares(state, {}), (std::vector<ProcId>{ProcId(3), ProcId(4), ProcId(5), ProcId(6)}));
    state.replacements = {{PeId(1), ProcId(5)}};
    const std::vector<Death> dead{{ProcId(1), {}, true}, {ProcId(3), {}, true}};
    EXPECT_EQ(shape.idle_spares(state, dead), (std::vector<ProcId>{ProcId(4), ProcId(6)}));
    EXPECT_EQ(shape.held_by(state, ProcId(1)), kNoPe) << "replaced: it is no spare either";
}

TEST(Deaths, AreKeptSortedAndOnce) {
    std::mt19937_64 random(4);
    std::vector<Death> list;
    std::set<std::int32_t> numbers;
    for (int i = 0; i < 500; ++i) {
        const auto process = static_cast<std::int32_t>(random() % 200);
        const auto code = static_cast<std::uint16_t>(i);
        const bool is_new = numbers.insert(process).second;
        ASSERT_EQ(contains(list, ProcId(process)), !is_new);
        ASSERT_EQ(insert_sorted(list, {ProcId(process), {FailureKind::exited, code}, true}), is_new);
        ASSERT_TRUE(contains(list, ProcId(process)));
    }
    ASSERT_EQ(list.size(), numbers.size());
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](auto& a, auto& b) { return a.process < b.process; }));
    const Death first = list.front();
    EXPECT_FALSE(insert_sorted(list, {first.process, {FailureKind::signal, 11}, false}));
    EXPECT_EQ(list.front(), first) << "what is there stays as it is";
}

TEST(JobState, ItsNamesAreThere) {
    for (int stage = 1; stage <= static_cast<int>(Stage::ended); ++stage) {
        EXPECT_STRNE(name_of(static_cast<Stage>(stage)), "?");
    }
    for (int goal = 0; goal <= static_cast<int>(Goal::any); ++goal) {
        EXPECT_STRNE(name_of(static_cast<Goal>(goal)), "?");
    }
    JobState state;
    state.index = 4;
    state.stage = Stage::planned;
    state.version = Version(2);
    state.attempt = 1;
    state.deaths = {{ProcId(1), {}, true}};
    state.replacements = {{PeId(1), ProcId(5)}};
    state.unprotected = {PeId(0)};
    EXPECT_EQ(to_string(state), "4:planned v2 view 0 attempt 1 -p1 pe1=p5 unprotected:0");
}

// A value, the one before it, and what check_invariants says about them.
class Invariants : public testing::Test {
protected:
    Invariants() {
        before_.index = 7;
        before_.stage = Stage::replicating;
        before_.version = Version(3);
        before_.view = 2;
        before_.deaths = {{ProcId(2), {FailureKind::signal, 9}, true}};
        before_.replacements = {{PeId(2), ProcId(5)}};
        before_.protected_layout = before_.replacements;
        after_ = before_;
        after_.index = 8;
        after_.stage = Stage::updating;
    }
    [[nodiscard]] std::string of_both() const { return check_invariants(shape_, after_, &before_); }
    [[nodiscard]] std::string of_one() const { return check_invariants(shape_, after_, nullptr); }

    JobShape shape_{4, 8};
    JobState before_;
    JobState after_;
};

TEST_F(Invariants, AGoodStepIsGood) {
    EXPECT_EQ(of_both(), "");
    after_.deaths.push_back({ProcId(0), {}, true});
    after_.replacements = {{PeId(0), ProcId(6)}, {PeId(2), ProcId(5)}};
    after_.unprotected = {PeId(1), PeId(3)};
    EXPECT_EQ(of_both(), "");
}

TEST_F(Invariants, NobodyDiesTwice) {
    after_.deaths.push_back({ProcId(1), {}, true});
    after_.deaths.push_back({ProcId(2), {FailureKind::exited, 1}, true});
    EXPECT_EQ(of_one(), "1: process 2 died twice");
}

TEST_F(Invariants, AgreedDeathsStay) {
    after_.deaths.clear();
    EXPECT_EQ(of_both(), "1: an agreed death has changed");
    after_.deaths = {{ProcId(2), {FailureKind::signal, 11}, true}};
    EXPECT_EQ(of_both(), "1: an agreed death has changed") << "another reason";
    after_.unprotected = {PeId(0)};
    after_.deaths = {{ProcId(1), {}, true}, before_.deaths[0]};
    EXPECT_EQ(of_both(), "1: an agreed death has changed") << "they grow at the end only";
    EXPECT_EQ(of_one(), "");
}

TEST_F(Invariants, ListsAreSortedByPe) {
    after_.replacements = {{PeId(2), ProcId(5)}, {PeId(0), ProcId(6)}};
    EXPECT_EQ(of_one(), "2: a list is not sorted by PE");
    after_.replacements = {{PeId(2), ProcId(5)}, {PeId(2), ProcId(6)}};
    EXPECT_EQ(of_one(), "2: a list is not sorted by PE") << "each PE once";
    after_.replacements.clear();
    after_.unprotected = {PeId(1), PeId(1)};
    EXPECT_EQ(of_one(), "2: a list is not sorted by PE");
    after_.unprotected = {PeId(3), PeId(1)};
    EXPECT_EQ(of_one(), "2: a list is not sorted by PE");
}

TEST_F(Invariants, NobodyHoldsTwoPes) {
    after_.replacements = {{PeId(0), ProcId(6)}, {PeId(2), ProcId(6)}};
    EXPECT_EQ(of_one(), "2: process 6 holds two PEs") << "one spare for two";
    after_.replacements = {{PeId(2), ProcId(1)}};
    EXPECT_EQ(of_one(), "2: process 1 holds two PEs") << "it holds its own besides";
}

TEST_F(Invariants, WhoTakesOverLeadsAfterAllBeforeIt) {
    before_.unprotected = {PeId(1)};
    after_.unprotected = before_.unprotected;
    before_.replacements = {{PeId(0), ProcId(5), 7}};
    before_.protected_layout = before_.replacements;
    after_.protected_layout = before_.replacements;
    after_.replacements = {{PeId(0), ProcId(5), 7}, {PeId(1), ProcId(4), 8}};
    EXPECT_EQ(of_both(), "");
    after_.replacements[1].turn = 6;
    EXPECT_EQ(of_both(), "2: a turn is not behind those before it");
    after_.replacements[1].turn = 7;
    EXPECT_EQ(of_one(), "2: two holders have one turn");
    after_.replacements = {{PeId(0), ProcId(5), 8}};
    EXPECT_NE(of_both(), "") << "a turn stays";
}

TEST_F(Invariants, TheIndexFollows) {
    for (const std::uint64_t index : {6U, 7U, 9U}) {
        after_.index = index;
        EXPECT_EQ(of_both(), "the index does not follow");
    }
}

TEST_F(Invariants, NoShadowIsClaimedToBeWithTheDead) {
    for (const int dead : {0, 1, 3}) {
        after_.deaths = {before_.deaths[0], {ProcId(dead), {}, true}};
        const int kept = (dead + 3) % 4;  // each keeps for the one before it
        EXPECT_EQ(of_one(), "7: PE " + std::to_string(kept) + " cannot be brought back, and is not unprotected");
        after_.unprotected = {PeId(kept)};
        EXPECT_EQ(of_one(), "");
        after_.unprotected.clear();
    }
    shape_ = {1, 3};
    JobState alone;
    alone.witness = ProcId(1);
    EXPECT_EQ(check_invariants(shape_, alone, nullptr), "");
    alone.deaths = {{ProcId(1), {}, true}};
    EXPECT_EQ(check_invariants(shape_, alone, nullptr), "7: the witness is dead");
    alone.deaths = {{ProcId(2), {}, true}};
    EXPECT_EQ(check_invariants(shape_, alone, nullptr), "");
}

TEST_F(Invariants, AVersionIsCommittedAfterFoldingOnly) {
    after_.version = Version(4);
    EXPECT_EQ(of_both(), "3: the version jumps");
    before_.stage = Stage::updating;
    after_.stage = Stage::running;
    EXPECT_EQ(of_both(), "");
    after_.version = Version(3);
    EXPECT_EQ(of_both(), "3: the version jumps") << "it has to grow here";
    after_.version = Version(5);
    EXPECT_EQ(of_both(), "3: the version jumps") << "by one";
    after_.version = Version(2);
    EXPECT_EQ(of_both(), "3: the version jumps");
}

TEST_F(Invariants, AViewBeginsWithTheEndOfARestartOnly) {
    after_.view = 3;
    EXPECT_EQ(of_both(), "4: the view jumps");
    before_.stage = Stage::restored;
    after_.stage = Stage::running;
    EXPECT_EQ(of_both(), "");
    after_.view = 2;
    EXPECT_EQ(of_both(), "4: the view jumps") << "it has to grow here";
    after_.view = 4;
    EXPECT_EQ(of_both(), "4: the view jumps") << "by one";
}

// Storing in turn goes by the nodes that hold PEs at the moment.
TEST(PesOfNodeBefore, AreThoseOfTheNodeSoManyPlacesBefore) {
    const NodeMap nodes({NodeId(0), NodeId(2), NodeId(2), NodeId(5), NodeId(3)});
    const JobShape shape{.n_pes = 4, .n_processes = 5, .nodes = &nodes};
    JobState state;
    EXPECT_TRUE(pes_of_node_before(shape, state, PeId(0), 1).empty());
    EXPECT_EQ(pes_of_node_before(shape, state, PeId(1), 1), std::vector{PeId(0)});
    EXPECT_EQ(pes_of_node_before(shape, state, PeId(3), 1), (std::vector{PeId(1), PeId(2)}));
    EXPECT_EQ(pes_of_node_before(shape, state, PeId(3), 2), std::vector{PeId(0)});
    EXPECT_TRUE(pes_of_node_before(shape, state, PeId(3), 3).empty());
    state.replacements = {{PeId(0), ProcId(4)}};  // on node 3
    EXPECT_TRUE(pes_of_node_before(shape, state, PeId(1), 1).empty());
    EXPECT_EQ(pes_of_node_before(shape, state, PeId(3), 1), std::vector{PeId(0)});
    const JobShape one{.n_pes = 2, .n_processes = 2};
    EXPECT_TRUE(pes_of_node_before(one, {}, PeId(1), 1).empty());
}

}  // namespace
}  // namespace sft
