// Which pieces of this PE's symmetric memory are pieces of arrays of the whole job (shmem_ft_declare_array), so that a
// stored version can be read by a job that lays them out in another way.
//
// Part of the library's state that belongs to a version: what is declared goes back with it, and is there in a
// substitute.
//
// Threads: one changes it at a time, and none while a version is made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/assert.hpp"

namespace sft {

// Fixed layout: it is in stored files as well.
struct ArrayPiece {
    static constexpr std::size_t kNameBytes = 40;

    char name[kNameBytes] = {};  // what follows the name is zeros, at least one
    std::uint64_t address = 0;
    std::uint64_t element_bytes = 0;
    std::uint64_t first = 0;  // the elements from this one on,
    std::uint64_t count = 0;  // so many

    [[nodiscard]] bool is(std::string_view other) const noexcept { return text() == other; }
    [[nodiscard]] std::string_view text() const noexcept { return {name, ::strnlen(name, kNameBytes)}; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return element_bytes * count; }
    friend bool operator==(const ArrayPiece&, const ArrayPiece&) = default;
};
static_assert(std::has_unique_object_representations_v<ArrayPiece> && sizeof(ArrayPiece) == 72);

// From one letter on, and readable: it is a word in a manifest, and on a command line.
[[nodiscard]] inline bool is_array_name(std::string_view name) noexcept {
    return !name.empty() && name.size() < ArrayPiece::kNameBytes &&
           std::all_of(name.begin(), name.end(), [](char letter) { return letter > ' ' && letter < 0x7f; });
}

class ArrayTable {
public:
    static constexpr std::size_t kPiecesMax = 32;

    // In place of one with the same name and address. False: there are too many; nothing has changed.
    [[nodiscard]] bool add(const ArrayPiece& piece) noexcept {
        for (std::size_t i = 0; i < n_; ++i) {
            if (pieces_[i].text() == piece.text() && pieces_[i].address == piece.address) {
                pieces_[i] = piece;
                return true;
            }
        }
        if (n_ == kPiecesMax) {
            return false;
        }
        pieces_[n_++] = piece;
        return true;
    }
    // Those that begin in this memory.
    void remove(std::uintptr_t begin, std::size_t bytes) noexcept {
        const auto goes = [&](const ArrayPiece& piece) {
            return piece.address >= begin && piece.address - begin < bytes;
        };
        ArrayPiece* const end = std::remove_if(pieces_, pieces_ + n_, goes);
        std::fill(end, pieces_ + n_, ArrayPiece());
        n_ = static_cast<std::uint64_t>(end - pieces_);
    }

    [[nodiscard]] std::size_t size() const noexcept { return n_; }
    [[nodiscard]] const ArrayPiece& operator[](std::size_t i) const noexcept {
        SFT_ASSERT(i < n_);
        return pieces_[i];
    }

private:
    std::uint64_t n_ = 0;
    ArrayPiece pieces_[kPiecesMax];  // those that are not in use are zeros
};
static_assert(std::is_trivially_copyable_v<ArrayTable>);
static_assert(std::has_unique_object_representations_v<ArrayTable>);  // it is saved as bytes, and has checksums

}  // namespace sft
