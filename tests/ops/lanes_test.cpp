// Collectives of different teams at the same time, in several threads of each PE.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/reductions.hpp"
#include "shmem_ft/ops/teams.hpp"
#include "tests/ops/harness.hpp"
#include "tests/result.hpp"
#include "transport/shm/control.hpp"

namespace sft::testing {
namespace {

class Lanes : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Lanes, kJobSizes);

constexpr int kThreads = 4;
constexpr int kRounds = 300;

// What the members get if nobody else's messages are among theirs.
bool sums_fit(Pe& pe, TeamId team, long seed) {
    const PeGroup group = team_group(pe.engine, team, "test");
    for (long round = 0; round < kRounds; ++round) {
        long value = seed + round * (group.me + 1);
        long total = 0;
        if (!reduce(pe.engine, group, &total, &value, 1, element_kind<Sum, long>())) {
            return false;
        }
        const long members = group.size;
        if (total != seed * members + round * members * (members + 1) / 2) {
            return false;
        }
    }
    return sync(pe.engine, group);
}

TEST_P(Lanes, TeamsDoNotMix) {
    run([](Pe& pe) {
        TeamId teams[kThreads] = {kTeamWorld, kTeamShared};
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {0, 1, pe.n()}, 0, &teams[2]));
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {pe.n() - 1, -1, pe.n()}, 0, &teams[3]));
        std::vector<std::thread> threads;
        for (const TeamId team : teams) {
            threads.emplace_back(
                [&pe, team] { EXPECT_TRUE(sums_fit(pe, team, 1000 * static_cast<long>(team.value()))); });
        }
        for (auto& thread : threads) {
            thread.join();
        }
    });
}

// Rows of a grid have the same index, and are not always in the same barrier. Eight PEs are a crowd here.
TEST_P(Lanes, TeamsWithOneIndexDoNotMeet) {
    run([](Pe& pe) {
        AxisTeams axes;
        ASSERT_TRUE(split_2d(pe.engine, kTeamWorld, 4, &axes));
        const PeGroup row = team_group(pe.engine, axes.x, "test");
        auto* arrivals = pe.allocate<long>(1);
        pe.barrier();
        const auto of_first = [&] { return static_cast<long*>(pe.engine.peers.locate(arrivals, row.pe(0))); };
        for (long round = 1; round <= 100 * (1 + row.start); ++round) {
            __atomic_fetch_add(of_first(), 1, __ATOMIC_RELAXED);
            ASSERT_TRUE(sync(pe.engine, row));
            ASSERT_GE(__atomic_load_n(of_first(), __ATOMIC_RELAXED), round * row.size);
            ASSERT_TRUE(sync(pe.engine, row));
        }
        pe.barrier();
    });
}

// Threads of a PE split different teams at once; each gets a team that nobody else has.
TEST_P(Lanes, SplitsAtOnceGetDifferentTeams) {
    run([](Pe& pe) {
        TeamId parents[kThreads] = {kTeamWorld, kTeamShared};
        AxisTeams axes;
        ASSERT_TRUE(split_2d(pe.engine, kTeamWorld, 2, &axes));
        parents[2] = axes.x;
        parents[3] = axes.y;
        std::vector<std::thread> threads;
        for (const TeamId parent : parents) {
            threads.emplace_back([&pe, parent] {
                for (int round = 0; round < 30; ++round) {
                    const int part = 1 + round % team_n_pes(pe.engine, parent);
                    TeamId team;
                    CtxId context;
                    ASSERT_TRUE(split_strided(pe.engine, parent, {0, 1, part}, 0, &team));
                    if (team == kTeamInvalid) {
                        continue;
                    }
                    ASSERT_EQ(team_n_pes(pe.engine, team), part);
                    ASSERT_TRUE(create_context(pe.engine, team, 0, &context));
                    const PeGroup group = team_group(pe.engine, team, "test");
                    for (int i = 0; i < 3; ++i) {
                        long value = round;
                        ASSERT_TRUE(reduce(pe.engine, group, &value, &value, 1, element_kind<Sum, long>()));
                        ASSERT_EQ(value, static_cast<long>(round) * part);
                    }
                    TeamId of_context;
                    ASSERT_TRUE(context_team(pe.engine, context, &of_context));
                    ASSERT_EQ(of_context, team);
                    destroy_team(pe.engine, team);
                }
            });
        }
        for (auto& thread : threads) {
            thread.join();
        }
        std::size_t in_use = 0;
        for (const TeamEntry& entry : pe.engine.teams.entries) {
            in_use += entry.state == SlotState::free ? 0U : 1U;
        }
        EXPECT_EQ(in_use, 4U);
    });
}

