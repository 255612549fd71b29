// A set of blocks of an image, by their numbers.
#pragma once

#include <algorithm>
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
    // False for numbers that it has no room for.
    [[nodiscard]] bool contains(std::size_t block) const noexcept {
        return block / kBits < words_.size() && (words_[block / kBits] & bit(block)) != 0;
    }
    // Takes in the members of `other`, which has room for as many.
    void merge(const BlockSet& other) noexcept {
        for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
            words_[i] |= other.words_[i];
        }
    }

private:
    static constexpr std::size_t kBits = 64;
    static_assert(kBits == 8 * sizeof(std::uint64_t));
    [[nodiscard]] static constexpr std::uint64_t bit(std::size_t block) noexcept {
        return std::uint64_t{1} << (block % kBits);
    }

    std::vector<std::uint64_t> words_;
};

}  // namespace sft
