// Compresses pieces of a stored state, and brings them back (SHMEM_FT_STORE_COMPRESSION): chunks of Blosc, which sorts
// the bytes of words of eight first. So numbers that are close to each other take less.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/config.hpp"

namespace sft {

class Compressor {
public:
    explicit Compressor(const StoreCompression& how) noexcept : how_(how) {}

    // Until the next call. Empty: it would not take less room.
    [[nodiscard]] std::span<const std::byte> compress(std::span<const std::byte> plain);

private:
    StoreCompression how_;
    std::vector<std::byte> packed_;
};

// False: `packed` is not what becomes so many bytes.
[[nodiscard]] bool decompress(std::span<const std::byte> packed, std::span<std::byte> plain) noexcept;

}  // namespace sft
