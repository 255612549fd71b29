#include "storage/compressor.hpp"

#include <blosc.h>

#include "base/assert.hpp"

namespace sft {
namespace {

constexpr std::size_t kWordBytes = 8;
constexpr int kThreads = 1;          // the one that calls
constexpr int kLevelOfLz4 = 5;       // what Blosc takes itself
constexpr std::size_t kAnySize = 0;  // of the pieces in which it works

}  // namespace

std::span<const std::byte> Compressor::compress(std::span<const std::byte> plain) {
    SFT_ASSERT(how_.kind != StoreCompression::Kind::none && plain.size() <= BLOSC_MAX_BUFFERSIZE);
    const bool is_lz4 = how_.kind == StoreCompression::Kind::lz4;
    packed_.resize(plain.size());  // more is of no use
    const int n = ::blosc_compress_ctx(is_lz4 ? kLevelOfLz4 : how_.level, BLOSC_SHUFFLE, kWordBytes, plain.size(),
                                       plain.data(), packed_.data(), packed_.size(),
                                       is_lz4 ? BLOSC_LZ4_COMPNAME : BLOSC_ZSTD_COMPNAME, kAnySize, kThreads);
    const auto bytes = static_cast<std::size_t>(n > 0 ? n : 0);
    return bytes < plain.size() ? std::span(packed_).first(bytes) : std::span<const std::byte>();
}

bool decompress(std::span<const std::byte> packed, std::span<std::byte> plain) noexcept {
    std::size_t bytes = 0;
    return ::blosc_cbuffer_validate(packed.data(), packed.size(), &bytes) == 0 && bytes == plain.size() &&
           ::blosc_decompress_ctx(packed.data(), plain.data(), plain.size(), kThreads) ==
               static_cast<int>(plain.size());
}

}  // namespace sft
