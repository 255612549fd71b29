// A range of virtual addresses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sft {

struct AddressRange {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;

    [[nodiscard]] bool contains(const void* address) const noexcept {
        return reinterpret_cast<std::uintptr_t>(address) - begin < bytes;
    }
};

}  // namespace sft
