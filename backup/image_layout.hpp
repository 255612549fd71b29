// The inside of an image, for the two files that implement it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backup/image.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/stream_copy.hpp"
#include "symheap/existing_pages.hpp"
#include "symheap/live_state.hpp"

namespace sft {

inline constexpr std::uint64_t kAbsent = 0;
static_assert(kBlockBytes % kPageBytes == 0);  // holes are pages, and a block is a hole or none
static_assert(kPageBytes % sizeof(std::uint64_t) == 0);

[[nodiscard]] constexpr std::size_t blocks_of(std::size_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }
[[nodiscard]] constexpr std::size_t block_bytes(std::size_t region_bytes, std::size_t block) {
    return std::min(kBlockBytes, region_bytes - block * kBlockBytes);
}

// Whether a block of so many bytes is copied past the caches, behind so many others: not while all that is copied may
// stay there. Measured with 4, 16, 64 and 1024 MiB in each of two processes (docs/speed.md).
[[nodiscard]] inline bool goes_past_caches(std::size_t copied_before, const std::byte* to, std::size_t bytes) {
    constexpr std::size_t kFromBytes = std::size_t{4} << 20;
    return copied_before >= kFromBytes && bytes == kBlockBytes &&
           reinterpret_cast<std::uintptr_t>(to) % kStreamUnit == 0;
}

[[nodiscard]] inline const std::byte* at(const AddressRange& range, std::size_t offset) {
    return reinterpret_cast<const std::byte*>(range.begin + offset);
}

// The first entry from `first` on that is of a block; `end`: there is none below. Most are of none, and many.
[[nodiscard]] inline std::size_t first_present(const std::uint64_t* table, std::size_t first,
                                               std::size_t end) noexcept {
    constexpr std::size_t kAtOnce = 8;
    for (; first + kAtOnce <= end; first += kAtOnce) {
        std::uint64_t any = 0;
        for (std::size_t i = 0; i < kAtOnce; ++i) {
            any |= table[first + i];
        }
        if (any != kAbsent) {
            break;
        }
    }
    while (first < end && table[first] == kAbsent) {
        ++first;
    }
    return first;
}

// Memory whose file has holes: a part of the live state.
struct SparseMemory {
    AddressRange memory;
    int fd = -1;
    std::size_t file_offset = 0;
    std::size_t first_block = 0;  // its number in an image
    const Exclusions* excluded = nullptr;
};
[[nodiscard]] inline SparseMemory heap_of(const LiveState& live) {
    return {live.heap, live.heap_fd, live.heap_file_offset, 0, live.excluded};
}
[[nodiscard]] inline SparseMemory globals_of(const LiveState& live) {
    return {live.globals, live.globals_fd, live.globals_file_offset, blocks_of(live.heap.bytes), live.excluded};
}

// The first block from `block` on that is not left out of versions.
[[nodiscard]] inline std::size_t next_included_block(const SparseMemory& sparse, std::size_t block) {
    return sparse.excluded == nullptr ? block
                                      : sparse.excluded->next_included(sparse.first_block + block) - sparse.first_block;
}
// Where the run ends that begins with this block, which is not left out, and ends at `end` at the latest.
[[nodiscard]] inline std::size_t end_of_included(const SparseMemory& sparse, std::size_t block, std::size_t end) {
    SFT_ASSERT(block < end);
    // At least the block itself: while somebody changes what is left out, this is an estimate.
    return sparse.excluded == nullptr ? end
                                      : std::max(block + 1, sparse.excluded->next_excluded(sparse.first_block + block,
                                                                                           sparse.first_block + end) -
                                                                sparse.first_block);
}

// Calls visit(first_block, end_block) for the runs of these blocks that are not left out.
template <class Visit>
void each_included_run(const SparseMemory& sparse, std::size_t first, std::size_t end, Visit&& visit) {
    for (std::size_t run = next_included_block(sparse, first); run < end;) {
        const std::size_t run_end = end_of_included(sparse, run, end);
        visit(run, run_end);
        run = next_included_block(sparse, run_end);
    }
}

// Calls visit(first_block, end_block) for each run of blocks in which some page exists, without those that are left out
// of versions.
template <class Visit>
void each_existing_run(const SparseMemory& sparse, Visit&& visit) {
    std::size_t done = 0;
    each_existing(sparse.fd, sparse.file_offset, sparse.memory.bytes, [&](std::size_t begin, std::size_t end) {
        const std::size_t first = std::max(done, begin / kBlockBytes);
        const std::size_t last = blocks_of(end);
        SFT_ASSERT(last <= blocks_of(sparse.memory.bytes));
        if (first < last) {
            each_included_run(sparse, first, last, visit);
            done = last;
        }
    });
}

// Blocks from `first` on and below `end`.
[[nodiscard]] inline SparseMemory part_of(const SparseMemory& sparse, std::size_t first, std::size_t end) {
    const std::size_t begin = first * kBlockBytes;
    SFT_ASSERT(first < end && end <= blocks_of(sparse.memory.bytes));
    return {{sparse.memory.begin + begin, std::min(end * kBlockBytes, sparse.memory.bytes) - begin},
            sparse.fd,
            sparse.file_offset + begin,
            sparse.first_block + first,
            sparse.excluded};
}

// The first of these blocks from `block` on; blocks_of() all: there is none. Costs nothing of what lies behind that.
[[nodiscard]] inline std::size_t next_existing_block(const SparseMemory& sparse, std::size_t block) {
    const std::size_t all = blocks_of(sparse.memory.bytes);
    SFT_ASSERT(block <= all);
    while (block < all) {
        const std::size_t begin = block * kBlockBytes;
        const std::size_t data = next_existing_page(sparse.fd, sparse.file_offset + begin, sparse.memory.bytes - begin);
        if (data == sparse.memory.bytes - begin) {
            return all;
        }
        block = (begin + data) / kBlockBytes;
        const std::size_t included = next_included_block(sparse, block);
        if (included == block) {
            return block;
        }
        block = included;
    }
    return all;
}

struct Image::Header {
    std::atomic<std::uint64_t> version;  // 0: torn or empty
    std::uint64_t heap_blocks;           // blocks from here on are absent
    std::uint64_t table_sum;             // checksum of the entries that mean something
    std::uint64_t header_sum;            // checksum of the three words above
};
// As a keeper's memory has it, and as messages bring it: written by one process, read by its substitute.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // it lies in memory that processes share
static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t));

}  // namespace sft
