// What a member of a group keeps in memory of its node (parity_shadow.hpp has the protocol), one place for each PE:
//
//   fronts   header and table of its own last two versions, v in front v mod 2, exactly as they went into parity
//   stash    its globals and the library's state as they went into parity, for the blocks that the last version changed
//   stamps   for each parity unit and slot: which build it is of; 0: none
//   slots    two for each parity unit of others that it keeps
//
// A parity unit of the committed version is in the slot with the later build; the other one is where the next version
// is built: with the first change that comes for it the unit is copied there, then changes are added. So the committed
// one stays whole, and no change costs nothing.
//
// A build is a checkpoint (of version v + 1) or a recovery in which the share is made anew (of version v, from
// nothing), in the order of time. Members add to it at any time while it is on, each only once; whoever begins it again
// begins a new one.
//
// Invariants
//  1. Between the end of a recovery and the next replicate(), no stamp is of a version later than the committed one
//  (drop_after).
//  2. A slot with a stamp other than that of the build under way never changes.
//
// Fault model: any process may die at any instruction, also in the middle of fold(), which is then of a build that is
// not committed. Bits may flip: what is computed from parity is checked against the checksums in the fronts.
//
// Threads: fold() by the network's threads and that of the protocols, of any process of the node at once; the others
// while nobody folds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backup/parity_code.hpp"
#include "base/ids.hpp"
#include "symheap/live_state.hpp"

namespace sft {

// An image (image.hpp) as a row of units: header and table, then each block.
class ParityUnits {
public:
    explicit ParityUnits(const LiveState& live);

    [[nodiscard]] std::size_t count() const noexcept { return front_units_ + n_blocks_; }
    [[nodiscard]] std::size_t front_units() const noexcept { return front_units_; }
    [[nodiscard]] std::size_t front_bytes() const noexcept { return front_bytes_; }
    [[nodiscard]] std::size_t unit_of_block(std::size_t block) const noexcept { return front_units_ + block; }
    struct At {
        std::size_t unit = 0;
        std::size_t offset = 0;  // in the unit
        std::size_t bytes = 0;   // to its end
    };
    [[nodiscard]] At at(std::size_t image_offset) const noexcept;
    [[nodiscard]] std::size_t bytes_of(std::size_t unit) const noexcept;
    // Where it begins in an image.
    [[nodiscard]] std::size_t image_offset(std::size_t unit) const noexcept;
    // Globals and the library's state begin there, and so the stash.
    [[nodiscard]] std::size_t stash_begin() const noexcept { return parts_[1].image_offset; }
    [[nodiscard]] std::size_t stash_bytes() const noexcept { return image_bytes_ - stash_begin(); }

private:
    struct Part {
        std::size_t image_offset = 0;
        std::size_t bytes = 0;
        std::size_t first_unit = 0;
    };
    [[nodiscard]] const Part& part_of(std::size_t unit) const noexcept;

    std::size_t front_bytes_ = 0;
    std::size_t front_units_ = 0;
    std::size_t n_blocks_ = 0;
    std::size_t image_bytes_ = 0;
    Part parts_[3];  // heap, globals, library
};

// Where things are in a place.
struct ParityLayout {
    // most_parity: of all groups there may be.
    ParityLayout(const ParityUnits& units, std::int32_t most_parity) noexcept;

    [[nodiscard]] std::size_t front(Version version) const noexcept { return (version.value() % 2) * front_bytes; }
    [[nodiscard]] std::size_t stamp(std::size_t unit) const noexcept {
        return stamps + unit * 2 * sizeof(std::uint64_t);
    }
    [[nodiscard]] std::size_t slot(std::size_t number, std::size_t unit) const noexcept {
        return slots + (number * n_kept + unit) * kUnitBytes;
    }

    std::size_t front_bytes;  // room of each
    std::size_t stash;
    std::size_t head;
    std::size_t stamps;
    std::size_t slots;
    std::size_t n_kept;  // parity units, at most
    std::size_t bytes;   // of the place
};

// Of which version, and in which round of checkpoint or recovery.
struct ParityBuild {
    Version version = kNoVersion;
    std::uint32_t round = 0;  // rising
    bool is_anew = false;     // from nothing

    [[nodiscard]] std::uint64_t stamp() const noexcept { return std::uint64_t{round} << 32 | version.value(); }
    [[nodiscard]] static Version version_of(std::uint64_t stamp) noexcept {
        return Version(static_cast<std::uint32_t>(stamp));
    }
};

class ParityPlace {
public:
    // memory: where the place is mapped; file, offset: and where it lies, in memory of the node.
    ParityPlace(std::byte* memory, const ParityLayout& layout, int file, std::size_t offset) noexcept
        : memory_(memory), layout_(layout), file_(file), offset_(offset) {}

    // Adds `bytes` to a parity unit, from `at` on in it. False: there is no such unit.
    [[nodiscard]] bool fold(ParityBuild build, std::size_t unit, std::size_t at, const std::byte* data,
                            std::size_t bytes) noexcept;
    // The same where a place and a unit in it are told by an offset in memory of the node, in which the places begin at
    // `places`: that of the byte in slot 0.
    [[nodiscard]] static bool fold_at(std::byte* memory, const ParityLayout& layout, int file, std::size_t places,
                                      std::size_t offset, std::uint64_t stamp, bool is_anew, const std::byte* data,
                                      std::size_t bytes) noexcept;
    // What is of a later version was not committed.
    void drop_after(Version version) noexcept;

    // Which slot has the unit as of `version`, by its two stamps; -1: it is zero.
    [[nodiscard]] static std::int32_t slot_of(const std::uint64_t (&stamps)[2], Version version) noexcept;

private:
    class Claim;
    [[nodiscard]] std::uint64_t* stamps_of(std::size_t unit) const noexcept;
    [[nodiscard]] std::byte* slot(std::size_t number, std::size_t unit) const noexcept {
        return memory_ + layout_.slot(number, unit);
    }
    // Where the build is, or is to be; -1: of one that is over. now: the slot with what it begins with; -1: zeros.
    [[nodiscard]] std::int32_t slot_to_build_in(ParityBuild build, std::size_t unit, std::int32_t& now) const noexcept;
    void begin_unit(std::size_t unit, std::int32_t slot, std::int32_t now, std::size_t at, const std::byte* data,
                    std::size_t bytes) noexcept;
    void wipe() noexcept;

    std::byte* memory_;
    const ParityLayout& layout_;
    int file_;
    std::size_t offset_;
};

}  // namespace sft
