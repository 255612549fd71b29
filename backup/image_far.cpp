// Images on another node: the mirror of header and table, and shipping.
//
// A ship has three phases, and nothing of one is sent before all of the one before has been carried out, so the order
// holds whatever the network does with messages: the header is cleared; blocks and table are written; the header says
// the version. A death in the middle leaves a header that holds nothing.
//
// The heap is sent from where it is. Globals and the library's state go through a buffer, of which the checksum is made
// as well: they are small, and may hold words that a thread of somebody else's code writes at any time.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "backup/far_image.hpp"
#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/raw_memory.hpp"

namespace sft {
namespace {

constexpr std::size_t kTablePieceBytes = std::size_t{1} << 20;
constexpr std::size_t kStageBytes = std::size_t{4} << 20;
static_assert(kStageBytes >= kBlockBytes && kStageBytes % kBlockBytes == 0);
static_assert(kTablePieceBytes % kPageBytes == 0);

}  // namespace

// ---- the mirror ----

bool Image::gone() const noexcept { return far_ != nullptr && far_->gone(); }

std::size_t Image::offset_of(const void* address) const noexcept {
    const auto* const place = static_cast<const std::byte*>(address);
    SFT_ASSERT(place >= reinterpret_cast<std::byte*>(header_) && place <= library_.data + library_.bytes);
    return static_cast<std::size_t>(place - reinterpret_cast<std::byte*>(header_));
}

void Image::publish(const void* begin, std::size_t bytes) const noexcept {
    if (far_ != nullptr && bytes != 0) {
        SFT_ASSERT(static_cast<const std::byte*>(begin) + bytes <= heap_.data);  // only header and table have a mirror
        far_->write(offset_of(begin), begin, bytes);
    }
}

const std::byte* Image::data_of(const Block& block) const noexcept {
    return far_ == nullptr ? block.data : far_->read(offset_of(block.data), block.bytes);
}

void Image::put(const Block& block, const std::byte* from) noexcept {
    if (far_ == nullptr) {
        raw_copy(block.data, from, block.bytes);
        return;
    }
    far_->write(offset_of(block.data), from, block.bytes);
    static_cast<void>(far_->flush());  // if it is gone, so says the next read
}

void Image::expect(std::size_t first, std::size_t end) const {
    if (far_ == nullptr) {
        return;
    }
    std::vector<ByteExtent> extents;
    for (std::size_t number = next_existing(first); number < end; number = next_existing(number + 1)) {
        const Block item = block(number);
        extents.push_back({offset_of(item.data), item.bytes});
    }
    far_->expect(std::move(extents));
}

std::vector<ByteExtent> Image::table_extents() const {
    std::vector<ByteExtent> extents;
    const auto add = [&](const std::uint64_t* begin, std::size_t entries) {
        for (std::size_t done = 0; done < entries * sizeof *begin; done += kTablePieceBytes) {
            extents.push_back({offset_of(begin) + done, std::min(kTablePieceBytes, entries * sizeof *begin - done)});
        }
    };
    SFT_ASSERT(header_->heap_blocks <= blocks_of(heap_.bytes));
    add(heap_.table, header_->heap_blocks);
    add(globals_.table, blocks() - first_block(globals_));
    return extents;
}

void Image::publish_table() const {
    for (const ByteExtent& extent : table_extents()) {
        publish(reinterpret_cast<const std::byte*>(header_) + extent.offset, extent.bytes);
    }
}

bool Image::read_front() {
    SFT_ASSERT(far_ != nullptr);
    const std::byte* head = far_->read(0, sizeof(Header));
    if (head == nullptr) {
        return false;
    }
    std::memcpy(static_cast<void*>(header_), head, sizeof(Header));
    if (version() == kNoVersion) {
        header_->version.store(kNoVersion.value());  // torn, or not of this job: its table means nothing
        return true;
    }
    for (const ByteExtent& extent : table_extents()) {
        // It says so itself, but its sum was right: nothing behind the mirror is written.
        SFT_ASSERT(reinterpret_cast<std::byte*>(header_) + extent.offset + extent.bytes <= heap_.data);
        const std::byte* piece = far_->read(extent.offset, extent.bytes);
        if (piece == nullptr) {
            return false;
        }
        std::memcpy(reinterpret_cast<std::byte*>(header_) + extent.offset, piece, extent.bytes);
    }
    return true;
}

bool Image::front_matches() const {
    if (far_ == nullptr) {
        return true;
    }
    std::vector<ByteExtent> extents = table_extents();
    extents.push_back({0, sizeof(Header)});
    return std::all_of(extents.begin(), extents.end(), [&](const ByteExtent& extent) {
        const std::byte* there = far_->read(extent.offset, extent.bytes);
        return there != nullptr &&
               std::memcmp(there, reinterpret_cast<const std::byte*>(header_) + extent.offset, extent.bytes) == 0;
    });
}

bool Image::rewrite_front(Version version) noexcept {
    SFT_ASSERT(sound(version));  // else it would be blessed
    if (!begin_change()) {
        return false;
    }
    publish_table();
    return seal(version);
}

bool Image::flip_at(std::byte* place, std::byte bits) const {
    if (far_ == nullptr) {
        *place ^= bits;
        return true;
    }
    const std::byte* there = far_->read(offset_of(place), 1);
    if (there == nullptr) {
        return false;
    }
    const std::byte flipped = *there ^ bits;
    far_->write(offset_of(place), &flipped, 1);
    return far_->flush();
}

// ---- shipping ----

class Image::Shipper {
public:
    Shipper(Image& image, const LiveState& live, Shipping& shipping)
        : image_(image), live_(live), shipping_(shipping), known_(image.sound(image.version())) {
        SFT_ASSERT((shipping_.local == nullptr) == (shipping_.live_differs == nullptr));
        SFT_ASSERT((shipping_.local == nullptr) == (shipping_.slot_differs == nullptr));
        dirty_pages_.reset(Image::front_bytes_for(live) / kPageBytes);
        if (shipping_.local != nullptr) {
            shipping_.live_differs->reset(image_.blocks());
        }
        if (known_ && shipping_.written != nullptr && !shipping_.checks && !SFT_SLOW_ASSERTIONS) {
            names_ = *shipping_.written;
            if (shipping_.slot_differs != nullptr) {
                names_.merge(*shipping_.slot_differs);
            }
            goes_by_names_ = image_.are_few(names_);
        }
    }

