// Groups that keep parity, and what they survive.
#include "recovery/membership/parity_scheme.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/assert.hpp"
#include "recovery/membership/memory_holder.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/rules.hpp"
#include "tests/recovery/deaths.hpp"

namespace sft {
namespace {

NodeMap nodes_of(const std::vector<int>& numbers) {
    std::vector<NodeId> nodes;
    for (const int number : numbers) {
        nodes.emplace_back(number);
    }
    return NodeMap(std::move(nodes));
}

// A job on these nodes with the groups that it may have.
struct JobOfGroups {
    JobOfGroups(const NodeMap& nodes, std::int32_t n_pes, std::int32_t data, std::int32_t n_parity,
                std::int32_t n_spares = 0, const AreaMap* areas = nullptr)
        : shape{.n_pes = n_pes,
                .n_processes = n_pes + n_spares,
                .nodes = &nodes,
                .areas = areas,
                .memory = &node_memory()} {
        const Backup backup{.data = data, .parity = n_parity};
        groups = groups_for(shape, backup);
        shape.groups = groups ? &*groups : nullptr;
        shape.scheme = &scheme_of(shape, backup);
    }
    JobOfGroups(const JobOfGroups&) = delete;
    JobOfGroups& operator=(const JobOfGroups&) = delete;

    JobShape shape;
    std::optional<ParityGroups> groups;
};

// Of any numbers of PEs on nodes: no two members of a group on one, and groups of one size, give or take one.
TEST(ParityGroups, AreSpreadOverTheNodes) {
    for (int n_nodes = 2; n_nodes <= 7; ++n_nodes) {
        for (int n_pes = n_nodes; n_pes <= 3 * n_nodes; ++n_pes) {
            for (const bool is_uneven : {false, true}) {
                std::vector<int> of;
                for (int pe = 0; pe < n_pes; ++pe) {
                    of.push_back(pe < n_nodes ? pe : is_uneven ? (pe % 2) * (n_nodes - 1) : pe % n_nodes);
                }
                const NodeMap nodes = nodes_of(of);
                for (int size = 2; size <= 8; ++size) {
                    const ParityGroups groups(JobOfGroups(nodes, n_pes, size - 1, 1).shape, size, 1);
                    std::int32_t smallest = n_pes;
                    std::int32_t largest = 0;
                    std::int32_t n = 0;
                    for (std::int32_t group = 0; group < groups.n_groups(); ++group) {
                        std::set<int> places;
                        for (std::int32_t at = 0; at < groups.size_of(group); ++at) {
                            const PeId pe = groups.member(group, at);
                            EXPECT_EQ(groups.group_of(pe), group);
                            EXPECT_EQ(groups.position_of(pe), at);
                            EXPECT_TRUE(places.insert(of[pe.index()]).second);
                        }
                        smallest = std::min(smallest, groups.size_of(group));
                        largest = std::max(largest, groups.size_of(group));
                        n += groups.size_of(group);
                    }
                    EXPECT_EQ(n, n_pes);
                    EXPECT_LE(largest - smallest, 1);
                    EXPECT_LE(largest, size);
                }
            }
        }
    }
}

std::set<int> areas_in(const ParityGroups& groups, const std::vector<int>& areas, int pe) {
    std::set<int> found;
    for (const PeId member : groups.of(PeId(pe)).members) {
        found.insert(areas[member.index()]);
    }
    return found;
}

TEST(ParityGroups, AreSpreadOverAreasWhereTheyAreKnown) {
    const NodeMap nodes = nodes_of({0, 1, 2, 3, 4, 5});
    const std::vector<int> three{0, 1, 0, 1, 2, 2};
    const AreaMap areas({0, 1, 0, 1, 2, 2});
    const JobOfGroups job(nodes, 6, 2, 1, 0, &areas);
    for (const int pe : {0, 3, 5}) {
        EXPECT_EQ(areas_in(*job.groups, three, pe), (std::set{0, 1, 2})) << pe;
    }
    const std::vector<int> two{0, 0, 1, 1, 0, 1};
    const AreaMap halves({0, 0, 1, 1, 0, 1});
    const JobOfGroups pairs(nodes, 6, 1, 1, 0, &halves);
    for (const int pe : {0, 3, 5}) {
        EXPECT_EQ(areas_in(*pairs.groups, two, pe), (std::set{0, 1})) << pe;
    }
    // All PEs are in one area, and only spares in the other: nodes count.
    const AreaMap one({3, 3, 3, 3, 4, 4});
    const JobOfGroups by_nodes(nodes, 4, 3, 1, 2, &one);
    EXPECT_EQ(by_nodes.groups->smallest(), 4);
}

TEST(ParityGroups, SmallOnesSurviveLess) {
    const NodeMap nodes = nodes_of({0, 1, 2, 0, 1});
    const JobOfGroups job(nodes, 5, 2, 3);
    EXPECT_EQ(job.groups->n_groups(), 2);
    EXPECT_EQ(job.groups->smallest(), 2);
    EXPECT_EQ(job.groups->largest(), 3);
    EXPECT_EQ(job.groups->tolerated(0), 2);
    EXPECT_EQ(job.groups->tolerated(1), 1);
}

// Four nodes with a PE each, and a spare each on the first two.
class OfAGroup : public testing::Test {
protected:
    [[nodiscard]] const JobShape& with(std::int32_t data, std::int32_t n_parity) const {
        SFT_ASSERT(data + n_parity == 4 && n_parity <= 2);
        return n_parity == 1 ? one_.shape : two_.shape;
    }
    [[nodiscard]] JobState after(const JobShape& shape, std::initializer_list<int> dead) const {
        JobState state;
        state.version = Version(3);
        const JobRules rules(shape);
        const JobState faulted = rules.after_deaths(state, deaths_of(dead)).value();
        const Readiness ready{Goal::restart, false, JobRules::hash_of(faulted.failed)};
        return rules.after_restart(faulted, ready, deaths_of(dead)).value();
    }
    NodeMap nodes_ = nodes_of({0, 1, 2, 3, 0, 1});
    JobOfGroups one_{nodes_, 4, 3, 1, 2};
    JobOfGroups two_{nodes_, 4, 2, 2, 2};
};

TEST_F(OfAGroup, AsManyLossesAsItPromises) {
    EXPECT_EQ(after(with(3, 1), {2}).stage, Stage::planned);
    EXPECT_EQ(after(with(3, 1), {2}).unprotected, std::vector<PeId>{});
    EXPECT_EQ(after(with(3, 1), {2, 3}).end_reason, EndReason::copies_lost);
    EXPECT_EQ(after(with(3, 1), {2, 3}).lost, (std::vector{PeId(2), PeId(3)}));
    EXPECT_EQ(after(with(2, 2), {2, 3}).stage, Stage::planned);
    EXPECT_EQ(after(with(3, 1), {0, 1}).stage, Stage::planned) << "their nodes have what they need";
    EXPECT_EQ(after(with(3, 1), {0, 1, 4, 5}).end_reason, EndReason::copies_lost);
}

TEST_F(OfAGroup, WhatIsSurvivedNow) {
    JobState state;
    state.version = Version(3);
    EXPECT_EQ(with(3, 1).scheme->losses_survived(with(3, 1), state), 1) << "PEs 2 and 3 are alone on their nodes";
    EXPECT_EQ(with(2, 2).scheme->losses_survived(with(2, 2), state), 3) << "and two more of another node";
    EXPECT_EQ(JobRules(with(3, 1)).node_losses(state, {}, 0).n_survived, 4);
    state.deaths = {death_of(3)};
    EXPECT_EQ(with(2, 2).scheme->losses_survived(with(2, 2), state), 2);
    // PE 2 has gone to node 0: both go with that.
    state = after(with(3, 1), {2});
    state = JobRules(with(3, 1)).after_ready(JobRules(with(3, 1)).after_ready(state, Goal::restore), Goal::protect);
    EXPECT_EQ(state.replacements.front().process, ProcId(4));
    EXPECT_EQ(with(3, 1).scheme->losses_survived(with(3, 1), state), 1) << "processes 0 and 4";
    EXPECT_EQ(with(2, 2).scheme->losses_survived(with(2, 2), state), 2) << "and process 3";
}

// Only what lies elsewhere now is made anew.
TEST_F(OfAGroup, SharesMoveWithTheirPes) {
    const JobShape& shape = with(3, 1);
    const auto parts = [](const std::vector<Share>& shares) {
        std::vector<std::int32_t> all;
        for (const Share& share : shares) {
            all.push_back(share.part);
        }
        return all;
    };
    const JobState state = after(shape, {1, 2});
    EXPECT_EQ(state.replacements, (std::vector<Replacement>{{PeId(1), ProcId(5), 5}, {PeId(2), ProcId(4), 4}}));
    EXPECT_EQ(parts(missing_shares(shape, state, PeId(0))), std::vector{2});
    EXPECT_EQ(parts(missing_shares(shape, state, PeId(2))), std::vector<std::int32_t>{});
    EXPECT_EQ(parts(sources_of(shape, state, PeId(2))), (std::vector{0, 1, 3}));
    EXPECT_EQ(holder_of_copy(shape, state, PeId(1)), ProcId(5)) << "on its node";
    EXPECT_EQ(holder_of_copy(shape, state, PeId(2)), kNoProc);
    EXPECT_EQ(left_beside(shape, state, ProcId(0)), std::vector<PeId>{});
    EXPECT_EQ(left_beside(shape, after(shape, {0}), ProcId(4)), std::vector<PeId>{}) << "it is its own";
    EXPECT_EQ(shape.scheme->apart_from(shape, PeId(2)), (std::vector{PeId(0), PeId(1), PeId(3)}));
}

TEST_F(OfAGroup, WhoLosesSomethingWithWhom) {
    const NodeMap turned = nodes_of({1, 0, 1});
    const JobOfGroups job(turned, 2, 1, 1, 1);
    const std::unique_ptr<const Shares> shares = job.shape.scheme->place(job.shape, {}, {});
    EXPECT_EQ(shares->kept_by(ProcId(1)), (std::vector{PeId(0), PeId(1)})) << "ascending";
    EXPECT_EQ(shares->kept_by(ProcId(2)), std::vector<PeId>{}) << "a spare";
    JobState state;
    state.unprotected = {PeId(1)};
    EXPECT_EQ(job.shape.scheme->losses_survived(job.shape, state), 0);
}

// PEs 0 and 2 on node 0, which has no spare: PE 2 goes to node 1, and reads what it has left from PE 0's process, which
// makes that whole first.
TEST(ParityOfNodes, WhatIsLeftOnANodeIsForItsNeighbours) {
    const NodeMap nodes = nodes_of({0, 1, 0, 1, 1});
    const JobOfGroups job(nodes, 4, 1, 1, 1);
    const JobShape& shape = job.shape;
    JobState state;
    state.version = Version(1);
    const JobRules rules(shape);
    const JobState faulted = rules.after_deaths(state, deaths_of({2})).value();
    state =
        rules.after_restart(faulted, {Goal::restart, false, JobRules::hash_of(faulted.failed)}, deaths_of({2})).value();
    EXPECT_EQ(state.replacements.front().process, ProcId(4));
    EXPECT_EQ(holder_of_copy(shape, state, PeId(2)), ProcId(0));
    EXPECT_EQ(left_beside(shape, state, ProcId(0)), std::vector{PeId(2)});
    EXPECT_EQ(left_beside(shape, state, ProcId(4)), std::vector<PeId>{});
    const JobState first = rules.after_deaths(JobState(), deaths_of({0})).value();
    EXPECT_EQ(left_beside(shape, first, ProcId(2)), std::vector{PeId(0)});
}

// Spares on nodes 1 and 4, with PE 0's and with nobody's of PE 3's group.
TEST(ParityOfNodes, APeGoesWhereNobodyOfItsGroupIs) {
    const NodeMap nodes = nodes_of({0, 1, 2, 3, 1, 4, 4});
    const JobOfGroups job(nodes, 4, 3, 1, 3);
    const JobShape& shape = job.shape;
    const JobRules rules(shape);
    JobState state;
    state.version = Version(1);
    const JobState faulted = rules.after_deaths(state, deaths_of({3})).value();
    const Readiness ready{Goal::restart, false, JobRules::hash_of(faulted.failed)};
    EXPECT_EQ(rules.after_restart(faulted, ready, deaths_of({3})).value().replacements.front().process, ProcId(5));
    EXPECT_EQ(rules.after_restart(faulted, ready, deaths_of({3, 5, 6})).value().replacements.front().process,
              ProcId(4));
    const JobShape copies{.n_pes = 4, .n_processes = 7, .nodes = &nodes, .memory = &node_memory()};
    EXPECT_EQ(JobRules(copies).after_restart(faulted, ready, deaths_of({3})).value().replacements.front().process,
              ProcId(4));
}

// Two of one group, and two spares on one node: one of them goes elsewhere.
TEST(ParityOfNodes, PesOfOneGroupGoToDifferentNodes) {
    const NodeMap nodes = nodes_of({0, 1, 2, 3, 4, 4, 5});
    const JobOfGroups job(nodes, 4, 2, 2, 3);
    const JobRules rules(job.shape);
    JobState state;
    state.version = Version(1);
    const JobState faulted = rules.after_deaths(state, deaths_of({2, 3})).value();
    const Readiness ready{Goal::restart, false, JobRules::hash_of(faulted.failed)};
    EXPECT_EQ(rules.after_restart(faulted, ready, deaths_of({2, 3})).value().replacements,
              (std::vector<Replacement>{{PeId(2), ProcId(4), 4}, {PeId(3), ProcId(6), 6}}));
}

TEST(ParityOfNodes, WhereThereCanBeNoGroupsItIsOnePartner) {
    const Backup backup{.data = 3, .parity = 1};
    const JobShape on_one{.n_pes = 4, .n_processes = 5, .memory = &node_memory()};
    EXPECT_FALSE(groups_for(on_one, backup));
    EXPECT_EQ(&scheme_of(on_one, backup), &one_partner());
    const NodeMap nodes = nodes_of({0, 1});
    EXPECT_FALSE(JobOfGroups(nodes, 1, 3, 1).groups);
    EXPECT_EQ(JobOfGroups(nodes, 2, 3, 1).groups->of(PeId(1)).n_parity, 1);
    const NodeMap uneven = nodes_of({0, 0, 0, 1, 1});
    const JobOfGroups without(uneven, 5, 1, 1);
    EXPECT_FALSE(without.groups) << "one of node 0 would be alone";
    EXPECT_EQ(without.shape.scheme, &one_partner());
    const NodeMap even = nodes_of({0, 0, 1, 1});
    const JobOfGroups with(even, 4, 1, 1);
    EXPECT_EQ(with.shape.scheme, &parity());
    EXPECT_EQ(&scheme_of(with.shape, {.mode = BackupMode::none, .data = 1, .parity = 1}), &no_copies());
    EXPECT_FALSE(groups_for(with.shape, {}));
    const JobShape of_processes{.n_pes = 4, .n_processes = 4, .nodes = &even};
    EXPECT_FALSE(groups_for(of_processes, backup)) << "which take their memory along";
}

}  // namespace
}  // namespace sft
