#include "symheap/symmetric_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

static_assert(BlockTable::kBytes % kBlockBytes == 0);

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::uint64_t memory_bytes() {
    struct sysinfo info {};
    return ::sysinfo(&info) == 0 ? (info.totalram + info.totalswap) * info.mem_unit : 0;
}

const char* name_of(HeapCall call) {
    switch (call) {
        case HeapCall::malloc: return "shmem_malloc";
        case HeapCall::calloc: return "shmem_calloc";
        case HeapCall::align: return "shmem_align";
        case HeapCall::realloc: return "shmem_realloc";
        case HeapCall::free: return "shmem_free";
        case HeapCall::malloc_with_hints: return "shmem_malloc_with_hints";
    }
    return "a heap routine";
}

// That the block of the call was given.
std::size_t bytes_of(const HeapRecord& record) {
    switch (record.call) {
        case HeapCall::calloc: return record.first * record.second;
        case HeapCall::realloc: return record.second;
        default: return record.first;
    }
}

}  // namespace

Result<> SymmetricMemory::create(const Options& options) {
    SFT_ASSERT(heap_segment_.fd() < 0 && options.heap_base != 0);
    if (Result<> done = globals_.share(options.globals); !done) {
        return done;
    }
    // What the library keeps in the heap comes on top, so that the program has what it has asked for.
    const std::uint64_t bytes =
        round_up(std::max<std::uint64_t>(options.heap_bytes + Heap::own_bytes(), Heap::kBytesMin), kBlockBytes);
    if (bytes > memory_bytes()) {
        return fails(
            format("SHMEM_SYMMETRIC_SIZE: a heap of %llu bytes cannot be had: this node has %llu bytes of memory",
                   static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(memory_bytes())));
    }
    has_block_table_ = options.has_block_table;
    record_bytes_ = round_up(options.record_bytes, kBlockBytes);
    const std::size_t all_bytes = record_bytes_ + bytes + (has_block_table_ ? BlockTable::kBytes : 0);
    const std::size_t marks_bytes =
        record_bytes_ == 0 ? 0 : WriteMarks::bytes_for(all_bytes, globals_.range().bytes) + WriteQueues::kBytes;
    const std::size_t notes_begin = whole_pages(all_bytes + marks_bytes);
    notes_bytes_ = options.has_change_notes ? notes_begin - (all_bytes + marks_bytes) +
                                                  whole_pages(ChangeNotes::bytes_for(all_bytes, globals_.range().bytes))
                                            : 0;
    const std::size_t before_guard = all_bytes + marks_bytes + notes_bytes_;
    guard_bytes_ = options.has_guard_words
                       ? whole_pages(before_guard) - before_guard + whole_pages(GuardWords::bytes_for(all_bytes))
                       : 0;
    if (Result<> done = heap_segment_.create("shmem-ft-heap", before_guard + guard_bytes_); !done) {
        return done;
    }
    if (const Result<> mapped = heap_segment_.map_at(reinterpret_cast<void*>(options.heap_base)); !mapped) {
        return fails(mapped.error().line +
                     " (the symmetric heap needs the same address in every process; SHMEM_FT_HEAP_BASE chooses "
                     "another)");
    }
    live_.heap = {options.heap_base, all_bytes};
    live_.heap_fd = heap_segment_.fd();
    const AddressRange heap{options.heap_base + record_bytes_, bytes};
    heap_.create(heap, heap_segment_.fd(), record_bytes_);
    if (options.has_guard_words) {
        heap_.guard_by(guard_words(), record_bytes_);
    }
    if (has_block_table_) {
        blocks_.attach(reinterpret_cast<void*>(heap.begin + bytes));
    }
    live_.globals = globals_.range();
    live_.globals_fd = globals_.segment().fd();
    for (const Globals::Extent& extent : globals_.saved()) {
        live_.saved.push_back({extent.offset, extent.bytes});
    }
    live_.library = options.library;
    live_.excluded = excluded_ = options.excluded;
    live_.arrays = arrays_ = options.arrays;
    live_.heap_calls = heap_.call_counter();
    SFT_ASSERT(live_.heap.bytes % kBlockBytes == 0 &&
               live_.heap.bytes + marks_bytes + notes_bytes_ + guard_bytes_ == heap_segment_.bytes());
    SFT_ASSERT(heap_.range().begin == live_.heap.begin + record_bytes_);
    return {};
}

