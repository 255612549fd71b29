// One stored copy of a PE's symmetric state: its heap, the globals of the executable and the library's own
// collective state (teams, contexts, counters that must go back with the data).
//
// The same layout serves as a local copy (private memory of the PE) and as a slot of a shadow (memory of the keeper,
// mapped by the owner, or "far": on another node). It is a flat piece of memory: header, a table with one checksum per
// block, the data.
//
// Storing is differential without any tracking: a block is compared with what the image holds and copied only if it
// differs, so whoever changed it (the owner, a put, an atomic, a store through shmem_ptr) is noticed. A comparison
// ends at the first difference; where most blocks change it costs next to nothing.
//
// Of a far image, header and table are here as well, in a mirror; the data are written and read by messages
// (far_image.hpp). What differs is then known without reading the far side, from two signs, either of which is enough
// to send a block (Image::ship):
//  - the local copy, if there is one: the block differs from it, or has been noted as different in this slot from the
//    local copy (BackupStore keeps these notes). That is exact.
//  - the checksum in the mirror: it differs from that of live memory, or the block was absent. Without a local copy,
//    and in the first two checkpoints of a substitute, this alone decides. Two contents of a block with one checksum
//    (64 bits) would go unnoticed: one in 10^19 changed blocks; whoever restores trusts the same sums. With a local
//    copy it catches what the comparison cannot: a flipped bit there that equals the change.
// Of such a block the pages are sent that may have been written, where a tracker tells (BlockSet has them); else all of
// it.
//
// Fault model
//  - The process that stores may die at any instruction. The header's version is cleared before the first byte changes
//    and set after the last one, so a torn image is never taken for a version; the agreed decision, not this header,
//    says which version counts.
//  - Bits of a stored copy may flip, in the data, the table or the header. Every block has a checksum in the table, the
//    table has one in the header, the header has one of itself. Whatever does not fit counts as lost.
//
// Invariants
//  1. sound(v) implies that every block whose table entry is not kAbsent and fits its checksum has the contents that
//     its owner had at v, and that a block with the entry kAbsent read as zeros (a hole of the memory file of heap or
//     globals).
//  2. Heap blocks from heap_blocks on were absent, whatever their table entries and data say.
//  3. A checksum is only ever computed of bytes just copied from live memory, or taken over from an image for which it
//     was. A block that equals live memory keeps
//     its entry, and only if the table was sound before: store() begins with a check of the old table and copies
//     everything anew if it does not fit. So a flip is overwritten, or goes on to be found; it is never blessed.
//     Where only some pages of a block are looked at, because a tracker has named no others, its checksum, a sum over
//     its pages, loses those of the pages as they were and gets those of the pages as they are: what does not fit
//     before does not fit behind it either, even if the flip was in what is written over. Then the block counts as bad,
//     though it is not, until it is mended.
//
// Why loading may write live memory before all blocks have been checked: each block is verified while the cache holds
// it and copied only then, so no bad byte ever gets into live memory, and memory is read once. A bad block is
// first mended from the other copy. If that fails too, live memory is part old, part restored; but the version
// then exists nowhere, nothing that live memory was before is of use to a rolled back job (it is of a later step than
// the other PEs' memory), and every caller ends the job. Checking everything first would end it in the same way, for
// twice the reads in each recovery that succeeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "backup/block_set.hpp"
#include "base/faults/fault_points.hpp"
#include "base/ids.hpp"
#include "symheap/live_state.hpp"

