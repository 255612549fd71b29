#include "backup/live_tracker.hpp"

#include <algorithm>
#include <utility>

#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"

namespace sft {
namespace {

static_assert(ChangeNotes::kBlockBytes == kBlockBytes, "a note is of a block");

constexpr double kCompareNs = 400;  // of a page with its two copies, a cautious guess
constexpr unsigned kLowMax = 64;
constexpr std::size_t kWatchedBytesMin = std::size_t{512} << 10;  // comparing less is cheaper than a look
constexpr std::size_t kVersions = 3;  // that copies may be of: the committed one, those before and behind it

std::size_t blocks_of_all(const LiveState& live) {
    return blocks_of(live.heap.bytes) + blocks_of(live.globals.bytes) + blocks_of(live.library.bytes);
}

WrittenPages::Memory memory_of(const SparseMemory& sparse) { return {sparse.memory, sparse.fd, sparse.file_offset}; }

}  // namespace

LiveTracker::LiveTracker(const LiveState& live, const ChangeNotes& notes, std::int64_t fault_ns,
                         std::atomic<std::uint32_t>* n_watching)
    : live_(live),
      notes_(notes),
      n_watching_(n_watching),
      most_changed_(kCompareNs / (kCompareNs + 2 * static_cast<double>(fault_ns))) {
    SFT_ASSERT(notes.is_set() && fault_ns >= 0);
}

// Notes count from the next begin() on, when all have arrived who were not told yet.
void LiveTracker::set_on(bool is_on) noexcept {
    if (std::exchange(is_on_, is_on) != is_on && n_watching_ != nullptr) {
        is_on ? n_watching_->fetch_add(1) : n_watching_->fetch_sub(1);
    }
}

Result<> LiveTracker::start() {
    if (!pages_.is_open()) {
        if (Result<> opened = pages_.open(); !opened) {
            return opened;
        }
    }
    // Again each time: what was watched may have been mapped anew.
    Result<> watched = pages_.watch(memory_of(heap_of(live_)));
    if (watched && live_.globals.bytes != 0) {
        watched = pages_.watch(memory_of(globals_of(live_)));
    }
    return watched;
}

Result<> LiveTracker::look_at(const WrittenPages::Memory& memory, std::size_t first_block, BlockSet& changed,
                              std::size_t& written_pages) {
    return pages_.look(memory, [&](std::size_t begin, std::size_t end, bool exists) {
        SFT_ASSERT(begin < end && end <= memory.range.bytes);
        written_pages += exists ? (end - begin) / kPageBytes : 0;
        const std::size_t first_page = first_block * kPagesOfBlock;
        changed.insert_page_run(first_page + begin / kPageBytes, first_page + (end + kPageBytes - 1) / kPageBytes);
    });
}

// What is left out of versions, or has been, is none of the writers' business.
void LiveTracker::look_at_exclusions(BlockSet& changed) {
    if (live_.excluded == nullptr || *live_.excluded == excluded_) {
        return;
    }
    for (const Exclusions& excluded : {excluded_, *live_.excluded}) {
        excluded.each_run([&](std::size_t first, std::size_t end) { changed.insert_run(first, end); });
    }
    excluded_ = *live_.excluded;
}

Result<> LiveTracker::look(BlockSet& changed, std::size_t& written_pages) {
    const std::size_t heap_blocks = blocks_of(live_.heap.bytes);
    const std::size_t globals_blocks = blocks_of(live_.globals.bytes);
    Result<> looked = look_at(memory_of(heap_of(live_)), 0, changed, written_pages);
    if (looked && globals_blocks != 0) {
        looked = look_at(memory_of(globals_of(live_)), heap_blocks, changed, written_pages);
    }
    changed.insert_run(heap_blocks + globals_blocks, blocks_of_all(live_));
    changed.merge(noted_);
    noted_.reset(blocks_of_all(live_));
    SFT_ASSERT(notes_.blocks() == heap_blocks + globals_blocks);
    notes_.take([&](std::size_t block) { noted_.insert(block); });
    changed.merge(noted_);
    look_at_exclusions(changed);
    return looked;
}

void LiveTracker::begin(Version version) {
    SFT_ASSERT(version != kNoVersion);
    if (!is_on_) {
        since_.clear();  // what is not looked at is not known
        return;
    }
    BlockSet changed;
    changed.reset(blocks_of_all(live_));
    std::size_t written_pages = 0;
    if (const Result<> looked = look(changed, written_pages); !looked) {
        refusal_ = looked.error().line;
        set_on(false);
        since_.clear();
        return;
    }
    for (Interval& interval : since_) {
        interval.changed.merge(changed);
    }
    const bool is_known =
        std::any_of(since_.begin(), since_.end(), [&](const Interval& interval) { return interval.since == version; });
    if (!is_known) {
        Interval interval{version, {}};
        interval.changed.reset(blocks_of_all(live_));
        since_.push_back(std::move(interval));
    }
    if (since_.size() > kVersions) {
        since_.erase(since_.begin());
    }
    const auto changed_bytes = static_cast<double>(written_pages * kPageBytes);
    if (!std::exchange(is_first_look_, false) && most_changed_ < 1 &&
        changed_bytes > 2 * most_changed_ * static_cast<double>(stored_bytes_)) {
        set_on(false);  // with the copies that are made now; changed_since() still knows
        n_low_ = 0;
        n_low_min_ = std::min(2 * n_low_min_, kLowMax);
    }
}

void LiveTracker::restart(Version version) {
    std::erase_if(since_, [&](const Interval& interval) { return interval.since > version; });
}

const BlockSet* LiveTracker::changed_since(Version version) {
    const auto found =
        std::find_if(since_.begin(), since_.end(), [&](const Interval& interval) { return interval.since == version; });
    return found == since_.end() ? nullptr : &found->changed;
}

void LiveTracker::heard(std::size_t stored_bytes, std::size_t changed_bytes) {
    SFT_ASSERT(changed_bytes <= stored_bytes);
    stored_bytes_ = stored_bytes;
    if (most_changed_ < 1 && stored_bytes < kWatchedBytesMin) {
        set_on(false);
        n_low_ = 0;
        return;
    }
    if (is_on_ || !refusal_.empty()) {
        return;
    }
    const bool is_low = static_cast<double>(changed_bytes) <= most_changed_ * static_cast<double>(stored_bytes);
    n_low_ = is_low ? n_low_ + 1 : 0;
    if (n_low_ < n_low_min_) {
        return;
    }
    if (const Result<> started = start(); !started) {
        refusal_ = started.error().line;
        return;
    }
    set_on(true);
    is_first_look_ = true;
}

}  // namespace sft
