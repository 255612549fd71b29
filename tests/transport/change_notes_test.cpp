#include "transport/shm/change_notes.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sft {
namespace {

constexpr std::size_t kBlock = ChangeNotes::kBlockBytes;
constexpr AddressRange kHeap{0x300000000000, 8 * kBlock};
constexpr AddressRange kGlobals{0x400000, 2 * kBlock + 4096};  // blocks 8 to 10

// Of two PEs, one behind the other.
class ChangeNotesTest : public testing::Test {
protected:
    static constexpr std::size_t kBytes = ChangeNotes::bytes_for(kHeap.bytes, kGlobals.bytes);

    [[nodiscard]] static std::vector<std::size_t> taken(const ChangeNotes& notes) {
        std::vector<std::size_t> blocks;
        notes.take([&](std::size_t block) { blocks.push_back(block); });
        return blocks;
    }
    [[nodiscard]] static const void* heap(std::size_t byte) {
        return reinterpret_cast<const void*>(kHeap.begin + byte);
    }
    [[nodiscard]] static const void* global(std::size_t byte) {
        return reinterpret_cast<const void*>(kGlobals.begin + byte);
    }

    std::vector<std::uint64_t> memory_ = std::vector<std::uint64_t>(2 * kBytes / 8);
    ChangeNotes mine_{reinterpret_cast<std::byte*>(memory_.data()), kHeap, kGlobals};
    ChangeNotes theirs_{reinterpret_cast<std::byte*>(memory_.data()) + kBytes, kHeap, kGlobals};
    using Blocks = std::vector<std::size_t>;
};

TEST_F(ChangeNotesTest, NameTheBlocksOnceAndOnlyAtThatPe) {
    mine_.wrote(kBytes, heap(kBlock - 1), 2);
    mine_.wrote(kBytes, heap(5 * kBlock), kBlock);
    mine_.wrote(kBytes, global(2 * kBlock), 1);
    EXPECT_EQ(taken(mine_), Blocks());
    EXPECT_EQ(taken(theirs_), (Blocks{0, 1, 5, 10}));
    EXPECT_EQ(taken(theirs_), Blocks());
}

TEST_F(ChangeNotesTest, WhatIsNotedIsKnownUntilItIsTaken) {
    const auto is_noted = [&](const void* address) { return mine_.is_noted(kBytes, address, 8); };
    EXPECT_FALSE(is_noted(heap(3 * kBlock)));
    mine_.wrote(kBytes, heap(3 * kBlock + 8), 1);
    EXPECT_TRUE(is_noted(heap(3 * kBlock)));
    EXPECT_TRUE(is_noted(heap(4 * kBlock - 8)));
    EXPECT_FALSE(is_noted(heap(4 * kBlock - 7))) << "it lies in two blocks";
    EXPECT_FALSE(is_noted(heap(4 * kBlock)));
    EXPECT_FALSE(mine_.is_noted(0, heap(3 * kBlock), 8)) << "of another PE";
    mine_.wrote(kBytes, global(0), 8);
    EXPECT_FALSE(is_noted(global(0))) << "not told of globals";
    EXPECT_EQ(taken(theirs_), (Blocks{3, 8}));
    EXPECT_FALSE(is_noted(heap(3 * kBlock)));
}

TEST_F(ChangeNotesTest, NothingBehindARangeIsNoted) {
    mine_.wrote(0, heap(7 * kBlock), SIZE_MAX);
    mine_.wrote(0, heap(kHeap.bytes), 8);
    mine_.wrote(0, heap(3 * kBlock), 0);
    EXPECT_EQ(taken(mine_), Blocks{7});
    mine_.wrote(0, global(kGlobals.bytes - 1), 100);
    EXPECT_EQ(taken(mine_), Blocks{10});
    EXPECT_EQ(taken(theirs_), Blocks());
}

TEST_F(ChangeNotesTest, WhatSomebodyHasAPointerToIsNamedEveryTime) {
    mine_.expose(kBytes, heap(2 * kBlock), 2 * kBlock);
    mine_.expose(kBytes, global(0), 1);
    mine_.wrote(kBytes, heap(3 * kBlock), 1);
    EXPECT_EQ(taken(theirs_), (Blocks{2, 3, 8}));
    EXPECT_EQ(taken(theirs_), (Blocks{2, 3, 8}));
}

}  // namespace
}  // namespace sft
