#include "recovery/membership/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

NodeMap nodes_of(const Pes& of_process) {
    std::vector<NodeId> list;
    for (const std::int32_t node : of_process) {
        list.emplace_back(node);
    }
    return NodeMap(std::move(list));
}

DomainMap domains_of(const Pes& of_process) {
    std::vector<DomainId> list;
    for (const std::int32_t domain : of_process) {
        list.emplace_back(domain);
    }
    return DomainMap(std::move(list));
}

TEST(Placement, OnOneNodeTheNextPeKeeps) { EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 5}), (Pes{1, 2, 3, 0})); }

TEST(Placement, NoShadowIsOnTheNodeOfItsPe) {
    const NodeMap blocks = nodes_of({0, 0, 1, 1, 2});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 5, .nodes = &blocks}), (Pes{2, 3, 0, 1}));
    const NodeMap round_robin = nodes_of({0, 1, 0, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .nodes = &round_robin}), (Pes{1, 0, 3, 2}));
}

TEST(Placement, ANodeWithFewerPesKeepsMoreOfThemEach) {
    const NodeMap uneven = nodes_of({0, 0, 0, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .nodes = &uneven}), (Pes{3, 3, 3, 0}));
}

TEST(Placement, FollowsTheHolders) {
    const NodeMap blocks = nodes_of({0, 0, 1, 1, 0, 2});
    // PE 2 has moved to node 0, PE 3 to node 2.
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 6, .nodes = &blocks}, {{PeId(2), ProcId(4)}, {PeId(3), ProcId(5)}}),
              (Pes{3, 3, 3, 0}));
}

TEST(Placement, AllPesOnOneOfTheNodes) {
    const NodeMap spares_elsewhere = nodes_of({0, 0, 0, 1, 1});
    EXPECT_EQ(keepers({.n_pes = 3, .n_processes = 5, .nodes = &spares_elsewhere}), (Pes{1, 2, 0}));
}

TEST(Placement, NearShadowsLeaveANodeOnlyIfItsPeIsAlone) {
    const NodeMap map = nodes_of({0, 0, 0, 1, 2, 2});
    EXPECT_EQ(keepers({.n_pes = 6, .n_processes = 6, .nodes = &map, .keeps_near = true}), (Pes{1, 2, 0, 4, 5, 4}));
}

// With the next PE as keeper, PEs 0 and 1 would be lost at once with one memory controller.
TEST(Placement, NoShadowIsInTheMemoryDomainOfItsPe) {
    const DomainMap blocks = domains_of({0, 0, 1, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .domains = &blocks}), (Pes{2, 3, 0, 1}));
    const DomainMap round_robin = domains_of({4, 2, 4, 2});  // the system's numbers
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .domains = &round_robin}), (Pes{1, 0, 3, 2}));
    const DomainMap three = domains_of({2, 0, 1, 2, 0, 1, 1});
    EXPECT_EQ(keepers({.n_pes = 7, .n_processes = 7, .domains = &three}), (Pes{1, 2, 0, 4, 5, 3, 0}));
}

TEST(Placement, AMemoryDomainWithFewerPesKeepsMoreOfThemEach) {
    const DomainMap uneven = domains_of({0, 0, 0, 1, 1});
    EXPECT_EQ(keepers({.n_pes = 5, .n_processes = 5, .domains = &uneven}), (Pes{3, 4, 3, 0, 1}));
    const DomainMap lonely = domains_of({0, 0, 0, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .domains = &lonely}), (Pes{3, 3, 3, 0}));
}

TEST(Placement, SubstitutesInAnotherMemoryDomain) {
    const DomainMap blocks = domains_of({0, 0, 1, 1, 0, 1});
    const JobShape shape{.n_pes = 4, .n_processes = 6, .domains = &blocks};
    EXPECT_EQ(keepers(shape, {{PeId(2), ProcId(4)}}), (Pes{3, 3, 3, 0}));
    EXPECT_EQ(keepers(shape, {{PeId(0), ProcId(5)}}), (Pes{1, 0, 1, 1}));
    // All are in one: nothing is better than the next PE.
    EXPECT_EQ(keepers(shape, {{PeId(2), ProcId(4)}, {PeId(3), ProcId(7)}}), (Pes{1, 2, 3, 0}));
}

// Process 4 has joined: the others cannot know where it is bound.
TEST(Placement, PesOfUnknownMemoryDomainsAreAGroupOfTheirOwn) {
    const DomainMap blocks = domains_of({0, 0, 1, 1});
    const JobShape shape{.n_pes = 4, .n_processes = 4, .domains = &blocks};
    EXPECT_EQ(keepers(shape, {{PeId(1), ProcId(4)}}), (Pes{2, 0, 1, 1}));
    const DomainMap one_unknown = domains_of({0, 0, -1, 0});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .domains = &one_unknown}), (Pes{1, 2, 3, 0}));
    const DomainMap none = domains_of({-1, -1, -1});
    EXPECT_EQ(keepers({.n_pes = 3, .n_processes = 3, .domains = &none}), (Pes{1, 2, 0}));
}

