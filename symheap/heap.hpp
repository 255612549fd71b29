// The symmetric heap's allocator. All of its state lies inside the heap and is linked by offsets
// (Boost.Interprocess rbtree_best_fit), so that copying the heap copies the allocator: restoring a version restores
// which blocks are allocated.
//
// The heap also records its first kJournalCalls calls. A substitute runs the program from the start and asks for the
// same blocks again before it joins the survivors; it is given the recorded addresses and allocates nothing.
//
// Invariants
//  1. The same sequence of calls gives the same addresses on every PE (nothing depends on the process).
//  2. Memory that was never handed out, and the inner pages of a freed block of kReturnBytes or more, are holes of
//     the memory file: they cost nothing and a version does not contain them.
//  3. The allocator manages a part of the heap that grows when a request does not fit: nothing exists far behind the
//     last block.
//
// Thread safety: none; heap calls are collective and made by one thread (specification, memory management).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/address_range.hpp"
#include "transport/shm/guard_words.hpp"

namespace sft {

enum class HeapCall : std::uint32_t { malloc = 1, calloc, align, realloc, free, malloc_with_hints };

// Fixed layout: it lies in the heap and is read from other PEs' heaps.
struct HeapRecord {
    HeapCall call{};
    std::uint32_t reserved = 0;
    std::uint64_t first = 0;   // size, or offset of the block for free and realloc
    std::uint64_t second = 0;  // alignment, count or hints; new size for realloc
    std::uint64_t result = 0;  // offset of the result + 1; 0: null
};
static_assert(sizeof(HeapRecord) == 32);
static_assert(offsetof(HeapRecord, first) == 8 && offsetof(HeapRecord, result) == 24);
static_assert(std::has_unique_object_representations_v<HeapRecord>);  // no padding: it is saved and has checksums

class Heap {
public:
    static constexpr std::size_t kJournalCalls = 4096;
    static constexpr std::size_t kReturnBytes = 128 * 1024;
    // Smallest heap that the allocator and the journal fit into, with some room for the user.
    static constexpr std::size_t kBytesMin = 256 * 1024;

    // The range is mapped from `fd`, from `file_offset` on (whole pages), zero-filled, at least kBytesMin long.
    void create(AddressRange range, int fd, std::size_t file_offset = 0) noexcept;

    // The same memory is another part of `fd` now.
    void move_to(std::size_t file_offset) noexcept;
    // No holes are made of chunks that have not been saved: no page table tells of holes, and whoever saves asks the
    // memory file what exists. words: of the memory that begins so many bytes before the range.
    void guard_by(const GuardWords& words, std::size_t before) noexcept;

    void* allocate(std::size_t bytes) noexcept;
    // Null also for an alignment that is no power of two, or smaller than a pointer.
    void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept;
    // Keeps the contents up to the smaller size; null: no room, the block is unchanged.
    void* reallocate(void* address, std::size_t bytes) noexcept;
    void free(void* address) noexcept;
    // Bytes of an allocated block, which may be more than it was asked for.
    [[nodiscard]] std::size_t size_of(const void* address) const noexcept;
    // Makes an allocated block read as zeros; large ones without touching their pages.
    void zero(void* address, std::size_t bytes) noexcept;

    // The result as an offset for the journal (HeapRecord::result).
    [[nodiscard]] std::uint64_t encode(const void* address) const noexcept;
    [[nodiscard]] void* decode(std::uint64_t result) const noexcept;
    void record(const HeapRecord& record) noexcept;

    [[nodiscard]] std::span<const HeapRecord> journal() const noexcept;
    // How many calls there were in all, also those beyond the journal's length.
    [[nodiscard]] std::uint64_t calls() const noexcept { return *call_counter(); }
    [[nodiscard]] const std::uint64_t* call_counter() const noexcept;
    // Bytes at the beginning of the heap that hold the journal.
    [[nodiscard]] static std::size_t journal_bytes() noexcept;
    // Bytes of the heap that are not the program's: the journal and the allocator's root.
    [[nodiscard]] static std::size_t own_bytes() noexcept;

    [[nodiscard]] AddressRange range() const noexcept { return range_; }
    [[nodiscard]] std::size_t free_bytes() const noexcept;
    // For tests: walks the allocator's structures.
    [[nodiscard]] bool check_invariants() const noexcept;

private:
    // Offsets of the whole pages within a range.
    struct Pages {
        std::size_t begin;
        std::size_t end;
    };
    static void end_if_overwritten(bool is_sound) noexcept;
    [[nodiscard]] bool is_own_block(const void* block, std::size_t bytes) const noexcept;
    [[nodiscard]] Pages inner_pages(const void* address, std::size_t bytes) const noexcept;
    bool return_pages(Pages pages) noexcept;
    [[nodiscard]] bool grow(std::size_t bytes) noexcept;
    template <class Allocate>
    [[nodiscard]] void* grow_until(std::size_t bytes, Allocate&& allocate) noexcept;

    AddressRange range_;
    int fd_ = -1;
    std::size_t file_offset_ = 0;
    GuardWords guard_;
    std::size_t guarded_before_ = 0;
};

}  // namespace sft
