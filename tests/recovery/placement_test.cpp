#include "recovery/membership/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/sanitizers.hpp"

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
              (Pes{3, 3, 3, 1}));
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
    EXPECT_EQ(keepers({.n_pes = 7, .n_processes = 7, .domains = &three}), (Pes{4, 5, 0, 2, 6, 3, 1}))
        << "in the order of the domains: 1, 4; 2, 5, 6; 0, 3";
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
    EXPECT_EQ(keepers(shape, {{PeId(2), ProcId(4)}}), (Pes{3, 3, 3, 1}));
    EXPECT_EQ(keepers(shape, {{PeId(0), ProcId(5)}}), (Pes{1, 2, 1, 1}));
    // All are in one: nothing is better than the next PE.
    EXPECT_EQ(keepers(shape, {{PeId(2), ProcId(4)}, {PeId(3), ProcId(7)}}), (Pes{1, 2, 3, 0}));
}

// Process 4 has joined: the others cannot know where it is bound.
TEST(Placement, PesOfUnknownMemoryDomainsAreAGroupOfTheirOwn) {
    const DomainMap blocks = domains_of({0, 0, 1, 1});
    const JobShape shape{.n_pes = 4, .n_processes = 4, .domains = &blocks};
    EXPECT_EQ(keepers(shape, {{PeId(1), ProcId(4)}}), (Pes{3, 2, 1, 0}));
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
    EXPECT_EQ(all_keepers(shape, 3, {{PeId(1), ProcId(4)}}), (std::vector<Pes>{{3, 1}, {2, 3}, {1, 3}, {0, 1}}));
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
    EXPECT_EQ(all_keepers(shape, 1), (std::vector<Pes>{{2}, {3}, {4}, {0}, {1}}));
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
              (std::vector<Pes>{{4}, {4}, {4}, {4}, {1}}));
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

// How many shadows each PE keeps.
Pes kept_counts(const std::vector<Pes>& keepers_of) {
    Pes counts(keepers_of.size());
    for (const Pes& of_it : keepers_of) {
        for (const std::int32_t keeper : of_it) {
            ++counts[static_cast<std::size_t>(keeper)];
        }
    }
    return counts;
}

TEST(Placement, OnNodesOfDifferentSizesEveryPeKeepsAsMany) {
    const NodeMap map = nodes_of({0, 0, 0, 1, 1, 1, 2, 2, 3, 3});
    const JobShape shape{.n_pes = 10, .n_processes = 10, .nodes = &map};
    EXPECT_EQ(keepers(shape), (Pes{3, 4, 5, 6, 7, 8, 9, 0, 1, 2}));
    EXPECT_EQ(kept_counts(all_keepers(shape, 2)), Pes(10, 2));
}

// Jobs of 4 to 40 PEs on nodes of random sizes, and then some PEs somewhere else.
TEST(Placement, AnySizesAndMovesEveryPeKeepsAsManyIfThatIsPossible) {
    int n_even = 0;
    int n_moved = 0;
    for (std::uint32_t seed = 1; seed < 3000; ++seed) {
        std::uint32_t dice = seed * 2654435761U;
        const auto below = [&](std::int32_t end) {
            dice = dice * 1664525U + 1013904223U;
            return static_cast<std::int32_t>((dice >> 8) % static_cast<std::uint32_t>(end));
        };
        const std::int32_t n_nodes = 2 + below(8);
        const std::int32_t n_pes = std::max(n_nodes, 4 + below(37));
        const std::int32_t n_wanted = 1 + below(3);
        Pes of_process;
        for (std::int32_t process = 0; process < 2 * n_pes; ++process) {
            of_process.push_back(process < n_nodes ? process : below(n_nodes));
        }
        const NodeMap map = nodes_of(of_process);
        const JobShape shape{.n_pes = n_pes, .n_processes = 2 * n_pes, .nodes = &map};
        const auto sizes_of = [&](const std::vector<Replacement>& moved) {
            Pes sizes(static_cast<std::size_t>(n_nodes));
            for (std::int32_t pe = 0; pe < n_pes; ++pe) {
                ++sizes[static_cast<std::size_t>(map.node_of(holder_in(moved, PeId(pe))).value())];
            }
            return sizes;
        };
        const Pes first_sizes = sizes_of({});
        const std::int32_t n_copies = std::min(n_wanted, n_nodes - 1);
        const bool is_even = (n_copies + 1) * *std::max_element(first_sizes.begin(), first_sizes.end()) <= n_pes;
        const std::vector<Pes> at_first = all_keepers(shape, n_wanted);
        if (is_even) {
            ++n_even;
            EXPECT_EQ(kept_counts(at_first), Pes(static_cast<std::size_t>(n_pes), n_copies)) << "seed " << seed;
        }
        std::vector<Replacement> moved;
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            if (below(6) == 0) {
                moved.push_back({PeId(pe), ProcId(n_pes + pe)});
            }
        }
        const Pes sizes = sizes_of(moved);
        const std::vector<Pes> now = all_keepers(shape, n_wanted, moved);
        const auto n_left =
            static_cast<std::int32_t>(std::count_if(sizes.begin(), sizes.end(), [](auto n) { return n > 0; }));
        for (std::int32_t pe = 0; pe < n_pes && n_left > 1; ++pe) {
            Pes nodes{map.node_of(holder_in(moved, PeId(pe))).value()};
            for (const std::int32_t keeper : now[static_cast<std::size_t>(pe)]) {
                nodes.push_back(map.node_of(holder_in(moved, PeId(keeper))).value());
            }
            EXPECT_EQ(nodes.size(), 1U + static_cast<std::size_t>(std::min(n_wanted, n_left - 1)));
            std::sort(nodes.begin(), nodes.end());
            EXPECT_EQ(std::adjacent_find(nodes.begin(), nodes.end()), nodes.end()) << "seed " << seed << " PE " << pe;
        }
        if (is_even && n_wanted == 1 && 2 * *std::max_element(sizes.begin(), sizes.end()) <= n_pes) {
            ++n_moved;
            EXPECT_EQ(kept_counts(now), Pes(static_cast<std::size_t>(n_pes), 1)) << "seed " << seed;
        }
    }
    EXPECT_GT(n_even, 1000);
    EXPECT_GT(n_moved, 400);
}

