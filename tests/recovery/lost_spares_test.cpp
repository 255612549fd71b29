#include "recovery/lost_spares.hpp"

#include <gtest/gtest.h>

#include "tests/recovery/deaths.hpp"

namespace sft {
namespace {

// Two nodes with two PEs each; a spare on the first, two on the second.
class LostSparesOfTwoNodes : public ::testing::Test {
protected:
    NodeMap nodes_{{NodeId(0), NodeId(0), NodeId(1), NodeId(1), NodeId(0), NodeId(1), NodeId(1)}};
    JobShape shape_{.n_pes = 4, .n_processes = 7, .nodes = &nodes_};
    JobState state_;
};

TEST_F(LostSparesOfTwoNodes, None) {
    const LostSpares lost = lost_spares(shape_, state_, deaths_of({2}));
    EXPECT_EQ(lost.n_spares, 3);
    EXPECT_EQ(lost.n_alone, 0);
    EXPECT_TRUE(lost.with_node.empty());
}

TEST_F(LostSparesOfTwoNodes, WithTheirNodeAndAlone) {
    const LostSpares lost = lost_spares(shape_, state_, deaths_of({2, 3, 4, 5, 6}));
    EXPECT_EQ(lost.n_alone, 1);
    EXPECT_EQ(lost.with_node, (std::vector<std::pair<NodeId, std::int32_t>>{{NodeId(1), 2}}));
}

TEST_F(LostSparesOfTwoNodes, WhoWasAPeHasDoneWhatItIsFor) {
    state_.replacements = {{PeId(2), ProcId(5)}};
    EXPECT_EQ(lost_spares(shape_, state_, deaths_of({2, 3, 5, 6})).with_node.front().second, 1);
}

TEST(LostSpares, OnOneNodeTheyDieAlone) {
    JobState state;
    state.joined = {{ProcId(4), NodeId(0)}};
    const LostSpares lost = lost_spares({.n_pes = 2, .n_processes = 4}, state, deaths_of({0, 1, 2, 3, 4}));
    EXPECT_EQ(lost.n_spares, 3);
    EXPECT_EQ(lost.n_alone, 3);
    EXPECT_TRUE(lost.with_node.empty());
}

}  // namespace
}  // namespace sft
