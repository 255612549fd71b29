#include "shmem_ft/membership/placement.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sft {
namespace {

using Pes = std::vector<std::int32_t>;

// The keeper of each PE; checks kept_by() against them.
Pes keepers(const JobShape& shape, const std::vector<Replacement>& replacements = {}) {
    const Placement placement(shape, {}, replacements);
    Pes found;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        found.push_back(placement.keeper_of(PeId(pe)).value());
    }
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        std::vector<PeId> kept;
        for (std::int32_t other = 0; other < shape.n_pes; ++other) {
            if (found[static_cast<std::size_t>(other)] == pe) {
                kept.emplace_back(other);
            }
        }
        EXPECT_EQ(placement.kept_by(PeId(pe)), kept) << "of PE " << pe;
    }
    return found;
}

NodeMap nodes(const Pes& of_process) {
    std::vector<NodeId> list;
    for (const std::int32_t node : of_process) {
        list.emplace_back(node);
    }
    return NodeMap(std::move(list));
}

TEST(Placement, OnOneNodeTheNextPeKeeps) { EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 5}), (Pes{1, 2, 3, 0})); }

TEST(Placement, NoShadowIsOnTheNodeOfItsPe) {
    const NodeMap blocks = nodes({0, 0, 1, 1, 2});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 5, .nodes = &blocks}), (Pes{2, 3, 0, 1}));
    const NodeMap round_robin = nodes({0, 1, 0, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .nodes = &round_robin}), (Pes{1, 0, 3, 2}));
}

TEST(Placement, ANodeWithFewerPesKeepsMoreOfThemEach) {
    const NodeMap uneven = nodes({0, 0, 0, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .nodes = &uneven}), (Pes{3, 3, 3, 0}));
}

TEST(Placement, FollowsTheHolders) {
    const NodeMap blocks = nodes({0, 0, 1, 1, 0, 2});
    // PE 2 has moved to node 0, PE 3 to node 2.
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 6, .nodes = &blocks}, {{PeId(2), ProcId(4)}, {PeId(3), ProcId(5)}}),
              (Pes{3, 3, 3, 0}));
}

TEST(Placement, AllPesOnOneOfTheNodes) {
    const NodeMap spares_elsewhere = nodes({0, 0, 0, 1, 1});
    EXPECT_EQ(keepers({.n_pes = 3, .n_processes = 5, .nodes = &spares_elsewhere}), (Pes{1, 2, 0}));
}

TEST(Placement, NearShadowsLeaveANodeOnlyIfItsPeIsAlone) {
    const NodeMap map = nodes({0, 0, 0, 1, 2, 2});
    EXPECT_EQ(keepers({.n_pes = 6, .n_processes = 6, .nodes = &map, .keeps_near = true}), (Pes{1, 2, 0, 4, 5, 4}));
}

}  // namespace
}  // namespace sft