namespace sft {

class FarImage;
struct SparseMemory;

// Hears of blocks of an image before they are written over.
class BlockListener {
public:
    virtual ~BlockListener() = default;
    virtual void about_to_change(std::size_t block, const std::byte* data, std::size_t bytes) noexcept = 0;
};

// Where the blocks of a heap are read from while they are stored, which is not live memory where that goes on already.
class BlockSource {
public:
    virtual ~BlockSource() = default;
    // The block, which is at `live` in live memory; ascending, some not at all. Good until the next call.
    [[nodiscard]] virtual const std::byte* at(std::size_t block, const std::byte* live) noexcept = 0;
    // Everything but the heap has been stored.
    virtual void saved_rest() noexcept = 0;
};

struct ImageStats {
    std::size_t bytes_stored = 0;  // of the live state that exist
    std::size_t bytes_copied = 0;  // of them that differed
    bool was_sound = false;        // the image held some version before, so nothing else has changed in it
};

// What a check of an image has found. Blocks are numbered through heap, globals and library.
struct Findings {
    bool sound = true;             // header and table are intact and of the version asked for
    std::size_t checked = 0;       // blocks
    std::vector<std::size_t> bad;  // blocks that are bad and could not be mended
    std::size_t mended = 0;        // blocks (or the header and table, counted as one) that are right again
    bool gone = false;             // the process with the far image has died before everything was looked at

    [[nodiscard]] bool intact() const noexcept { return sound && bad.empty() && !gone; }
};

class Image {
public:
    Image() = default;
    Image(std::byte* base, const LiveState& live) noexcept : Image(base, live, nullptr) {}
    // A far image; `mirror` are as many addresses, of which the first front_bytes_for() can be read and written.
    Image(std::byte* mirror, const LiveState& live, FarImage* far) noexcept;

    // Bytes of memory an image of such a state takes (addresses; untouched pages cost nothing).
    [[nodiscard]] static std::size_t bytes_for(const LiveState& live) noexcept;
    // Of them, header and table.
    [[nodiscard]] static std::size_t front_bytes_for(const LiveState& live) noexcept;

    // The header says so and is intact.
    [[nodiscard]] bool holds(Version version) const noexcept;
    // The version it holds, or kNoVersion.
    [[nodiscard]] Version version() const noexcept;
    // holds(version), and the table is intact as well.
    [[nodiscard]] bool sound(Version version) const noexcept;
    // live -> image, which is not far.
    struct Storing {
        FaultPoint middle = FaultPoint::update_middle;  // between the heap and the globals
        const BlockSet* differing = nullptr;            // if that is known already, the blocks that differ or are gone
        const BlockSet* may_differ = nullptr;           // else, if known: no others differ from what the image holds
        bool checks = false;                            // that, by comparing them: it ends the process if not
        BlockSet* changed = nullptr;                    // if given, gets the blocks that were copied or are gone
        const Image* like = nullptr;  // with may_differ: this version, stored from the same live memory a
                                      // moment ago, so that it knows which blocks exist
        bool copies_like = false;     // that, and its sums, instead of live memory, which has gone on; all of it where
                                      // may_differ is not known
        std::size_t like_bytes = 0;   // bytes_stored of that
        bool is_present_known = false;  // blocks that the image has exist in live memory: only others are asked for
        BlockListener* listener = nullptr;
        BlockSource* source = nullptr;     // if given: of the heap, which is stored last then
        const std::byte* stash = nullptr;  // if given: what globals and the library's state have, at their offsets in
                                           // an image from those of the globals on, for the blocks that differ
    };
    ImageStats store(Version version, const LiveState& live) noexcept { return store(version, live, Storing()); }
    ImageStats store(Version version, const LiveState& live, const Storing& storing) noexcept;

    // Of two images that are not far and hold versions: adds the blocks in whose checksums they differ, all or those of
    // `among`.
    void note_differences(const Image& other, const BlockSet* among, BlockSet& into) const noexcept;

