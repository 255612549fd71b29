// A set of blocks of an image, by their numbers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.hpp"

namespace sft {

class BlockSet {
public:
    // Empty, for numbers below `blocks`.
    void reset(std::size_t blocks) { words_.assign((blocks + kBits - 1) / kBits, 0); }
    [[nodiscard]] bool has_room() const noexcept { return !words_.empty(); }
    void fill() noexcept { std::fill(words_.begin(), words_.end(), ~std::uint64_t{0}); }
    void insert(std::size_t block) noexcept {
        SFT_ASSERT(block / kBits < words_.size());
        words_[block / kBits] |= bit(block);
    }
    // All from `first` on and below `end`.
    void insert_run(std::size_t first, std::size_t end) noexcept {
        SFT_ASSERT(first <= end && end <= words_.size() * kBits);
        while (first < end) {
            const std::size_t in_word = first % kBits;
            const std::size_t n = std::min(kBits - in_word, end - first);
            words_[first / kBits] |= (~std::uint64_t{0} >> (kBits - n)) << in_word;
            first += n;
        }
    }
    // False for numbers that it has no room for.
    [[nodiscard]] bool contains(std::size_t block) const noexcept {
        return block / kBits < words_.size() && (words_[block / kBits] & bit(block)) != 0;
    }
    [[nodiscard]] std::size_t count() const noexcept {
        std::size_t n = 0;
        for (const std::uint64_t word : words_) {
            n += static_cast<std::size_t>(std::popcount(word));
        }
        return n;
    }
    // Takes in the members of `other`, which has room for as many.
    void merge(const BlockSet& other) noexcept {
        for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
            words_[i] |= other.words_[i];
        }
    }
    // Calls visit(first, end) for each run of members from `from` on and below `to`; ascending.
    template <class Visit>
    void each_run(std::size_t from, std::size_t to, Visit&& visit) const {
        to = std::min(to, words_.size() * kBits);
        for (std::size_t first = next(from, to, false); first < to;) {
            const std::size_t end = next(first, to, true);
            visit(first, end);
            first = next(end, to, false);
        }
    }

private:
    static constexpr std::size_t kBits = 64;
    static_assert(kBits == 8 * sizeof(std::uint64_t));
    [[nodiscard]] static constexpr std::uint64_t bit(std::size_t block) noexcept {
        return std::uint64_t{1} << (block % kBits);
    }
    // The first number from `from` on that is a member, or none; `to`: there is none below.
    [[nodiscard]] std::size_t next(std::size_t from, std::size_t to, bool absent) const noexcept {
        while (from < to) {
            const std::uint64_t word = (absent ? ~words_[from / kBits] : words_[from / kBits]) >> (from % kBits);
            if (word != 0) {
                return std::min(to, from + static_cast<std::size_t>(std::countr_zero(word)));
            }
            from = (from / kBits + 1) * kBits;
        }
        return to;
    }

    std::vector<std::uint64_t> words_;
};

}  // namespace sft
