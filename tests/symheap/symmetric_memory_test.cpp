// Where the parts of symmetric memory lie, heap calls with their record, what a substitute is answered, and fork().
#include "symheap/symmetric_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/instruments.hpp"

namespace sft {
namespace {

constexpr std::uintptr_t kBase = kHeapBaseUnderThreadSanitizer;  // free without it as well
constexpr std::size_t kMegabyte = std::size_t{1} << 20;

SymmetricMemory::Options plain() {
    SymmetricMemory::Options options;
    options.globals = GlobalsMode::no;
    options.heap_base = kBase;
    options.heap_bytes = kMegabyte;
    return options;
}

SymmetricMemory::Options with_everything() {
    SymmetricMemory::Options options = plain();
    options.record_bytes = kBlockBytes + 1;
    options.has_block_table = true;
    return options;
}

struct Created : SymmetricMemory {
    explicit Created(const Options& options) {
        const Result<> result = create(options);
        EXPECT_TRUE(result) << result.error().line;
    }
    std::byte* allocate(std::size_t bytes) { return static_cast<std::byte*>(carry_out(HeapCall::malloc, bytes, 0)); }
    void free(const void* block) { carry_out(HeapCall::free, offset_of(block), 0); }
};

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::size_t existing_bytes(const SymmetricMemory& memory) {
    struct stat info {};
    ::fstat(memory.heap_segment().fd(), &info);
    return static_cast<std::size_t>(info.st_blocks) * 512;
}

TEST(SymmetricMemory, AProgramWithoutCheckpointsAndChecksHasAHeapAlone) {
    Created memory(plain());
    EXPECT_EQ(memory.live().heap.begin, kBase);
    EXPECT_EQ(memory.heap().begin, kBase);
    EXPECT_EQ(memory.heap().bytes, memory.live().heap.bytes);
    EXPECT_EQ(memory.heap_segment().bytes(), memory.live().heap.bytes);
    EXPECT_FALSE(memory.has_startup_record());
    EXPECT_TRUE(memory.startup_record().empty());
    EXPECT_NE(memory.allocate(kMegabyte - kBlockBytes), nullptr) << "what the library needs comes on top";
}

TEST(SymmetricMemory, RecordHeapTableAndMarksLieOneBehindTheOther) {
    Created memory(with_everything());
    const LiveState& live = memory.live();
    ASSERT_TRUE(memory.has_startup_record());
    EXPECT_EQ(number(memory.startup_record().data()), kBase);
    EXPECT_EQ(memory.startup_record().size(), 2 * kBlockBytes);
    EXPECT_EQ(memory.heap().begin, kBase + 2 * kBlockBytes);
    EXPECT_EQ(memory.heap().begin + memory.heap().bytes + BlockTable::kBytes, live.heap.begin + live.heap.bytes);
    EXPECT_EQ(live.heap.bytes % kBlockBytes, 0U);
    EXPECT_EQ(memory.heap_segment().bytes() - live.heap.bytes,
              WriteMarks::bytes_for(live.heap.bytes, 0) + WriteQueues::kBytes);
    EXPECT_EQ(memory.front_bytes(), 2 * kBlockBytes + Heap::journal_bytes());
    EXPECT_EQ(memory.stray_words().heap_file_offset, 2 * kBlockBytes);
}

TEST(SymmetricMemory, AnAddressThatIsTakenIsAnErrorThatNamesTheSetting) {
    const Created first(plain());
    SymmetricMemory second;
    const Result<> result = second.create(plain());
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().line.find("SHMEM_FT_HEAP_BASE"), std::string::npos) << result.error().line;
}

TEST(SymmetricMemory, AHeapThatNoNodeHasIsAnErrorThatNamesTheSetting) {
    SymmetricMemory::Options options = plain();
    options.heap_bytes = std::size_t{1} << 50;
    SymmetricMemory memory;
    const Result<> result = memory.create(options);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().line.find("SHMEM_SYMMETRIC_SIZE"), std::string::npos) << result.error().line;
}

TEST(SymmetricMemory, TheTableFollowsTheHeapCalls) {
    Created memory(with_everything());
    std::byte* const first = memory.allocate(100);
    auto* const second = static_cast<std::byte*>(memory.carry_out(HeapCall::calloc, 10, 20));
    const auto block_at = [&](const void* address) {
        return memory.blocks().at_or_before(number(address) - memory.heap().begin);
    };
    EXPECT_EQ(memory.blocks().count(), 2U);
    EXPECT_EQ(block_at(first)->bytes, 100U);
    EXPECT_EQ(block_at(second)->bytes, 200U);
    auto* const moved =
        static_cast<std::byte*>(memory.carry_out(HeapCall::realloc, memory.offset_of(first), 64 * 1024));
    ASSERT_NE(moved, first);
    EXPECT_EQ(block_at(first)->is_freed, 1U);
    EXPECT_EQ(block_at(moved)->bytes, 64U * 1024);
    // What fails leaves the block.
    EXPECT_EQ(memory.carry_out(HeapCall::realloc, memory.offset_of(moved), 64 * kMegabyte), nullptr);
    EXPECT_EQ(block_at(moved)->is_freed, 0U);
    memory.free(moved);
    EXPECT_EQ(block_at(moved)->is_freed, 1U);
}

