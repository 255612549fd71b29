// Storing: live memory into an image that is not far.
#include <algorithm>
#include <bit>

#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/raw_memory.hpp"
#include "base/stream_copy.hpp"

namespace sft {

// One store() on its way through the blocks.
struct Image::Pass {
    const Storing& storing;
    const bool known;  // the table was sound before
    const std::uint64_t* const table;
    const std::size_t frozen_blocks;  // of the heap
    const LiveState& live;
    const std::byte* const globals;  // in the image
    const bool goes_by_names;        // nothing else than what is named has to be looked at
    ImageStats stats = {};

    [[nodiscard]] const BlockSet* names() const noexcept {
        return storing.differing != nullptr ? storing.differing : storing.may_differ;
    }
    [[nodiscard]] bool is_unnamed(std::size_t number) const noexcept {
        return known && storing.differing == nullptr && storing.may_differ != nullptr &&
               !storing.may_differ->contains(number);
    }
    // Blocks that the table has exist in live memory, and need not be asked for.
    [[nodiscard]] bool knows_present() const noexcept { return known && storing.is_present_known; }
    // The other image says which blocks exist.
    [[nodiscard]] bool goes_like() const noexcept {
        return storing.like != nullptr && (goes_by_names || storing.copies_like);
    }
    // What the other image has where this one has that.
    [[nodiscard]] const std::byte* in_like(const std::byte* stored) const noexcept {
        return storing.like->begin() + kPageBytes + (stored - reinterpret_cast<const std::byte*>(table));
    }
    // What it gets is in the stash, and not in live memory.
    [[nodiscard]] bool is_stashed(const std::byte* stored) const noexcept {
        return storing.stash != nullptr && stored >= globals;
    }
    // The pages of the block that have to be looked at, if it is known that the others do not differ; else none.
    [[nodiscard]] unsigned pages_named(std::size_t number) const noexcept {
        const BlockSet* const named = names();
        return known && named != nullptr && number >= frozen_blocks ? named->pages_of(number) : 0;
    }
    // What is not named of a block with pages that are.
    void check_rest(const std::byte* stored, const std::byte* block, std::size_t bytes) const noexcept {
        if ((SFT_SLOW_ASSERTIONS && storing.like == nullptr) || storing.checks) {
            SFT_ASSERT(raw_equal(stored, block, bytes) || may_change(block, bytes));  // else a tracker missed a write
        }
    }
    // Of a block that the image has not: somebody may have read there, which makes a page of zeros.
    void check_new(std::size_t number, const std::byte* block, std::size_t bytes) const noexcept {
        if ((SFT_SLOW_ASSERTIONS || storing.checks) && number >= frozen_blocks && is_unnamed(number) &&
            storing.like == nullptr) {
            SFT_ASSERT((block[0] == std::byte(0) && raw_equal(block, block + 1, bytes - 1)) ||
                       may_change(block, bytes));  // else a tracker has missed a write
        }
    }
    // Whether something in it is not written back: private variables of a thread that goes on, a sanitizer's state.
    [[nodiscard]] bool may_change(const std::byte* block, std::size_t bytes) const noexcept {
        const std::size_t offset = reinterpret_cast<std::uintptr_t>(block) - live.globals.begin;
        return live.globals.contains(block) &&
               std::none_of(live.saved.begin(), live.saved.end(), [&](const ByteExtent& extent) {
                   return extent.offset <= offset && offset + bytes <= extent.offset + extent.bytes;
               });
    }
    [[nodiscard]] bool differs(std::size_t number, const std::byte* stored, const std::byte* block,
                               std::size_t bytes) const noexcept {
        if (number < frozen_blocks) {
            return false;
        }
        if (is_unnamed(number)) {
            // A thread of the application that goes on writing changes live memory, and a flipped bit what is stored,
            // but neither what the other image was found to hold.
            if (SFT_SLOW_ASSERTIONS && storing.like != nullptr) {
                SFT_ASSERT(table[number] == storing.like->entry_of(number));
            } else if (SFT_SLOW_ASSERTIONS || storing.checks) {
                SFT_ASSERT(raw_equal(stored, block, bytes) ||
                           may_change(block, bytes));  // else a tracker missed a write
            }
            return false;
        }
        return storing.differing != nullptr ? storing.differing->contains(number) : !raw_equal(stored, block, bytes);
    }
};

// A block of whose pages some are named, none of the others differs, so the sums of the others are in its entry. False:
// it has to be looked at as a whole.
bool Image::store_pages(std::uint64_t& entry, std::byte* stored, const std::byte* live, std::size_t bytes,
                        std::size_t number, Pass& pass) noexcept {
    const unsigned pages = pass.pages_named(number);
    // An entry of 1 may stand for a sum of 0.
    if (pages == 0 || pages == BlockSet::kAllPages || entry == kAbsent || entry == 1) {
        return false;
    }
    SFT_ASSERT(!pass.is_stashed(stored));  // Image::ship() names whole blocks of what is sent from a buffer
    unsigned copied = 0;
    std::uint64_t sum = entry;
    for (unsigned rest = pages; rest != 0; rest &= rest - 1) {
        const auto page = static_cast<unsigned>(std::countr_zero(rest));
        const std::size_t from = page * kPageBytes;
        if (from >= bytes) {
            break;
        }
        const std::size_t n = std::min(kPageBytes, bytes - from);
        if (raw_equal(stored + from, live + from, n)) {
            continue;
        }
        if (copied == 0 && pass.storing.listener != nullptr) {
            pass.storing.listener->about_to_change(number, stored, bytes);
        }
        copied |= 1U << page;
        sum -= page_sum(stored + from, n, page);
        raw_copy(stored + from, live + from, n);
        sum += page_sum(stored + from, n, page);
        pass.stats.bytes_copied += n;
    }
    entry = entry_for(sum);
    pass.check_rest(stored, live, bytes);
    if (copied != 0 && pass.storing.changed != nullptr) {
        pass.storing.changed->insert_pages(number, copied);
    }
    return true;
}

void Image::store_block(const Region& region, std::size_t block, const std::byte* live, Pass& pass) noexcept {
    SFT_ASSERT(block < blocks_of(region.bytes));
    std::byte* stored = region.data + block * kBlockBytes;
    const std::size_t bytes = block_bytes(region.bytes, block);
    const auto number = static_cast<std::size_t>(region.table + block - pass.table);
    if (pass.storing.source != nullptr && region.table == pass.table) {
        live = pass.storing.source->at(block, live);
    }
    pass.stats.bytes_stored += bytes;
    if (region.table[block] == kAbsent) {
        pass.check_new(number, live, bytes);
    } else if (pass.known && (store_pages(region.table[block], stored, live, bytes, number, pass) ||
                              !pass.differs(number, stored, live, bytes))) {
        return;
    }
    if (pass.storing.listener != nullptr) {
        pass.storing.listener->about_to_change(number, stored, bytes);
    }
    const std::byte* const from = pass.is_stashed(stored) ? pass.storing.stash + (stored - pass.globals) : live;
    // Of the copy, while it is in the cache, and not of live memory: a thread of the application that goes on writing
    // would make a copy that looks bad. The table may be torn by a death here; the header does not vouch for it now.
    // Where the kernel may have to make the pages it does so in the cache.
    if (region.table[block] != kAbsent && goes_past_caches(pass.stats.bytes_copied, stored, bytes)) {
        region.table[block] = copy_past_caches(stored, from);
    } else {
        raw_copy(stored, from, bytes);
        region.table[block] = checksum(stored, bytes);
    }
    SFT_ASSERT(region.table[block] != kAbsent);
    pass.stats.bytes_copied += bytes;
    if (pass.storing.changed != nullptr) {
        pass.storing.changed->insert(number);
    }
}

// A whole block. Page by page, so that what the checksum is made of is in the nearest cache, and the next page comes
// while it is made.
std::uint64_t Image::copy_past_caches(std::byte* stored, const std::byte* from) noexcept {
    alignas(kStreamUnit) std::byte page[kPageBytes];
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < kPagesOfBlock; ++i) {
        const std::byte* const next = from + kPageBytes;
        stream_copy(stored + i * kPageBytes, page, from, kPageBytes);
        ask_for(next, kPageBytes);  // behind the block, too: mostly it has changed like this one
        sum += page_sum(page, kPageBytes, i);
        from = next;
    }
    return entry_for(sum);
}

