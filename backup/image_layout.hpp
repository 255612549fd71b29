// The inside of an image, for the two files that implement it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "backup/image.hpp"
#include "base/assert.hpp"

namespace sft {

inline constexpr std::size_t kImagePage = 4096;
inline constexpr std::uint64_t kAbsent = 0;
static_assert(kBlockBytes % kImagePage == 0);  // holes are pages, and a block is a hole or none
static_assert(kImagePage % sizeof(std::uint64_t) == 0);

[[nodiscard]] constexpr std::size_t blocks_of(std::size_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }
[[nodiscard]] constexpr std::size_t block_bytes(std::size_t region_bytes, std::size_t block) {
    return std::min(kBlockBytes, region_bytes - block * kBlockBytes);
}

[[nodiscard]] constexpr std::size_t pages_of(std::size_t bytes) {
    return (bytes + kImagePage - 1) / kImagePage * kImagePage;
}
[[nodiscard]] inline const std::byte* at(const AddressRange& range, std::size_t offset) {
    return reinterpret_cast<const std::byte*>(range.begin + offset);
}

// Calls visit(first_block, end_block) for each run of blocks of the heap in which some page exists. Where the kernel
// does not tell, all of them count as existing: to take data for a hole would lose it.
template <class Visit>
void each_existing_run(const LiveState& live, Visit&& visit) {
    const std::size_t bytes = live.heap.bytes;
    const auto begin = static_cast<off_t>(live.heap_file_offset);
    std::size_t done = 0;      // blocks
    std::size_t position = 0;  // bytes
    while (position < bytes) {
        off_t data = ::lseek(live.heap_fd, begin + static_cast<off_t>(position), SEEK_DATA);
        if (data < 0 && errno == ENXIO) {
            break;  // no more data
        }
        const std::size_t data_byte = data < 0 ? position : static_cast<std::size_t>(data - begin);
        if (data_byte >= bytes) {
            break;  // of what lies behind the heap
        }
        const off_t hole = ::lseek(live.heap_fd, begin + static_cast<off_t>(data_byte), SEEK_HOLE);
        SFT_ASSERT(data_byte >= position && (hole < 0 || hole - begin >= static_cast<off_t>(data_byte)));
        const std::size_t end_byte = hole < 0 ? bytes : std::min(bytes, static_cast<std::size_t>(hole - begin));
        const std::size_t first = std::max(done, data_byte / kBlockBytes);
        const std::size_t end = blocks_of(end_byte);
        SFT_ASSERT(end <= blocks_of(bytes));
        if (first < end) {
            visit(first, end);
            done = end;
        }
        position = end_byte;
    }
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
