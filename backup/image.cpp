#include "backup/image.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>

#include "shmem_ft/base/raw_memory.hpp"

namespace sft {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kAbsent = 0;

constexpr std::size_t blocks_of(std::size_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }
constexpr std::size_t pages_of(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
constexpr std::size_t block_bytes(std::size_t region_bytes, std::size_t block) {
    return std::min(kBlockBytes, region_bytes - block * kBlockBytes);
}

const std::byte* at(const AddressRange& range, std::size_t offset) {
    return reinterpret_cast<const std::byte*>(range.begin + offset);
}
std::byte* at_mutable(const AddressRange& range, std::size_t offset) {
    return reinterpret_cast<std::byte*>(range.begin + offset);
}

// Calls visit(first_block, end_block) for each run of blocks of the file in which some page exists.
template <class Visit>
void each_existing_run(int fd, std::size_t bytes, Visit&& visit) {
    std::size_t done = 0;  // blocks
    off_t position = 0;
    while (static_cast<std::size_t>(position) < bytes) {
        const off_t data = ::lseek(fd, position, SEEK_DATA);
        if (data < 0) {
            break;
        }
        const off_t hole = ::lseek(fd, data, SEEK_HOLE);
        const auto end_byte = hole < 0 ? bytes : std::min(bytes, static_cast<std::size_t>(hole));
        const std::size_t first = std::max(done, static_cast<std::size_t>(data) / kBlockBytes);
        const std::size_t end = blocks_of(end_byte);
        if (first < end) {
            visit(first, end);
            done = end;
        }
        position = static_cast<off_t>(end_byte);
    }
}

void punch(int fd, std::size_t first_block, std::size_t end_block) {
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first_block * kBlockBytes),
                static_cast<off_t>((end_block - first_block) * kBlockBytes));
}

}  // namespace

struct Image::Header {
    std::atomic<std::uint64_t> version;  // 0: torn or empty
    std::uint64_t heap_blocks;           // blocks from here on are absent
};

Image::Image(std::byte* base, const LiveState& live) noexcept : header_(reinterpret_cast<Header*>(base)) {
    std::byte* table = base + kPage;
    const std::size_t total =
        blocks_of(live.heap.bytes) + blocks_of(live.globals.bytes) + blocks_of(live.library.bytes);
    std::byte* data = table + pages_of(total * sizeof(std::uint64_t));
    for (const auto& [region, bytes] : {std::pair{&heap_, live.heap.bytes}, std::pair{&globals_, live.globals.bytes},
                                        std::pair{&library_, live.library.bytes}}) {
        *region = {reinterpret_cast<std::uint64_t*>(table), data, bytes};
        table += blocks_of(bytes) * sizeof(std::uint64_t);
        data += pages_of(bytes);
    }
}

std::size_t Image::bytes_for(const LiveState& live) noexcept {
    const std::size_t total =
        blocks_of(live.heap.bytes) + blocks_of(live.globals.bytes) + blocks_of(live.library.bytes);
    return kPage + pages_of(total * sizeof(std::uint64_t)) + pages_of(live.heap.bytes) + pages_of(live.globals.bytes) +
           pages_of(live.library.bytes);
}

bool Image::holds(Version version) const noexcept {
    return version != kNoVersion && header_->version.load(std::memory_order_acquire) == version.value();
}

std::uint64_t Image::checksum(const std::byte* data, std::size_t bytes) noexcept {
    const std::uint64_t sum = XXH3_64bits(data, bytes);
    return sum == kAbsent ? 1 : sum;
}

void Image::store_block(const Region& region, std::size_t block, const std::byte* live, ImageStats& stats) noexcept {
    std::byte* stored = region.data + block * kBlockBytes;
    const std::size_t bytes = block_bytes(region.bytes, block);
    stats.bytes_stored += bytes;
    if (region.table[block] != kAbsent && raw_equal(stored, live, bytes)) {
        return;
    }
    // A death between these stores leaves the block absent, never with another content's checksum.
    const std::atomic_ref entry(region.table[block]);
    entry.store(kAbsent, std::memory_order_seq_cst);
    raw_copy(stored, live, bytes);
    entry.store(checksum(stored, bytes), std::memory_order_release);  // while the block is in the cache
    stats.bytes_copied += bytes;
}