    // live -> far image. Live memory must not change meanwhile.
    struct Shipping {
        const Image* local = nullptr;            // a sound local copy, of whatever version
        const BlockSet* slot_differs = nullptr;  // with it: what may differ between it and the far image
        BlockSet* live_differs = nullptr;        // with it: gets what differs between it and live memory, or is gone
        const BlockSet* may_differ = nullptr;    // with it, if known: in no others they differ
        // If a tracker knows: no others have been written since the version of the local copy, or without one of the
        // far image. Only where slot_differs says all, or the far image was written by this process.
        const BlockSet* written = nullptr;
        bool checks = false;  // that: it ends the process if not
        ImageStats stats;
    };
    // False: the process with the far image is dead. `live_differs` is complete in both cases.
    [[nodiscard]] bool ship(Version version, const LiveState& live, Shipping& shipping) noexcept;
    // Touches the pages of those blocks, all of the heap or all of the globals, of an image that is not far. False: the
    // system does not do it.
    [[nodiscard]] bool touch(std::size_t first, std::size_t end) const noexcept;
    // Fills the mirror. False: the process is dead.
    [[nodiscard]] bool read_front();
    // image -> live; what is bad is first mended from `other`, an image of the same version, if there is one. The
    // findings are not intact() if the version could not be loaded; the live state is then partly written, see above.
    [[nodiscard]] Findings load(Version version, const LiveState& live, const Image* other = nullptr);
    // The same for the first `heap_bytes` of the heap and the library's state only: what a substitute needs to know
    // before it joins.
    [[nodiscard]] Findings load_front(Version version, const LiveState& live, std::size_t heap_bytes);

    // ---- integrity (image_integrity.cpp) ----

    // Checks header, table (of a far image: their mirror) and every block. Writes nothing.
    [[nodiscard]] Findings verify(Version version) const;
    // Checks everything and mends what is bad from `other`, an image of the same version. Nothing that was good is
    // touched, and a death in the middle leaves what was bad bad.
    Findings mend(Version version, const Image& other);

    // For checks in pieces: blocks are numbered below blocks(); next_existing(n) is the first one from n on that is no
    // hole, or blocks(). A hole is not intact.
    [[nodiscard]] std::size_t blocks() const noexcept;
    [[nodiscard]] std::size_t next_existing(std::size_t block) const noexcept;
    [[nodiscard]] bool intact(std::size_t block) const noexcept;
    // Header and table of a far image are what the mirror says.
    [[nodiscard]] bool front_matches() const;
    // Writes them anew, if sound(version).
    bool rewrite_front(Version version) noexcept;
    // The process with the far image is dead.
    [[nodiscard]] bool gone() const noexcept;
    bool mend_table(Version version, const Image& other) noexcept;
    bool mend_block(Version version, std::size_t block, const Image& other) noexcept;
    // Of so many pages of the heap that it has, so many are named.
    struct Share {
        std::size_t named = 0;
        std::size_t all = 0;
    };
    [[nodiscard]] Share share_of_heap(const BlockSet& names) const noexcept;
    // "block 12 of the heap"
    [[nodiscard]] std::string name_of(std::size_t block) const;

    // ---- for who writes it somewhere else (storage/) ----

    // Header and table, as they are now, into an image of the same sizes whose header and table are zeros. Neither is
    // far.
    void copy_front_to(Image& other) const noexcept;
    // Of a block: where it lies behind the beginning of the image, its checksum, and whether that fits other bytes.
    struct Place {
        std::size_t offset = 0;
        std::size_t bytes = 0;
        std::uint64_t sum = 0;
        [[nodiscard]] bool fits(const std::byte* data) const noexcept;
    };
    [[nodiscard]] Place place_of(std::size_t block) const noexcept;
    // The checksum of the header, which has that of the table in it.
    [[nodiscard]] std::uint64_t header_sum() const noexcept;
    [[nodiscard]] std::byte* begin() const noexcept { return reinterpret_cast<std::byte*>(header_); }

    // For tests: flips one bit that matters, in the header, the table or the data, and says which; empty if the image
    // does not hold the version.
    std::string flip_bit(Version version, std::uint64_t seed);

private:
    struct Header;
    struct Region {
        std::uint64_t* table = nullptr;
        std::byte* data = nullptr;
        std::size_t bytes = 0;
    };
    struct Block {
        std::uint64_t* entry;
        std::byte* data;
        std::size_t bytes;
    };
    // Goes through the blocks that are loaded; remembers which one was verified last, because the saved parts of the
    // globals may be many small ones in one block.
    class Loader;
    class Shipper;
    struct Pass;

