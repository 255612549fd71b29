// The symmetric state of this PE where it lies: what copies are made of, and what they are loaded into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address_range.hpp"
#include "symheap/array_table.hpp"
#include "symheap/exclusions.hpp"

namespace sft {

inline constexpr std::size_t kBlockBytes = 16 * 1024;

// Offsets within a region.
struct ByteExtent {
    std::size_t offset = 0;
    std::size_t bytes = 0;
};

// The live memory that images are made of and loaded into.
struct LiveState {
    AddressRange heap;                 // a multiple of kBlockBytes long
    int heap_fd = -1;                  // its memory file: tells which pages exist
    std::size_t heap_file_offset = 0;  // where it begins in there
    AddressRange globals;
    int globals_fd = -1;
    std::size_t globals_file_offset = 0;
    std::vector<ByteExtent> saved;  // the parts of globals that are written back
    AddressRange library;
    // The first bytes of the heap do not change any more: what an image has of them is good.
    std::size_t frozen_heap_bytes = 0;     // a multiple of kBlockBytes
    const Exclusions* excluded = nullptr;  // null: nothing is left out
    const ArrayTable* arrays = nullptr;    // null: nothing is declared
    // Counts the calls that may make holes in the heap, between a version and the next rollback. Null: nobody counts.
    const std::uint64_t* heap_calls = nullptr;
    // It is what the live memory was at one moment, does not change, and trackers have looked at that moment.
    bool is_still = false;
};

}  // namespace sft
