// A set of blocks and their pages, beside a plain set of page numbers.
#include "backup/block_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace sft {
namespace {

constexpr std::size_t kSetBlocks = 64 * 64 * 3 + 5;  // so that there are unused words of both kinds
constexpr std::size_t kSetPages = kSetBlocks * kPagesOfBlock;

class BlockSetTest : public testing::Test {
protected:
    BlockSetTest() { set_.reset(kSetBlocks); }

    void insert_run(std::size_t first, std::size_t end) {
        set_.insert_page_run(first, end);
        for (std::size_t page = first; page < end; ++page) {
            pages_.insert(page);
        }
    }
    void insert_random() {
        const std::size_t first = random_() % kSetPages;
        switch (random_() % 4) {
            case 0: insert_run(first, first + 1); break;
            case 1: insert_run(first, first + std::min<std::size_t>(kSetPages - first, random_() % 700)); break;
            case 2:
                set_.insert(first / kPagesOfBlock);
                pages_.insert({first & ~std::size_t{3}, first | 1U, first | 2U, first | 3U,
                               (first & ~std::size_t{3}) + 1, (first & ~std::size_t{3}) + 2});
                break;
            default: set_.insert_pages(first / kPagesOfBlock, 1U << first % kPagesOfBlock); pages_.insert(first);
        }
    }
    void expect_the_same(std::size_t from, std::size_t to) const {
        std::set<std::size_t> blocks;
        for (const std::size_t page : pages_) {
            blocks.insert(page / kPagesOfBlock);
        }
        EXPECT_EQ(set_.count(), blocks.size());
        std::set<std::size_t> visited;
        std::size_t behind = 0;
        set_.each_run(from, to, [&](std::size_t first, std::size_t end) {
            ASSERT_LT(first, end);
            ASSERT_TRUE(visited.empty() || first > behind) << "runs that touch are one";
            behind = end;
            for (std::size_t block = first; block < end; ++block) {
                visited.insert(block);
            }
        });
        EXPECT_EQ(visited, std::set<std::size_t>(blocks.lower_bound(from), blocks.lower_bound(to)));
        for (std::size_t block = 0; block < kSetBlocks; ++block) {
            unsigned pages = 0;
            for (std::size_t page = 0; page < kPagesOfBlock; ++page) {
                pages |= pages_.contains(block * kPagesOfBlock + page) ? 1U << page : 0U;
            }
            ASSERT_EQ(set_.pages_of(block), pages) << block;
            ASSERT_EQ(set_.contains(block), pages != 0);
        }
    }

    std::mt19937 random_{7};
    BlockSet set_;
    std::set<std::size_t> pages_;
};

TEST_F(BlockSetTest, HasWhatWasInserted) {
    for (int round = 0; round < 60; ++round) {
        insert_random();
        const std::size_t from = random_() % kSetBlocks;
        expect_the_same(from, from + random_() % (kSetBlocks - from + 1));
    }
    expect_the_same(0, kSetBlocks);
}

TEST_F(BlockSetTest, IsEmptyAgain) {
    for (int round = 0; round < 20; ++round) {
        insert_random();
        if (round % 5 == 4) {
            set_.reset(kSetBlocks);
            pages_.clear();
            expect_the_same(0, kSetBlocks);
        }
    }
    set_.fill();
    EXPECT_TRUE(set_.contains(kSetBlocks - 1));
    set_.reset(kSetBlocks);
    expect_the_same(0, kSetBlocks);
    set_.reset(kSetBlocks / 2);
    EXPECT_FALSE(set_.contains(kSetBlocks - 1)) << "there is no room for it";
}

TEST_F(BlockSetTest, Merges) {
    for (int round = 0; round < 10; ++round) {
        BlockSet other;
        other.reset(kSetBlocks);
        for (int i = 0; i < 5; ++i) {
            const std::size_t page = random_() % kSetPages;
            other.insert_page_run(page, page + 1);
            pages_.insert(page);
        }
        set_.merge(other);
        insert_random();
        expect_the_same(0, kSetBlocks);
    }
    BlockSet none;
    set_.merge(none);
    expect_the_same(0, kSetBlocks);
}

}  // namespace
}  // namespace sft
