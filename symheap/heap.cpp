#include "symheap/heap.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <boost/interprocess/indexes/null_index.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/offset_ptr.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <cstring>
#include <new>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

namespace bip = boost::interprocess;
using Allocator = bip::rbtree_best_fit<bip::null_mutex_family, bip::offset_ptr<void>>;

// Bytes at both ends of a freed block that the allocator uses for its links.
constexpr std::size_t kLinkBytes = 128;

struct HeapHeader {
    std::uint64_t calls;
    std::uint64_t managed_bytes;  // of the heap, from its beginning
    std::uint64_t reserved[6];
    HeapRecord journal[Heap::kJournalCalls];
};
constexpr std::size_t kAllocatorOffset = whole_pages(sizeof(HeapHeader));
static_assert(sizeof(Allocator) < kPageBytes);
static_assert(sizeof(HeapHeader) == 64 + Heap::kJournalCalls * sizeof(HeapRecord));
static_assert(kAllocatorOffset + kPageBytes < Heap::kBytesMin);
static_assert(offsetof(HeapHeader, journal) == 64, "read from the heaps of other PEs");
static_assert(static_cast<std::uint32_t>(HeapCall::malloc) == 1, "0 is a record that nobody has written");
static_assert(Heap::kReturnBytes > 2 * kLinkBytes + 2 * kPageBytes);  // what is returned has whole pages

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kLineAlignedFromBytes = 1024;  // below, the gap would cost more than it saves

// What posix_memalign takes. The allocator asserts a power of two.
constexpr bool is_alignment(std::size_t bytes) { return std::has_single_bit(bytes) && bytes % sizeof(void*) == 0; }

HeapHeader& header_at(std::uintptr_t base) { return *reinterpret_cast<HeapHeader*>(base); }
std::uint64_t& managed_at(std::uintptr_t base) { return header_at(base).managed_bytes; }
Allocator& allocator_at(std::uintptr_t base) { return *reinterpret_cast<Allocator*>(base + kAllocatorOffset); }

}  // namespace

void Heap::create(AddressRange range, int fd, std::size_t file_offset) noexcept {
    SFT_ASSERT(range.begin % kPageBytes == 0 && range.bytes % kPageBytes == 0 && range.bytes >= kBytesMin);
    SFT_ASSERT(fd >= 0 && file_offset % kPageBytes == 0);
    SFT_ASSERT(header_at(range.begin).calls == 0);
    range_ = range;
    fd_ = fd;
    file_offset_ = file_offset;
    managed_at(range.begin) = std::min(range.bytes, kBytesMin);
    new (reinterpret_cast<void*>(range.begin + kAllocatorOffset))
        Allocator(managed_at(range.begin) - kAllocatorOffset, 0);
}

// The allocator keeps a link at the end of what it manages. So it manages no more than it needs: whatever goes through
// the blocks that exist would find one at the end of the heap otherwise, and look through all of the nothing in front
// of it.
bool Heap::grow(std::size_t bytes) noexcept {
    std::uint64_t& managed = managed_at(range_.begin);
    end_if_overwritten(managed >= kBytesMin && managed <= range_.bytes);
    const std::size_t wanted = std::max(managed, bytes);  // no more than a heap's, each
    const std::size_t more = std::min(range_.bytes - managed, whole_pages(wanted));
    if (more == 0) {
        return false;
    }
    allocator_at(range_.begin).grow(more);
    managed += more;
    return true;
}

template <class Allocate>
void* Heap::grow_until(std::size_t bytes, Allocate&& allocate) noexcept {
    for (;;) {
        void* const block = allocate();
        if (block != nullptr || !grow(bytes)) {
            return block;
        }
    }
}

void Heap::move_to(std::size_t file_offset) noexcept {
    SFT_ASSERT(fd_ >= 0 && file_offset % kPageBytes == 0);
    file_offset_ = file_offset;
}

// Links of the allocator lie between the blocks of the program, which may write beyond them.
void Heap::end_if_overwritten(bool is_sound) noexcept {
    if (!is_sound) {
        die("the symmetric heap has been damaged: the program has written beyond a block of it, or has freed what is "
            "no "
            "block (SHMEM_FT_CHECK=warn finds such calls)");
    }
}

void* Heap::allocate(std::size_t bytes) noexcept {
    // The allocator throws for requests beyond any memory; it must never come near an overflow.
    if (bytes > range_.bytes) {
        return nullptr;
    }
    Allocator& allocator = allocator_at(range_.begin);
    // Copies between blocks that lie alike in their cache lines are faster, and no two arrays share a line.
    void* block = bytes >= kLineAlignedFromBytes
                      ? grow_until(bytes, [&] { return allocator.allocate_aligned(bytes, kCacheLine); })
                      : nullptr;
    block = block != nullptr ? block : grow_until(bytes, [&] { return allocator.allocate(bytes); });
    end_if_overwritten(is_own_block(block, bytes));
    return block;
}

void Heap::guard_by(const GuardWords& words, std::size_t before) noexcept {
    guard_ = words;
    guarded_before_ = before;
}