// What the other image has there, with the sum that it has: if that does not fit there it does not fit here either.
void Image::copy_block(const Region& region, std::size_t block, Pass& pass) noexcept {
    std::byte* const stored = region.data + block * kBlockBytes;
    const std::size_t bytes = block_bytes(region.bytes, block);
    const auto number = static_cast<std::size_t>(region.table + block - pass.table);
    const bool is_there = pass.known && region.table[block] != kAbsent;
    const std::byte* const from = pass.in_like(stored);
    const BlockSet* const names = pass.storing.may_differ;
    unsigned pages = is_there && names != nullptr ? names->pages_of(number) : BlockSet::kAllPages;
    for (unsigned page = 0; is_there && page < kPagesOfBlock; ++page) {
        const std::size_t begin = page * kPageBytes;
        if (begin >= bytes || raw_equal(stored + begin, from + begin, std::min(kPageBytes, bytes - begin))) {
            pages &= ~(1U << page);
        }
    }
    pass.stats.bytes_stored += bytes;
    if (pages != 0 && pass.storing.listener != nullptr) {
        pass.storing.listener->about_to_change(number, stored, bytes);
    }
    region.table[block] = pass.storing.like->heap_.table[number];
    if (is_there && pages == BlockSet::kAllPages && goes_past_caches(pass.stats.bytes_copied, stored, bytes)) {
        stream_copy(stored, from, bytes);
        pass.stats.bytes_copied += bytes;
    } else {
        for (unsigned rest = pages; rest != 0; rest &= rest - 1) {
            const std::size_t begin = static_cast<unsigned>(std::countr_zero(rest)) * kPageBytes;
            const std::size_t n = begin < bytes ? std::min(kPageBytes, bytes - begin) : 0;
            raw_copy(stored + begin, from + begin, n);
            pass.stats.bytes_copied += n;
        }
    }
    if (pass.storing.changed != nullptr) {
        pass.storing.changed->insert_pages(number, pages);  // none, if it has all of it
    }
}

