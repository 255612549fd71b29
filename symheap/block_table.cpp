#include "symheap/block_table.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sft {

std::size_t BlockTable::behind(std::uint64_t offset) const noexcept {
    SFT_ASSERT_SLOW(memory_->count <= kBlocksMax);
    const Block* const begin = memory_->blocks;
    const Block* const end = begin + memory_->count;
    const auto is_before = [](std::uint64_t at, const Block& block) { return at < block.offset; };
    return static_cast<std::size_t>(std::upper_bound(begin, end, offset, is_before) - begin);
}

void BlockTable::add(std::uint64_t offset, std::uint64_t bytes) noexcept {
    SFT_ASSERT(memory_->count <= kBlocksMax && offset + bytes >= offset);
    Block* const blocks = memory_->blocks;
    std::size_t first = behind(offset);
    if (first > 0 && blocks[first - 1].offset + blocks[first - 1].bytes > offset) {
        --first;
    }
    // What lies where the new block lies has been freed: the new one takes the place of all that.
    std::size_t last = first;
    while (last < memory_->count && blocks[last].offset < offset + bytes) {
        SFT_ASSERT_SLOW(blocks[last].is_freed != 0 || blocks[last].bytes == 0);
        ++last;
    }
    if (first == last && memory_->count == kBlocksMax) {
        memory_->is_incomplete = 1;
        return;
    }
    const std::size_t n_behind = memory_->count - last;
    if (first == last) {
        std::copy_backward(blocks + last, blocks + last + n_behind, blocks + last + n_behind + 1);
    } else {
        std::copy(blocks + last, blocks + last + n_behind, blocks + first + 1);
    }
    blocks[first] = {offset, bytes, 0};
    memory_->count = first + 1 + n_behind;
    SFT_ASSERT(memory_->count <= kBlocksMax);
    SFT_ASSERT(first == 0 || blocks[first - 1].offset + blocks[first - 1].bytes <= offset);
    SFT_ASSERT(n_behind == 0 || offset + bytes <= blocks[first + 1].offset);
    SFT_ASSERT(n_behind == 0 || offset < blocks[first + 1].offset);
}

void BlockTable::remove(std::uint64_t offset) noexcept {
    const std::size_t position = behind(offset);
    if (position > 0 && memory_->blocks[position - 1].offset == offset) {
        memory_->blocks[position - 1].is_freed = 1;
    }
}

const BlockTable::Block* BlockTable::at_or_before(std::uint64_t offset) const noexcept {
    const std::size_t position = behind(offset);
    return position == 0 ? nullptr : &memory_->blocks[position - 1];
}

}  // namespace sft
