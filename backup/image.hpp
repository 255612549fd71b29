// One stored copy of a PE's symmetric state: its heap, the globals of the executable and the library's own
// collective state (teams, contexts, counters that must go back with the data).
//
// The same layout serves as a local copy (private memory of the PE) and as a slot of a shadow (memory of the keeper,
// mapped by the owner). It is a flat piece of memory: header, a table with one checksum per block, the data.
//
// Storing is differential without any tracking: a block is compared with what the image holds and copied only if it
// differs, so whoever changed it (the owner, a put, an atomic, a store through shmem_ptr) is noticed. A comparison
// ends at the first difference; where most blocks change it costs next to nothing.
//
// Fault model: the process that stores may die at any instruction. The header's version is cleared before the first
// byte changes and set after the last one, so a torn image is never taken for a version; the agreed decision, not
// this header, says which version counts. Bit flips in a stored copy are caught by the block checksums at load time.
//
// Invariants
//  1. holds(v) implies that every block whose table entry is not kAbsent has the contents that its owner had at v.
//  2. A block that is kAbsent reads as zeros (a hole of the heap's memory file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shmem_ft/base/fault_points.hpp"
#include "shmem_ft/base/ids.hpp"
#include "shmem_ft/transport/shm/peer_table.hpp"

namespace sft {

inline constexpr std::size_t kBlockBytes = 16 * 1024;

// Offsets within a region.
struct ByteExtent {
    std::size_t offset = 0;
    std::size_t bytes = 0;
};

// The live memory that images are made of and loaded into.
struct LiveState {
    AddressRange heap;  // a multiple of kBlockBytes long
    int heap_fd = -1;   // its memory file: tells which pages exist
    AddressRange globals;
    std::vector<ByteExtent> saved;  // the parts of globals that are written back
    AddressRange library;
};

struct ImageStats {
    std::size_t bytes_stored = 0;  // of the live state that exist
    std::size_t bytes_copied = 0;  // of them that differed
};

class Image {
public:
    Image() = default;
    Image(std::byte* base, const LiveState& live) noexcept;

    // Bytes of memory an image of such a state takes (addresses; untouched pages cost nothing).
    [[nodiscard]] static std::size_t bytes_for(const LiveState& live) noexcept;

    [[nodiscard]] bool holds(Version version) const noexcept;
    // live -> image. `middle` is the fault point between heap and globals.
    ImageStats store(Version version, const LiveState& live, FaultPoint middle = FaultPoint::fold_middle) noexcept;
    // image -> live. False: a block's checksum is wrong; the live state is then partly written.
    // REQUIRES: holds(version).
    [[nodiscard]] bool load(Version version, const LiveState& live) const noexcept;
    // The same for the first `heap_bytes` of the heap and the library's state only: what a substitute needs to know
    // before it joins.
    [[nodiscard]] bool load_front(Version version, const LiveState& live, std::size_t heap_bytes) const noexcept;

private:
    struct Header;
    struct Region {
        std::uint64_t* table = nullptr;
        std::byte* data = nullptr;
        std::size_t bytes = 0;
    };

    [[nodiscard]] static std::uint64_t checksum(const std::byte* data, std::size_t bytes) noexcept;
    static void store_block(const Region& region, std::size_t block, const std::byte* live, ImageStats& stats) noexcept;
    static void store_whole(const Region& region, const AddressRange& live, ImageStats& stats) noexcept;
    void store_heap(const LiveState& live, ImageStats& stats) noexcept;
    [[nodiscard]] bool load_heap(const LiveState& live) const noexcept;
    [[nodiscard]] static bool load_extent(const Region& region, const AddressRange& live, ByteExtent extent) noexcept;

    Header* header_ = nullptr;
    Region heap_;
    Region globals_;
    Region library_;
};

}  // namespace sft
