#include "shmem_ft/ops/teams.hpp"

#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/rma.hpp"
#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

class Teams : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Teams, kJobSizes);

TEST_P(Teams, PredefinedOnesHoldAllPes) {
    run([](Pe& pe) {
        for (const TeamId team : {kTeamWorld, kTeamShared}) {
            EXPECT_EQ(team_my_pe(pe.engine, team), pe.me());
            EXPECT_EQ(team_n_pes(pe.engine, team), pe.n());
        }
        TeamId of_default;
        EXPECT_TRUE(context_team(pe.engine, kCtxDefault, &of_default));
        EXPECT_EQ(of_default, kTeamWorld);
    });
}

TEST_P(Teams, SplitStridedNumbersItsMembers) {
    run([](Pe& pe) {
        const int half = (pe.n() + 1) / 2;
        TeamId even;
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {0, 2, half}, 3, &even));
        EXPECT_EQ(even == kTeamInvalid, pe.me() % 2 == 1);
        EXPECT_EQ(team_my_pe(pe.engine, even), pe.me() % 2 == 0 ? pe.me() / 2 : -1);
        TeamId reversed;
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {pe.n() - 1, -1, pe.n()}, 0, &reversed));
        EXPECT_EQ(team_my_pe(pe.engine, reversed), pe.n() - 1 - pe.me());
        EXPECT_EQ(team_translate_pe(pe.engine, reversed, 0, kTeamWorld), pe.n() - 1);
        if (even != kTeamInvalid) {
            int contexts = 0;
            EXPECT_TRUE(team_num_contexts(pe.engine, even, &contexts));
            EXPECT_EQ(contexts, 3);
            EXPECT_EQ(team_translate_pe(pe.engine, reversed, 0, even), pe.n() % 2 == 1 ? half - 1 : -1);
            // A split of a split, used at once.
            TeamId single;
            ASSERT_TRUE(split_strided(pe.engine, even, {half - 1, 0, 1}, 0, &single));
            EXPECT_EQ(single != kTeamInvalid, pe.me() == 2 * (half - 1));
            EXPECT_TRUE(sync(pe.engine, team_group(pe.engine, even, "test")));
        }
        EXPECT_EQ(team_translate_pe(pe.engine, kTeamWorld, pe.n(), kTeamShared), -1);
    });
}

TEST_P(Teams, SplitRefusesBadTriplets) {
    run([](Pe& pe) {
        for (const Triplet bad : {Triplet{0, 1, pe.n() + 1}, Triplet{0, 1, 0}, Triplet{-1, 1, 1}, Triplet{pe.n(), 1, 1},
                                  Triplet{0, 0, 2}, Triplet{0, -1, 2}}) {
            TeamId team = kTeamWorld;
            EXPECT_FALSE(split_strided(pe.engine, kTeamWorld, bad, 0, &team));
            EXPECT_EQ(team, kTeamInvalid);
        }
        TeamId team = kTeamWorld;
        EXPECT_FALSE(split_strided(pe.engine, kTeamInvalid, {0, 1, 1}, 0, &team));
        EXPECT_EQ(team, kTeamInvalid);
        AxisTeams axes;
        EXPECT_FALSE(split_2d(pe.engine, kTeamWorld, 0, &axes));
        EXPECT_FALSE(split_2d(pe.engine, kTeamInvalid, 1, &axes));
    });
}

TEST_P(Teams, Split2dMakesRowsAndColumns) {
    run([](Pe& pe) {
        for (const int xrange : {1, 2, 3, pe.n(), pe.n() + 5}) {
            AxisTeams axes;
            ASSERT_TRUE(split_2d(pe.engine, kTeamWorld, xrange, &axes));
            const int columns = std::min(xrange, pe.n());
            EXPECT_EQ(team_my_pe(pe.engine, axes.x), pe.me() % columns);
            EXPECT_EQ(team_my_pe(pe.engine, axes.y), pe.me() / columns);
            auto* source = pe.allocate<int>(1, pe.me());
            auto* dest = pe.allocate<int>(static_cast<std::size_t>(pe.n()), -1);
            pe.barrier();
            for (const TeamId team : {axes.x, axes.y}) {
                const PeGroup group = team_group(pe.engine, team, "test");
                EXPECT_TRUE(fcollect(pe.engine, group, dest, source, sizeof(int)));
                for (int i = 0; i < group.size; ++i) {
                    EXPECT_EQ(dest[i], team_translate_pe(pe.engine, team, i, kTeamWorld));
                }
                pe.barrier();
            }
            destroy_team(pe.engine, axes.x);
            destroy_team(pe.engine, axes.y);
        }
    });
}

