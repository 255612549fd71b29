// What a scheme of redundancy says of a value, and what is left of memory after deaths.
#include "recovery/membership/scheme.hpp"

#include <gtest/gtest.h>

#include "recovery/membership/memory_holder.hpp"
#include "tests/recovery/deaths.hpp"
#include "tests/recovery/two_partners.hpp"

namespace sft {
namespace {

std::vector<int> holders(const std::vector<Share>& shares) {
    std::vector<int> numbers;
    for (const Share& share : shares) {
        numbers.push_back(share.holder.value());
    }
    return numbers;
}

using Numbers = std::vector<int>;

// Local copies outlive the node as well.
class FarMemory final : public MemoryHolder {
public:
    [[nodiscard]] bool dies_with_process(Memory what) const noexcept override { return what == Memory::heap; }
    [[nodiscard]] bool dies_with_node(Memory what) const noexcept override { return what != Memory::local_copy; }
};
constexpr FarMemory kFarMemory;

// ---- memory ----

TEST(LeftMemory, OfAProcessIsGoneWithIt) {
    const JobShape shape{.n_pes = 3, .n_processes = 4};
    JobState state;
    state.deaths = {death_of(2), death_of(1)};
    const LeftMemory left(shape, state);
    for (const Memory what : {Memory::heap, Memory::local_copy, Memory::kept_shadows}) {
        EXPECT_TRUE(left.has(ProcId(0), what));
        EXPECT_FALSE(left.has(ProcId(1), what));
        EXPECT_FALSE(left.has(ProcId(2), what));
        EXPECT_TRUE(shape.memory->dies_with_process(what) && shape.memory->dies_with_node(what));
    }
}

// Processes 0 to 2 on node 0, 3 on node 1, and one that has joined there.
class LeftMemoryOfNodes : public testing::Test {
protected:
    LeftMemoryOfNodes() { state_.joined = {{ProcId(4), NodeId(1)}}; }

