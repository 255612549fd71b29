#include "transport/shm/write_marks.hpp"

#include <algorithm>

#include "base/pages.hpp"

namespace sft {
namespace {

constexpr std::size_t kAlignment = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Heap and globals begin at chunks of their own.
std::size_t chunks_for(std::size_t heap_bytes, std::size_t globals_bytes) {
    return round_up(heap_bytes, WriteMarks::kChunkBytes) / WriteMarks::kChunkBytes +
           round_up(globals_bytes, WriteMarks::kChunkBytes) / WriteMarks::kChunkBytes;
}

}  // namespace

std::size_t WriteMarks::bytes_for(std::size_t heap_bytes, std::size_t globals_bytes) noexcept {
    const std::size_t chunks = chunks_for(heap_bytes, globals_bytes);
    return round_up(sizeof(std::uint64_t) + chunks, kAlignment) + kHeadBytes +
           2 * round_up(chunks * kPagesOfChunk, kAlignment) + chunks * kPagesOfChunk * kWordsOfPage;
}

WriteMarks::WriteMarks(std::byte* base, AddressRange heap, AddressRange globals) noexcept
    : base_(base), heap_(heap), globals_(globals), n_chunks_(chunks_for(heap.bytes, globals.bytes)) {
    SFT_ASSERT(base != nullptr && reinterpret_cast<std::uintptr_t>(base) % alignof(Head) == 0);
    chunks_ = reinterpret_cast<std::uint8_t*>(base) + sizeof(std::uint64_t);
    some_ =
        reinterpret_cast<std::uint8_t*>(base) + round_up(sizeof(std::uint64_t) + n_chunks_, kAlignment) + kHeadBytes;
    whole_ = some_ + round_up(n_chunks_ * kPagesOfChunk, kAlignment);
    words_ = whole_ + round_up(n_chunks_ * kPagesOfChunk, kAlignment);
    SFT_ASSERT(heap.bytes != 0 || globals.bytes != 0);
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(some_) % kAlignment == 0);  // the flags are taken away eight at once
    SFT_ASSERT(reinterpret_cast<std::uint8_t*>(base) + sizeof(std::uint64_t) + n_chunks_ <= some_ - kHeadBytes);
    SFT_ASSERT(words_ + n_chunks_ * kPagesOfChunk * kWordsOfPage ==
               reinterpret_cast<std::uint8_t*>(base) + bytes_for(heap.bytes, globals.bytes));
}

std::size_t WriteMarks::position_of(const void* address) const noexcept {
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    return heap_.contains(address) ? number - heap_.begin
                                   : round_up(heap_.bytes, kChunkBytes) + (number - globals_.begin);
}

std::uintptr_t WriteMarks::address_of(std::size_t position) const noexcept {
    SFT_ASSERT_SLOW(position < n_chunks_ * kChunkBytes);
    const std::size_t globals_at = round_up(heap_.bytes, kChunkBytes);
    return position < globals_at ? heap_.begin + position : globals_.begin + (position - globals_at);
}

// Words first to end of one page or two neighbours.
void WriteMarks::mark_words(std::size_t first, std::size_t end) const noexcept {
    SFT_ASSERT(first < end);
    constexpr std::uint64_t kEight = 0x0101010101010101;
    for (std::size_t word = first; word < end;) {
        if (word % 8 == 0 && word + 8 <= end) {
            std::atomic_ref(*reinterpret_cast<std::uint64_t*>(words_ + word)).store(kEight, std::memory_order_release);
            word += 8;
        } else {
            set(words_ + word);
            ++word;
        }
    }
    for (std::size_t page = first / kWordsOfPage; page <= (end - 1) / kWordsOfPage; ++page) {
        set(some_ + page);
    }
}

void WriteMarks::mark(const void* address, std::size_t bytes) const noexcept {
    if (bytes == 0 || (!heap_.contains(address) && !globals_.contains(address))) {
        return;
    }
    // What a program writes beyond the end of its memory is its own mistake, and has no marks.
    const AddressRange& range = heap_.contains(address) ? heap_ : globals_;
    const std::size_t room = range.begin + range.bytes - reinterpret_cast<std::uintptr_t>(address);
    const std::size_t begin = position_of(address);
    const std::size_t last = begin + std::min(bytes, room) - 1;
    SFT_ASSERT(last / kChunkBytes < n_chunks_);
    const std::size_t first_page = (begin + kPageBytes - 1) / kPageBytes;  // that is written as a whole
    const std::size_t end_page = (last + 1) / kPageBytes;
    if (first_page >= end_page) {
        mark_words(begin / kWordBytes, last / kWordBytes + 1);
    } else {
        if (begin % kPageBytes != 0) {
            mark_words(begin / kWordBytes, first_page * kWordsOfPage);
        }
        for (std::size_t page = first_page; page < end_page; ++page) {
            set(whole_ + page);
        }
        if ((last + 1) % kPageBytes != 0) {
            mark_words(end_page * kWordsOfPage, last / kWordBytes + 1);
        }
    }
    for (std::size_t chunk = begin / kChunkBytes; chunk <= last / kChunkBytes; ++chunk) {
        set(chunks_ + chunk);
    }
    any().store(1, std::memory_order_release);
}

void WriteMarks::expose(const void* address, std::size_t bytes) const noexcept {
    const auto number = reinterpret_cast<std::uint64_t>(address);
    for (std::size_t i = 0; i < n_exposed(); ++i) {
        if (exposed(i).address == number && exposed(i).bytes >= bytes) {
            return;
        }
    }
    SFT_ASSERT(heap_.contains(address) || globals_.contains(address));
    const std::uint64_t i = head().n_exposed.fetch_add(1);
    if (i >= kExposedMax) {
        expose_unseen();
        return;
    }
    head().exposed[i].address.store(number, std::memory_order_relaxed);
    head().exposed[i].bytes.store(bytes, std::memory_order_release);
}

std::size_t WriteMarks::n_exposed() const noexcept {
    const std::uint64_t n = head().n_exposed.load(std::memory_order_acquire);
    return n < kExposedMax ? n : kExposedMax;
}

WriteMarks::Exposed WriteMarks::exposed(std::size_t i) const noexcept {
    SFT_ASSERT(i < kExposedMax);
    const std::uint64_t bytes = head().exposed[i].bytes.load(std::memory_order_acquire);
    return {head().exposed[i].address.load(std::memory_order_relaxed), bytes};
}

bool WriteMarks::is_exposed_unseen() const noexcept { return head().is_unseen.load(std::memory_order_acquire) != 0; }
void WriteMarks::expose_unseen() const noexcept { head().is_unseen.store(1, std::memory_order_release); }

}  // namespace sft
