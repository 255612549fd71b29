// Nothing of one PE lies on anything of another one in the memory file of a node.
#include "shmem_ft/process/node_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sft {
namespace {

struct Part {
    std::size_t begin = 0;
    std::size_t bytes = 0;
};

std::vector<Part> parts_of(const NodeFile& file) {
    std::vector<Part> parts{{file.records(), file.records_bytes}};
    for (std::int32_t number = 0; number < file.n_pes; ++number) {
        const PeId pe(number);
        parts.push_back({file.shadow(pe), file.shadow_bytes});
        parts.push_back({file.local(pe), file.local_bytes});
        parts.push_back({file.heap(pe), file.heap_bytes});
        if (file.globals_bytes != 0) {
            parts.push_back({file.globals(pe), file.globals_bytes});
        }
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    return parts;
}

// Every byte belongs to one part, and parts begin with pages.
void expect_whole(const NodeFile& file) {
    std::size_t end = 0;
    for (const Part& part : parts_of(file)) {
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.begin % kPageBytes, 0U);
        end = part.begin + part.bytes;
    }
    EXPECT_EQ(file.bytes(), end);
}

TEST(NodeFile, PartsAreBesideEachOther) {
    for (const std::int32_t n_pes : {1, 2, 7}) {
        const NodeFile file{.shadow_bytes = 6 * kPageBytes,
                            .local_bytes = 3 * kPageBytes,
                            .records_bytes = 2 * kPageBytes,
                            .heap_bytes = 5 * kPageBytes,
                            .globals_bytes = kPageBytes,
                            .n_pes = n_pes};
        expect_whole(file);
    }
}

TEST(NodeFile, GlobalsMayBeMissing) {
    const NodeFile file{.shadow_bytes = 2 * kPageBytes,
                        .local_bytes = kPageBytes,
                        .records_bytes = kPageBytes,
                        .heap_bytes = 4 * kPageBytes,
                        .n_pes = 3};
    expect_whole(file);
}

// Of more than 4 GiB in sum.
TEST(NodeFile, LargeHeaps) {
    const std::size_t heap = std::size_t{3} << 30;
    const NodeFile file{
        .shadow_bytes = heap, .local_bytes = heap, .records_bytes = kPageBytes, .heap_bytes = heap, .n_pes = 4};
    expect_whole(file);
    EXPECT_EQ(file.heap(PeId(3)), 11 * heap + kPageBytes);
}

TEST(NodeFileDeath, APeThatIsNotThere) {
    const NodeFile file{.shadow_bytes = kPageBytes,
                        .local_bytes = kPageBytes,
                        .records_bytes = kPageBytes,
                        .heap_bytes = kPageBytes,
                        .n_pes = 2};
    EXPECT_DEATH(static_cast<void>(file.heap(PeId(2))), "defect of the library");
}

TEST(NodeFileDeath, WhatIsNoWholeNumberOfPages) {
    const NodeFile file{.shadow_bytes = kPageBytes + 8,
                        .local_bytes = kPageBytes,
                        .records_bytes = kPageBytes,
                        .heap_bytes = kPageBytes,
                        .n_pes = 2};
    EXPECT_DEATH(static_cast<void>(file.shadow(PeId(1))), "defect of the library");
}

}  // namespace
}  // namespace sft