// Tables that differ between PEs must still agree on a free index.
TEST(TeamHandles, AreTheSameOnAllMembers) {
    Job job(4);
    job.run([](Pe& pe) {
        TeamId lower;
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {0, 1, 2}, 0, &lower));
        if (pe.me() < 2) {
            TeamId more;
            ASSERT_TRUE(split_strided(pe.engine, lower, {0, 1, 2}, 0, &more));
        }
        TeamId all;
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {0, 1, 4}, 0, &all));
        auto* mine = pe.allocate<std::uintptr_t>(1, all.value());
        auto* handles = pe.allocate<std::uintptr_t>(4);
        EXPECT_TRUE(fcollect(pe.engine, team_group(pe.engine, all, "test"), handles, mine, sizeof *mine));
        for (int i = 1; i < 4; ++i) {
            EXPECT_EQ(handles[i], handles[0]);
        }
    });
}

TEST(TeamHandles, RunOutAndComeBack) {
    Job job(3);
    job.run([](Pe& pe) {
        std::vector<TeamId> made;
        TeamId team;
        while (split_strided(pe.engine, kTeamWorld, {0, 1, pe.n()}, 0, &team)) {
            made.push_back(team);
            ASSERT_LT(made.size(), kTeamsMax);
        }
        EXPECT_EQ(team, kTeamInvalid);
        EXPECT_GT(made.size(), 200U);
        destroy_team(pe.engine, made[100]);
        EXPECT_EQ(team_n_pes(pe.engine, made[100]), -1);
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {0, 1, pe.n()}, 0, &team));
        EXPECT_EQ(team, made[100]);
        destroy_team(pe.engine, kTeamWorld);
        destroy_team(pe.engine, kTeamInvalid);
        EXPECT_EQ(team_n_pes(pe.engine, kTeamWorld), pe.n());
    });
}

TEST(Contexts, CountPesInTheirTeam) {
    Job job(5);
    job.run([](Pe& pe) {
        TeamId reversed;
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {4, -2, 3}, 0, &reversed));
        auto* cell = pe.allocate<int>(1, -1);
        pe.barrier();
        CtxId context;
        if (reversed == kTeamInvalid) {
            EXPECT_FALSE(create_context(pe.engine, reversed, 0, &context));
            EXPECT_EQ(context, kCtxInvalid);
            pe.barrier();
        } else {
            ASSERT_TRUE(create_context(pe.engine, reversed, 0, &context));
            const ContextEntry* entry = pe.engine.contexts.find(context);
            ASSERT_NE(entry, nullptr);
            put_value({pe.engine, entry->group.pe(0)}, cell, 17);
            pe.barrier();
            TeamId team;
            EXPECT_TRUE(context_team(pe.engine, context, &team));
            EXPECT_EQ(team, reversed);
            destroy_team(pe.engine, reversed);
            EXPECT_FALSE(context_team(pe.engine, context, &team)) << "destroyed with its team";
            EXPECT_EQ(team, kTeamInvalid);
        }
        EXPECT_EQ(*cell, pe.me() == 4 ? 17 : -1);
        destroy_context(pe.engine, kCtxInvalid);
        destroy_context(pe.engine, kCtxDefault);
        EXPECT_NE(pe.engine.contexts.find(kCtxDefault), nullptr);
    });
}

