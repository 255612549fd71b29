// Which words of a PE's symmetric memory others have written since the PE looked last. Needed before the first
// checkpoint only (ops/startup.hpp): what a program finds in its memory then is its own doing, which a substitute
// repeats, or comes from others, and that has to be recorded.
//
// The marks of a PE lie behind its heap in the same memory file, so whoever can write to the PE's memory can write its
// marks: first the data, then the marks of its words, of their pages, of their chunks, and at last the word that says
// that there is something. The owner goes the other way, and takes each mark away before it looks at what is below.
//
// Why no write is missed although both run at the same time. The stores of one processor are seen in their order, and
// the owner takes marks away by exchanges, which are full barriers. If the owner's exchange comes behind a writer's
// mark, the data and all marks below were there before, so the owner finds them. If it comes before, the mark stays,
// and the owner looks again next time. Which is early enough: whatever made the program look at the data came behind
// the mark as well.
//
// A word is 8 bytes, because pointers to private memory, which mean nothing in a substitute, may lie beside what others
// write, and these never share a word. Whole pages are marked as such, so that a large put stays cheap.
//
// Thread safety: mark() by anybody at any time, collect() by one thread of the owner.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "transport/shm/peer_table.hpp"

namespace sft {

class WriteMarks {
public:
    static constexpr std::size_t kWordBytes = 8;
    static constexpr std::size_t kChunkBytes = std::size_t{2} << 20;

    WriteMarks() = default;
    // `base`: bytes_for() bytes of zeros, where they are mapped here; the ranges are those of the owner.
    WriteMarks(std::byte* base, AddressRange heap, AddressRange globals) noexcept;
    [[nodiscard]] bool is_set() const noexcept { return base_ != nullptr; }
    // Addresses; what is never marked costs nothing.
    [[nodiscard]] static std::size_t bytes_for(std::size_t heap_bytes, std::size_t globals_bytes) noexcept;

    // The marks of another PE, mapped here at that distance from the own ones.
    [[nodiscard]] WriteMarks at_distance(std::intptr_t difference) const noexcept {
        WriteMarks there = *this;
        there.base_ += difference;
        there.chunks_ += difference;
        there.some_ += difference;
        there.whole_ += difference;
        there.words_ += difference;
        return there;
    }

    // These bytes of the owner's memory have just been written. Symmetric addresses, as the owner knows them.
    void mark(const void* address, std::size_t bytes) const noexcept;

    // Whether collect() may find something.
    [[nodiscard]] bool has_any() const noexcept {
        return any().load(std::memory_order_relaxed) != 0 || n_exposed() != 0;
    }
    // Calls visit(address, bytes) for each run of marked words, and takes the marks away.
    template <class Visit>
    void collect(Visit&& visit) const {
        if (any().load(std::memory_order_relaxed) == 0 || any().exchange(0) == 0) {
            return;
        }
        each_taken(chunks_, 0, n_chunks_, [&](std::size_t chunk) { collect_chunk(chunk, visit); });
    }

    // ---- pointers given out by shmem_ptr: stores through them leave no marks ----
    static constexpr std::size_t kExposedMax = 128;
    struct Exposed {
        std::uint64_t address = 0;
        std::uint64_t bytes = 0;
    };
    // This object of the owner can be written without marks from now on.
    void expose(const void* address, std::size_t bytes) const noexcept;
    [[nodiscard]] std::size_t n_exposed() const noexcept;
    [[nodiscard]] Exposed exposed(std::size_t i) const noexcept;
    // There was more than can be watched for changes.
    [[nodiscard]] bool is_exposed_unseen() const noexcept;
    void expose_unseen() const noexcept;

private:
    // In front of it `any` and the flags of chunks, side by side: in small programs one line of the cache holds them
    // all.
    struct Head {
        std::atomic<std::uint64_t> n_exposed;
        std::atomic<std::uint64_t> is_unseen;
        struct {
            std::atomic<std::uint64_t> address;
            std::atomic<std::uint64_t> bytes;  // written last
        } exposed[kExposedMax];
    };
    static constexpr std::size_t kHeadBytes = 4096;
    static_assert(sizeof(Head) <= kHeadBytes);
    static constexpr std::size_t kPagesOfChunk = kChunkBytes / kPageBytes;
    static constexpr std::size_t kWordsOfPage = kPageBytes / kWordBytes;
    static_assert(kPagesOfChunk % 64 == 0 && kWordsOfPage % 8 == 0, "flags are taken away eight at once");
    static_assert(kChunkBytes % kPageBytes == 0 && kPageBytes % kWordBytes == 0 && kHeadBytes % kPageBytes == 0);
    static_assert(kWordBytes == sizeof(std::uint64_t));

