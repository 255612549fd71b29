#include "backup/image.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backup/far_image.hpp"
#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/raw_memory.hpp"
#include "base/stream_copy.hpp"

namespace sft {
namespace {

std::byte* at_mutable(const AddressRange& range, std::size_t offset) {
    return reinterpret_cast<std::byte*>(range.begin + offset);
}

// Those bytes read as zeros afterwards: pages as holes, and what is left of pages, or if the kernel makes no holes,
// because zeros are written, unless that is a hole already. To make a hole of a hole is not for nothing: the kernel
// looks through the mappings of all processes of the node, and holds the lock of their file.
void clear(const SparseMemory& sparse, std::size_t begin, std::size_t end) {
    SFT_ASSERT(begin <= end && end <= sparse.memory.bytes);
    const std::size_t begin_page = page_floor(begin);
    const std::size_t all = whole_pages(end) - begin_page;
    if (next_existing_page(sparse.fd, sparse.file_offset + begin_page, all) == all) {
        return;
    }
    static constexpr std::byte kZeros[kPageBytes] = {};
    const auto write_zeros = [&](std::size_t from, std::size_t to) {
        const std::size_t base = page_floor(from);
        each_existing(sparse.fd, sparse.file_offset + base, whole_pages(to) - base,
                      [&](std::size_t first, std::size_t last) {
                          for (std::size_t page = base + first; page < base + last; page += kPageBytes) {
                              const std::size_t zero_from = std::max(from, page);
                              const std::size_t zero_to = std::min(to, page + kPageBytes);
                              raw_copy(at_mutable(sparse.memory, zero_from), kZeros, zero_to - zero_from);
                          }
                      });
    };
    const std::size_t first_page = whole_pages(begin);
    const std::size_t end_page = page_floor(end);
    if (first_page >= end_page || ::fallocate(sparse.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                              static_cast<off_t>(sparse.file_offset + first_page),
                                              static_cast<off_t>(end_page - first_page)) != 0) {
        write_zeros(begin, end);
        return;
    }
    if (begin < first_page) {
        write_zeros(begin, first_page);
    }
    if (end_page < end) {
        write_zeros(end_page, end);
    }
}

}  // namespace

Image::Image(std::byte* base, const LiveState& live, FarImage* far) noexcept
    : header_(reinterpret_cast<Header*>(base)), far_(far) {
    static_assert(sizeof(Header) == 4 * sizeof(std::uint64_t) && sizeof(Header) <= kPageBytes);
    static_assert(std::is_standard_layout_v<Header> && offsetof(Header, version) == 0);
    static_assert(offsetof(Header, heap_blocks) == 8 && offsetof(Header, header_sum) == 24);
    SFT_ASSERT(base != nullptr);
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(base) % alignof(Header) == 0);
    SFT_ASSERT(live.heap.bytes % kBlockBytes == 0);
    std::byte* table = base + kPageBytes;
    const std::size_t total =
        blocks_of(live.heap.bytes) + blocks_of(live.globals.bytes) + blocks_of(live.library.bytes);
    std::byte* data = table + whole_pages(total * sizeof(std::uint64_t));
    for (const auto& [region, bytes] : {std::pair{&heap_, live.heap.bytes}, std::pair{&globals_, live.globals.bytes},
                                        std::pair{&library_, live.library.bytes}}) {
        *region = {reinterpret_cast<std::uint64_t*>(table), data, bytes};
        table += blocks_of(bytes) * sizeof(std::uint64_t);
        data += whole_pages(bytes);
    }
    SFT_ASSERT(table <= base + front_bytes_for(live));  // tables end before the data begin
    SFT_ASSERT(heap_.data == base + front_bytes_for(live));
    SFT_ASSERT(data == base + bytes_for(live));
    // What is written back: sorted, disjoint, inside the globals.
    SFT_ASSERT_SLOW(std::adjacent_find(live.saved.begin(), live.saved.end(), [](const auto& a, const auto& b) {
                        return a.offset + a.bytes > b.offset;
                    }) == live.saved.end());
    SFT_ASSERT(live.saved.empty() || live.saved.back().offset + live.saved.back().bytes <= live.globals.bytes);
}

std::size_t Image::front_bytes_for(const LiveState& live) noexcept {
    const std::size_t total =
        blocks_of(live.heap.bytes) + blocks_of(live.globals.bytes) + blocks_of(live.library.bytes);
    return kPageBytes + whole_pages(total * sizeof(std::uint64_t));
}

std::size_t Image::bytes_for(const LiveState& live) noexcept {
    return front_bytes_for(live) + whole_pages(live.heap.bytes) + whole_pages(live.globals.bytes) +
           whole_pages(live.library.bytes);
}

bool Image::touch(std::size_t first, std::size_t end) const noexcept {
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, from Linux 5.14 on
    SFT_ASSERT(far_ == nullptr && first < end);
    const Block last = block(end - 1);
    std::byte* const begin = block(first).data;
    SFT_ASSERT(last.data >= begin);
    const std::size_t bytes = static_cast<std::size_t>(last.data - begin) + last.bytes;
    SFT_ASSERT(bytes <= (end - first) * kBlockBytes);  // not across regions
    return ::madvise(begin, bytes, kPopulateWrite) == 0;
}