Result<> SymmetricMemory::move_heap_to(int file, std::size_t offset, Segment::Contents contents) {
    return heap_segment_.move_to(file, offset, contents).then([&] {
        if (guard_bytes_ != 0) {
            guard_words().reset();  // whoever was there before is dead
        }
        live_.heap_file_offset = offset;
        heap_.move_to(heap_file_offset());
        return Result<>();
    });
}

Result<> SymmetricMemory::move_globals_to(int file, std::size_t offset) {
    return globals_.segment().move_to(file, offset, Segment::Contents::copied).then([&] {
        live_.globals_file_offset = offset;
        return Result<>();
    });
}

StrayWords::Options SymmetricMemory::stray_words() const {
    return {.heap = heap_.range(),
            .heap_fd = live_.heap_fd,
            .heap_file_offset = heap_file_offset(),
            .blocks = &blocks_,
            .globals = globals_.range(),
            .globals_fd = live_.globals_fd,
            .globals_file_offset = live_.globals_file_offset,
            .saved = globals_.saved()};
}

// ---- heap calls ----

void* SymmetricMemory::perform(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    void* result = nullptr;
    switch (call) {
        case HeapCall::malloc: return heap_.allocate(first);
        case HeapCall::malloc_with_hints:
            return (second & kHintScratch) != 0 ? allocate_scratch(first) : heap_.allocate(first);
        case HeapCall::calloc:
            SFT_ASSERT(second == 0 || first <= SIZE_MAX / second);
            result = heap_.allocate(first * second);
            if (result != nullptr) {
                zero(result, first * second);
            }
            return result;
        case HeapCall::align: return heap_.allocate_aligned(second, first);
        case HeapCall::realloc: {
            void* const block = heap_.decode(first);
            const std::size_t usable = heap_.size_of(block);
            result = heap_.reallocate(block, second);
            if (result != nullptr) {
                forget_notes(block, usable);
            }
            if (result != block) {
                note_holes(block, usable);
            }
            return result;
        }
        case HeapCall::free: {
            void* const block = heap_.decode(first);
            const std::size_t usable = heap_.size_of(block);
            forget_notes(block, usable);
            heap_.free(block);
            note_holes(block, usable);
            return nullptr;
        }
    }
    return result;
}

// ---- what versions leave out ----

// Whole blocks, so that nothing else shares one with it.
void* SymmetricMemory::allocate_scratch(std::size_t bytes) noexcept {
    if (bytes > live_.heap.bytes) {
        return nullptr;
    }
    const std::size_t whole = round_up(bytes, kBlockBytes);
    void* const block = heap_.allocate_aligned(kBlockBytes, whole);
    if (block != nullptr) {
        static_cast<void>(exclude(block, whole));  // if there is no room for the note, it is saved
    }
    return block;
}

// Inside of one object, as far as that can be told.
bool SymmetricMemory::is_inside_object(const void* begin, std::size_t bytes) const noexcept {
    const auto is_inside = [&](const AddressRange& range) {
        return range.contains(begin) && bytes <= range.begin + range.bytes - reinterpret_cast<std::uintptr_t>(begin);
    };
    if (live_.globals.contains(begin)) {
        return is_inside(live_.globals);
    }
    // The library has the front of the heap, and what lies behind it.
    const AddressRange blocks{heap_.range().begin + Heap::journal_bytes(), heap_.range().bytes - Heap::journal_bytes()};
    return is_inside(blocks) && is_inside(reach_of_pointer(begin));
}