TEST_P(Lanes, AnIndexGoesOnCountingInTheNextTeam) {
    run([](Pe& pe) {
        TeamId first;
        for (int round = 0; round < 20; ++round) {
            TeamId team;
            ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {0, 1, 1 + round % pe.n()}, 0, &team));
            if (team == kTeamInvalid) {
                continue;
            }
            first = round == 0 ? team : first;
            const PeGroup group = team_group(pe.engine, team, "test");
            for (int i = 0; i < round; ++i) {
                EXPECT_TRUE(sync(pe.engine, group));
            }
            destroy_team(pe.engine, team);
        }
    });
}

// As shmem_restart_pes does it: some members are a few messages further than the others.
void expect_that_reset_helps(int n, const std::function<void(Pe&)>& reset) {
    Job job(n);
    TeamId team;
    job.run([&](Pe& pe) {
        TeamId mine;
        ASSERT_TRUE(split_strided(pe.engine, kTeamWorld, {0, 1, pe.n()}, 0, &mine));
        if (pe.me() == 0) {
            team = mine;
        }
    });
    job.run([&](Pe& pe) {
        for (const TeamId each : {kTeamWorld, kTeamShared, team}) {
            const PeGroup group = team_group(pe.engine, each, "test");
            EXPECT_TRUE(sync(pe.engine, group));
            if (group.me == 0 && group.size > 1) {
                EXPECT_TRUE(pe.engine.channels.lane(group.lane).notify(group.pe(1)));
            }
        }
    });
    job.run(reset);
    job.run([&](Pe& pe) {
        for (const TeamId each : {kTeamWorld, kTeamShared, team}) {
            EXPECT_TRUE(sums_fit(pe, each, 5));
        }
    });
}

TEST_P(Lanes, ResetBringsAllInStepAgain) {
    expect_that_reset_helps(GetParam(), [](Pe& pe) { pe.engine.channels.reset(); });
}

// The kernel gives no page of such a program back, and so makes none of them zero.
TEST_P(Lanes, ResetBringsAllInStepAgainInLockedMemory) {
    std::atomic<bool> is_locked = true;
    expect_that_reset_helps(GetParam(), [&](Pe& pe) {
        if (::mlockall(MCL_CURRENT | MCL_ONFAULT) != 0) {
            is_locked = false;
        }
        pe.engine.channels.reset();
    });
    ::munlockall();
    if (!is_locked) {
        GTEST_SKIP() << "this user must not lock so much memory";
    }
}

TEST(ControlSegmentSize, LanesThatNobodyUsesTakeNoMemory) {
    constexpr std::int32_t kPes = 64;
    constexpr blkcnt_t kBlock = 512;
    ControlSegment control;
    ASSERT_TRUE(sft::good(control.create(kPes, kPes)));
    struct stat info {};
    ASSERT_EQ(::fstat(control.fd(), &info), 0);
    EXPECT_LT(info.st_blocks * kBlock, 64 << 10);
    EXPECT_LT(info.st_size, std::int64_t{512} << 20);

    Waiter waiter;
    Doorbell bell{};
    Channels channels;
    channels.connect(control.channels(), PeId(0), std::vector<Doorbell*>(kPes, &bell), &waiter);
    EXPECT_FALSE(control.channels().marks[5].is_marked(LaneId(200)));
    FaultGate gate;
    waiter = Waiter(&bell, &gate, {});
    EXPECT_TRUE(channels.lane(LaneId(200)).notify(PeId(5)));
    EXPECT_TRUE(control.channels().marks[5].is_marked(LaneId(200)));
    ASSERT_EQ(::fstat(control.fd(), &info), 0);
    EXPECT_LT(info.st_blocks * kBlock, 128 << 10);
}

}  // namespace
}  // namespace sft::testing