class Image::Loader {
public:
    Loader(Image& image, Version version, const Image* other, Findings& findings)
        : image_(image), version_(version), other_(other), findings_(findings) {}
    ~Loader() { stream_fence(); }
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    // Writes that part of a region, whose blocks all exist, to live memory. False: a block is bad for good.
    bool load(const Region& region, const AddressRange& live, ByteExtent extent) {
        // Nothing outside of live memory is written, whatever the image says.
        SFT_ASSERT(region.bytes == live.bytes);
        SFT_ASSERT(extent.bytes <= live.bytes && extent.offset <= live.bytes - extent.bytes);
        const std::size_t first = extent.offset / kBlockBytes;
        const std::size_t end = blocks_of(extent.offset + extent.bytes);
        for (std::size_t block = first; block < end; ++block) {
            const std::byte* data = verified(image_.first_block(region) + block);
            if (data == nullptr) {
                return false;
            }
            const std::size_t begin_byte = std::max(extent.offset, block * kBlockBytes);
            const std::size_t end_byte = std::min(extent.offset + extent.bytes, (block + 1) * kBlockBytes);
            SFT_ASSERT(begin_byte >= extent.offset && begin_byte <= end_byte);
            const std::byte* from = data + (begin_byte - block * kBlockBytes);
            std::byte* to = at_mutable(live, begin_byte);
            if (!raw_equal(to, from, end_byte - begin_byte)) {
                put(to, from, end_byte - begin_byte);
            }
        }
        return true;
    }

private:
    // Past the caches if there is more than they hold: the program reads it later, if at all.
    void put(std::byte* to, const std::byte* from, std::size_t bytes) {
        if (goes_past_caches(copied_, to, bytes)) {
            stream_copy(to, from, bytes);
        } else {
            raw_copy(to, from, bytes);
        }
        copied_ += bytes;
    }

    // The data of the block, or null.
    const std::byte* verified(std::size_t block) {
        SFT_ASSERT(block < image_.blocks());
        if (block == last_) {
            return data_;
        }
        ++findings_.checked;
        last_ = block;
        data_ = image_.data_if_intact(block);
        if (data_ == nullptr && image_.gone()) {
            findings_.gone = true;
        } else if (data_ == nullptr) {
            if (other_ == nullptr || !image_.mend_block(version_, block, *other_)) {
                findings_.bad.push_back(block);
                return nullptr;
            }
            ++findings_.mended;
            data_ = image_.data_if_intact(block);
        }
        return data_;
    }

    Image& image_;
    Version version_;
    const Image* other_;
    Findings& findings_;
    std::size_t last_ = SIZE_MAX;
    const std::byte* data_ = nullptr;
    std::size_t copied_ = 0;
};

bool Image::prepare(Version version, const Image* other, Findings& findings) noexcept {
    if (!sound(version)) {
        findings.sound = other != nullptr && mend_table(version, *other);
        findings.mended += findings.sound ? 1 : 0;
    }
    return findings.sound;
}

Findings Image::load_front(Version version, const LiveState& live, std::size_t heap_bytes) {
    SFT_ASSERT(heap_bytes <= live.heap.bytes);
    Findings findings;
    if (!prepare(version, nullptr, findings)) {
        return findings;
    }
    Loader loader(*this, version, nullptr, findings);
    SFT_ASSERT(library_.bytes == live.library.bytes && header_->heap_blocks <= blocks_of(heap_.bytes));
    const std::size_t end = std::min<std::size_t>(blocks_of(heap_bytes), header_->heap_blocks);
    expect(0, end);
    for (std::size_t block = 0; block < end; ++block) {
        if (heap_.table[block] != kAbsent &&
            !loader.load(heap_, live.heap, {block * kBlockBytes, block_bytes(heap_.bytes, block)})) {
            return findings;
        }
    }
    expect(first_block(library_), blocks());
    static_cast<void>(loader.load(library_, live.library, {0, library_.bytes}));
    return findings;
}

// Runs of blocks that exist, and runs of those that did not.
bool Image::load_saved(Loader& loader, const LiveState& live, const ByteExtent& extent) {
    const std::size_t end = extent.offset + extent.bytes;
    for (std::size_t from = extent.offset; from < end;) {
        const auto is_absent = [&](std::size_t byte) { return globals_.table[byte / kBlockBytes] == kAbsent; };
        const bool is_hole = is_absent(from);
        std::size_t to = from;
        do {
            to = std::min(end, (to / kBlockBytes + 1) * kBlockBytes);
        } while (to < end && is_absent(to) == is_hole);
        if (is_hole) {
            clear(globals_of(live), from, to);
        } else if (!loader.load(globals_, live.globals, {from, to - from})) {
            return false;
        }
        from = to;
    }
    return true;
}

Findings Image::load(Version version, const LiveState& live, const Image* other) {
    SFT_ASSERT(version != kNoVersion && other != this);
    Findings findings;
    if (!prepare(version, other, findings)) {
        return findings;
    }
    SFT_ASSERT(header_->heap_blocks <= blocks_of(heap_.bytes));
    Loader loader(*this, version, other, findings);
    expect(0, blocks());
    std::size_t absent_from = 0;
    for (std::size_t block = 0; block < header_->heap_blocks; ++block) {
        if (heap_.table[block] == kAbsent) {
            continue;
        }
        if (absent_from < block) {
            clear(heap_of(live), absent_from * kBlockBytes, block * kBlockBytes);
        }
        absent_from = block + 1;
        if (!loader.load(heap_, live.heap, {block * kBlockBytes, block_bytes(heap_.bytes, block)})) {
            return findings;
        }
    }
    if (absent_from < blocks_of(live.heap.bytes)) {
        clear(heap_of(live), absent_from * kBlockBytes, live.heap.bytes);
    }
    fault_point(FaultPoint::restore_middle);
    for (const ByteExtent& extent : live.saved) {
        if (!load_saved(loader, live, extent)) {
            return findings;
        }
    }
    static_cast<void>(loader.load(library_, live.library, {0, library_.bytes}));
    SFT_ASSERT(findings.mended + findings.bad.size() <= findings.checked + 1);  // and the table
    return findings;
}

}  // namespace sft
