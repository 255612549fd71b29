#include "shmem_ft/process/status_publisher.hpp"

#include <gtest/gtest.h>

#include "tests/recovery/keeper.hpp"

namespace sft {
namespace {

constexpr std::int64_t kNow = 5'000'000'000;
const JobShape kShape{.n_pes = 3, .n_processes = 5};

Coordinator::Knowledge committed() {
    Coordinator::Knowledge known;
    known.state.index = 7;
    known.state.version = Version(4);
    known.state.view = 1;
    known.protected_losses = 1;
    return known;
}

OwnStatus own_of(ProcId self) { return {.self = self, .keeps_copies = true}; }

TEST(MakeStatus, OfAPe) {
    OwnStatus own = own_of(ProcId(1));
    own.committed_ns = 17;
    own.stored_bytes = 4096;
    own.blocks = {.checked = 3, .bad = 2, .repaired = 1};
    own.startup = StartupPhase::closed;
    own.startup_bytes = 99;
    own.costs = {.n_calls = 50, .n_versions = 5, .total_ns = 60, .typical_ns = 11, .begin_ns = 2};
    own.best_interval_ns = 900;
    own.room_most = 90;
    own.room_left = 1000;
    const Coordinator::Knowledge known = committed();
    const ProcessStatus status = make_status(kShape, known, own, kNow);
    EXPECT_EQ(status.checkpoint_calls, 50U);
    EXPECT_EQ(status.checkpoints, 5U);
    EXPECT_EQ(status.checkpoints_ns, 60);
    EXPECT_EQ(status.checkpoint_ns, 11);
    EXPECT_EQ(status.checkpoints_since_ns, 2);
    EXPECT_EQ(status.best_interval_ns, 900);
    EXPECT_EQ(status.room_most, 90U);
    EXPECT_EQ(status.room_left, 1000U);
    EXPECT_EQ(status.index, 7U);
    EXPECT_EQ(status.published_ns, kNow);
    EXPECT_EQ(status.committed_ns, 17);
    EXPECT_EQ(status.stored_bytes, 4096U);
    EXPECT_EQ(status.blocks_checked, 3U);
    EXPECT_EQ(status.blocks_bad, 2U);
    EXPECT_EQ(status.blocks_repaired, 1U);
    EXPECT_EQ(status.version, 4U);
    EXPECT_EQ(status.view, 1U);
    EXPECT_EQ(status.pe, 1);
    EXPECT_EQ(status.keeper, keeper_of(kShape, known.state, PeId(1)).value());
    EXPECT_EQ(status.protected_losses, 1);
    EXPECT_EQ(status.idle_spares, 2);
    EXPECT_EQ(status.n_deaths, 0);
    EXPECT_EQ(status.keeps_copies, 1);
    EXPECT_EQ(status.startup, static_cast<std::uint32_t>(StartupPhase::closed));
    EXPECT_EQ(status.startup_bytes, 99U);
    EXPECT_EQ(status.failed.front(), -1);
}

TEST(MakeStatus, ASpareHasNoPeAndNoKeeper) {
    const ProcessStatus status = make_status(kShape, committed(), own_of(ProcId(3)), kNow);
    EXPECT_EQ(status.pe, kNoPe.value());
    EXPECT_EQ(status.keeper, kNoProc.value());
}

TEST(MakeStatus, NobodyKeepsACopyBeforeTheFirstCheckpointOrWithoutCopies) {
    Coordinator::Knowledge known = committed();
    EXPECT_EQ(make_status(kShape, known, {.self = ProcId(0)}, kNow).keeper, -1);
    known.state.version = kNoVersion;
    EXPECT_EQ(make_status(kShape, known, own_of(ProcId(0)), kNow).keeper, -1);
}

TEST(MakeStatus, ADeadKeeperIsNone) {
    Coordinator::Knowledge known = committed();
    const ProcId keeper = keeper_of(kShape, known.state, PeId(0));
    known.deaths = {{keeper, {FailureKind::signal, 9}, true}};
    const ProcessStatus status = make_status(kShape, known, own_of(ProcId(0)), kNow);
    EXPECT_EQ(status.keeper, -1);
    EXPECT_EQ(status.n_deaths, 1);
}

TEST(MakeStatus, AnIdleSpareThatIsDeadIsNone) {
    Coordinator::Knowledge known = committed();
    known.deaths = {{ProcId(4), {FailureKind::signal, 9}, true}};
    EXPECT_EQ(make_status(kShape, known, own_of(ProcId(0)), kNow).idle_spares, 1);
}

TEST(MakeStatus, BothListsOfFailedPesUntilThereIsNoRoom) {
    Coordinator::Knowledge known = committed();
    for (std::int32_t pe = 0; pe < 6; ++pe) {
        known.state.failed.push_back({PeId(pe), {}});
        known.state.further.push_back({PeId(10 + pe), {}});
    }
    known.waits_for_spare = true;
    const ProcessStatus status = make_status(kShape, known, own_of(ProcId(0)), kNow);
    EXPECT_EQ(status.failed, (std::array<std::int32_t, 8>{0, 1, 2, 3, 4, 5, 10, 11}));
    EXPECT_EQ(status.waits_for_spare, 1);
}

TEST(MakeStatus, SparesOnDemandAreThoseThatHaveNotJoined) {
    Coordinator::Knowledge known = committed();
    OwnStatus own = own_of(ProcId(0));
    own.n_on_demand = 2;
    EXPECT_EQ(make_status(kShape, known, own, kNow).spares_on_demand, 2);
    known.state.joined = {{ProcId(5), NodeId(0)}};
    EXPECT_EQ(make_status(kShape, known, own, kNow).spares_on_demand, 1);
    known.state.joined.push_back({ProcId(6), NodeId(0)});
    known.state.joined.push_back({ProcId(7), NodeId(0)});
    EXPECT_EQ(make_status(kShape, known, own, kNow).spares_on_demand, 0) << "others may join as well";
}

TEST(MakeStatus, NodeLosses) {
    ProcessStatus status;
    add_node_losses(status, {.n_nodes = 3, .n_survived = 2, .fatal = NodeId(1), .why = NodeLoss::majority});
    EXPECT_EQ(status.n_nodes, 3);
    EXPECT_EQ(status.n_node_losses, 2);
    EXPECT_EQ(status.fatal_node, 1);
    EXPECT_EQ(status.node_loss, static_cast<std::uint8_t>(NodeLoss::majority));
}

}  // namespace
}  // namespace sft