void Image::store_whole(const Region& region, const AddressRange& live, Pass& pass) noexcept {
    SFT_ASSERT(region.bytes == live.bytes);
    for (std::size_t block = 0; block < blocks_of(region.bytes); ++block) {
        if (pass.storing.copies_like) {
            copy_block(region, block, pass);
        } else {
            store_block(region, block, at(live, block * kBlockBytes), pass);
        }
    }
}

void Image::forget(const Region& region, std::size_t first, std::size_t end, Pass& pass) noexcept {
    for (std::size_t block = first_present(region.table, first, end); block < end;
         block = first_present(region.table, block + 1, end)) {
        region.table[block] = kAbsent;
        if (pass.storing.changed != nullptr) {
            pass.storing.changed->insert(static_cast<std::size_t>(region.table + block - pass.table));
        }
    }
}

// Calls visit(first, end) for each run of blocks that exist. Of those that the image has that may be known; to ask
// takes a system call for each run and for each gap, and a lock of the file that the PEs of a node share.
template <class Visit>
void Image::each_live_run(const Region& region, const SparseMemory& live, std::size_t known_blocks, const Pass& pass,
                          Visit&& visit) {
    if (!pass.knows_present()) {
        each_existing_run(live, visit);
        return;
    }
    const std::size_t blocks = blocks_of(region.bytes);
    for (std::size_t from = 0; from < blocks;) {
        const std::size_t present = first_present(region.table, from, known_blocks);
        const std::size_t gap_end = present < known_blocks ? present : blocks;
        if (from < gap_end) {
            each_existing_run(part_of(live, from, gap_end),
                              [&](std::size_t first, std::size_t end) { visit(from + first, from + end); });
        }
        std::size_t end = gap_end;
        while (end < known_blocks && region.table[end] != kAbsent) {
            ++end;
        }
        if (gap_end < end) {
            each_included_run(live, gap_end, end, visit);
        }
        from = end;
    }
}

// known_blocks: the table says something about those in front of it. Result: behind which none exists.
std::size_t Image::store_existing(const Region& region, const SparseMemory& live, std::size_t known_blocks,
                                  Pass& pass) noexcept {
    SFT_ASSERT(region.bytes == live.memory.bytes && known_blocks <= blocks_of(region.bytes));
    std::size_t used = 0;
    each_live_run(region, live, known_blocks, pass, [&](std::size_t first, std::size_t end) {
        SFT_ASSERT(first >= used && first < end && end <= blocks_of(region.bytes));
        // Also what a torn or damaged table may say of blocks between the runs is forgotten.
        forget(region, used, first, pass);
        forget(region, std::max(first, known_blocks), end, pass);
        for (std::size_t block = first; block < end; ++block) {
            store_block(region, block, at(live.memory, block * kBlockBytes), pass);
        }
        used = end;
    });
    forget(region, used, known_blocks, pass);
    return used;
}