TEST(Contexts, MayBeMadeByThreads) {
    Job job(1);
    Engine& e = job.engine(0);
    std::vector<std::thread> threads;
    std::vector<std::vector<CtxId>> made(4);
    for (auto& own : made) {
        threads.emplace_back([&e, &own] {
            for (int i = 0; i < 200; ++i) {
                CtxId context;
                ASSERT_TRUE(create_context(e, kTeamWorld, 0, &context));
                own.push_back(context);
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    std::vector<std::uintptr_t> all;
    for (const auto& own : made) {
        for (const CtxId context : own) {
            all.push_back(context.value());
        }
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
    EXPECT_EQ(all.size(), 800U);
}

TEST(Contexts, RunOutWithoutHarm) {
    Job job(1);
    Engine& e = job.engine(0);
    CtxId context;
    std::size_t count = 0;
    while (create_context(e, kTeamWorld, 0, &context)) {
        ++count;
    }
    EXPECT_EQ(count, kContextsMax - 2);
    EXPECT_EQ(context, kCtxInvalid);
    destroy_context(e, CtxId(500));
    EXPECT_TRUE(create_context(e, kTeamWorld, 0, &context));
    EXPECT_EQ(context, CtxId(500));
}

// A substitute gets the tables of the PE it replaces, and its creation calls give the handles of then.
TEST(HandleRecovery, ReplaysTheCreationCalls) {
    Job job(4);
    job.run([](Pe& pe) {
        Engine& e = pe.engine;
        TeamId even, temporary;
        ASSERT_TRUE(split_strided(e, kTeamWorld, {0, 2, 2}, 0, &even));
        ASSERT_TRUE(split_strided(e, kTeamWorld, {0, 1, 4}, 0, &temporary));
        CtxId of_temporary;
        ASSERT_TRUE(create_context(e, temporary, 0, &of_temporary));
        destroy_team(e, temporary);
        AxisTeams axes;
        ASSERT_TRUE(split_2d(e, kTeamWorld, 2, &axes));
        EXPECT_TRUE(axes.x == temporary || axes.y == temporary) << "the test is about numbers that are used twice";
        CtxId context;
        ASSERT_TRUE(create_context(e, axes.x, 4, &context));

        const TeamTable saved_teams = e.teams;
        const ContextTable saved_contexts = e.contexts;
        begin_replay(e);

        TeamId team;
        EXPECT_TRUE(split_strided(e, kTeamWorld, {0, 2, 2}, 0, &team));
        EXPECT_EQ(team, even);
        EXPECT_TRUE(split_strided(e, kTeamWorld, {0, 1, 4}, 0, &team));
        EXPECT_EQ(team, temporary);
        EXPECT_EQ(team_n_pes(e, team), 4) << "not yet the other team of that number";
        CtxId same;
        EXPECT_TRUE(create_context(e, team, 0, &same));
        EXPECT_EQ(same, of_temporary);
        TeamId of_context;
        EXPECT_TRUE(context_team(e, same, &of_context));
        EXPECT_EQ(of_context, temporary);
        destroy_team(e, team);
        EXPECT_EQ(team_n_pes(e, team), -1);
        AxisTeams again;
        EXPECT_TRUE(split_2d(e, kTeamWorld, 2, &again));
        EXPECT_EQ(again.x, axes.x);
        EXPECT_EQ(again.y, axes.y);
        EXPECT_TRUE(create_context(e, again.x, 4, &same));
        EXPECT_EQ(same, context);
        EXPECT_FALSE(create_context(e, again.x, 0, &same)) << "beyond what was recorded";

        e.replay.active = false;
        EXPECT_TRUE(sync(e, team_group(e, axes.x, "test")));
        EXPECT_EQ(std::memcmp(&e.teams, &saved_teams, sizeof saved_teams), 0) << "the replay makes the same tables";
        EXPECT_EQ(std::memcmp(&e.contexts, &saved_contexts, sizeof saved_contexts), 0);
    });
}

TEST(ActiveSets, BecomeGroups) {
    Job job(8);
    job.run([](Pe& pe) {
        if (pe.me() % 4 == 1) {
            const PeGroup group = active_group(pe.engine, {1, 2, 2}, "test");
            EXPECT_EQ(group.me, pe.me() / 4);
            EXPECT_TRUE(sync(pe.engine, group));
        }
    });
    EXPECT_EXIT(static_cast<void>(active_group(job.engine(0), {1, 0, 8}, "shmem_barrier")),
                ::testing::ExitedWithCode(70), "shmem_barrier: PE_start 1, logPE_stride 0, PE_size 8 name PEs outside");
    EXPECT_LT(active_group(job.engine(0), {1, 1, 3}, "shmem_barrier").me, 0) << "PE 0 does not belong to it";
    EXPECT_EXIT(static_cast<void>(team_group(job.engine(0), kTeamInvalid, "shmem_team_sync")),
                ::testing::ExitedWithCode(70), "shmem_team_sync: the team is invalid");
}

// A program that does not look at the result of a split that has failed gets to its next checkpoint all the same.
TEST(TeamFaults, MakeUselessHandlesHarmless) {
    Job job(3);
    job.announce_death(1);
    job.run([](Pe& pe) {
        Engine& e = pe.engine;
        EXPECT_FALSE(sync(e, team_group(e, kTeamInvalid, "test")));
        EXPECT_FALSE(sync(e, active_group(e, {0, 0, 9}, "test")));
        long private_word = 0;
        EXPECT_EQ(pe.to(0).locate(&private_word), nullptr);
    });
    attach_engine(&job.engine(0));
    for (const Target to : {target("test", kCtxInvalid, 0), target("test", -1), target("test", kCtxDefault, 3)}) {
        EXPECT_TRUE(to.is_nobody());
    }
    attach_engine(nullptr);
}

TEST(TeamFaults, EndSplits) {
    Job job(3);
    job.announce_death(1);
    job.run([](Pe& pe) {
        TeamId team = kTeamWorld;
        EXPECT_FALSE(split_strided(pe.engine, kTeamWorld, {0, 1, 3}, 0, &team));
        EXPECT_EQ(team, kTeamInvalid);
    });
}

}  // namespace
}  // namespace sft::testing