    NodeMap nodes_{{NodeId(0), NodeId(0), NodeId(0), NodeId(1)}};
    JobShape shape_{.n_pes = 3, .n_processes = 4, .nodes = &nodes_, .memory = &kFarMemory};
    JobState state_;
};

TEST_F(LeftMemoryOfNodes, OutlivesProcessesAndNotTheNode) {
    state_.deaths = {death_of(0), death_of(1), death_of(3)};
    const LeftMemory some(shape_, state_);
    EXPECT_TRUE(some.has(ProcId(0), Memory::kept_shadows));
    EXPECT_FALSE(some.has(ProcId(0), Memory::heap));
    EXPECT_TRUE(some.has(ProcId(3), Memory::kept_shadows)) << "who has joined lives there";
    state_.deaths.push_back(death_of(2));
    const LeftMemory without_node(shape_, state_);
    EXPECT_FALSE(without_node.has(ProcId(0), Memory::kept_shadows));
    EXPECT_TRUE(without_node.has(ProcId(0), Memory::local_copy)) << "held elsewhere";
    EXPECT_TRUE(without_node.has(ProcId(3), Memory::kept_shadows));
}

TEST_F(LeftMemoryOfNodes, WhoeverLivesThereKeepsTheNode) {
    state_.deaths = {death_of(1), death_of(2)};
    EXPECT_TRUE(LeftMemory(shape_, state_).has(ProcId(2), Memory::kept_shadows));
    state_.deaths = {death_of(0), death_of(1)};
    EXPECT_TRUE(LeftMemory(shape_, state_).has(ProcId(0), Memory::kept_shadows));
}

TEST_F(LeftMemoryOfNodes, ANodeMayBeSupposedToBeLost) {
    LeftMemory left(shape_, state_);
    EXPECT_TRUE(left.has(ProcId(3), Memory::kept_shadows));
    left.lose(NodeId(1));
    EXPECT_FALSE(left.has(ProcId(3), Memory::kept_shadows));
    EXPECT_FALSE(left.has(ProcId(4), Memory::kept_shadows));
    EXPECT_TRUE(left.has(ProcId(0), Memory::kept_shadows));
}

// Two neighbours of one node at one moment: what they kept for each other is still there.
TEST_F(LeftMemoryOfNodes, DecidesWhatASchemeHasLeft) {
    state_.deaths = {death_of(0), death_of(1)};
    EXPECT_TRUE(can_be_rebuilt(shape_, state_, PeId(0)));
    EXPECT_EQ(holders(sources_of(shape_, state_, PeId(0))), Numbers{2});
    shape_.memory = &process_memory();
    EXPECT_FALSE(can_be_rebuilt(shape_, state_, PeId(0)));
    EXPECT_TRUE(sources_of(shape_, state_, PeId(0)).empty());
}

// ---- memory of the node ----

class OfTheNode : public testing::Test {
protected:
    JobShape shape_{.n_pes = 4, .n_processes = 8, .memory = &node_memory()};
    JobState state_;
};

TEST_F(OfTheNode, CopiesOutliveProcessesAndHeapsAreNotReliedOn) {
    EXPECT_FALSE(node_memory().dies_with_process(Memory::kept_shadows));
    EXPECT_FALSE(node_memory().dies_with_process(Memory::local_copy));
    EXPECT_TRUE(node_memory().dies_with_process(Memory::heap));
    EXPECT_TRUE(node_memory().dies_with_node(Memory::kept_shadows));
}

// Nothing has to be sent again: the next holder of the keeper's PE has what that one has kept.
TEST_F(OfTheNode, TheNextHolderIsTheHeir) {
    state_.deaths = {death_of(1), death_of(2)};
    EXPECT_EQ(holders(sources_of(shape_, state_, PeId(1))), Numbers{2}) << "nobody has taken it over yet";
    EXPECT_TRUE(can_be_rebuilt(shape_, state_, PeId(1)));
    state_.replacements = {{PeId(1), ProcId(4)}, {PeId(2), ProcId(5)}};
    EXPECT_EQ(holders(sources_of(shape_, state_, PeId(1))), Numbers{5});
    EXPECT_EQ(holders(targets_of(shape_, state_, PeId(1))), Numbers{5});
    for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
        EXPECT_TRUE(missing_shares(shape_, state_, PeId(pe)).empty()) << pe;
    }
    EXPECT_EQ(check_invariants(shape_, state_, nullptr), "");
    // The heir dies as well, before everybody is protected again.
    state_.deaths.push_back(death_of(5));
    state_.replacements = {{PeId(1), ProcId(4)}, {PeId(2), ProcId(6)}};
    EXPECT_EQ(holders(sources_of(shape_, state_, PeId(1))), Numbers{6});
    shape_.memory = &process_memory();
    EXPECT_TRUE(sources_of(shape_, state_, PeId(1)).empty());
}

TEST_F(OfTheNode, AnyNumberOfDeathsIsSurvived) {
    EXPECT_EQ(one_partner().losses_survived(shape_, state_), 4);
    EXPECT_EQ(one_partner().losses_survived({.n_pes = 2, .n_processes = 4, .memory = &node_memory()}, state_), 2);
    EXPECT_EQ(one_partner().losses_survived({.n_pes = 1, .n_processes = 4, .memory = &process_memory()}, state_), 1);
    shape_.memory = &process_memory();
    EXPECT_EQ(one_partner().losses_survived(shape_, state_), 1);
}

TEST_F(OfTheNode, OnSeveralNodesANeighbourIsTheHeirOfWhoMoves) {
    const NodeMap nodes({NodeId(0), NodeId(0), NodeId(1), NodeId(1), NodeId(0), NodeId(1)});
    const JobShape shape{.n_pes = 4, .n_processes = 6, .nodes = &nodes, .memory = &node_memory()};
    state_.deaths = {death_of(2)};
    state_.replacements = {{PeId(2), ProcId(4)}};  // PE 2 was on node 1
    EXPECT_EQ(LeftMemory(shape, state_).heir_of(ProcId(2)), ProcId(3)) << "the only holder that is left there";
    state_.replacements = {{PeId(2), ProcId(5)}};
    EXPECT_EQ(LeftMemory(shape, state_).heir_of(ProcId(2)), ProcId(5));
    EXPECT_EQ(LeftMemory(shape, state_).heir_of(ProcId(3)), ProcId(3)) << "lives";
    EXPECT_EQ(LeftMemory(shape, state_).heir_of(ProcId(1)), ProcId(1));
}

// PEs 0 and 1 on node 0, 2 and 3 on node 1; each keeps for the one that is as far on the other node.
class OfTwoNodes : public testing::Test {
protected:
    NodeMap nodes_{{NodeId(0), NodeId(0), NodeId(1), NodeId(1), NodeId(0), NodeId(1), NodeId(0)}};
    JobShape shape_{.n_pes = 4, .n_processes = 7, .nodes = &nodes_, .memory = &node_memory()};
    JobState state_;
};

TEST_F(OfTwoNodes, APeAndItsKeeperMayDieAtOnce) {
    state_.deaths = {death_of(0), death_of(2)};
    EXPECT_TRUE(can_be_rebuilt(shape_, state_, PeId(0)));
    state_.replacements = {{PeId(0), ProcId(4)}, {PeId(2), ProcId(5)}};
    EXPECT_EQ(holders(sources_of(shape_, state_, PeId(0))), Numbers{5});
    for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
        EXPECT_TRUE(missing_shares(shape_, state_, PeId(pe)).empty()) << pe;
    }
    shape_.memory = &process_memory();
    EXPECT_FALSE(can_be_rebuilt(shape_, state_, PeId(0)));
}