// The same of the blocks that are named only: of the others everything stays as the table has it.
std::size_t Image::store_named(const Region& region, const SparseMemory& live, std::size_t known_blocks,
                               Pass& pass) noexcept {
    SFT_ASSERT(pass.goes_by_names && region.bytes == live.memory.bytes && known_blocks <= blocks_of(region.bytes));
    const auto base = static_cast<std::size_t>(region.table - pass.table);
    std::size_t used = known_blocks;
    pass.names()->each_run(base, base + blocks_of(region.bytes), [&](std::size_t from, std::size_t to) {
        const std::size_t end = to - base;
        for (std::size_t next = from - base; next < end;) {
            const bool is_there = pass.knows_present() && next < known_blocks && region.table[next] != kAbsent &&
                                  next_included_block(live, next) == next;
            const std::size_t block = is_there ? next : std::min(end, next_existing_block(live, next));
            forget(region, next, std::min(block, known_blocks), pass);
            if (block < end) {
                forget(region, used, block + 1, pass);  // what the table says of them comes from before
                store_block(region, block, at(live.memory, block * kBlockBytes), pass);
                used = std::max(used, block + 1);
            }
            next = block + 1;
        }
    });
    return used;
}

// The same, where another image says which of its first blocks exist; it has none behind them.
std::size_t Image::store_like(const Region& region, const AddressRange& live, std::size_t known_blocks,
                              std::size_t blocks, Pass& pass) noexcept {
    const bool is_copied = pass.storing.copies_like;
    SFT_ASSERT((is_copied || pass.goes_by_names) && region.bytes == live.bytes && blocks <= blocks_of(region.bytes));
    const auto base = static_cast<std::size_t>(region.table - pass.table);
    const std::uint64_t* const like = pass.storing.like->heap_.table + base;
    const auto store_run = [&](std::size_t first, std::size_t end) {
        for (std::size_t block = first; block < end; ++block) {
            if (like[block] == kAbsent) {
                forget(region, block, block + 1, pass);
            } else if (is_copied) {
                copy_block(region, block, pass);
            } else {
                store_block(region, block, at(live, block * kBlockBytes), pass);
            }
        }
    };
    if (pass.storing.may_differ == nullptr) {
        store_run(0, std::min(blocks, known_blocks));
    } else {
        pass.storing.may_differ->each_run(base, base + std::min(blocks, known_blocks),
                                          [&](std::size_t from, std::size_t to) { store_run(from - base, to - base); });
    }
    forget(region, std::min(blocks, known_blocks), std::max(blocks, known_blocks), pass);
    if (blocks > known_blocks) {
        store_run(known_blocks, blocks);
    }
    return blocks;
}

Image::Share Image::share_of_heap(const BlockSet& names) const noexcept {
    SFT_ASSERT(far_ == nullptr);
    const std::size_t blocks = header_->heap_blocks;
    Share share;
    for (std::size_t block = first_present(heap_.table, 0, blocks); block < blocks;
         block = first_present(heap_.table, block + 1, blocks)) {
        share.named += static_cast<std::size_t>(std::popcount(names.pages_of(block)));
        share.all += kPagesOfBlock;
    }
    return share;
}

std::uint64_t Image::entry_of(std::size_t number) const noexcept {
    const bool is_behind_heap = number < first_block(globals_) && number >= header_->heap_blocks;
    return is_behind_heap ? kAbsent : *block(number).entry;
}

void Image::note_differences(const Image& other, const BlockSet* among, BlockSet& into) const noexcept {
    SFT_ASSERT(far_ == nullptr && other.far_ == nullptr && blocks() == other.blocks());
    const auto note = [&](std::size_t first, std::size_t end) {
        for (std::size_t number = first; number < end; ++number) {
            if (entry_of(number) != other.entry_of(number)) {
                into.insert(number);
            }
        }
    };
    if (among == nullptr) {
        note(0, std::max(header_->heap_blocks, other.header_->heap_blocks));  // none of the heap exists behind that
        note(first_block(globals_), blocks());
    } else {
        among->each_run(0, blocks(), note);
    }
}

std::size_t Image::existing_bytes(const Region& region, std::size_t blocks) noexcept {
    std::size_t bytes = 0;
    for (std::size_t block = first_present(region.table, 0, blocks); block < blocks;
         block = first_present(region.table, block + 1, blocks)) {
        bytes += block_bytes(region.bytes, block);
    }
    return bytes;
}

// By the table.
std::size_t Image::existing_bytes() const noexcept {
    return existing_bytes(heap_, header_->heap_blocks) + existing_bytes(globals_, blocks_of(globals_.bytes)) +
           library_.bytes;
}