    // Of a block: made of those of its pages, so that it can follow when one of them changes.
    [[nodiscard]] static std::uint64_t checksum(const std::byte* data, std::size_t bytes) noexcept;
    [[nodiscard]] static std::uint64_t page_sum(const std::byte* data, std::size_t bytes, unsigned page) noexcept;
    [[nodiscard]] static std::uint64_t copy_past_caches(std::byte* stored, const std::byte* from) noexcept;
    [[nodiscard]] static std::uint64_t entry_for(std::uint64_t sum) noexcept;
    [[nodiscard]] Block block(std::size_t number) const noexcept;
    [[nodiscard]] std::size_t first_block(const Region& region) const noexcept;
    [[nodiscard]] std::uint64_t table_sum() const noexcept;
    // In the image; the entries that mean something.
    [[nodiscard]] std::vector<ByteExtent> table_extents() const;
    void publish_table() const;
    [[nodiscard]] bool flip_at(std::byte* place, std::byte bits) const;
    // Of a far image, from its process; good until the next call. Null: it is gone.
    [[nodiscard]] const std::byte* data_of(const Block& block) const noexcept;
    // The same, if it is intact; null otherwise.
    [[nodiscard]] const std::byte* data_if_intact(std::size_t block) const noexcept;
    void put(const Block& block, const std::byte* from) noexcept;
    // Sends what has changed here, of the mirror; nothing to do unless the image is far.
    void publish(const void* begin, std::size_t bytes) const noexcept;
    [[nodiscard]] std::size_t offset_of(const void* address) const noexcept;
    // The existing blocks from `first` to `end` are going to be read one after the other.
    void expect(std::size_t first, std::size_t end) const;
    // False, also of seal(): the process with the far image is dead.
    bool begin_change() noexcept;
    bool seal(Version version) noexcept;
    [[nodiscard]] static bool store_pages(std::uint64_t& entry, std::byte* stored, const std::byte* live,
                                          std::size_t bytes, std::size_t number, Pass& pass) noexcept;
    static void store_block(const Region& region, std::size_t block, const std::byte* live, Pass& pass) noexcept;
    static void copy_block(const Region& region, std::size_t block, Pass& pass) noexcept;
    static void store_whole(const Region& region, const AddressRange& live, Pass& pass) noexcept;
    template <class Visit>
    static void each_live_run(const Region& region, const SparseMemory& live, std::size_t known_blocks,
                              const Pass& pass, Visit&& visit);
    // These blocks do not exist.
    static void forget(const Region& region, std::size_t first, std::size_t end, Pass& pass) noexcept;
    [[nodiscard]] static std::size_t store_existing(const Region& region, const SparseMemory& live,
                                                    std::size_t known_blocks, Pass& pass) noexcept;
    [[nodiscard]] static std::size_t store_named(const Region& region, const SparseMemory& live,
                                                 std::size_t known_blocks, Pass& pass) noexcept;
    [[nodiscard]] static std::size_t store_like(const Region& region, const AddressRange& live,
                                                std::size_t known_blocks, std::size_t blocks, Pass& pass) noexcept;
    // kAbsent: the block does not exist.
    [[nodiscard]] std::uint64_t entry_of(std::size_t number) const noexcept;
    [[nodiscard]] static std::size_t existing_bytes(const Region& region, std::size_t blocks) noexcept;
    [[nodiscard]] std::size_t existing_bytes() const noexcept;
    [[nodiscard]] bool are_few(const BlockSet& names) const noexcept;
    void store_heap(const LiveState& live, Pass& pass) noexcept;
    void store_globals(const LiveState& live, Pass& pass) noexcept;
    [[nodiscard]] bool load_saved(Loader& loader, const LiveState& live, const ByteExtent& extent);
    [[nodiscard]] bool prepare(Version version, const Image* other, Findings& findings) noexcept;

    Header* header_ = nullptr;
    FarImage* far_ = nullptr;
    Region heap_;
    Region globals_;
    Region library_;
};
static_assert(std::is_trivially_copyable_v<Image>, "it is a view: what it shows belongs to others");

}  // namespace sft