// Near is on the same node; that is what a job on one node is anyway.
TEST(Placement, NearShadowsAreInOtherMemoryDomainsToo) {
    const DomainMap blocks = domains_of({0, 0, 1, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .domains = &blocks, .keeps_near = true}), (Pes{2, 3, 0, 1}));
}

TEST(Placement, MemoryDomainsDoNotMatterBetweenNodes) {
    const NodeMap map = nodes_of({0, 0, 1, 1});
    const DomainMap round_robin = domains_of({0, 1, 0, 1});
    EXPECT_EQ(keepers({.n_pes = 4, .n_processes = 4, .nodes = &map, .domains = &round_robin}), (Pes{2, 3, 0, 1}));
}

TEST(Placement, WhateverTheDomainsAre) {
    for (std::uint32_t seed = 1; seed < 2000; ++seed) {
        std::uint32_t dice = seed * 2654435761U;
        const auto below = [&](std::uint32_t end) {
            dice = dice * 1664525U + 1013904223U;
            return static_cast<std::int32_t>((dice >> 8) % end);
        };
        const std::int32_t n_pes = 2 + below(12);
        Pes of_process;
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            of_process.push_back(below(3));
        }
        const DomainMap map = domains_of(of_process);
        const Pes found = keepers({.n_pes = n_pes, .n_processes = n_pes, .domains = &map});
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            const std::int32_t keeper = found[static_cast<std::size_t>(pe)];
            EXPECT_NE(keeper, pe);
            EXPECT_TRUE(!map.has_several() || map.domain_of(ProcId(keeper)) != map.domain_of(ProcId(pe)));
        }
    }
}

// All keepers of each PE, in their order; checks kept_by() against them.
std::vector<Pes> all_keepers(const JobShape& shape, std::int32_t n_wanted,
                             const std::vector<Replacement>& replacements = {}) {
    const Placement placement(shape, {}, replacements, n_wanted);
    std::vector<Pes> found;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        found.emplace_back();
        for (std::int32_t number = 0; number < placement.n_keepers(); ++number) {
            found.back().push_back(placement.keeper_of(PeId(pe), number).value());
        }
    }
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        std::vector<PeId> kept;
        for (std::int32_t other = 0; other < shape.n_pes; ++other) {
            const Pes& of_it = found[static_cast<std::size_t>(other)];
            if (std::find(of_it.begin(), of_it.end(), pe) != of_it.end()) {
                kept.emplace_back(other);
            }
        }
        EXPECT_EQ(placement.kept_by(PeId(pe)), kept) << "of PE " << pe;
    }
    return found;
}

TEST(Placement, SeveralKeepersAreOnTheNextNodes) {
    const NodeMap map = nodes_of({0, 1, 2, 3});
    const JobShape shape{.n_pes = 4, .n_processes = 4, .nodes = &map};
    EXPECT_EQ(all_keepers(shape, 2), (std::vector<Pes>{{1, 2}, {2, 3}, {3, 0}, {0, 1}}));
    EXPECT_EQ(all_keepers(shape, 1), (std::vector<Pes>{{1}, {2}, {3}, {0}}));
    const NodeMap uneven = nodes_of({0, 0, 1, 2, 2});
    EXPECT_EQ(all_keepers({.n_pes = 5, .n_processes = 5, .nodes = &uneven}, 2),
              (std::vector<Pes>{{2, 3}, {2, 4}, {3, 0}, {0, 2}, {1, 2}}));
}

TEST(Placement, NoMoreKeepersThanThereAreOtherNodes) {
    const NodeMap map = nodes_of({0, 1, 0, 1, 2});
    const JobShape shape{.n_pes = 4, .n_processes = 5, .nodes = &map};
    EXPECT_EQ(all_keepers(shape, 3), (std::vector<Pes>{{1}, {0}, {3}, {2}}));
    // PE 1 has moved to the third node.
    EXPECT_EQ(all_keepers(shape, 3, {{PeId(1), ProcId(4)}}), (std::vector<Pes>{{3, 1}, {0, 3}, {3, 1}, {1, 0}}));
    const NodeMap spares_elsewhere = nodes_of({0, 0, 0, 1, 2});
    EXPECT_EQ(all_keepers({.n_pes = 3, .n_processes = 5, .nodes = &spares_elsewhere}, 2),
              (std::vector<Pes>{{1}, {2}, {0}}));
    EXPECT_EQ(all_keepers({.n_pes = 3, .n_processes = 3}, 2), (std::vector<Pes>{{1}, {2}, {0}}));
    const DomainMap three = domains_of({0, 1, 2});
    EXPECT_EQ(all_keepers({.n_pes = 3, .n_processes = 3, .domains = &three}, 2), (std::vector<Pes>{{1}, {2}, {0}}));
}