void* Heap::allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept {
    if (bytes > range_.bytes || alignment > range_.bytes || !is_alignment(alignment)) {
        return nullptr;
    }
    void* const block =
        grow_until(bytes + alignment, [&] { return allocator_at(range_.begin).allocate_aligned(bytes, alignment); });
    end_if_overwritten(is_own_block(block, bytes));
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
    return block;
}

void* Heap::reallocate(void* address, std::size_t bytes) noexcept {
    const std::size_t usable = allocator_at(range_.begin).size(address);
    if (bytes <= usable && bytes > usable / 2) {
        return address;
    }
    void* moved = allocate(bytes);
    if (moved == nullptr) {
        return bytes <= usable ? address : nullptr;
    }
    end_if_overwritten(moved != address);
    std::memcpy(moved, address, std::min(bytes, usable));
    free(address);
    return moved;
}

void Heap::free(void* address) noexcept {
    const std::size_t usable = size_of(address);
    allocator_at(range_.begin).deallocate(address);
    if (usable >= kReturnBytes) {
        // Failure only means that the pages stay.
        return_pages(inner_pages(static_cast<std::byte*>(address) + kLinkBytes, usable - 2 * kLinkBytes));
    }
}

std::size_t Heap::size_of(const void* address) const noexcept {
    const std::size_t usable = allocator_at(range_.begin).size(address);
    end_if_overwritten(is_own_block(address, usable));
    return usable;
}

// A block that is given out lies behind the journal and inside the heap.
bool Heap::is_own_block(const void* block, std::size_t bytes) const noexcept {
    const std::size_t begin = reinterpret_cast<std::uintptr_t>(block) - range_.begin;
    return block == nullptr ||
           (bytes <= range_.bytes && begin >= kAllocatorOffset + sizeof(Allocator) && begin <= range_.bytes - bytes);
}

Heap::Pages Heap::inner_pages(const void* address, std::size_t bytes) const noexcept {
    const std::size_t begin = reinterpret_cast<std::uintptr_t>(address) - range_.begin;
    const std::size_t first = whole_pages(begin);
    SFT_ASSERT(begin >= kAllocatorOffset && begin <= range_.bytes && bytes <= range_.bytes - begin);
    return {first, std::max(first, page_floor(begin + bytes))};
}

bool Heap::return_pages(Pages pages) noexcept {
    // Never the journal, nor what lies behind the heap in its file.
    SFT_ASSERT(pages.begin >= own_bytes() && pages.begin <= pages.end && pages.end <= range_.bytes);
    if (guard_.is_set() && pages.begin != pages.end) {
        const std::size_t last = (guarded_before_ + pages.end - 1) / GuardWords::kChunkBytes;
        for (std::size_t chunk = (guarded_before_ + pages.begin) / GuardWords::kChunkBytes; chunk <= last; ++chunk) {
            guard_.await_saved(chunk);
        }
    }
    return pages.begin == pages.end ||
           ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(file_offset_ + pages.begin),
                       static_cast<off_t>(pages.end - pages.begin)) == 0;
}

void Heap::zero(void* address, std::size_t bytes) noexcept {
    const Pages pages = inner_pages(address, bytes);
    if (bytes < kReturnBytes || !return_pages(pages)) {
        std::memset(address, 0, bytes);
        return;
    }
    const std::size_t begin = reinterpret_cast<std::uintptr_t>(address) - range_.begin;
    SFT_ASSERT(begin <= pages.begin && pages.end <= begin + bytes);
    std::memset(address, 0, pages.begin - begin);
    std::memset(reinterpret_cast<void*>(range_.begin + pages.end), 0, begin + bytes - pages.end);
}

std::uint64_t Heap::encode(const void* address) const noexcept {
    SFT_ASSERT(address == nullptr || range_.contains(address));
    return address == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(address) - range_.begin + 1;
}

void* Heap::decode(std::uint64_t result) const noexcept {
    SFT_ASSERT(result <= range_.bytes);
    return result == 0 ? nullptr : reinterpret_cast<void*>(range_.begin + result - 1);
}

void Heap::record(const HeapRecord& record) noexcept {
    SFT_ASSERT(record.result <= range_.bytes);  // an offset, for heaps at other addresses
    SFT_ASSERT(record.call >= HeapCall::malloc && record.call <= HeapCall::malloc_with_hints && record.reserved == 0);
    HeapHeader& header = header_at(range_.begin);
    if (header.calls < kJournalCalls) {
        header.journal[header.calls] = record;
    }
    ++header.calls;
}

std::span<const HeapRecord> Heap::journal() const noexcept {
    const HeapHeader& header = header_at(range_.begin);
    return {header.journal, static_cast<std::size_t>(std::min<std::uint64_t>(header.calls, kJournalCalls))};
}

const std::uint64_t* Heap::call_counter() const noexcept { return &header_at(range_.begin).calls; }

std::size_t Heap::journal_bytes() noexcept { return kAllocatorOffset; }

std::size_t Heap::own_bytes() noexcept { return kAllocatorOffset + kPageBytes; }

std::size_t Heap::free_bytes() const noexcept {
    return allocator_at(range_.begin).get_free_memory() + range_.bytes - managed_at(range_.begin);
}

bool Heap::check_invariants() const noexcept { return allocator_at(range_.begin).check_sanity(); }

}  // namespace sft