    void heap() {
        const std::size_t known_blocks = known_ ? image_.header_->heap_blocks : 0;
        image_.header_->heap_blocks =
            existing(image_.heap_, heap_of(live_), known_blocks,
                     [&](std::size_t number, const std::byte* live, std::size_t) { consider(number, live, false); });
    }

    // Every entry of their table counts.
    void globals() {
        const std::size_t blocks = blocks_of(image_.globals_.bytes);
        const std::size_t used = existing(image_.globals_, globals_of(live_), known_ ? blocks : 0,
                                          [&](std::size_t number, const std::byte* live, std::size_t bytes) {
                                              consider_copy(number, live, bytes);
                                          });
        const std::size_t first = image_.first_block(image_.globals_);
        for (std::size_t hole = used; hole < blocks; ++hole) {
            enter(first + hole, kAbsent, known_);
        }
        send_run();
    }

    void library() {
        for (std::size_t i = 0; i < blocks_of(image_.library_.bytes); ++i) {
            consider_copy(image_.first_block(image_.library_) + i, at(live_.library, i * kBlockBytes),
                          block_bytes(image_.library_.bytes, i));
        }
        send_run();
    }

    [[nodiscard]] bool goes_by_names() const noexcept { return goes_by_names_; }

    // What has changed of the table.
    void table() {
        send_run();
        const std::byte* base = reinterpret_cast<const std::byte*>(image_.header_);
        for (const ByteExtent& extent : image_.table_extents()) {
            const std::size_t end = extent.offset + extent.bytes;
            for (std::size_t from = extent.offset; from < end;) {
                const std::size_t page = from / kPageBytes;
                const std::size_t to = std::min(end, (page + 1) * kPageBytes);
                if (!known_ || dirty_pages_.contains(page)) {
                    add_to_run(from, base + from, to - from);
                }
                from = to;
            }
        }
        send_run();
    }

private:
    // As Image::store_existing(), or store_named().
    template <class Consider>
    [[nodiscard]] std::size_t existing(const Region& region, const SparseMemory& live, std::size_t known_blocks,
                                       Consider&& consider_block) {
        return goes_by_names_ ? named(region, live, known_blocks, consider_block)
                              : all_existing(region, live, known_blocks, consider_block);
    }

    template <class Consider>
    [[nodiscard]] std::size_t all_existing(const Region& region, const SparseMemory& live, std::size_t known_blocks,
                                           Consider&& consider_block) {
        const std::size_t begin = image_.first_block(region);
        std::size_t used = 0;
        each_existing_run(live, [&](std::size_t first, std::size_t end) {
            SFT_ASSERT(first >= used && first < end && end <= blocks_of(region.bytes));
            for (std::size_t hole = used; hole < first; ++hole) {
                leave_out(begin + hole, hole < known_blocks);
            }
            for (std::size_t i = first; i < end; ++i) {
                if (i >= known_blocks) {
                    region.table[i] = kAbsent;
                }
                consider_block(begin + i, at(live.memory, i * kBlockBytes), block_bytes(region.bytes, i));
            }
            used = end;
        });
        // Of the heap nothing counts from here on, in the far image; a local copy may have it still.
        for (std::size_t hole = used; hole < local_blocks(region); ++hole) {
            note_gone(begin + hole);
        }
        return used;
    }

