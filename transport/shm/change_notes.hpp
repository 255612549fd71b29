// Which blocks of a PE's symmetric memory others have written: what a tracker of changes (backup/change_tracker.hpp)
// cannot see in the owner's page tables, because others write through mappings of their own.
//
// The notes of a PE lie behind its heap in the same memory file, so whoever can write to the PE's memory can write its
// notes: a byte for each block, and one that stays for each block to which somebody has a pointer (shmem_ptr), through
// which stores leave no notes.
//
// Fault model: a writer may die between its data and its note. Then the job goes back to a version, and what it has
// written is overwritten.
//
// Why no write of before a checkpoint is missed: whoever writes makes its note behind the data, and arrives at the
// checkpoint behind both; the owner takes notes when all have arrived. A thread that writes while a checkpoint is being
// made may find its note there and see it taken away before its data can be seen by others. So a note that has been
// taken counts for the interval behind it as well (LiveTracker).
//
// Thread safety: wrote() and expose() by anybody at any time, take() by one thread of the owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/address_range.hpp"
#include "base/assert.hpp"

namespace sft {

class ChangeNotes {
public:
    static constexpr std::size_t kBlockBytes = std::size_t{16} << 10;

    ChangeNotes() = default;
    // `base`: bytes_for() bytes of zeros, where they are mapped here; the ranges are those of the owner.
    ChangeNotes(std::byte* base, AddressRange heap, AddressRange globals) noexcept
        : base_(reinterpret_cast<std::uint8_t*>(base)),
          heap_(heap),
          globals_(globals),
          heap_blocks_(blocks_of(heap.bytes)) {
        SFT_ASSERT(base != nullptr && heap.bytes % kBlockBytes == 0 &&
                   reinterpret_cast<std::uintptr_t>(base) % sizeof(std::uint64_t) == 0);
    }
    [[nodiscard]] bool is_set() const noexcept { return base_ != nullptr; }
    // Addresses; what is never noted costs nothing.
    [[nodiscard]] static constexpr std::size_t bytes_for(std::size_t heap_bytes, std::size_t globals_bytes) noexcept {
        return 2 * room_for(blocks_of(heap_bytes) + blocks_of(globals_bytes));
    }

    // These bytes have just been written in the memory of a PE whose notes are mapped here at that distance from the
    // own ones. Symmetric addresses, as the owner knows them; others are passed over.
    void wrote(std::intptr_t difference, const void* address, std::size_t bytes) const noexcept {
        set(base_ + difference, address, bytes);
    }
    // They have been noted already since notes were taken, and lie in one block of the heap. A few instructions, for
    // writes of single elements: what is noted again and again must not keep the processor from the next one.
    [[nodiscard]] bool is_noted(std::intptr_t difference, const void* address, std::size_t bytes) const noexcept {
        const std::size_t position = reinterpret_cast<std::uintptr_t>(address) - heap_.begin;
        return position < heap_.bytes && position % kBlockBytes <= kBlockBytes - bytes &&
               std::atomic_ref(base_[difference + static_cast<std::intptr_t>(position / kBlockBytes)])
                       .load(std::memory_order_relaxed) != 0;
    }
    // They can be written without notes from now on.
    void expose(std::intptr_t difference, const void* address, std::size_t bytes) const noexcept {
        set(base_ + difference + room_for(blocks()), address, bytes);
    }

    // Calls visit(block) for each own block with a note, heap before globals, and takes the notes of writes away.
    template <class Visit>
    void take(Visit&& visit) const {
        std::uint8_t* const exposed = base_ + room_for(blocks());
        for (std::size_t first = 0; first < blocks(); first += 8) {
            std::atomic_ref written(*reinterpret_cast<std::uint64_t*>(base_ + first));
            std::uint64_t notes = written.load(std::memory_order_relaxed);
            if (notes != 0) {
                notes = written.exchange(0);
            }
            notes |=
                std::atomic_ref(*reinterpret_cast<std::uint64_t*>(exposed + first)).load(std::memory_order_relaxed);
            for (std::size_t i = 0; notes != 0; ++i, notes >>= 8) {
                if ((notes & 0xff) != 0) {
                    SFT_ASSERT(first + i < blocks());
                    visit(first + i);
                }
            }
        }
    }

    [[nodiscard]] std::size_t blocks() const noexcept { return heap_blocks_ + blocks_of(globals_.bytes); }

private:
    [[nodiscard]] static constexpr std::size_t blocks_of(std::size_t bytes) noexcept {
        return (bytes + kBlockBytes - 1) / kBlockBytes;
    }
    // Whole lines of the cache.
    [[nodiscard]] static constexpr std::size_t room_for(std::size_t blocks) noexcept { return (blocks + 63) / 64 * 64; }

    void set(std::uint8_t* notes, const void* address, std::size_t bytes) const noexcept {
        const auto number = reinterpret_cast<std::uintptr_t>(address);
        std::size_t position;
        std::size_t limit;
        if (heap_.contains(address)) [[likely]] {
            position = number - heap_.begin;
            limit = heap_.bytes;
        } else if (globals_.contains(address)) {
            position = number - globals_.begin;
            limit = globals_.bytes;
            notes += heap_blocks_;
        } else {
            return;
        }
        if (bytes == 0) [[unlikely]] {
            return;
        }
        const std::size_t last = (bytes <= limit - position ? position + bytes : limit) - 1;
        for (std::size_t block = position / kBlockBytes; block <= last / kBlockBytes; ++block) {
            const std::atomic_ref note(notes[block]);
            if (note.load(std::memory_order_relaxed) == 0) [[unlikely]] {  // not to take the line from others
                note.store(1, std::memory_order_release);
            }
        }
    }

    std::uint8_t* base_ = nullptr;
    AddressRange heap_;
    AddressRange globals_;
    std::size_t heap_blocks_ = 0;
};

}  // namespace sft