SymmetricMemory::Noted SymmetricMemory::declare(const ArrayPiece& piece) noexcept {
    if (!is_inside_object(reinterpret_cast<const void*>(piece.address), piece.bytes())) {
        return Noted::not_inside;
    }
    return arrays_ != nullptr && arrays_->add(piece) ? Noted::done : Noted::no_room;
}

SymmetricMemory::Noted SymmetricMemory::exclude(const void* begin, std::size_t bytes) noexcept {
    if (!is_inside_object(begin, bytes)) {
        return Noted::not_inside;
    }
    if (excluded_ == nullptr) {
        return Noted::no_room;
    }
    const auto number = reinterpret_cast<std::uintptr_t>(begin);
    const bool is_global = live_.globals.contains(begin);
    const AddressRange& part = is_global ? live_.globals : live_.heap;
    const std::size_t base = is_global ? live_.heap.bytes / kBlockBytes : 0;
    const std::size_t first = round_up(number - part.begin, kBlockBytes) / kBlockBytes;
    const std::size_t end = (number - part.begin + bytes) / kBlockBytes;
    return first >= end || excluded_->add(base + first, base + end) ? Noted::done : Noted::no_room;
}

// The block is freed, or becomes another one.
void SymmetricMemory::forget_notes(const void* block, std::size_t bytes) noexcept {
    if (arrays_ != nullptr) {
        arrays_->remove(reinterpret_cast<std::uintptr_t>(block), bytes);
    }
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(block) - live_.heap.begin;
    if (excluded_ != nullptr && excluded_->n_runs() != 0) {
        excluded_->remove(offset / kBlockBytes, round_up(offset + bytes, kBlockBytes) / kBlockBytes);
    }
}

void SymmetricMemory::zero(void* block, std::size_t bytes) noexcept {
    heap_.zero(block, bytes);
    note_holes(block, bytes);
}

// Page tables do not tell of them.
void SymmetricMemory::note_holes(const void* block, std::size_t bytes) noexcept {
    if (const ChangeNotes notes = change_notes(); notes.is_set() && bytes >= Heap::kReturnBytes) {
        notes.wrote(0, block, bytes);
    }
}

void SymmetricMemory::note_block(const HeapRecord& record) noexcept {
    const Locked lock(blocks_.mutex());
    const bool frees = record.call == HeapCall::free;
    if ((frees || record.call == HeapCall::realloc) && record.first != 0 && (frees || record.result != 0)) {
        blocks_.remove(record.first - 1);
    }
    if (record.result != 0) {
        blocks_.add(record.result - 1, bytes_of(record));
    }
}

void* SymmetricMemory::carry_out(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    void* const result = perform(call, first, second);
    SFT_ASSERT(call != HeapCall::free || result == nullptr);
    const HeapRecord record{call, 0, first, second, heap_.encode(result)};
    heap_.record(record);
    if (has_block_table_) {
        note_block(record);
    }
    return result;
}

Result<void*> SymmetricMemory::recorded_result(std::uint64_t number, HeapCall call, std::uint64_t first,
                                               std::uint64_t second) const {
    const std::span<const HeapRecord> journal = heap_.journal();
    if (number >= journal.size()) {
        const bool recorded_all = heap_.calls() <= Heap::kJournalCalls;
        return fails(format(
            "calls %s as heap call %llu before shmem_restart_pes, but %s", name_of(call),
            static_cast<unsigned long long>(number + 1),
            recorded_all ? "the PE it replaces had made fewer before the last checkpoint. If it has gone past the loop "
                           "without entering it: SHMEM_FT_ROLLBACK_POINT() in front of the loop helps"
                         : "only the first 4096 heap calls of a program are recorded"));
    }
    const HeapRecord& record = journal[number];
    if (record.call != call || record.first != first || record.second != second) {
        return fails(
            format("calls %s(%llu, %llu) as heap call %llu before shmem_restart_pes, but the PE it "
                   "replaces had called %s(%llu, %llu): the calls before the checkpoint loop must not depend on "
                   "the PE or the time",
                   name_of(call), static_cast<unsigned long long>(first), static_cast<unsigned long long>(second),
                   static_cast<unsigned long long>(number + 1), name_of(record.call),
                   static_cast<unsigned long long>(record.first), static_cast<unsigned long long>(record.second)));
    }
    return heap_.decode(record.result);
}

