// Pages, as the kernel of x86-64 maps memory and files, and as holes of files are made of them.
#pragma once

#include <cstddef>

namespace sft {

inline constexpr std::size_t kPageBytes = 4096;
static_assert((kPageBytes & (kPageBytes - 1)) == 0);

[[nodiscard]] constexpr std::size_t page_floor(std::size_t address) noexcept { return address & ~(kPageBytes - 1); }
[[nodiscard]] constexpr std::size_t whole_pages(std::size_t bytes) noexcept {
    return page_floor(bytes + kPageBytes - 1);
}
static_assert(whole_pages(0) == 0 && whole_pages(1) == kPageBytes && whole_pages(kPageBytes) == kPageBytes);

}  // namespace sft