// It is at one place there, and the only one of its kind.
TEST_F(OfTwoNodes, NothingIsSentToANodeThatHasIt) {
    state_.deaths = {death_of(2)};
    state_.replacements = {{PeId(2), ProcId(4)}};  // now on node 0, where it is the third
    EXPECT_EQ(holders(sources_of(shape_, state_, PeId(0))), Numbers{3}) << "process 2 has left it";
    EXPECT_EQ(holders(targets_of(shape_, state_, PeId(0))), Numbers{3});
    EXPECT_TRUE(missing_shares(shape_, state_, PeId(0)).empty());
    EXPECT_EQ(holders(missing_shares(shape_, state_, PeId(2))), Numbers{3}) << "it lies beside its original now";
}

// A sleeping spare is not asked: nobody would notice its death.
TEST_F(OfTwoNodes, WhatOnlySparesHaveCountsUntilTheNextPlan) {
    state_.deaths = {death_of(2), death_of(3)};
    EXPECT_TRUE(can_be_rebuilt(shape_, state_, PeId(0))) << "process 5 may become one of them";
    state_.replacements = {{PeId(2), ProcId(4)}, {PeId(3), ProcId(6)}};
    EXPECT_FALSE(can_be_rebuilt(shape_, state_, PeId(0)));
}

TEST_F(OfTwoNodes, LossesAreCountedByThoseWhoLiveOnANode) {
    EXPECT_EQ(one_partner().losses_survived(shape_, state_), 3)
        << "the fourth takes along a PE, and all that keep for it and the spare beside them";
    state_.deaths = {death_of(2)};
    state_.replacements = state_.protected_layout = {{PeId(2), ProcId(4)}};
    EXPECT_EQ(one_partner().losses_survived(shape_, state_), 2) << "PE 3 and a spare keep for node 0";
    state_.deaths.push_back(death_of(5));
    EXPECT_EQ(one_partner().losses_survived(shape_, state_), 1) << "PE 3 alone";
    state_.unprotected = {PeId(0)};
    EXPECT_EQ(one_partner().losses_survived(shape_, state_), 0);
    // A single copy, and each PE is alone on its node, with a spare.
    const NodeMap alone({NodeId(0), NodeId(1), NodeId(1), NodeId(0)});
    const JobShape single{.n_pes = 2, .n_processes = 4, .nodes = &alone, .keeps_near = true, .memory = &node_memory()};
    EXPECT_EQ(one_partner().losses_survived(single, {}), 1) << "two on node 1 lose PE 0, though it lives";
    shape_.memory = &process_memory();
    state_ = {};
    EXPECT_EQ(one_partner().losses_survived(shape_, state_), 1);
}

