// What is left out of versions, beside a list of all blocks.
#include "symheap/exclusions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sft {
namespace {

constexpr std::size_t kBlocks = 400;

std::vector<bool> blocks_of(const Exclusions& excluded) {
    std::vector<bool> blocks(kBlocks);
    std::size_t last_end = 0;
    excluded.each_run([&](std::size_t first, std::size_t end) {
        EXPECT_LT(first, end);
        EXPECT_TRUE(last_end == 0 || first > last_end) << "two runs that are one";
        std::fill(blocks.begin() + static_cast<std::ptrdiff_t>(first),
                  blocks.begin() + static_cast<std::ptrdiff_t>(end), true);
        last_end = end;
    });
    return blocks;
}

std::size_t next(const std::vector<bool>& blocks, std::size_t from, std::size_t end, bool is_excluded) {
    while (from < end && blocks[from] != is_excluded) {
        ++from;
    }
    return from;
}

TEST(Exclusions, AreThoseOfAListOfAllBlocks) {
    std::mt19937 random(3);
    for (int round = 0; round < 30; ++round) {
        Exclusions excluded;
        std::vector<bool> expected(kBlocks);
        const std::size_t most = round % 3 == 0 ? 3 : 40;
        for (int step = 0; step < 300; ++step) {
            const std::size_t first = random() % kBlocks;
            const std::size_t end = first + random() % std::min(most, kBlocks - first);
            const bool adds = random() % 2 == 0;
            if (adds) {
                ASSERT_TRUE(excluded.add(first, end));
            } else {
                excluded.remove(first, end);
            }
            std::fill(expected.begin() + static_cast<std::ptrdiff_t>(first),
                      expected.begin() + static_cast<std::ptrdiff_t>(end), adds);
            ASSERT_EQ(blocks_of(excluded), expected);
            const std::size_t from = random() % kBlocks;
            const std::size_t to = from + random() % (kBlocks - from);
            ASSERT_EQ(excluded.next_excluded(from, to), next(expected, from, to, true));
            ASSERT_EQ(excluded.next_included(from), next(expected, from, kBlocks, false));
        }
    }
}

TEST(Exclusions, ThereAreNoMoreThanFit) {
    Exclusions excluded;
    for (std::size_t i = 0; i < Exclusions::kRunsMax; ++i) {
        ASSERT_TRUE(excluded.add(3 * i, 3 * i + 2));
    }
    const Exclusions full = excluded;
    EXPECT_FALSE(excluded.add(1000, 1001));
    EXPECT_TRUE(excluded == full);
    EXPECT_TRUE(excluded.add(2, 3)) << "two become one";
    EXPECT_TRUE(excluded.add(1000, 1010));
    EXPECT_FALSE(excluded.add(2000, 2001));
    excluded.remove(1004, 1005);
    EXPECT_EQ(excluded.n_runs(), Exclusions::kRunsMax);
    EXPECT_EQ(excluded.next_excluded(999, 2000), 1000U);
    EXPECT_EQ(excluded.next_excluded(1004, 2000), 2000U) << "too much is taken in again, never too little";
}

TEST(Exclusions, EqualOnesAreEqualBytes) {
    Exclusions one;
    Exclusions other;
    ASSERT_TRUE(one.add(5, 9) && one.add(20, 30) && other.add(20, 30));
    one.remove(0, 10);
    EXPECT_TRUE(one == other);
    one.remove(0, 100);
    EXPECT_TRUE(one == Exclusions());
}

}  // namespace
}  // namespace sft
