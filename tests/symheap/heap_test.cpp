// The symmetric heap's allocator: position independence, determinism, exhaustion, and what holes cost.
#include "symheap/heap.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "symheap/segment.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

struct MappedHeap {
    explicit MappedHeap(std::size_t bytes) {
        EXPECT_TRUE(good(segment.create("heap-test", bytes)));
        EXPECT_TRUE(good(segment.map_at(nullptr)));
        heap.create({reinterpret_cast<std::uintptr_t>(segment.address()), bytes}, segment.fd());
    }
    [[nodiscard]] std::size_t existing_bytes() const {
        struct stat info {};
        ::fstat(segment.fd(), &info);
        return static_cast<std::size_t>(info.st_blocks) * 512;
    }
    // Behind the last page that exists.
    [[nodiscard]] std::size_t existing_end() const {
        off_t end = 0;
        for (off_t data = ::lseek(segment.fd(), 0, SEEK_DATA); data >= 0;
             data = ::lseek(segment.fd(), end, SEEK_DATA)) {
            end = ::lseek(segment.fd(), data, SEEK_HOLE);
        }
        return static_cast<std::size_t>(end);
    }
    Segment segment;
    Heap heap;
};

constexpr std::size_t kMiB = 1 << 20;

TEST(Heap, UntouchedMemoryCostsNothing) {
    MappedHeap mapped(512 * kMiB);
    ASSERT_NE(mapped.heap.allocate(400 * kMiB), nullptr);
    EXPECT_LT(mapped.existing_bytes(), kMiB);
}

// Whatever goes through all that exists does not come to the end of a large heap of which little is used.
TEST(Heap, NothingExistsFarBehindTheLastBlock) {
    MappedHeap mapped(512 * kMiB);
    std::size_t used = 0;
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, kMiB, 3 * kMiB, std::size_t{100}}) {
        void* const block = mapped.heap.allocate(bytes);
        ASSERT_NE(block, nullptr);
        used = std::max(used, reinterpret_cast<std::uintptr_t>(block) - mapped.heap.range().begin + bytes);
        EXPECT_LE(mapped.existing_end(), 2 * used + 2 * Heap::kBytesMin) << bytes;
    }
    EXPECT_TRUE(mapped.heap.check_invariants());
}

// A heap that has grown holds as much as one whose first request was for all of it.
TEST(Heap, AllOfItCanBeUsedInOneBlockOrInMany) {
    constexpr std::size_t kBytes = 16 * kMiB;
    MappedHeap whole(kBytes);
    const std::size_t most = whole.heap.free_bytes() / 4096 * 4096 - 8192;
    ASSERT_NE(whole.heap.allocate(most), nullptr);
    EXPECT_TRUE(whole.heap.check_invariants());
    MappedHeap many(kBytes);
    std::vector<void*> blocks;
    std::size_t held = 0;
    for (;;) {
        void* const block = many.heap.allocate(5000);
        if (block == nullptr) {
            break;
        }
        blocks.push_back(block);
        held += 5000;
    }
    EXPECT_GT(held, most / 100 * 97) << "what is between the blocks is not the program's";
    EXPECT_TRUE(many.heap.check_invariants());
    for (void* const block : blocks) {
        many.heap.free(block);
    }
    EXPECT_NE(many.heap.allocate(most), nullptr) << "it is one block again";
    EXPECT_TRUE(many.heap.check_invariants());
}

TEST(Heap, ExhaustionReturnsNullAndLeavesTheHeapUsable) {
    MappedHeap mapped(4 * kMiB);
    const std::size_t free_before = mapped.heap.free_bytes();
    EXPECT_EQ(mapped.heap.allocate(64 * kMiB), nullptr);
    EXPECT_EQ(mapped.heap.allocate(SIZE_MAX - 100), nullptr);
    EXPECT_EQ(mapped.heap.allocate_aligned(4096, SIZE_MAX / 2), nullptr);
    void* block = mapped.heap.allocate(kMiB);
    ASSERT_NE(block, nullptr);
    std::memset(block, 7, kMiB);
    EXPECT_EQ(mapped.heap.reallocate(block, 64 * kMiB), nullptr);
    EXPECT_EQ(static_cast<unsigned char*>(block)[kMiB - 1], 7) << "the block survives a failed reallocation";
    mapped.heap.free(block);
    EXPECT_TRUE(mapped.heap.check_invariants());
    EXPECT_EQ(mapped.heap.free_bytes(), free_before);
}

TEST(Heap, AlignmentIsKept) {
    MappedHeap mapped(16 * kMiB);
    for (std::size_t alignment = 8; alignment <= 64 * 1024; alignment *= 2) {
        void* block = mapped.heap.allocate_aligned(alignment, 100);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped.heap.allocate(1)) % alignof(std::max_align_t), 0U);
    for (std::size_t bytes = 1024; bytes < kMiB; bytes = bytes * 3 / 2 + 7) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped.heap.allocate(bytes)) % 64, 0U) << bytes;
    }
}

TEST(Heap, AlignmentIsNoReasonToBeFull) {
    MappedHeap mapped(2 * kMiB);
    void* all = nullptr;
    std::size_t most = 2 * kMiB;
    while (all == nullptr) {
        most -= 16;
        all = mapped.heap.allocate(most);
    }
    mapped.heap.free(all);
    EXPECT_EQ(mapped.heap.allocate(most + 16), nullptr);
    EXPECT_NE(mapped.heap.allocate(most), nullptr);
}

