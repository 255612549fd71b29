// What lies where in the memory file that the processes of a node have in common: everything of a PE that is to outlive
// the process which holds it, each PE at its place, and what processes have decided last.
//
//   shadows | local copies | what is kept for parity | records of values | heaps, with what lies behind them | globals
//
// The globals are those of the PEs' first holders. A substitute keeps its own: among them is what belongs to the
// process and not to the PE.
//
// Untouched pages cost nothing, so most of it is holes. The file has no name, and goes with the last process that has
// it open.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/ids.hpp"
#include "base/pages.hpp"

namespace sft {

struct NodeFile {
    std::size_t shadow_bytes = 0;
    std::size_t local_bytes = 0;
    std::size_t parity_bytes = 0;   // 0: the scheme has no parity
    std::size_t records_bytes = 0;  // of all
    std::size_t heap_bytes = 0;
    std::size_t globals_bytes = 0;  // 0: there are none
    std::int32_t n_pes = 0;

    [[nodiscard]] std::size_t shadow(PeId pe) const noexcept { return place(0, shadow_bytes, pe); }
    [[nodiscard]] std::size_t local(PeId pe) const noexcept { return place(behind(shadow_bytes), local_bytes, pe); }
    [[nodiscard]] std::size_t parity(PeId pe) const noexcept {
        return place(behind(shadow_bytes + local_bytes), parity_bytes, pe);
    }
    [[nodiscard]] std::size_t records() const noexcept { return behind(shadow_bytes + local_bytes + parity_bytes); }
    [[nodiscard]] std::size_t heap(PeId pe) const noexcept { return place(records() + records_bytes, heap_bytes, pe); }
    [[nodiscard]] std::size_t globals(PeId pe) const noexcept { return place(heap_end(), globals_bytes, pe); }
    [[nodiscard]] std::size_t bytes() const noexcept { return heap_end() + behind(globals_bytes); }

private:
    [[nodiscard]] std::size_t heap_end() const noexcept { return records() + records_bytes + behind(heap_bytes); }
    [[nodiscard]] std::size_t behind(std::size_t bytes_of_pe) const noexcept {
        return static_cast<std::size_t>(n_pes) * bytes_of_pe;
    }
    [[nodiscard]] std::size_t place(std::size_t begin, std::size_t bytes_of_pe, PeId pe) const noexcept {
        SFT_ASSERT(pe.value() >= 0 && pe.value() < n_pes && bytes_of_pe % kPageBytes == 0);
        return begin + pe.index() * bytes_of_pe;
    }
};

}  // namespace sft
