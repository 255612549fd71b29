// The globals of the executable as shared memory: every process of the node can map them, and a child made by fork()
// gets its own copy.
//
// Invariants
//  1. After share(), the pages of the executable's writable segment behind the read-only-after-relocation part are a
//     MAP_SHARED mapping of segment(), at their original addresses.
//  2. saved() and its complement come from the executable's file, so they are alike in processes of one program.
//
// An executable that does not use the library itself has no symmetric globals: an interpreter, say, which loads the
// library for a program that it runs. What lies among its globals points into its private heap, which does not go back
// in a rollback. Then range() is empty and share() does nothing.
//
// Pages that nobody has written cost nothing, as in the heap: they stay holes of the memory file.
//
// share() copies the pages and maps over them. It runs before the library starts any thread; a thread of the
// application that stores to a global at that very moment could lose the store, so shmem_init is to be called
// before other threads write globals (docs/what-may-live-where.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address_range.hpp"
#include "base/config.hpp"
#include "base/result.hpp"
#include "symheap/elf_image.hpp"
#include "symheap/segment.hpp"

namespace sft {

// Whether the globals of this process's executable are symmetric. False with an error: the executable cannot be read.
[[nodiscard]] Result<bool> has_symmetric_globals(GlobalsMode mode);

class Globals {
public:
    [[nodiscard]] Result<> share(GlobalsMode mode);
    // Gives the pages back to the process as private memory, with their content.
    void unshare() noexcept;

    [[nodiscard]] AddressRange range() const noexcept { return range_; }
    [[nodiscard]] const Segment& segment() const noexcept { return segment_; }
    [[nodiscard]] Segment& segment() noexcept { return segment_; }
    // Parts of range() that belong to a version, as offsets from its begin; ascending, disjoint.
    struct Extent {
        std::size_t offset;
        std::size_t bytes;
    };
    [[nodiscard]] const std::vector<Extent>& saved() const noexcept { return saved_; }

private:
    Segment segment_;
    AddressRange range_;
    std::vector<Extent> saved_;
};

}  // namespace sft