void Image::store_heap(const LiveState& live, Pass& pass) noexcept {
    SFT_ASSERT(header_->version.load() == kNoVersion.value());  // cleared before the first byte changes
    const std::size_t known_blocks = pass.known ? header_->heap_blocks : 0;
    if (pass.goes_like()) {
        header_->heap_blocks =
            store_like(heap_, live.heap, known_blocks, pass.storing.like->header_->heap_blocks, pass);
    } else {
        header_->heap_blocks = pass.goes_by_names ? store_named(heap_, heap_of(live), known_blocks, pass)
                                                  : store_existing(heap_, heap_of(live), known_blocks, pass);
    }
}

// Every entry of their table counts.
void Image::store_globals(const LiveState& live, Pass& pass) noexcept {
    const std::size_t blocks = blocks_of(globals_.bytes);
    if (pass.goes_like()) {
        static_cast<void>(store_like(globals_, live.globals, pass.known ? blocks : 0, blocks, pass));
    } else if (pass.goes_by_names) {
        static_cast<void>(store_named(globals_, globals_of(live), blocks, pass));
    } else {
        const std::size_t used = store_existing(globals_, globals_of(live), pass.known ? blocks : 0, pass);
        forget(globals_, used, blocks, pass);
    }
}

// To look for a named block that exists takes a system call, and to look for all that exist a walk through the file's
// pages. A tracker names holes as well: a run of them takes one call.
bool Image::are_few(const BlockSet& names) const noexcept {
    constexpr std::size_t kOneOf = 8;
    std::size_t n = 0;
    const auto count = [&](const Region& region, std::size_t blocks) {
        const std::size_t base = first_block(region);
        names.each_run(base, base + blocks, [&](std::size_t first, std::size_t end) {
            n += static_cast<std::size_t>(std::count_if(region.table + (first - base), region.table + (end - base),
                                                        [](std::uint64_t entry) { return entry != kAbsent; }));
        });
    };
    count(heap_, header_->heap_blocks);
    count(globals_, blocks_of(globals_.bytes));
    return n < (header_->heap_blocks + blocks_of(globals_.bytes)) / kOneOf;
}

ImageStats Image::store(Version version, const LiveState& live, const Storing& storing) noexcept {
    const bool is_known = sound(this->version());
    const bool has_names =
        is_known && (storing.differing != nullptr ? are_few(*storing.differing) : storing.may_differ != nullptr);
    Pass pass{.storing = storing,
              .known = is_known,
              .table = heap_.table,
              .frozen_blocks = live.frozen_heap_bytes / kBlockBytes,
              .live = live,
              .globals = globals_.data,
              .goes_by_names = has_names && !SFT_SLOW_ASSERTIONS && !storing.checks};
    SFT_ASSERT(version != kNoVersion && far_ == nullptr);
    // Not when the image is made: that threads do, too, beside the one that changes it.
    SFT_ASSERT(live.frozen_heap_bytes % kBlockBytes == 0 && live.frozen_heap_bytes <= live.heap.bytes);
    SFT_ASSERT(heap_.bytes == live.heap.bytes && library_.bytes == live.library.bytes);
    SFT_ASSERT(globals_.bytes == live.globals.bytes);
    SFT_ASSERT(storing.like == nullptr || (storing.like->holds(version) && storing.like->far_ == nullptr));
    SFT_ASSERT(storing.copies_like ? storing.like != nullptr && storing.source == nullptr
                                   : storing.like == nullptr || storing.may_differ != nullptr);
    pass.stats.was_sound = pass.known;
    begin_change();
    if (storing.source == nullptr) {
        store_heap(live, pass);
        fault_point(storing.middle);
    }
    store_globals(live, pass);
    store_whole(library_, live.library, pass);
    if (storing.source != nullptr) {
        storing.source->saved_rest();
        fault_point(storing.middle);
        store_heap(live, pass);
    }
    stream_fence();  // the header vouches for what is seen by then
    if (storing.copies_like) {
        pass.stats.bytes_stored = existing_bytes();
    } else if (pass.goes_by_names && storing.like != nullptr) {
        pass.stats.bytes_stored = storing.like_bytes;
    } else if (pass.goes_by_names) {
        pass.stats.bytes_stored = existing_bytes();
    }
    seal(version);
    SFT_ASSERT(holds(version));  // not that every block is intact: a flip that equals the change kept its entry
    SFT_ASSERT_SLOW(sound(version));
    SFT_ASSERT(pass.stats.bytes_copied <= pass.stats.bytes_stored);
    return pass.stats;
}

}  // namespace sft
