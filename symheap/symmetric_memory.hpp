// The symmetric memory of this process: the heap, with what the library keeps around it, and the globals of the
// executable. The memory file of the heap, which has one address in all processes:
//
//   record of the start-up | heap | table of blocks | marks of writes | queues of writes | notes of changes |
//   words of the guard
//
// All in front of the marks is live().heap: saved in every version, and restored. Record, marks and queues exist if the
// start-up is recorded, the table if calls are checked, the notes if changes are tracked, the words if
// SHMEM_FT_BACKGROUND wants the guard.
//
// Some of it may be left out of versions (exclusions.hpp).
//
// Threads: heap calls are collective and made by one thread; any thread may look into blocks() with its mutex. The rest
// is fixed once create() has returned, but for end_startup().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address_range.hpp"
#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/result.hpp"
#include "symheap/block_table.hpp"
#include "symheap/exclusions.hpp"
#include "symheap/globals.hpp"
#include "symheap/heap.hpp"
#include "symheap/live_state.hpp"
#include "symheap/segment.hpp"
#include "symheap/stray_words.hpp"
#include "transport/shm/change_notes.hpp"
#include "transport/shm/guard_words.hpp"
#include "transport/shm/write_marks.hpp"
#include "transport/shm/write_queues.hpp"

namespace sft {

// Of shmem_malloc_with_hints: versions do not contain it (SHMEM_FT_HINT_SCRATCH).
inline constexpr std::uint64_t kHintScratch = std::uint64_t{1} << 16;

class SymmetricMemory {
public:
    struct Options {
        GlobalsMode globals = GlobalsMode::automatic;
        std::uintptr_t heap_base = 0;  // of the memory file
        std::size_t heap_bytes = 0;    // that the program has asked for
        std::size_t record_bytes = 0;  // of the record of the start-up; 0: none
        bool has_block_table = false;
        bool has_change_notes = false;
        bool has_guard_words = false;
        AddressRange library;            // the library's own state that goes back with the program's
        Exclusions* excluded = nullptr;  // a part of that; null: nothing can be left out of versions
        ArrayTable* arrays = nullptr;    // the same; null: nothing can be declared
    };
    // Once. The failure is a line for the user.
    [[nodiscard]] Result<> create(const Options& options);

    // The heap, with what lies behind it, is a part of `file` from now on, which begins at `offset` and has room for
    // heap_segment().bytes(); mapped at the same address. Contents as of Segment::move_to().
    [[nodiscard]] Result<> move_heap_to(int file, std::size_t offset, Segment::Contents contents);

    // The same of the globals, with what is in them. Before any other thread writes to globals.
    [[nodiscard]] Result<> move_globals_to(int file, std::size_t offset);

    [[nodiscard]] const LiveState& live() const noexcept { return live_; }
    [[nodiscard]] const Segment& heap_segment() const noexcept { return heap_segment_; }
    [[nodiscard]] const Segment& globals_segment() const noexcept { return globals_.segment(); }
    [[nodiscard]] AddressRange heap() const noexcept { return heap_.range(); }
    [[nodiscard]] const BlockTable& blocks() const noexcept { return blocks_; }
    [[nodiscard]] StrayWords::Options stray_words() const;
    // Where heap() begins in its memory file.
    [[nodiscard]] std::size_t heap_file_offset() const noexcept { return live_.heap_file_offset + record_bytes_; }

    // ---- heap calls ----

    // Carries it out and records it, without the barriers of the specification. first and second as in HeapRecord.
    void* carry_out(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;
    // What heap call `number` (from 0) returned, in a process that repeats the program. The failure says that the
    // program makes another call, in words that follow the name of its PE.
    [[nodiscard]] Result<void*> recorded_result(std::uint64_t number, HeapCall call, std::uint64_t first,
                                                std::uint64_t second) const;
    [[nodiscard]] std::uint64_t offset_of(const void* block) const noexcept { return heap_.encode(block); }
    void zero(void* block, std::size_t bytes) noexcept;
    // From now on versions do not contain the whole blocks in that range, until the block of the heap is freed or
    // reallocated. Not while a version is made.
    enum class Noted { done, no_room, not_inside };
    [[nodiscard]] Noted exclude(const void* begin, std::size_t bytes) noexcept;
    // The same of what belongs to an array of the job.
    [[nodiscard]] Noted declare(const ArrayPiece& piece) noexcept;
    // The symmetric object at the address; empty: none that is known.
    [[nodiscard]] AddressRange object_at(const void* address) const noexcept;
    // What a program may reach through a pointer to the address: the object, or all of heap or globals if that is not
    // known for certain.
    [[nodiscard]] AddressRange reach_of_pointer(const void* address) const noexcept;

    // ---- the start-up ----

    [[nodiscard]] bool has_startup_record() const noexcept { return record_bytes_ != 0; }
    [[nodiscard]] std::span<std::byte> startup_record() const noexcept;
    [[nodiscard]] WriteMarks write_marks() const noexcept;
    [[nodiscard]] WriteQueues write_queues(std::int32_t n_pes) const noexcept;
    // Not set: there are none.
    [[nodiscard]] ChangeNotes change_notes() const noexcept;
    // Where the words of its guard are, from the beginning of live().heap on; 0: there are none.
    [[nodiscard]] std::size_t guard_words_offset() const noexcept {
        return guard_bytes_ == 0 ? 0 : heap_segment_.bytes() - whole_pages(GuardWords::bytes_for(live_.heap.bytes));
    }
    // Bytes from the beginning of live().heap that a substitute needs before it joins: the record and the journal.
    [[nodiscard]] std::size_t front_bytes() const noexcept {
        SFT_ASSERT(record_bytes_ + Heap::journal_bytes() <= live_.heap.bytes);
        return record_bytes_ + Heap::journal_bytes();
    }
    // The record does not change any more, marks and queues are of no use: their pages go.
    void end_startup() noexcept;

    // ---- the end ----

    // In a child made by fork(): it must not write into what the PEs share. Globals are copied. Of the heap it gets a
    // private view: its own stores stay its own, while what it has not written yet shows what the parent stores.
    void privatize_after_fork() noexcept;
    // Gives the globals back to the process as private memory.
    void unshare_globals() noexcept { globals_.unshare(); }

private:
    [[nodiscard]] void* perform(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;
    [[nodiscard]] void* allocate_scratch(std::size_t bytes) noexcept;
    void forget_notes(const void* block, std::size_t bytes) noexcept;
    void note_holes(const void* block, std::size_t bytes) noexcept;
    [[nodiscard]] bool is_inside_object(const void* begin, std::size_t bytes) const noexcept;
    void note_block(const HeapRecord& record) noexcept;
    [[nodiscard]] GuardWords guard_words() const noexcept;
    [[nodiscard]] std::size_t marks_bytes() const noexcept {
        return heap_segment_.bytes() - live_.heap.bytes - notes_bytes_ - guard_bytes_;
    }

    Globals globals_;
    Segment heap_segment_;
    Heap heap_;
    BlockTable blocks_;
    bool has_block_table_ = false;
    std::size_t record_bytes_ = 0;
    std::size_t notes_bytes_ = 0;
    std::size_t guard_bytes_ = 0;
    LiveState live_;
    Exclusions* excluded_ = nullptr;  // live_.excluded
    ArrayTable* arrays_ = nullptr;    // live_.arrays
};

}  // namespace sft
