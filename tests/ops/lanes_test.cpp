// Collectives of different teams at the same time, in several threads of each PE.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/reductions.hpp"
#include "shmem_ft/ops/teams.hpp"
#include "shmem_ft/transport/shm/control.hpp"
#include "tests/ops/harness.hpp"

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
TEST_P(Lanes, ResetBringsAllInStepAgain) {
    Job job(GetParam());
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
    job.run([](Pe& pe) { pe.engine.channels.reset(); });
    job.run([&](Pe& pe) {
        for (const TeamId each : {kTeamWorld, kTeamShared, team}) {
            EXPECT_TRUE(sums_fit(pe, each, 5));
        }
    });
}

TEST(ControlSegmentSize, LanesThatNobodyUsesTakeNoMemory) {
    constexpr std::int32_t kPes = 64;
    constexpr blkcnt_t kBlock = 512;
    ControlSegment control;
    std::string error;
    ASSERT_TRUE(control.create(kPes, kPes, error)) << error;
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