    template <class Consider>
    [[nodiscard]] std::size_t named(const Region& region, const SparseMemory& live, std::size_t known_blocks,
                                    Consider&& consider_block) {
        const std::size_t begin = image_.first_block(region);
        const std::size_t most = std::max(known_blocks, local_blocks(region));  // from here on nobody has had anything
        std::size_t used = known_blocks;
        names_.each_run(begin, begin + blocks_of(region.bytes), [&](std::size_t from, std::size_t to) {
            const std::size_t end = to - begin;
            for (std::size_t next = from - begin; next < end;) {
                const std::size_t block = std::min(end, next_existing_block(live, next));
                for (std::size_t hole = next; hole < std::min(block, most); ++hole) {
                    if (hole < used) {
                        leave_out(begin + hole, true);
                    } else {
                        note_gone(begin + hole);
                    }
                }
                if (block < end) {
                    for (; used <= block; ++used) {
                        enter(begin + used, kAbsent, false);  // what the table says of them comes from before
                    }
                    consider_block(begin + block, at(live.memory, block * kBlockBytes),
                                   block_bytes(region.bytes, block));
                }
                next = block + 1;
            }
        });
        return used;
    }

    // That the local copy may have.
    [[nodiscard]] std::size_t local_blocks(const Region& region) const {
        return shipping_.local == nullptr ? 0
               : &region == &image_.heap_ ? shipping_.local->header_->heap_blocks
                                          : blocks_of(region.bytes);
    }
    void leave_out(std::size_t number, bool is_known) {
        enter(number, kAbsent, is_known);
        note_gone(number);
    }
    // The local copy may have what is a hole now.
    void note_gone(std::size_t number) {
        if (shipping_.local != nullptr && shipping_.local->entry_of(number) != kAbsent) {
            shipping_.live_differs->insert(number);
        }
    }

    // What may change meanwhile is sent from a copy.
    void consider_copy(std::size_t number, const std::byte* live, std::size_t bytes) {
        if (is_unchanged(number, live)) {
            shipping_.stats.bytes_stored += bytes;
            return;
        }
        if (staged_ + bytes > kStageBytes) {
            empty_stage();
        }
        SFT_ASSERT(staged_ + bytes <= kStageBytes);
        std::byte* const copy = stage_.get() + staged_;
        raw_copy(copy, live, bytes);
        if (consider(number, copy, true)) {
            staged_ += bytes;
        }
    }

    // What the far table says from its heap_blocks on is not known here.
    void enter(std::size_t number, std::uint64_t sum, bool is_known = true) {
        std::uint64_t* entry = image_.block(number).entry;
        if (!is_known || *entry != sum) {
            *entry = sum;
            dirty_pages_.insert(image_.offset_of(entry) / kPageBytes);
        }
    }

    // The far image has it as it is: nobody has written to it since, by what the tracker knows.
    [[nodiscard]] bool is_unchanged(std::size_t number, const std::byte* live) const {
        const Block own = image_.block(number);
        if (!known_ || *own.entry == kAbsent) {
            return false;
        }
        if (number < live_.frozen_heap_bytes / kBlockBytes) {
            return true;
        }
        const BlockSet* const named = shipping_.written;
        if (named == nullptr || named->contains(number) ||
            (shipping_.slot_differs != nullptr && shipping_.slot_differs->contains(number))) {
            return false;
        }
        if (SFT_SLOW_ASSERTIONS || shipping_.checks) {
            SFT_ASSERT(checksum(live, own.bytes) == *own.entry);  // else a tracker has missed a write
        }
        return true;
    }

    // Sends the block if it may differ, or of it the pages that may; if `is_whole`, all. True: `bytes` must not change
    // any more.
    bool consider(std::size_t number, const std::byte* live, bool is_whole) {
        const Block own = image_.block(number);
        shipping_.stats.bytes_stored += own.bytes;
        if (is_unchanged(number, live)) {
            return false;
        }
        const bool is_there = known_ && *own.entry != kAbsent;
        bool differs = !is_there;
        if (shipping_.local != nullptr) {
            const unsigned pages = pages_differing_from_local(number, live);
            shipping_.live_differs->insert_pages(number, is_whole && pages != 0 ? BlockSet::kAllPages : pages);
            differs = differs || pages != 0 || shipping_.slot_differs->contains(number);
        }
        if (image_.gone()) {
            return false;  // it only remains to find out what has changed
        }
        const std::uint64_t sum = checksum(live, own.bytes);
        if (!differs && sum == *own.entry) {
            return false;
        }
        SFT_ASSERT(sum != kAbsent);
        enter(number, sum);
        send_pages(own, live, is_there && !is_whole ? pages_written(number) : BlockSet::kAllPages);
        return true;
    }