    [[nodiscard]] Head& head() const noexcept { return *reinterpret_cast<Head*>(some_ - kHeadBytes); }
    [[nodiscard]] std::atomic<std::uint64_t>& any() const noexcept {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(base_);
    }
    [[nodiscard]] std::size_t position_of(const void* address) const noexcept;
    [[nodiscard]] std::uintptr_t address_of(std::size_t position) const noexcept;

    static void set(std::uint8_t* flag) noexcept { std::atomic_ref(*flag).store(1, std::memory_order_release); }
    // Calls visit(i) for the flags that are set, from `first` on, which is a multiple of eight, and takes them away,
    // eight at once.
    template <class Visit>
    static void each_taken(std::uint8_t* flags, std::size_t first, std::size_t end, Visit&& visit) {
        SFT_ASSERT(first % 8 == 0);
        for (std::size_t i = first; i < end; i += 8) {
            std::atomic_ref eight(*reinterpret_cast<std::uint64_t*>(flags + i));
            if (eight.load(std::memory_order_relaxed) == 0) {
                continue;
            }
            for (std::uint64_t marks = eight.exchange(0); marks != 0; marks &= marks - 1) {
                visit(i + static_cast<std::size_t>(std::countr_zero(marks)) / 8);
            }
        }
    }
    void mark_words(std::size_t first, std::size_t end) const noexcept;

    template <class Visit>
    void collect_chunk(std::size_t chunk, Visit& visit) const {
        SFT_ASSERT_SLOW(chunk < n_chunks_);
        std::size_t run_begin = 0;
        std::size_t run_end = 0;  // positions; the run that is not visited yet
        const auto add = [&](std::size_t begin, std::size_t end) {
            SFT_ASSERT(begin < end && (end - 1) / kChunkBytes == chunk);
            if (begin != run_end) {
                if (run_begin != run_end) {
                    visit(address_of(run_begin), run_end - run_begin);
                }
                run_begin = begin;
            }
            run_end = end;
        };
        const std::size_t first = chunk * kPagesOfChunk;
        std::uint64_t whole[kPagesOfChunk / 64] = {};
        each_taken(whole_, first, first + kPagesOfChunk, [&](std::size_t page) {
            whole[(page - first) / 64] |= std::uint64_t{1} << ((page - first) % 64);
            add(page * kPageBytes, (page + 1) * kPageBytes);
        });
        each_taken(some_, first, first + kPagesOfChunk, [&](std::size_t page) {
            const bool is_visited = (whole[(page - first) / 64] >> ((page - first) % 64) & 1) != 0;
            each_taken(words_, page * kWordsOfPage, (page + 1) * kWordsOfPage, [&](std::size_t word) {
                if (!is_visited) {
                    add(word * kWordBytes, (word + 1) * kWordBytes);
                }
            });
        });
        if (run_begin != run_end) {
            visit(address_of(run_begin), run_end - run_begin);
        }
    }

    std::byte* base_ = nullptr;
    AddressRange heap_;
    AddressRange globals_;
    std::size_t n_chunks_ = 0;
    std::uint8_t* chunks_ = nullptr;
    std::uint8_t* some_ = nullptr;   // by page: some words are marked
    std::uint8_t* whole_ = nullptr;  // by page: all of it has been written
    std::uint8_t* words_ = nullptr;
};

}  // namespace sft
