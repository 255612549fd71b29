#include "backup/still_state.hpp"

#include <fcntl.h>

#include <algorithm>

#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"

namespace sft {

Result<> StillState::create(const LiveState& live) {
    SFT_ASSERT(!is_created() && live.heap.bytes != 0);
    Result<> made =
        memory_.create("shmem-ft-still", Image::bytes_for(live)).then([this] { return memory_.map_at(nullptr); });
    if (!made) {
        memory_.release();
        return made;
    }
    line_.state() = live;
    return {};
}

void StillState::release() noexcept {
    memory_.release();
    line_ = {};
}

Version StillState::version() const noexcept {
    return is_created() ? Image(memory_.address(), line_.state()).version() : kNoVersion;
}

// Else copies would be made of what the block was once. A failure costs that: what is stored is zeros then.
void StillState::make_hole(std::size_t offset, std::size_t bytes) noexcept {
    SFT_ASSERT(offset % kPageBytes == 0 && offset + bytes <= memory_.bytes());
    if (::fallocate(memory_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(whole_pages(bytes))) != 0) {
        std::fill_n(memory_.address() + offset, bytes, std::byte(0));
    }
}

void StillState::take(Version version, const LiveState& live, const BlockSet* may_differ, bool checks) {
    SFT_ASSERT(is_created() && version != kNoVersion && !live.is_still);
    Image image(memory_.address(), live);
    const bool is_known = image.sound(image.version());
    if (!is_known) {
        make_hole(0, memory_.bytes());  // what a table says that is not sound counts for nothing
    }
    BlockSet changed;
    changed.reset(image.blocks());
    Image::Storing storing;
    storing.middle = FaultPoint::still_middle;
    storing.may_differ = is_known ? may_differ : nullptr;
    storing.checks = checks && storing.may_differ != nullptr;
    storing.changed = &changed;
    static_cast<void>(image.store(version, live, storing));
    changed.each_run(0, blocks_of(live.heap.bytes) + blocks_of(live.globals.bytes),
                     [&](std::size_t first, std::size_t end) {
                         for (std::size_t block = first; block < end; ++block) {
                             if (image.next_existing(block) != block) {
                                 const Image::Place place = image.place_of(block);
                                 make_hole(place.offset, place.bytes);
                             }
                         }
                     });
    show_as_live(live, image);
}

void StillState::show_as_live(const LiveState& live, const Image& image) noexcept {
    line_.take(live);
    LiveState& state = line_.state();
    const std::size_t heap = Image::front_bytes_for(live);
    const std::size_t globals = heap + whole_pages(live.heap.bytes);
    const std::size_t library = globals + whole_pages(live.globals.bytes);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.address());
    SFT_ASSERT(image.begin() == memory_.address() && library + whole_pages(live.library.bytes) == memory_.bytes());
    state.heap.begin = begin + heap;
    state.heap_fd = state.globals_fd = memory_.fd();
    state.heap_file_offset = heap;
    state.globals.begin = begin + globals;
    state.globals_file_offset = globals;
    state.library.begin = begin + library;
}

void LineState::take(const LiveState& live) {
    state_ = live;
    state_.is_still = true;
    if (live.excluded != nullptr) {
        excluded_ = *live.excluded;
        state_.excluded = &excluded_;
    }
    if (live.arrays != nullptr) {
        arrays_ = *live.arrays;
        state_.arrays = &arrays_;
    }
    if (live.heap_calls != nullptr) {
        heap_calls_ = *live.heap_calls;
        state_.heap_calls = &heap_calls_;
    }
}

}  // namespace sft