// ---- one partner ----

TEST(OnePartner, SharesStayWhereTheyWereUntilAllAreProtected) {
    const JobShape shape{.n_pes = 4, .n_processes = 6};
    JobState state;
    EXPECT_EQ(holders(sources_of(shape, state, PeId(1))), Numbers{2});
    EXPECT_EQ(state.unprotected.size(), 0U);
    state.deaths = {death_of(2)};
    state.unprotected = {PeId(1)};
    state.replacements = {{PeId(2), ProcId(4)}};
    EXPECT_TRUE(sources_of(shape, state, PeId(1)).empty());
    EXPECT_FALSE(can_be_rebuilt(shape, state, PeId(1)));
    EXPECT_TRUE(can_be_rebuilt(shape, state, PeId(2)));
    EXPECT_EQ(holders(targets_of(shape, state, PeId(1))), Numbers{4});
    EXPECT_EQ(holders(missing_shares(shape, state, PeId(1))), Numbers{4});
    EXPECT_TRUE(missing_shares(shape, state, PeId(2)).empty());
    EXPECT_EQ(shape.scheme->place(shape, state, state.protected_layout)->kept_by(ProcId(2)), std::vector{PeId(1)});
    EXPECT_EQ(shape.scheme->place(shape, state, state.replacements)->kept_by(ProcId(4)), std::vector{PeId(1)});
}

TEST(OnePartner, OneDeathIsSurvivedWhileAllAreProtected) {
    const JobShape shape{.n_pes = 4, .n_processes = 6};
    JobState state;
    EXPECT_EQ(one_partner().losses_survived(shape, state), 1);
    state.unprotected = {PeId(3)};
    EXPECT_EQ(one_partner().losses_survived(shape, state), 0);
}

TEST(OnePartner, AnOnlyPeIsKeptByItsWitness) {
    const JobShape shape{.n_pes = 1, .n_processes = 3};
    JobState state;
    EXPECT_TRUE(sources_of(shape, state, PeId(0)).empty());
    EXPECT_FALSE(can_be_rebuilt(shape, state, PeId(0)));
    EXPECT_TRUE(one_partner().substitutes(shape, state, {}).empty());
    state.witness = one_partner().witness_for(shape, state);
    EXPECT_EQ(state.witness, ProcId(1));
    EXPECT_EQ(holders(sources_of(shape, state, PeId(0))), Numbers{1});
    EXPECT_EQ(one_partner().substitutes(shape, state, {}), std::vector{ProcId(1)}) << "and nobody else";
    EXPECT_EQ(one_partner().witness_for(shape, state), ProcId(1)) << "as long as it can";
    JobState later = state;
    later.witness = kNoProc;
    EXPECT_FALSE(one_partner().can_go_on(state, later)) << "a copy is on its way there";
    EXPECT_TRUE(one_partner().can_go_on(state, state));
    state.replacements = {{PeId(0), ProcId(1)}};
    EXPECT_EQ(one_partner().witness_for(shape, state), ProcId(2));
    EXPECT_EQ(one_partner().witness_for({.n_pes = 2, .n_processes = 3}, {}), kNoProc);
}

TEST(OnePartner, SoleHolder) {
    EXPECT_EQ(first_holder({}), kNoProc);
    EXPECT_EQ(first_holder(std::vector<Share>{{.holder = ProcId(3)}}), ProcId(3));
}

// ---- nobody ----

