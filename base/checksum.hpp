// Checksums of memory: XXH3 with the widest vectors of this processor.
//
// The one place that calls xxHash, because what calls it has to clean up behind it: the variants of libxxhash 0.8.1 for
// AVX2 and AVX-512 return with the upper halves of the vector registers in use, and on many processors every SSE
// instruction of the thread, so all that an application compiled for plain x86-64 computes, is then slower by a factor,
// until somebody executes VZEROUPPER.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sft {

// The same on every processor. A seed makes it another function.
[[nodiscard]] std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t seed = 0) noexcept;

}  // namespace sft
