// What other processes may write to and read: pure arithmetic on numbers that came from outside.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/shm/peer_table.hpp"

namespace sft {

// Blocks as they come over the wire; step may be negative or zero.
struct WireBlocks {
    std::uint32_t block_bytes = 0;
    std::uint32_t n_blocks = 0;
    std::int64_t step = 0;

    [[nodiscard]] std::uint64_t bytes() const noexcept { return std::uint64_t{block_bytes} * n_blocks; }
};

struct Regions {
    AddressRange heap;
    AddressRange globals;
    std::byte* store = nullptr;
    std::size_t store_bytes = 0;

    // The place, or null if any of the bytes is outside.
    [[nodiscard]] std::byte* symmetric(std::uint64_t address, std::uint64_t bytes) const noexcept {
        return holds(heap, address, bytes) || holds(globals, address, bytes) ? at(address) : nullptr;
    }
    // The place of the first block. Null as well if there are no bytes in them.
    [[nodiscard]] std::byte* symmetric(std::uint64_t address, WireBlocks blocks) const noexcept {
        return holds(heap, address, blocks) || holds(globals, address, blocks) ? at(address) : nullptr;
    }
    // An aligned word of 1, 2, 4 or 8 bytes.
    [[nodiscard]] std::byte* word(std::uint64_t address, std::uint64_t width) const noexcept {
        return width != 0 && address % width == 0 ? symmetric(address, width) : nullptr;
    }
    [[nodiscard]] std::byte* stored(std::uint64_t offset, std::uint64_t bytes) const noexcept {
        return holds({0, store_bytes}, offset, bytes) ? store + offset : nullptr;
    }

private:
    [[nodiscard]] static std::byte* at(std::uint64_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

    [[nodiscard]] static bool holds(AddressRange range, std::uint64_t address, std::uint64_t bytes) noexcept {
        const std::uint64_t offset = address - range.begin;
        return address >= range.begin && offset < range.bytes && bytes != 0 && bytes <= range.bytes - offset;
    }

    // Steps and numbers of blocks fit 64 and 32 bits, so that no sum of them leaves 128.
    [[nodiscard]] static bool holds(AddressRange range, std::uint64_t address, WireBlocks blocks) noexcept {
        if (blocks.block_bytes == 0 || blocks.n_blocks == 0) {
            return false;
        }
        __extension__ using Wide = __int128;
        const Wide first = static_cast<Wide>(address) - static_cast<Wide>(range.begin);
        const Wide last = first + static_cast<Wide>(blocks.step) * (blocks.n_blocks - 1);
        const Wide lowest = first < last ? first : last;
        const Wide highest = first < last ? last : first;
        return lowest >= 0 && highest + blocks.block_bytes <= static_cast<Wide>(range.bytes);
    }
};

}  // namespace sft