TEST(NoCopies, NobodyKeepsAnything) {
    const JobShape shape{.n_pes = 3, .n_processes = 4, .scheme = &no_copies()};
    JobState state;
    EXPECT_TRUE(targets_of(shape, state, PeId(0)).empty());
    EXPECT_TRUE(sources_of(shape, state, PeId(0)).empty());
    EXPECT_TRUE(missing_shares(shape, state, PeId(0)).empty());
    EXPECT_FALSE(can_be_rebuilt(shape, state, PeId(0)));
    EXPECT_EQ(no_copies().losses_survived(shape, state), 0);
    EXPECT_TRUE(no_copies().place(shape, state, {})->kept_by(ProcId(1)).empty());
    state.deaths = {death_of(1)};
    EXPECT_EQ(check_invariants(shape, state, nullptr), "") << "nobody is said to be protected";
    EXPECT_EQ(no_copies().substitutes(shape, state, state.deaths), std::vector{ProcId(3)});
    const JobShape alone{.n_pes = 1, .n_processes = 2, .scheme = &no_copies()};
    EXPECT_EQ(no_copies().witness_for(alone, {}), ProcId(1));
    JobState with_witness;
    with_witness.witness = ProcId(1);
    EXPECT_FALSE(no_copies().can_go_on(with_witness, {}));
}

// ---- replica:n ----

TEST(Partners, EachHasACopyOnAnotherNode) {
    std::vector<NodeId> of_process;
    for (const int node : {0, 1, 2, 3, 4, 0, 1}) {
        of_process.emplace_back(node);
    }
    const NodeMap nodes(of_process);
    const JobShape shape{.n_pes = 5, .n_processes = 7, .nodes = &nodes, .scheme = &partners(3)};
    JobState state;
    EXPECT_EQ(holders(sources_of(shape, state, PeId(3))), (Numbers{4, 0, 1}));
    EXPECT_EQ(partners(3).losses_survived(shape, state), 3);
    EXPECT_EQ(partners(2).losses_survived(shape, state), 2);
    EXPECT_EQ(partners(1).losses_survived(shape, state), 1);
    state.deaths = {death_of(4), death_of(0)};
    EXPECT_EQ(holders(sources_of(shape, state, PeId(3))), Numbers{1});
    EXPECT_TRUE(can_be_rebuilt(shape, state, PeId(3)));
    EXPECT_EQ(partners(3).losses_survived(shape, state), 1) << "PE 3 has one copy left";
    EXPECT_EQ(check_invariants(shape, state, nullptr), "") << "nobody is unprotected";
    // PE 0 goes on on its node, and PE 4 on node 1, the nearest of which PE 1 is the first.
    state.replacements = {{PeId(0), ProcId(5)}, {PeId(4), ProcId(6)}};
    EXPECT_EQ(holders(targets_of(shape, state, PeId(3))), (Numbers{5, 1, 2}));
    EXPECT_EQ(holders(missing_shares(shape, state, PeId(3))), (Numbers{5, 2})) << "the other one is there";
    state.deaths.push_back(death_of(1));
    EXPECT_FALSE(can_be_rebuilt(shape, state, PeId(3)));
    EXPECT_EQ(partners(3).losses_survived(shape, state), 0);
    state.unprotected = {PeId(3)};
    EXPECT_EQ(partners(3).losses_survived(shape, state), 0);
}

TEST(Partners, WhoeverHasFewestCopiesLeftCounts) {
    const NodeMap nodes({NodeId(0), NodeId(1), NodeId(2), NodeId(3), NodeId(4), NodeId(5)});
    const JobShape shape{.n_pes = 6, .n_processes = 6, .nodes = &nodes, .scheme = &partners(3)};
    JobState state;
    state.deaths = {death_of(1), death_of(3)};
    EXPECT_EQ(partners(3).losses_survived(shape, state), 1) << "PE 0, which nobody shares that with";
}

TEST(Partners, AnOnlyPeHasOneCopyOnSeveralNodesToo) {
    const NodeMap nodes({NodeId(0), NodeId(0), NodeId(1), NodeId(2)});
    const JobShape alone{.n_pes = 1, .n_processes = 4, .nodes = &nodes, .scheme = &partners(3)};
    JobState state;
    state.witness = partners(3).witness_for(alone, {});
    EXPECT_EQ(state.witness, ProcId(2));
    EXPECT_EQ(partners(3).losses_survived(alone, state), 1);
}

