#include "base/checksum.hpp"

#if __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // half the time of the variant for every processor
#else
#include <xxhash.h>
#endif

namespace sft {
namespace {

// Clears the upper halves; the lower ones stay.
__attribute__((target("avx"))) void clear_upper_halves() noexcept { __builtin_ia32_vzeroupper(); }

}  // namespace

std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
    const std::uint64_t sum = XXH3_64bits_withSeed(data, bytes, seed);
    if (__builtin_cpu_supports("avx")) {
        clear_upper_halves();
    }
    return sum;
}

}  // namespace sft
