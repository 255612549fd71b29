// A set of blocks of an image, by their numbers, and of each of them a set of its pages.
//
// Whoever speaks of blocks puts all pages of a block in; a block is a member if one of its pages is.
//
// Sets have room for all blocks of a heap that is mostly unused. So that they cost what is in them, a second set of
// bits says which words are not 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "symheap/live_state.hpp"

namespace sft {

inline constexpr std::size_t kPagesOfBlock = kBlockBytes / kPageBytes;

class BlockSet {
public:
    static constexpr unsigned kAllPages = (1U << kPagesOfBlock) - 1;

    // Empty, for numbers below `blocks`.
    void reset(std::size_t blocks) {
        const std::size_t words = (blocks + kBlocks - 1) / kBlocks;
        if (words != words_.size()) {
            words_.assign(words, 0);
            used_.assign((words + kBits - 1) / kBits, 0);
            return;
        }
        each_used(0, words, [&](std::size_t word) { words_[word] = 0; });
        std::fill(used_.begin(), used_.end(), 0);
    }
    [[nodiscard]] bool has_room() const noexcept { return !words_.empty(); }
    void fill() noexcept { insert_page_run(0, words_.size() * kBits); }
    void insert(std::size_t block) noexcept { insert_pages(block, kAllPages); }
    // Of that block; bit i: the i-th page.
    void insert_pages(std::size_t block, unsigned pages) noexcept {
        SFT_ASSERT(block / kBlocks < words_.size() && pages <= kAllPages);
        if (pages != 0) {
            add(block / kBlocks, std::uint64_t{pages} << shift(block));
        }
    }
    // All blocks from `first` on and below `end`.
    void insert_run(std::size_t first, std::size_t end) noexcept {
        insert_page_run(first * kPagesOfBlock, end * kPagesOfBlock);
    }
    // The same of pages, where page n is one of block n / kPagesOfBlock.
    void insert_page_run(std::size_t first, std::size_t end) noexcept {
        SFT_ASSERT(first <= end && end <= words_.size() * kBits);
        while (first < end) {
            const std::size_t in_word = first % kBits;
            const std::size_t n = std::min(kBits - in_word, end - first);
            add(first / kBits, (~std::uint64_t{0} >> (kBits - n)) << in_word);
            first += n;
        }
    }
    // 0, or false, for numbers that it has no room for.
    [[nodiscard]] unsigned pages_of(std::size_t block) const noexcept {
        return block / kBlocks < words_.size()
                   ? static_cast<unsigned>(words_[block / kBlocks] >> shift(block)) & kAllPages
                   : 0;
    }
    [[nodiscard]] bool contains(std::size_t block) const noexcept { return pages_of(block) != 0; }
    // Blocks.
    [[nodiscard]] std::size_t count() const noexcept {
        std::size_t n = 0;
        each_used(0, words_.size(),
                  [&](std::size_t word) { n += static_cast<std::size_t>(std::popcount(blocks_in(words_[word]))); });
        return n;
    }
    // Takes in the members of `other`, which has room for as many.
    void merge(const BlockSet& other) noexcept {
        other.each_used(0, std::min(words_.size(), other.words_.size()),
                        [&](std::size_t word) { add(word, other.words_[word]); });
    }
    // Calls visit(first, end) for each run of blocks from `from` on and below `to`; ascending.
    template <class Visit>
    void each_run(std::size_t from, std::size_t to, Visit&& visit) const {
        to = std::min(to, words_.size() * kBlocks);
        for (std::size_t first = next(from, to, false); first < to;) {
            const std::size_t end = next(first, to, true);
            visit(first, end);
            first = next(end, to, false);
        }
    }

private:
    static constexpr std::size_t kBits = 64;
    static constexpr std::size_t kBlocks = kBits / kPagesOfBlock;  // of a word
    static_assert(kBits == 8 * sizeof(std::uint64_t) && kPagesOfBlock == 4 && kBlockBytes % kPageBytes == 0);
    static constexpr std::uint64_t kFirstPages = 0x1111111111111111;

    [[nodiscard]] static constexpr unsigned shift(std::size_t block) noexcept {
        return static_cast<unsigned>(block % kBlocks * kPagesOfBlock);
    }
    // A bit for each block of which it has a page.
    [[nodiscard]] static constexpr std::uint64_t blocks_in(std::uint64_t word) noexcept {
        return (word | word >> 1 | word >> 2 | word >> 3) & kFirstPages;
    }
    void add(std::size_t word, std::uint64_t bits) noexcept {
        words_[word] |= bits;
        used_[word / kBits] |= std::uint64_t{1} << word % kBits;
    }
    // The first word from `from` on that is not 0; `to`: there is none below.
    [[nodiscard]] std::size_t next_used(std::size_t from, std::size_t to) const noexcept {
        while (from < to) {
            const std::uint64_t used = used_[from / kBits] >> from % kBits;
            if (used != 0) {
                return std::min(to, from + static_cast<std::size_t>(std::countr_zero(used)));
            }
            from = (from / kBits + 1) * kBits;
        }
        return to;
    }
    template <class Visit>
    void each_used(std::size_t from, std::size_t to, Visit&& visit) const {
        for (std::size_t word = next_used(from, to); word < to; word = next_used(word + 1, to)) {
            visit(word);
        }
    }
    // The first number from `from` on that is a member, or none; `to`: there is none below.
    [[nodiscard]] std::size_t next(std::size_t from, std::size_t to, bool absent) const noexcept {
        while (from < to) {
            if (!absent && words_[from / kBlocks] == 0) {
                from = next_used(from / kBlocks + 1, words_.size()) * kBlocks;
                continue;
            }
            const std::uint64_t here = blocks_in(words_[from / kBlocks]);
            const std::uint64_t word = (absent ? here ^ kFirstPages : here) >> shift(from);
            if (word != 0) {
                return std::min(to, from + static_cast<std::size_t>(std::countr_zero(word)) / kPagesOfBlock);
            }
            from = (from / kBlocks + 1) * kBlocks;
        }
        return to;
    }

    std::vector<std::uint64_t> words_;
    std::vector<std::uint64_t> used_;  // a bit for each word
};

}  // namespace sft