// Blocks of the heap are found in its journal. Of an object among the globals only what follows is known, so a piece of
// it is taken that holds most of what programs point to.
AddressRange SymmetricMemory::object_at(const void* address) const noexcept {
    constexpr std::size_t kOfGlobals = 4096;
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    if (live_.globals.contains(address)) {
        return {number, std::min(kOfGlobals, live_.globals.begin + live_.globals.bytes - number)};
    }
    AddressRange found;
    for (const HeapRecord& record : heap_.journal()) {
        const bool frees = record.call == HeapCall::free || record.call == HeapCall::realloc;
        if (frees && record.first != 0 && reinterpret_cast<std::uintptr_t>(heap_.decode(record.first)) == found.begin) {
            found = {};
        }
        const AddressRange block{reinterpret_cast<std::uintptr_t>(heap_.decode(record.result)), bytes_of(record)};
        if (record.call != HeapCall::free && record.result != 0 && block.contains(address)) {
            found = block;
        }
    }
    SFT_ASSERT(found.bytes == 0 || heap_.range().contains(reinterpret_cast<const void*>(found.begin)));
    return found;
}

AddressRange SymmetricMemory::reach_of_pointer(const void* address) const noexcept {
    if (live_.globals.contains(address)) {
        return live_.globals;
    }
    const AddressRange object = heap_.calls() == heap_.journal().size() ? object_at(address) : AddressRange();
    return object.bytes != 0 ? object : live_.heap;
}

// ---- the start-up ----

std::span<std::byte> SymmetricMemory::startup_record() const noexcept {
    SFT_ASSERT(record_bytes_ <= live_.heap.bytes && heap_.range().begin - live_.heap.begin == record_bytes_);
    return {reinterpret_cast<std::byte*>(live_.heap.begin), record_bytes_};
}

WriteMarks SymmetricMemory::write_marks() const noexcept {
    SFT_ASSERT(marks_bytes() != 0);
    return {heap_segment_.address() + live_.heap.bytes, live_.heap, live_.globals};
}

WriteQueues SymmetricMemory::write_queues(std::int32_t n_pes) const noexcept {
    SFT_ASSERT(marks_bytes() != 0);
    return {heap_segment_.address() + live_.heap.bytes + marks_bytes() - WriteQueues::kBytes, n_pes};
}

ChangeNotes SymmetricMemory::change_notes() const noexcept {
    if (notes_bytes_ == 0) {
        return {};
    }
    const std::size_t bytes = whole_pages(ChangeNotes::bytes_for(live_.heap.bytes, live_.globals.bytes));
    return {heap_segment_.address() + heap_segment_.bytes() - guard_bytes_ - bytes, live_.heap, live_.globals};
}

GuardWords SymmetricMemory::guard_words() const noexcept {
    return {reinterpret_cast<std::byte*>(live_.heap.begin) + guard_words_offset(), live_.heap.bytes};
}

void SymmetricMemory::end_startup() noexcept {
    SFT_ASSERT(has_startup_record());
    static_cast<void>(::fallocate(heap_segment_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(live_.heap_file_offset + live_.heap.bytes),
                                  static_cast<off_t>(marks_bytes())));
    SFT_ASSERT(live_.frozen_heap_bytes == 0 && record_bytes_ % kBlockBytes == 0);  // once
    live_.frozen_heap_bytes = record_bytes_;
}

// ---- the end ----

void SymmetricMemory::privatize_after_fork() noexcept {
    globals_.unshare();
    ::mmap(reinterpret_cast<void*>(live_.heap.begin), live_.heap.bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, live_.heap_fd, static_cast<off_t>(live_.heap_file_offset));
}

}  // namespace sft