// Two racks of two nodes, and a third one: nodes 0 and 1 share one, as nodes 2 and 3 do.
TEST(Placement, NoTwoCopiesAreInOneArea) {
    const NodeMap map = nodes_of({0, 1, 2, 3, 4});
    const AreaMap racks({7, 7, 3, 3, 5});
    const JobShape shape{.n_pes = 5, .n_processes = 5, .nodes = &map, .areas = &racks};
    // In the order of the areas: 3 (PEs 2, 3), 5 (PE 4), 7 (PEs 0, 1).
    EXPECT_EQ(all_keepers(shape, 1), (std::vector<Pes>{{2}, {3}, {4}, {4}, {0}}));
    EXPECT_EQ(all_keepers(shape, 2), (std::vector<Pes>{{2, 4}, {3, 4}, {4, 0}, {4, 1}, {0, 2}}));
    EXPECT_EQ(all_keepers(shape, 3), all_keepers(shape, 2)) << "there are no more areas";
    const NodeMap with_spares = nodes_of({0, 1, 2, 3, 4, 0, 1});
    const JobShape spared{.n_pes = 5, .n_processes = 7, .nodes = &with_spares, .areas = &racks};
    // All PEs have gone to one rack: apart by nodes at least.
    EXPECT_EQ(all_keepers({.n_pes = 2, .n_processes = 7, .nodes = &with_spares, .areas = &racks}, 2),
              (std::vector<Pes>{{1}, {0}}));
    const NodeMap two_each = nodes_of({0, 0, 1, 1, 2});
    EXPECT_EQ(all_keepers({.n_pes = 4, .n_processes = 5, .nodes = &two_each, .areas = &racks}, 2),
              (std::vector<Pes>{{2}, {3}, {0}, {1}}));
    EXPECT_EQ(all_keepers(spared, 1, {{PeId(2), ProcId(5)}, {PeId(3), ProcId(6)}}),
              (std::vector<Pes>{{4}, {4}, {4}, {4}, {0}}));
}

TEST(Placement, NearCopiesStayOnTheirNodeWhateverTheAreas) {
    const NodeMap map = nodes_of({0, 0, 1, 1});
    const AreaMap racks({0, 1});
    const JobShape shape{.n_pes = 4, .n_processes = 4, .nodes = &map, .areas = &racks, .keeps_near = true};
    EXPECT_EQ(keepers(shape), (Pes{1, 0, 3, 2}));
}

TEST(AreaMap, IsOfUseIfThereAreSeveral) {
    EXPECT_FALSE(AreaMap().has_several());
    EXPECT_FALSE(AreaMap({4, 4}).has_several());
    EXPECT_TRUE(AreaMap({4, 4, 1}).has_several());
    EXPECT_EQ(AreaMap().area_of(NodeId(2)), 2);
    EXPECT_EQ(AreaMap({4, 4, 1}).area_of(NodeId(2)), 1);
}

TEST(Placement, SeveralKeepersWhateverTheNodesAre) {
    for (std::uint32_t seed = 1; seed < 2000; ++seed) {
        std::uint32_t dice = seed * 2654435761U;
        const auto below = [&](std::uint32_t end) {
            dice = dice * 1664525U + 1013904223U;
            return static_cast<std::int32_t>((dice >> 8) % end);
        };
        const std::int32_t n_pes = 2 + below(14);
        const std::int32_t n_wanted = 1 + below(4);
        Pes of_process;
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            of_process.push_back(below(6));
        }
        std::vector<std::int32_t> numbers = of_process;
        std::sort(numbers.begin(), numbers.end());
        numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
        for (std::int32_t& node : of_process) {  // none is left out
            node = static_cast<std::int32_t>(std::lower_bound(numbers.begin(), numbers.end(), node) - numbers.begin());
        }
        const NodeMap map = nodes_of(of_process);
        const auto n_nodes = static_cast<std::int32_t>(numbers.size());
        const std::vector<Pes> found = all_keepers({.n_pes = n_pes, .n_processes = n_pes, .nodes = &map}, n_wanted);
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            const Pes& of_it = found[static_cast<std::size_t>(pe)];
            ASSERT_EQ(static_cast<std::int32_t>(of_it.size()), std::max(1, std::min(n_wanted, n_nodes - 1)));
            std::vector<NodeId> used{map.node_of(ProcId(pe))};
            for (const std::int32_t keeper : of_it) {
                const NodeId node = map.node_of(ProcId(keeper));
                EXPECT_TRUE(n_nodes == 1 || std::find(used.begin(), used.end(), node) == used.end());
                used.push_back(node);
            }
        }
    }
}

TEST(DomainMap, SeveralAreKnownOrNot) {
    EXPECT_FALSE(DomainMap().has_several());
    EXPECT_FALSE(domains_of({-1, -1}).has_several());
    EXPECT_FALSE(domains_of({-1, 3, 3}).has_several());
    EXPECT_TRUE(domains_of({-1, 3, 0}).has_several());
    EXPECT_EQ(domains_of({3, 0}).domain_of(ProcId(0)), DomainId(3));
    EXPECT_EQ(domains_of({3, 0}).domain_of(ProcId(2)), kNoDomain);
    EXPECT_EQ(domains_of({3, 0}).domain_of(kNoProc), kNoDomain);
}

}  // namespace
}  // namespace sft