// 16 nodes with 8 PEs each, and one with spares.
TEST(Placement, FewShadowsMoveWhenPesGoElsewhere) {
    Pes of_process;
    for (std::int32_t process = 0; process < 17 * 8; ++process) {
        of_process.push_back(process / 8);
    }
    const NodeMap map = nodes_of(of_process);
    const JobShape shape{.n_pes = 128, .n_processes = 17 * 8, .nodes = &map};
    const auto n_moved = [&](const std::vector<Replacement>& replacements, std::int32_t n_wanted) {
        const std::vector<Pes> before = all_keepers(shape, n_wanted);
        const std::vector<Pes> now = all_keepers(shape, n_wanted, replacements);
        int n = 0;
        for (std::size_t pe = 0; pe < before.size(); ++pe) {
            for (const std::int32_t keeper : now[pe]) {
                n += std::find(before[pe].begin(), before[pe].end(), keeper) == before[pe].end() ? 1 : 0;
            }
        }
        return n;
    };
    EXPECT_LE(n_moved({{PeId(40), ProcId(128)}}, 1), 2 * 8 + 2) << "one PE to the spare node";
    EXPECT_LE(n_moved({{PeId(40), ProcId(128)}}, 2), 6 * 8 + 4);
    std::vector<Replacement> node;
    for (std::int32_t i = 0; i < 8; ++i) {
        node.push_back({PeId(40 + i), ProcId(128 + i)});
    }
    EXPECT_LE(n_moved(node, 1), 3 * 8) << "a whole node";
    EXPECT_LE(n_moved(node, 2), 6 * 8);
    EXPECT_EQ(kept_counts(all_keepers(shape, 2, node)), Pes(128, 2));
}

// What a job of a million PEs waits for at its start.
TEST(Placement, OfAMillionPesIsMadeSoon) {
    constexpr std::int32_t kPes = 1'000'000;
    Pes of_process;
    for (std::int32_t node = 0; static_cast<std::int32_t>(of_process.size()) < kPes; ++node) {
        of_process.insert(of_process.end(), static_cast<std::size_t>(90 + node % 39), node);
    }
    of_process.resize(kPes);
    const NodeMap map = nodes_of(of_process);
    const JobShape shape{.n_pes = kPes, .n_processes = kPes, .nodes = &map};
    const auto begin = std::chrono::steady_clock::now();
    const Placement placement(shape, {}, {}, 2);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(placement.n_keepers(), 2);
    EXPECT_EQ(placement.kept_by(PeId(kPes / 2)).size(), 2U);
    constexpr double kSecondsMax = SFT_ADDRESS_SANITIZER || SFT_THREAD_SANITIZER ? 200 : 10;  // at rest 10 and 0.2
    EXPECT_LT(took.count(), kSecondsMax);
    RecordProperty("seconds", std::to_string(took.count()));
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
