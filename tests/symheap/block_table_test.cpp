#include "symheap/block_table.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <random>

namespace sft {
namespace {

class BlockTableTest : public ::testing::Test {
protected:
    BlockTableTest() { table_.attach(memory()); }
    ~BlockTableTest() override { ::munmap(memory_, BlockTable::kBytes); }
    BlockTableTest(const BlockTableTest&) = delete;
    BlockTableTest& operator=(const BlockTableTest&) = delete;

    void* memory() { return memory_; }

    static void* fresh_memory() {
        return ::mmap(nullptr, BlockTable::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);
    }

    void* memory_ = fresh_memory();
    BlockTable table_;
};

TEST_F(BlockTableTest, FindsTheBlockAtOrBeforeAnOffset) {
    table_.add(1000, 100);
    table_.add(200, 50);
    table_.add(5000, 8);
    EXPECT_EQ(table_.at_or_before(199), nullptr);
    EXPECT_EQ(table_.at_or_before(200)->offset, 200U);
    EXPECT_EQ(table_.at_or_before(999)->offset, 200U);
    EXPECT_EQ(table_.at_or_before(1099)->bytes, 100U);
    EXPECT_EQ(table_.at_or_before(UINT64_MAX)->offset, 5000U);
    EXPECT_EQ(table_.count(), 3U);
}

TEST_F(BlockTableTest, AFreedBlockStaysUntilItsPlaceIsTaken) {
    table_.add(100, 40);
    table_.add(200, 40);
    table_.add(300, 40);
    table_.remove(100);
    table_.remove(200);
    table_.remove(220);  // no beginning of a block
    EXPECT_EQ(table_.at_or_before(110)->is_freed, 1U);
    EXPECT_EQ(table_.at_or_before(310)->is_freed, 0U);
    table_.add(90, 130);
    EXPECT_EQ(table_.count(), 2U);
    EXPECT_EQ(table_.at_or_before(210)->offset, 90U);
    EXPECT_EQ(table_.at_or_before(210)->is_freed, 0U);
    EXPECT_EQ(table_.at_or_before(300)->offset, 300U);
}

TEST_F(BlockTableTest, APartOfAFreedBlockCanBeTaken) {
    table_.add(100, 400);
    table_.remove(100);
    table_.add(300, 50);
    EXPECT_EQ(table_.count(), 1U);
    EXPECT_EQ(table_.at_or_before(299), nullptr);
    EXPECT_EQ(table_.at_or_before(301)->bytes, 50U);
}

TEST_F(BlockTableTest, ACopyOfTheMemoryIsTheTable) {
    table_.add(64, 32);
    table_.add(640, 32);
    void* const copy = fresh_memory();
    std::memcpy(copy, memory(), 4096);
    BlockTable other;
    other.attach(copy);
    table_.remove(64);
    EXPECT_EQ(other.count(), 2U);
    EXPECT_EQ(other.at_or_before(64)->is_freed, 0U);
    ::munmap(copy, BlockTable::kBytes);
}

// Against a map, with blocks that never overlap live ones.
TEST_F(BlockTableTest, KnowsWhatIsAllocated) {
    std::mt19937 random(7);
    std::map<std::uint64_t, std::uint64_t> live;
    for (int step = 0; step < 20000; ++step) {
        const std::uint64_t offset = random() % 500 * 16;
        const std::uint64_t bytes = 1 + random() % 64;
        const auto next = live.lower_bound(offset);
        if (next != live.end() && next->first == offset && random() % 2 == 0) {
            live.erase(next);
            table_.remove(offset);
        } else if ((next == live.end() || next->first >= offset + bytes) &&
                   (next == live.begin() || std::prev(next)->first + std::prev(next)->second <= offset)) {
            live[offset] = bytes;
            table_.add(offset, bytes);
        }
        const std::uint64_t asked = random() % 8500;
        const auto behind = live.upper_bound(asked);
        const bool is_live = behind != live.begin() && asked < std::prev(behind)->first + std::prev(behind)->second;
        const BlockTable::Block* const found = table_.at_or_before(asked);
        ASSERT_EQ(found != nullptr && found->is_freed == 0 && asked < found->offset + found->bytes, is_live) << step;
    }
    EXPECT_TRUE(table_.is_complete());
}

}  // namespace
}  // namespace sft
