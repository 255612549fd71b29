#include "shmem_ft/process/included_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/assert.hpp"

namespace sft {
namespace {

constexpr std::size_t kStepBytes = 4096;

void copy_changed(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    for (std::size_t at = 0; at < bytes; at += kStepBytes) {
        const std::size_t step = std::min(kStepBytes, bytes - at);
        if (std::memcmp(to + at, from + at, step) != 0) {
            std::memcpy(to + at, from + at, step);
        }
    }
}

}  // namespace

bool IncludedMemory::add(void* piece, void* place, std::size_t bytes) noexcept {
    SFT_ASSERT(piece != nullptr && place != nullptr && bytes != 0);
    try {
        pieces_.push_back({static_cast<std::byte*>(piece), static_cast<std::byte*>(place), bytes});
    } catch (const std::bad_alloc&) {
        return false;
    }
    n_bytes_ += bytes;
    return true;
}

void IncludedMemory::save() const noexcept {
    for (const Piece& piece : pieces_) {
        copy_changed(piece.place, piece.memory, piece.bytes);
    }
}

void IncludedMemory::restore() const noexcept {
    for (const Piece& piece : pieces_) {
        copy_changed(piece.memory, piece.place, piece.bytes);
    }
}

}  // namespace sft