TEST(SymmetricMemory, TheFirstObjectIsOneAsOthersAre) {
    Exclusions excluded;
    ArrayTable arrays;
    SymmetricMemory::Options options = with_everything();
    options.excluded = &excluded;
    options.arrays = &arrays;
    Created memory(options);
    std::byte* const first = memory.allocate(3 * kBlockBytes);
    EXPECT_EQ(memory.exclude(first, 3 * kBlockBytes), SymmetricMemory::Noted::done);
    EXPECT_EQ(excluded.n_runs(), 1U);
    ArrayPiece piece;
    piece.name[0] = 'a';
    piece.address = number(first);
    piece.element_bytes = 1;
    piece.count = 3 * kBlockBytes;
    EXPECT_EQ(memory.declare(piece), SymmetricMemory::Noted::done);
    piece.count = 5 * kBlockBytes;
    EXPECT_EQ(memory.declare(piece), SymmetricMemory::Noted::not_inside);
    EXPECT_EQ(arrays.size(), 1U);
    EXPECT_EQ(arrays[0].count, 3 * kBlockBytes);
    memory.free(first);
    EXPECT_EQ(arrays.size(), 0U);
    EXPECT_EQ(excluded.n_runs(), 0U);
}

// By the numbers of whole blocks that lie in the object.
TEST(SymmetricMemory, WhatIsLeftOutEndsWithItsObject) {
    using Noted = SymmetricMemory::Noted;
    Exclusions excluded;
    SymmetricMemory::Options options = with_everything();
    options.excluded = &excluded;
    Created memory(options);
    const auto block_of = [&](const std::byte* address) { return (number(address) - kBase) / kBlockBytes; };
    const auto is_out = [&](std::size_t block) { return excluded.next_included(block) != block; };

    auto* const scratch =
        static_cast<std::byte*>(memory.carry_out(HeapCall::malloc_with_hints, 2 * kBlockBytes + 1, kHintScratch | 1));
    ASSERT_NE(scratch, nullptr);
    EXPECT_EQ(number(scratch) % kBlockBytes, 0U);
    EXPECT_EQ(excluded.next_excluded(0, 1000), block_of(scratch));
    EXPECT_EQ(excluded.next_included(block_of(scratch)), block_of(scratch) + 3);
    std::byte* const plain_block = memory.allocate(5 * kBlockBytes);
    EXPECT_FALSE(is_out(block_of(plain_block + 2 * kBlockBytes)));

    EXPECT_EQ(memory.exclude(plain_block + 1, 4 * kBlockBytes), Noted::done);
    EXPECT_FALSE(is_out(block_of(plain_block)));
    EXPECT_TRUE(is_out(block_of(plain_block + 2 * kBlockBytes)));
    EXPECT_FALSE(is_out(block_of(plain_block + 4 * kBlockBytes + 1))) << "it is in there by a part";
    EXPECT_EQ(memory.exclude(plain_block, 1), Noted::done) << "which changes nothing";
    EXPECT_EQ(memory.exclude(plain_block, 6 * kBlockBytes), Noted::not_inside);
    EXPECT_EQ(memory.exclude(&excluded, 1), Noted::not_inside);
    EXPECT_EQ(memory.exclude(reinterpret_cast<void*>(memory.heap().begin), 64), Noted::not_inside);

    memory.free(scratch);
    EXPECT_FALSE(is_out(block_of(scratch)));
    EXPECT_TRUE(is_out(block_of(plain_block + 2 * kBlockBytes)));
    ASSERT_NE(memory.carry_out(HeapCall::realloc, memory.offset_of(plain_block), 8 * kBlockBytes), nullptr);
    EXPECT_EQ(excluded.n_runs(), 0U);
}

TEST(SymmetricMemory, WhatWasCarriedOutIsAnsweredAgainInOrder) {
    Created memory(plain());
    const std::byte* const first = memory.allocate(100);
    void* const second = memory.carry_out(HeapCall::align, 200, 4096);
    memory.free(first);
    EXPECT_EQ(memory.carry_out(HeapCall::malloc, 64 * kMegabyte, 0), nullptr);

    EXPECT_EQ(memory.recorded_result(0, HeapCall::malloc, 100, 0).value(), first);
    EXPECT_EQ(memory.recorded_result(1, HeapCall::align, 200, 4096).value(), second);
    EXPECT_EQ(memory.recorded_result(2, HeapCall::free, memory.offset_of(first), 0).value(), nullptr);
    EXPECT_EQ(memory.recorded_result(3, HeapCall::malloc, 64 * kMegabyte, 0).value(), nullptr)
        << "failed then, fails now";
    EXPECT_EQ(memory.recorded_result(1, HeapCall::align, 200, 4096).value(), second) << "asking changes nothing";
}

