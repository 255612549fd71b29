// Where the executable is loaded minus where its file says.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace sft {

// The first object of the list is the executable.
[[nodiscard]] inline std::uintptr_t load_bias() {
    std::uintptr_t bias = 0;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* result) {
            *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
            return 1;
        },
        &bias);
    return bias;
}

}  // namespace sft