TEST(Heap, LargeFreedBlocksGiveTheirPagesBack) {
    MappedHeap mapped(64 * kMiB);
    void* block = mapped.heap.allocate(32 * kMiB);
    void* behind = mapped.heap.allocate(64);
    std::memset(block, 1, 32 * kMiB);
    EXPECT_GT(mapped.existing_bytes(), 32 * kMiB);
    mapped.heap.free(block);
    EXPECT_LT(mapped.existing_bytes(), kMiB);
    EXPECT_TRUE(mapped.heap.check_invariants());
    mapped.heap.free(behind);
    EXPECT_TRUE(mapped.heap.check_invariants());
}

TEST(Heap, ZeroingCoversEveryByteAndNoOther) {
    MappedHeap mapped(8 * kMiB);
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{300'001}}) {
        auto* block = static_cast<unsigned char*>(mapped.heap.allocate(bytes + 64));
        std::memset(block, 0xee, bytes + 64);
        mapped.heap.zero(block + 32, bytes);
        for (std::size_t i = 0; i < bytes + 64; ++i) {
            ASSERT_EQ(block[i], i < 32 || i >= 32 + bytes ? 0xee : 0) << "byte " << i << " of " << bytes;
        }
    }
}

// Two heaps at different addresses run through the same calls: same offsets, and a copy of one is a working heap.
TEST(Heap, SameCallsSameOffsetsAndACopyIsAHeap) {
    constexpr std::size_t kBytes = 8 * kMiB;
    MappedHeap first(kBytes);
    MappedHeap second(kBytes);
    std::mt19937 random(3);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks;
    const auto step = [&] {
        if (!blocks.empty() && random() % 3 == 0) {
            const std::size_t victim = random() % blocks.size();
            first.heap.free(first.heap.decode(blocks[victim].first));
            second.heap.free(second.heap.decode(blocks[victim].second));
            blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(victim));
            return;
        }
        const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 200'000 : 500);
        const std::uint64_t a = first.heap.encode(first.heap.allocate(bytes));
        const std::uint64_t b = second.heap.encode(second.heap.allocate(bytes));
        ASSERT_EQ(a, b);
        if (a != 0) {
            std::memset(first.heap.decode(a), static_cast<int>(bytes), bytes);
            std::memset(second.heap.decode(b), static_cast<int>(bytes), bytes);
            blocks.emplace_back(a, b);
        }
    };
    for (int i = 0; i < 2000; ++i) {
        step();
    }
    ASSERT_TRUE(first.heap.check_invariants());
    // What a restore does: the bytes of one heap arrive in another process's heap.
    std::memcpy(second.segment.address(), first.segment.address(), kBytes);
    ASSERT_TRUE(second.heap.check_invariants());
    for (int i = 0; i < 2000; ++i) {
        step();
    }
    EXPECT_TRUE(second.heap.check_invariants());
}

TEST(Heap, TheJournalIsPartOfTheHeap) {
    MappedHeap mapped(kMiB);
    for (std::uint64_t i = 0; i < Heap::kJournalCalls + 5; ++i) {
        mapped.heap.record({HeapCall::malloc, 0, i, 0, i + 1});
    }
    EXPECT_EQ(mapped.heap.calls(), Heap::kJournalCalls + 5);
    ASSERT_EQ(mapped.heap.journal().size(), Heap::kJournalCalls) << "the first calls are the ones that are kept";
    EXPECT_EQ(mapped.heap.journal()[17].first, 17U);
    EXPECT_GE(Heap::journal_bytes(), Heap::kJournalCalls * sizeof(HeapRecord));
    EXPECT_GT(Heap::own_bytes(), Heap::journal_bytes());
    EXPECT_LT(Heap::own_bytes(), Heap::kBytesMin);
}

// Freed pages became holes at the place where they would have been if the heap began with the file.
TEST(Heap, HolesAreMadeWhereTheHeapLies) {
    constexpr std::size_t kInFront = 8 * kMiB;
    constexpr std::size_t kBytes = 8 * kMiB;
    Segment segment;
    ASSERT_TRUE(good(segment.create("heap-test", kInFront + kBytes)));
    ASSERT_TRUE(good(segment.map_at(nullptr)));
    std::memset(segment.address(), 0xab, kInFront);
    Heap heap;
    heap.create({reinterpret_cast<std::uintptr_t>(segment.address()) + kInFront, kBytes}, segment.fd(), kInFront);
    auto* const block = static_cast<unsigned char*>(heap.allocate(2 * kMiB));
    ASSERT_NE(block, nullptr);
    std::memset(block, 7, 2 * kMiB);
    heap.zero(block, kMiB);
    EXPECT_EQ(block[kMiB / 2], 0);
    EXPECT_EQ(block[kMiB + 1], 7);
    heap.free(block);
    EXPECT_EQ(block[kMiB + kMiB / 2], 0) << "the page has become a hole";
    const std::vector<unsigned char> expected(kInFront, 0xab);
    EXPECT_EQ(std::memcmp(segment.address(), expected.data(), kInFront), 0);
}

}  // namespace
}  // namespace sft