TEST(SymmetricMemory, AnotherCallThanThatOfThenIsAnErrorThatNamesBoth) {
    Created memory(plain());
    memory.allocate(100);
    const Result<void*> bytes = memory.recorded_result(0, HeapCall::malloc, 101, 0);
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().line.find("calls shmem_malloc(101, 0) as heap call 1 "), 0U) << bytes.error().line;
    EXPECT_NE(bytes.error().line.find("had called shmem_malloc(100, 0)"), std::string::npos) << bytes.error().line;
    EXPECT_FALSE(memory.recorded_result(0, HeapCall::calloc, 100, 0));
    EXPECT_FALSE(memory.recorded_result(0, HeapCall::malloc, 100, 1));
}

TEST(SymmetricMemory, ACallBehindTheRecordIsAnError) {
    Created memory(plain());
    const Result<void*> more = memory.recorded_result(0, HeapCall::malloc, 100, 0);
    ASSERT_FALSE(more);
    EXPECT_NE(more.error().line.find("had made fewer"), std::string::npos) << more.error().line;
    for (std::size_t i = 0; i <= Heap::kJournalCalls; ++i) {
        memory.free(memory.allocate(8));
    }
    EXPECT_TRUE(memory.recorded_result(Heap::kJournalCalls - 2, HeapCall::malloc, 8, 0));
    const Result<void*> unrecorded = memory.recorded_result(Heap::kJournalCalls, HeapCall::malloc, 8, 0);
    ASSERT_FALSE(unrecorded);
    EXPECT_NE(unrecorded.error().line.find("only the first 4096"), std::string::npos) << unrecorded.error().line;
}

TEST(SymmetricMemory, AnObjectIsTheBlockThatIsAllocatedThere) {
    Created memory(plain());
    std::byte* const first = memory.allocate(1000);
    std::byte* const second = memory.allocate(2000);
    EXPECT_EQ(memory.object_at(first + 999).begin, number(first));
    EXPECT_EQ(memory.object_at(first + 999).bytes, 1000U);
    EXPECT_EQ(memory.object_at(second + 1).begin, number(second));
    EXPECT_EQ(memory.object_at(&memory).bytes, 0U);
    memory.free(first);
    EXPECT_EQ(memory.object_at(first).bytes, 0U);
    auto* const moved =
        static_cast<std::byte*>(memory.carry_out(HeapCall::realloc, memory.offset_of(second), 64 * 1024));
    ASSERT_NE(moved, second);
    EXPECT_EQ(memory.object_at(second).bytes, 0U);
    EXPECT_EQ(memory.object_at(moved + 10).bytes, 64U * 1024);
}

TEST(SymmetricMemory, TheEndOfTheStartUpFreezesTheRecordAndFreesTheMarks) {
    Created memory(with_everything());
    std::byte* const block = memory.allocate(100'000);
    std::memset(memory.startup_record().data(), 1, memory.startup_record().size());
    std::memset(block, 2, 100'000);
    memory.write_marks().mark(block, 100'000);
    EXPECT_TRUE(memory.write_marks().has_any());
    const std::size_t before = existing_bytes(memory);
    memory.end_startup();
    EXPECT_LT(existing_bytes(memory), before);
    EXPECT_EQ(memory.live().frozen_heap_bytes, 2 * kBlockBytes);
    EXPECT_FALSE(memory.write_marks().has_any());
    EXPECT_EQ(memory.startup_record().back(), std::byte{1});
    EXPECT_EQ(block[99'999], std::byte{2});
}

TEST(SymmetricMemory, AChildWritesIntoMemoryOfItsOwn) {
    Created memory(with_everything());
    std::byte* const block = memory.allocate(100);
    block[0] = std::byte{1};
    const pid_t child = ::fork();
    if (child == 0) {
        memory.privatize_after_fork();
        const bool sees_parent = block[0] == std::byte{1};
        std::memset(block, 3, 100);
        memory.startup_record()[0] = std::byte{3};
        ::_exit(sees_parent && block[99] == std::byte{3} ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(block[0], std::byte{1});
    EXPECT_EQ(block[99], std::byte{0});
    EXPECT_EQ(memory.startup_record()[0], std::byte{0});
}

}  // namespace
}  // namespace sft
