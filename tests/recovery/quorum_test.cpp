#include "recovery/membership/quorum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace sft {
namespace {

// Of two parts, however a job of up to twelve participants is cut, exactly one goes on.
TEST(Quorum, OneOfTwoPartsGoesOn) {
    for (std::int32_t n = 1; n <= 12; ++n) {
        const std::uint32_t all = (1U << n) - 1;
        for (std::uint32_t part = 0; part <= all; ++part) {
            const auto goes_on = [n](std::uint32_t members) {
                return is_quorum(std::popcount(members), n, (members & 1U) != 0);
            };
            EXPECT_NE(goes_on(part), goes_on(all & ~part)) << n << " participants, part " << part;
        }
    }
}

TEST(Quorum, ThePartWithMoreAndOfTwoHalvesTheOneWithTheLowest) {
    EXPECT_TRUE(is_quorum(3, 5, false));
    EXPECT_FALSE(is_quorum(2, 5, true));
    EXPECT_TRUE(is_quorum(2, 4, true));
    EXPECT_FALSE(is_quorum(2, 4, false));
    EXPECT_FALSE(is_quorum(0, 0, false)) << "nobody decides nothing";
}

}  // namespace
}  // namespace sft
