#include "shmem_ft/process/included_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace sft {
namespace {

constexpr std::size_t kPage = 4096;

TEST(IncludedMemory, ComesBackAsItWasSaved) {
    IncludedMemory memory;
    long number = 7;
    std::vector<char> text(3 * kPage + 5, 'a');
    long number_place = 0;
    std::vector<char> text_place(text.size());
    ASSERT_TRUE(memory.add(&number, &number_place, sizeof number));
    ASSERT_TRUE(memory.add(text.data(), text_place.data(), text.size()));
    EXPECT_EQ(memory.n_pieces(), 2U);
    EXPECT_EQ(memory.n_bytes(), sizeof number + text.size());
    memory.save();
    const std::vector<char> saved = text;
    number = 8;
    text.front() = 'b';
    text.back() = 'c';
    memory.restore();
    EXPECT_EQ(number, 7);
    EXPECT_EQ(text, saved);
}

// A checkpoint that finds changes by page tables would take them for changes.
TEST(IncludedMemory, WhatIsAsItWasIsNotWritten) {
    auto* const place =
        static_cast<char*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(place, MAP_FAILED);
    std::vector<char> piece(4 * kPage, 'x');
    IncludedMemory memory;
    ASSERT_TRUE(memory.add(piece.data(), place, piece.size()));
    memory.save();
    piece[2 * kPage + 17] = 'y';
    // Only the third page may be written.
    ASSERT_EQ(::mprotect(place, 2 * kPage, PROT_READ), 0);
    ASSERT_EQ(::mprotect(place + 3 * kPage, kPage, PROT_READ), 0);
    memory.save();
    EXPECT_EQ(std::memcmp(place, piece.data(), piece.size()), 0);
    ::munmap(place, 4 * kPage);
}

}  // namespace
}  // namespace sft
