// Which blocks of the symmetric heap are allocated, and how long the caller wanted them: what the checks of calls
// (shmem_ft/ops/check.hpp) compare addresses with. The allocator's own records would not do: it rounds sizes up, and it
// forgets what has been freed.
//
// The table is a sorted array in memory behind the heap that is saved and restored with it. So it tells the truth after
// a rollback, and in a substitute, without being rebuilt; and it is alike on all PEs, as the blocks are. It takes
// nothing from the heap, so a program gets the same addresses whether its calls are checked or not.
//
// Invariants
//  1. Entries are sorted by offset and do not overlap. A freed block stays until a new one takes its place.
//  2. While is_complete(), every allocated block has an entry.
//
// Threads: changed by heap calls, which are collective, and read by any thread, with mutex().
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/assert.hpp"
#include "base/mutex.hpp"

namespace sft {

class BlockTable {
public:
    // Address space only: pages that were never used are holes.
    static constexpr std::size_t kBytes = std::size_t{16} << 20;

    struct Block {
        std::uint64_t offset;  // in the heap
        std::uint64_t bytes;   // as asked for
        std::uint64_t is_freed;
    };
    static_assert(sizeof(Block) == 24 && std::has_unique_object_representations_v<Block>);  // it is saved with the heap

    // kBytes of memory, zero-filled or with the content of another table.
    void attach(void* memory) noexcept {
        SFT_ASSERT(memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % alignof(Memory) == 0);
        memory_ = static_cast<Memory*>(memory);
        SFT_ASSERT(memory_->count <= kBlocksMax);
    }

    void add(std::uint64_t offset, std::uint64_t bytes) noexcept;
    // Nothing happens if no block begins there.
    void remove(std::uint64_t offset) noexcept;

    // The last block that begins at the offset or before it; null: none.
    [[nodiscard]] const Block* at_or_before(std::uint64_t offset) const noexcept;
    [[nodiscard]] bool is_complete() const noexcept { return memory_->is_incomplete == 0; }
    [[nodiscard]] std::size_t count() const noexcept { return memory_->count; }
    [[nodiscard]] Mutex& mutex() const noexcept SFT_THREAD_SAFETY(lock_returned(mutex_)) { return mutex_; }

private:
    static constexpr std::size_t kBlocksMax = (kBytes - 64) / sizeof(Block);

    struct Memory {
        std::uint64_t count;
        std::uint64_t is_incomplete;
        std::uint64_t reserved[6];
        Block blocks[kBlocksMax];
    };
    static_assert(sizeof(Memory) <= kBytes && offsetof(Memory, blocks) == 64);

    // Position of the first entry behind the offset.
    [[nodiscard]] std::size_t behind(std::uint64_t offset) const noexcept;

    Memory* memory_ = nullptr;
    mutable Mutex mutex_{MutexRank::blocks};
};

}  // namespace sft
