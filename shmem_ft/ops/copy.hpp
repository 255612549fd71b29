// Copies between memory of PEs: memcpy, except for very large ones where the processor itself copies better.
//
// The string move of processors that have a fast one ("enhanced rep movsb") does not read the destination first, so
// from where a copy does not fit into the caches on it is faster than glibc's vector loop: 1.04 times at 8 MiB, 1.1 at
// 16, 1.4 at 64. Below it is not to be relied on: as long as both sides are in a cache it takes between 0.98 and 1.25
// times as long, by where the pages happen to lie. It needs both sides to lie alike in units of 32 bytes; if they do
// not, it is slower by a tenth. All measured on AMD Zen 4 with glibc 2.36; benchmarks/large_copies.c looks at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sft {

class Copier {
public:
    static constexpr std::size_t kMoveFromBytes = std::size_t{8} << 20;

    // memcpy for everything.
    Copier() = default;

    // Asks the processor, which takes microseconds in a virtual machine: once, at the start.
    [[nodiscard]] static Copier for_this_processor() noexcept;

    void operator()(void* to, const void* from, std::size_t bytes) const noexcept {
        constexpr std::uintptr_t kUnit = 32;
        const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
        if (bytes < move_from_bytes_ || distance % kUnit != 0) [[likely]] {
            std::memcpy(to, from, bytes);
        } else {
            move(to, from, bytes);
        }
    }

private:
    static void move(void* to, const void* from, std::size_t bytes) noexcept;

    std::size_t move_from_bytes_ = SIZE_MAX;
};

}  // namespace sft
