#include "backup/held_heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/process_watch.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"
#include "symheap/existing_pages.hpp"

namespace sft {

Result<> HeldHeap::create(const LiveState& live, const GuardWords& words) {
    SFT_ASSERT(!is_created() && words.is_set() && live.heap.bytes != 0);
    void* const mapped =
        ::mmap(nullptr, live.heap.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return fails(
            format("cannot reserve %zu bytes of addresses: %s", live.heap.bytes, describe_error(errno).c_str()), errno);
    }
    aside_ = static_cast<std::byte*>(mapped);
    words_ = words;
    heap_ = live.heap;
    heap_fd_ = live.heap_fd;
    heap_file_offset_ = live.heap_file_offset;
    is_aside_.assign(words.n_chunks(), 0);
    words_.reset();
    return {};
}

void HeldHeap::release() noexcept {
    if (aside_ != nullptr) {
        ::munmap(aside_, heap_.bytes);
    }
    aside_ = nullptr;
    words_ = {};
}

std::size_t HeldHeap::bytes_of(std::size_t chunk) const noexcept {
    return std::min(GuardWords::kChunkBytes, heap_.bytes - chunk * GuardWords::kChunkBytes);
}

// Also of what does not exist: if it does later, it did not at the line.
void HeldHeap::hold(const BlockSet* only) {
    SFT_ASSERT(is_created());
    next_ = 0;
    words_.reset();  // whoever was this PE before may have left some
    const auto hold_blocks = [&](std::size_t first, std::size_t end) {
        for (std::size_t chunk = first / kBlocksOfChunk; chunk * kBlocksOfChunk < end; ++chunk) {
            words_.hold(chunk);
        }
    };
    const std::size_t blocks = heap_.bytes / kBlockBytes;
    if (only == nullptr) {
        hold_blocks(0, blocks);
    } else {
        only->each_run(0, blocks, hold_blocks);
    }
}

void HeldHeap::let_go_before(std::size_t chunk) noexcept {
    for (; next_ < chunk; ++next_) {
        if (std::exchange(is_aside_[next_], std::uint8_t{0}) != 0) {
            ::madvise(aside_ + next_ * GuardWords::kChunkBytes, bytes_of(next_), MADV_DONTNEED);
            words_.let_go(next_);
        } else if (words_.is_held(next_)) {
            words_.let_go(next_);
        }
    }
}

void HeldHeap::let_go() noexcept { let_go_before(words_.n_chunks()); }

// Holes are left out: they read as zeros here too, and reading them would make pages of them.
void HeldHeap::set_aside(std::size_t chunk) noexcept {
    SFT_ASSERT(chunk >= next_ && is_aside_[chunk] == 0);
    const std::size_t begin = chunk * GuardWords::kChunkBytes;
    each_existing(heap_fd_, heap_file_offset_ + begin, bytes_of(chunk), [&](std::size_t first, std::size_t end) {
        raw_copy(aside_ + begin + first, reinterpret_cast<const std::byte*>(heap_.begin + begin + first), end - first);
    });
    is_aside_[chunk] = 1;
    words_.set_aside(chunk);
}

const std::byte* HeldHeap::at(std::size_t block, const std::byte* live) noexcept {
    const std::size_t chunk = block / kBlocksOfChunk;
    SFT_ASSERT(chunk >= next_ && live == reinterpret_cast<const std::byte*>(heap_.begin) + block * kBlockBytes);
    let_go_before(chunk);
    if (words_.is_any_wanted()) {
        words_.take_wanted([this](std::size_t wanted) { set_aside(wanted); });
    }
    return is_aside_[chunk] != 0 ? aside_ + block * kBlockBytes : live;
}

}  // namespace sft
