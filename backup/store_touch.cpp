// The part of BackupStore that gives copies their pages before they are written.
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "backup/image_layout.hpp"
#include "backup/store.hpp"
#include "base/assert.hpp"

namespace sft {
namespace {

struct Blocks {
    std::size_t begin = 0;
    std::size_t end = 0;
};

// The first run of blocks from `from` on that versions contain, numbered through heap and globals; empty: there are
// none.
Blocks next_run(const LiveState& live, std::size_t from) {
    std::size_t begin = 0;  // of the part
    for (const SparseMemory& part : {heap_of(live), globals_of(live)}) {
        const std::size_t end = begin + blocks_of(part.memory.bytes);
        const std::size_t block = from < end ? next_existing_block(part, std::max(from, begin) - begin) : end - begin;
        if (block < end - begin) {
            const std::size_t offset = block * kBlockBytes;
            const ExistingRun found = first_existing(part.fd, part.file_offset + offset, part.memory.bytes - offset);
            const std::size_t run_end = std::max(block + 1, blocks_of(offset + found.end));
            return {begin + block, begin + end_of_included(part, block, run_end)};
        }
        begin = end;
    }
    return {};
}

std::int64_t memory_of(int fd) noexcept {
    struct stat info {};
    return ::fstat(fd, &info) == 0 ? static_cast<std::int64_t>(info.st_blocks) : -1;
}

}  // namespace

BackupStore::TouchSign BackupStore::touch_sign(const LiveState& live) const noexcept {
    return {.heap = memory_of(live.heap_fd), .globals = memory_of(live.globals_fd), .places = touch_places_.load()};
}

BackupStore::Touched BackupStore::touch(TouchPlace& place, std::size_t blocks, const LiveState& live) {
    SFT_ASSERT(blocks > 0);
    if (place.next == place.end) {
        // Without the mutex: it may take some milliseconds.
        const Blocks run = next_run(live, place.next);
        if (run.begin == run.end) {
            return place.round == Round::next ? (place = {.round = Round::later}, Touched::skipped) : Touched::end;
        }
        place.next = run.begin;
        place.end = run.end;
    }
    if (wanted_.load() != 0 || !mutex_.try_lock()) {
        return Touched::busy;
    }
    const Locked lock(mutex_, AdoptMutex());
    if (pe_ == kNoPe) {
        return Touched::end;
    }
    // What the next checkpoint writes comes first.
    const Version written = place.round == Round::next ? committed_.next() : committed_;
    std::vector<Image> images;
    if (has_local_copy() && place.round == Round::next) {
        images.emplace_back(local_.address(), live);
    }
    if (has_shadow_ && !is_far()) {
        images.push_back(slot(shadow_.address(), written, live));
    }
    if (images.empty()) {
        return Touched::end;  // all copies are on other nodes
    }
    BlockSet& touched = touched_[written.value() % 2];
    if (!touched.has_room()) {
        touched.reset(blocks_of(live.heap.bytes) + blocks_of(live.globals.bytes));
    }
    while (place.next < place.end && touched.contains(place.next)) {
        ++place.next;
    }
    std::size_t end = place.next;
    while (end < place.end && end < place.next + blocks && !touched.contains(end)) {
        touched.insert(end++);
    }
    if (end == place.next) {
        return Touched::skipped;
    }
    for (const Image& image : images) {
        if (!image.touch(place.next, end)) {
            return Touched::refused;
        }
    }
    place.next = end;
    return Touched::more;
}

}  // namespace sft