void Image::store_whole(const Region& region, const AddressRange& live, ImageStats& stats) noexcept {
    for (std::size_t block = 0; block < blocks_of(region.bytes); ++block) {
        store_block(region, block, at(live, block * kBlockBytes), stats);
    }
}

void Image::store_heap(const LiveState& live, ImageStats& stats) noexcept {
    const std::size_t old_blocks = header_->heap_blocks;
    std::size_t next = 0;
    const auto forget_until = [&](std::size_t end) {
        for (; next < std::min(end, old_blocks); ++next) {
            if (heap_.table[next] != kAbsent) {
                heap_.table[next] = kAbsent;
            }
        }
    };
    std::size_t used = 0;
    each_existing_run(live.heap_fd, live.heap.bytes, [&](std::size_t first, std::size_t end) {
        forget_until(first);
        for (std::size_t block = first; block < end; ++block) {
            store_block(heap_, block, at(live.heap, block * kBlockBytes), stats);
        }
        next = used = end;
    });
    forget_until(old_blocks);
    header_->heap_blocks = used;
}

ImageStats Image::store(Version version, const LiveState& live, FaultPoint middle) noexcept {
    ImageStats stats;
    header_->version.store(kNoVersion.value(), std::memory_order_seq_cst);
    store_heap(live, stats);
    fault_point(middle);
    store_whole(globals_, live.globals, stats);
    store_whole(library_, live.library, stats);
    header_->version.store(version.value(), std::memory_order_seq_cst);
    return stats;
}

bool Image::load_extent(const Region& region, const AddressRange& live, ByteExtent extent) noexcept {
    const std::size_t first = extent.offset / kBlockBytes;
    const std::size_t end = blocks_of(extent.offset + extent.bytes);
    for (std::size_t block = first; block < end; ++block) {
        const std::byte* stored = region.data + block * kBlockBytes;
        if (checksum(stored, block_bytes(region.bytes, block)) != region.table[block]) {
            return false;
        }
        const std::size_t begin_byte = std::max(extent.offset, block * kBlockBytes);
        const std::size_t end_byte = std::min(extent.offset + extent.bytes, (block + 1) * kBlockBytes);
        const std::byte* from = region.data + begin_byte;
        std::byte* to = at_mutable(live, begin_byte);
        if (!raw_equal(to, from, end_byte - begin_byte)) {
            raw_copy(to, from, end_byte - begin_byte);
        }
    }
    return true;
}

bool Image::load_heap(const LiveState& live) const noexcept {
    const std::size_t blocks = blocks_of(live.heap.bytes);
    const std::size_t used = header_->heap_blocks;
    std::size_t absent_from = 0;
    for (std::size_t block = 0; block < used; ++block) {
        if (heap_.table[block] == kAbsent) {
            continue;
        }
        if (absent_from < block) {
            punch(live.heap_fd, absent_from, block);
        }
        absent_from = block + 1;
        if (!load_extent(heap_, live.heap, {block * kBlockBytes, block_bytes(heap_.bytes, block)})) {
            return false;
        }
    }
    if (absent_from < blocks) {
        punch(live.heap_fd, absent_from, blocks);
    }
    return true;
}

bool Image::load_front(Version version, const LiveState& live, std::size_t heap_bytes) const noexcept {
    if (!holds(version)) {
        return false;
    }
    for (std::size_t block = 0; block < blocks_of(heap_bytes); ++block) {
        if (heap_.table[block] != kAbsent &&
            !load_extent(heap_, live.heap, {block * kBlockBytes, block_bytes(heap_.bytes, block)})) {
            return false;
        }
    }
    return load_extent(library_, live.library, {0, library_.bytes});
}

bool Image::load(Version version, const LiveState& live) const noexcept {
    fault_point(FaultPoint::restore_begin);
    if (!holds(version) || !load_heap(live)) {
        return false;
    }
    fault_point(FaultPoint::restore_middle);
    for (const ByteExtent& extent : live.saved) {
        if (!load_extent(globals_, live.globals, extent)) {
            return false;
        }
    }
    if (!load_extent(library_, live.library, {0, library_.bytes})) {
        return false;
    }
    fault_point(FaultPoint::restore_end);
    return true;
}

}  // namespace sft
