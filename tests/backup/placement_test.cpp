// Placement: nobody keeps its own shadow, living keepers stay, a lone PE uses a spare.
#include "backup/placement.hpp"

#include <gtest/gtest.h>

namespace sft {
namespace {

std::vector<ProcId> ids(std::initializer_list<int> values) {
    std::vector<ProcId> result;
    for (const int value : values) {
        result.push_back(ProcId(value));
    }
    return result;
}

TEST(Placement, TheNextPeKeepsTheShadow) {
    const auto holders = ids({0, 1, 2, 3});
    const auto none = ids({-1, -1, -1, -1});
    EXPECT_EQ(place_keepers({holders, none, {}}), ids({1, 2, 3, 0}));
}

TEST(Placement, LivingKeepersStay) {
    const auto holders = ids({0, 5, 2, 3});  // process 1 died, 5 took PE 1
    const auto keepers = ids({-1, 2, 3, 0});
    EXPECT_EQ(place_keepers({holders, keepers, {}}), ids({5, 2, 3, 0}));
}

TEST(Placement, NobodyKeepsItsOwnShadow) {
    const auto holders = ids({4});  // the spare that kept PE 0's shadow is PE 0 now
    const auto keepers = ids({4});
    EXPECT_EQ(place_keepers({holders, keepers, {}}), ids({-1}));
    const auto spares = ids({6, 7});
    EXPECT_EQ(place_keepers({holders, keepers, spares}), ids({6}));
}

}  // namespace
}  // namespace sft