TEST(Partners, AWitnessIsInAnotherAreaIfThereIsOne) {
    const NodeMap nodes({NodeId(0), NodeId(0), NodeId(1), NodeId(2)});
    const AreaMap racks({0, 0, 1});
    const JobShape by_nodes{.n_pes = 1, .n_processes = 4, .nodes = &nodes};
    EXPECT_EQ(one_partner().witness_for(by_nodes, {}), ProcId(2));
    const JobShape by_racks{.n_pes = 1, .n_processes = 4, .nodes = &nodes, .areas = &racks};
    EXPECT_EQ(one_partner().witness_for(by_racks, {}), ProcId(3));
    JobState state;
    state.deaths = {death_of(3)};
    EXPECT_EQ(one_partner().witness_for(by_racks, state), ProcId(2));
}

TEST(Partners, OnOneNodeThereIsOne) {
    const JobShape shape{.n_pes = 5, .n_processes = 7, .scheme = &partners(3)};
    EXPECT_EQ(holders(sources_of(shape, {}, PeId(3))), Numbers{4});
    EXPECT_EQ(partners(3).losses_survived(shape, {}), 1);
    const JobShape of_node{.n_pes = 5, .n_processes = 7, .scheme = &partners(3), .memory = &node_memory()};
    EXPECT_EQ(partners(3).losses_survived(of_node, {}), 5);
    const JobShape alone{.n_pes = 1, .n_processes = 3, .scheme = &partners(3)};
    JobState with_witness;
    with_witness.witness = partners(3).witness_for(alone, {});
    EXPECT_EQ(holders(sources_of(alone, with_witness, PeId(0))), Numbers{1});
    EXPECT_EQ(partners(3).losses_survived(alone, with_witness), 1);
}

// ---- others, which the library does not have ----

TEST(TwoPartners, OneShareIsEnough) {
    const JobShape shape{.n_pes = 5, .n_processes = 7, .scheme = &two_partners()};
    JobState state;
    EXPECT_EQ(holders(sources_of(shape, state, PeId(4))), (Numbers{0, 1}));
    state.deaths = {death_of(0)};
    EXPECT_EQ(holders(sources_of(shape, state, PeId(4))), Numbers{1});
    EXPECT_TRUE(can_be_rebuilt(shape, state, PeId(4)));
    EXPECT_EQ(check_invariants(shape, state, nullptr), "") << "nobody is unprotected";
    EXPECT_EQ(two_partners().losses_survived(shape, state), 1);
    state.replacements = {{PeId(0), ProcId(5)}};
    EXPECT_EQ(holders(targets_of(shape, state, PeId(4))), (Numbers{5, 1}));
    EXPECT_EQ(holders(missing_shares(shape, state, PeId(4))), Numbers{5}) << "the other one is there";
    state.deaths.push_back(death_of(1));
    EXPECT_FALSE(can_be_rebuilt(shape, state, PeId(4)));
    EXPECT_EQ(check_invariants(shape, state, nullptr), "7: PE 4 cannot be brought back, and is not unprotected");
}

TEST(TwoHalves, BothAreNeededAndEachInItsPlace) {
    const JobShape shape{.n_pes = 5, .n_processes = 7, .scheme = &two_halves()};
    JobState state;
    EXPECT_EQ(two_halves().losses_survived(shape, state), 1);
    state.deaths = {death_of(0)};
    EXPECT_FALSE(can_be_rebuilt(shape, state, PeId(4)));
    EXPECT_FALSE(can_be_rebuilt(shape, state, PeId(3)));
    EXPECT_TRUE(can_be_rebuilt(shape, state, PeId(0)));
    state.deaths.clear();
    // The holders of PEs 0 and 1 change places: each has the other half.
    state.replacements = {{PeId(0), ProcId(6)}, {PeId(1), ProcId(5)}};
    state.protected_layout = {{PeId(0), ProcId(5)}, {PeId(1), ProcId(6)}};
    EXPECT_EQ(holders(missing_shares(shape, state, PeId(4))), (Numbers{6, 5}));
}

}  // namespace
}  // namespace sft