    // Those in which the far image may differ from live memory, whatever has been found in a local copy, in which a bit
    // may have flipped.
    [[nodiscard]] unsigned pages_written(std::size_t number) const {
        if (shipping_.written == nullptr) {
            return BlockSet::kAllPages;
        }
        unsigned pages = shipping_.written->pages_of(number);
        if (shipping_.slot_differs != nullptr) {
            pages |= shipping_.slot_differs->pages_of(number);
        }
        return pages != 0 ? pages : BlockSet::kAllPages;
    }

    void send_pages(const Block& own, const std::byte* live, unsigned pages) {
        for (std::size_t from = 0; from < own.bytes; from += kPageBytes, pages >>= 1U) {
            if ((pages & 1U) != 0) {
                const std::size_t bytes = std::min(kPageBytes, own.bytes - from);
                shipping_.stats.bytes_copied += bytes;
                add_to_run(image_.offset_of(own.data + from), live + from, bytes);
            }
        }
    }

    // A block that was a hole differs, even if nobody has written to it: to read it is enough to make it exist.
    [[nodiscard]] unsigned pages_differing_from_local(std::size_t number, const std::byte* live) const {
        const Image& local = *shipping_.local;
        const Block copy = local.block(number);
        if (local.entry_of(number) == kAbsent) {
            return BlockSet::kAllPages;
        }
        const unsigned named =
            shipping_.may_differ != nullptr ? shipping_.may_differ->pages_of(number) : BlockSet::kAllPages;
        unsigned found = 0;
        for (unsigned page = 0; page * kPageBytes < copy.bytes; ++page) {
            const std::size_t from = page * kPageBytes;
            const std::size_t bytes = std::min(kPageBytes, copy.bytes - from);
            if ((named & 1U << page) != 0) {
                found |= raw_equal(copy.data + from, live + from, bytes) ? 0 : 1U << page;
            } else {
                SFT_ASSERT_SLOW(raw_equal(copy.data + from, live + from, bytes));  // a tracker has missed a write
            }
        }
        return found;
    }

    void add_to_run(std::size_t offset, const std::byte* from, std::size_t bytes) {
        if (offset != run_offset_ + run_bytes_ || from != run_ + run_bytes_ ||
            run_bytes_ + bytes > image_.far_->piece_bytes()) {
            send_run();
            run_offset_ = offset;
            run_ = from;
        }
        run_bytes_ += bytes;
    }
    void send_run() {
        if (run_bytes_ != 0) {
            SFT_ASSERT(image_.header_->version.load() == kNoVersion.value());  // the far header holds nothing by now
            SFT_ASSERT(run_offset_ >= sizeof(Header));
            image_.far_->write(run_offset_, run_, run_bytes_);
            image_.far_->make_room();
        }
        run_bytes_ = 0;
        run_ = nullptr;
    }
    void empty_stage() {
        send_run();
        static_cast<void>(image_.far_->flush());
        staged_ = 0;
    }

    Image& image_;
    const LiveState& live_;
    Shipping& shipping_;
    const bool known_;
    BlockSet names_;
    bool goes_by_names_ = false;  // what is not among them is in the far image as it is, and need not be looked for
    BlockSet dirty_pages_;        // of header and table
    // Not touched where it is not used: most of it, most of the time.
    std::unique_ptr<std::byte[]> stage_ = std::make_unique_for_overwrite<std::byte[]>(kStageBytes);
    std::size_t staged_ = 0;
    std::size_t run_offset_ = 0;  // neighbours that will be sent together
    const std::byte* run_ = nullptr;
    std::size_t run_bytes_ = 0;
};

bool Image::ship(Version version, const LiveState& live, Shipping& shipping) noexcept {
    SFT_ASSERT(far_ != nullptr && version != kNoVersion);
    SFT_ASSERT(shipping.local == nullptr || shipping.local->blocks() == blocks());
    SFT_ASSERT(heap_.bytes == live.heap.bytes && globals_.bytes == live.globals.bytes);
    SFT_ASSERT(library_.bytes == live.library.bytes);
    Shipper shipper(*this, live, shipping);
    static_cast<void>(begin_change());
    shipper.heap();
    fault_point(FaultPoint::replicate_middle);
    shipper.globals();
    shipper.library();
    shipper.table();
    if (shipper.goes_by_names()) {
        shipping.stats.bytes_stored = existing_bytes();
    }
    SFT_ASSERT(shipping.stats.bytes_copied <= shipping.stats.bytes_stored);
    return seal(version);
}

}  // namespace sft
