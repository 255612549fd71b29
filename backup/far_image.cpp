#include "backup/far_image.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace sft {

void StoreWire::fold(std::size_t /*offset*/, std::uint64_t /*build*/, bool /*is_anew*/, const void* /*source*/,
                     std::size_t /*bytes*/) {
    SFT_ASSERT(false);  // nobody keeps parity there
}

void FarImage::ask_for(Batch& batch, std::size_t first) {
    std::size_t bytes = 0;
    batch.first = batch.end = first;
    while (batch.end < expected_.size() && bytes < kBatchBytes) {
        bytes += expected_[batch.end++].bytes;
    }
    SFT_ASSERT(first <= expected_.size() && batch.end <= expected_.size());
    batch.memory.resize(bytes);  // one capacity for all but long extents: allocated once
    std::size_t to = 0;
    for (std::size_t i = first; i < batch.end;) {
        // Neighbours travel together.
        const std::size_t offset = expected_[i].offset;
        std::size_t run = 0;
        for (; i < batch.end && expected_[i].offset == offset + run && run < piece_bytes_; ++i) {
            run += expected_[i].bytes;
        }
        SFT_ASSERT(to + run <= batch.memory.size());
        wire_.read(begin_ + offset, batch.memory.data() + to, run);
        to += run;
    }
    SFT_ASSERT(to == batch.memory.size());
}

void FarImage::expect(std::vector<ByteExtent> extents) {
    if (back_.first != back_.end && !gone_) {
        static_cast<void>(flush());  // nothing may arrive in memory that is used for something else
    }
    expected_ = std::move(extents);
    SFT_ASSERT_SLOW(std::adjacent_find(expected_.begin(), expected_.end(), [](const auto& a, const auto& b) {
                        return a.offset + a.bytes > b.offset;
                    }) == expected_.end());  // rising, and none twice
    written_.clear();
    front_.first = front_.end = at_ = at_byte_ = 0;
    if (gone_) {
        back_.first = back_.end = 0;
        return;
    }
    ask_for(back_, 0);
}

bool FarImage::next_batch() {
    SFT_ASSERT(back_.first == back_.end || back_.first == front_.end);  // one behind the other
    if (back_.first == back_.end || !flush()) {
        return false;
    }
    std::swap(front_, back_);
    at_ = front_.first;
    at_byte_ = 0;
    SFT_ASSERT(front_.first < front_.end);
    ask_for(back_, front_.end);
    return true;
}

const std::byte* FarImage::read(std::size_t offset, std::size_t bytes) {
    SFT_ASSERT(bytes > 0);
    if (gone_) {
        return nullptr;
    }
    const auto overlaps = [&](const ByteExtent& other) {
        return offset < other.offset + other.bytes && other.offset < offset + bytes;
    };
    const bool is_old = std::any_of(written_.begin(), written_.end(), overlaps);
    const auto rest = expected_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, expected_.size()));
    const auto found = std::lower_bound(rest, expected_.end(), offset,
                                        [](const ByteExtent& item, std::size_t place) { return item.offset < place; });
    const bool is_ahead = found != expected_.end() && found->offset == offset && found->bytes == bytes;
    while (!is_old && is_ahead) {
        for (; at_ < front_.end && expected_[at_].offset != offset; ++at_) {
            at_byte_ += expected_[at_].bytes;
        }
        if (at_ < front_.end) {
            SFT_ASSERT(at_byte_ + bytes <= front_.memory.size());
            return front_.memory.data() + at_byte_;
        }
        if (!next_batch()) {
            break;
        }
    }
    if (gone_) {
        return nullptr;
    }
    single_.resize(bytes);
    wire_.read(begin_ + offset, single_.data(), bytes);
    return flush() ? single_.data() : nullptr;
}

void FarImage::write(std::size_t offset, const void* source, std::size_t bytes) {
    if (gone_) {
        return;
    }
    SFT_ASSERT(source != nullptr && bytes > 0);
    if (at_ < expected_.size()) {
        written_.push_back({offset, bytes});
    }
    wire_.write(begin_ + offset, source, bytes);
}

bool FarImage::flush() {
    gone_ = gone_ || !wire_.flush();
    return !gone_;
}

}  // namespace sft
