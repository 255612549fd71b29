// The inside of an image, for the two files that implement it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backup/image.hpp"

namespace sft {

inline constexpr std::size_t kImagePage = 4096;
inline constexpr std::uint64_t kAbsent = 0;

[[nodiscard]] constexpr std::size_t blocks_of(std::size_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }
[[nodiscard]] constexpr std::size_t block_bytes(std::size_t region_bytes, std::size_t block) {
    return std::min(kBlockBytes, region_bytes - block * kBlockBytes);
}

struct Image::Header {
    std::atomic<std::uint64_t> version;  // 0: torn or empty
    std::uint64_t heap_blocks;           // blocks from here on are absent
    std::uint64_t table_sum;             // checksum of the entries that mean something
    std::uint64_t header_sum;            // checksum of the three words above
};

}  // namespace sft
