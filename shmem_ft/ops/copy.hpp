// Copies between memory of PEs: memcpy, except for large ones where the processor itself copies better.
//
// From about a megabyte on, the string move of processors that have a fast one ("enhanced rep movsb") reaches a little
// more than glibc's vector loop as long as both sides are in a cache (2 % at 1 and 4 MiB), and up to twice as much when
// they are not, because it does not read the destination first. That holds if both sides lie alike in units of 32
// bytes; if not, it is slower by a tenth (all measured on AMD Zen 4 with glibc 2.36). Below, memcpy is as fast or
// faster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sft {

class Copier {
public:
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
