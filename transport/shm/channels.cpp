#include "transport/shm/channels.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/report.hpp"

namespace sft {
namespace {

constexpr std::size_t kCacheLineBytes = 64;

constexpr std::uint64_t bit_of(LaneId lane) { return std::uint64_t{1} << (lane.index() % 64); }

}  // namespace

void LaneMarks::mark(LaneId lane) noexcept {
    SFT_ASSERT(lane.index() < kLanesMax);
    words[lane.index() / 64].fetch_or(bit_of(lane));
}

bool LaneMarks::is_marked(LaneId lane) const noexcept {
    return (words[lane.index() / 64].load(std::memory_order_relaxed) & bit_of(lane)) != 0;
}

void Channels::Unmap::operator()(Pair* pairs) const noexcept { ::munmap(pairs, bytes); }

void Channels::connect(const ChannelMap& map, PeId me, std::vector<Doorbell*> doorbells, Waiter* waiter) {
    SFT_ASSERT(map.rings != nullptr && map.marks != nullptr && map.points != nullptr && waiter != nullptr);
    SFT_ASSERT(me.value() >= 0 && me.index() < map.n_pes);
    SFT_ASSERT(doorbells.size() == map.n_pes);
    SFT_ASSERT(std::find(doorbells.begin(), doorbells.end(), nullptr) == doorbells.end());
    SFT_ASSERT(me_ == kNoPe || me_ == me);  // the counts are those of this PE
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(map.marks) % alignof(LaneMarks) == 0);
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(map.points) % alignof(MeetingPoint) == 0);
    SFT_ASSERT(pairs_ == nullptr || map.n_pes == map_.n_pes);  // what is counted stays
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(map.rings) % alignof(ChannelRing) == 0);
    map_ = map;
    me_ = me;
    doorbells_ = std::move(doorbells);
    waiter_ = waiter;
    row_bytes_ = map.n_pes * sizeof(ChannelRing);
    lane_bytes_ = map.n_pes * row_bytes_;
    SFT_ASSERT(kLanesMax * lane_bytes_ == ChannelMap::bytes_of_rings(map.n_pes));
    outgoing_ = reinterpret_cast<std::byte*>(map.incoming(LaneId(0), PeId(0)) + me.index());
    incoming_ = reinterpret_cast<std::byte*>(map.incoming(LaneId(0), me));
    if (pairs_ != nullptr) {
        return;
    }
    constexpr std::size_t kPairsPerLine = kCacheLineBytes / sizeof(Pair);
    static_assert(kCacheLineBytes % sizeof(Pair) == 0);
    pairs_stride_ = (map.n_pes + kPairsPerLine - 1) / kPairsPerLine * kPairsPerLine;
    SFT_ASSERT(pairs_stride_ >= map.n_pes);
    const std::size_t bytes = kLanesMax * pairs_stride_ * sizeof(Pair);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        die("PE %d: the system gives no memory for the channels (%zu bytes)", me.value(), bytes);
    }
    pairs_ = std::unique_ptr<Pair[], Unmap>(static_cast<Pair*>(memory), Unmap{bytes});
}

void Channels::reset() noexcept {
    SFT_ASSERT(pairs_ != nullptr && me_ != kNoPe);
    for (std::uint32_t i = 0; i < kLanesMax; ++i) {
        if (!map_.marks[me_.index()].is_marked(LaneId(i))) {
            continue;
        }
        MeetingPoint& point = map_.point(LaneId(i), me_);
        point.arrived.store(0);
        point.meetings.store(0);
        ChannelRing* const row = map_.incoming(LaneId(i), me_);
        for (std::size_t from = 0; from < map_.n_pes; ++from) {
            for (ChannelCell& cell : row[from].cells) {
                cell.sequence.store(0);
            }
            row[from].consumed.store(0);
        }
    }
    // The pages are given back and are zero again. Those of a program that has locked its memory stay.
    const std::size_t bytes = pairs_.get_deleter().bytes;
    SFT_ASSERT(bytes == kLanesMax * pairs_stride_ * sizeof(Pair));
    if (::madvise(pairs_.get(), bytes, MADV_DONTNEED) != 0) {
        std::memset(static_cast<void*>(pairs_.get()), 0, bytes);
    }
}

void Channels::mark(LaneId lane, PeId at) noexcept {
    SFT_ASSERT(lane.index() < kLanesMax && at.value() >= 0 && at.index() < map_.n_pes);
    LaneMarks& marks = map_.marks[at.index()];
    if (!marks.is_marked(lane)) {
        marks.mark(lane);
    }
}

// Also where a lane is used for the first time: nobody has counted any room in it yet.
bool Channels::make_room(Pair& pair, ChannelRing& ring, LaneId lane, PeId to) noexcept {
    mark(lane, to);
    const auto has_room = [&] {
        pair.room = kChannelDepth - (pair.sent - ring.consumed.load(std::memory_order_acquire));
        return pair.room != 0;
    };
    const bool is_there = waiter_->block_until(has_room);
    // The receiver has taken no more than was sent, and is not further behind: but for a reset, which another thread of
    // this PE may be in while a fault is pending.
    SFT_ASSERT(pair.room <= kChannelDepth || waiter_->fault_pending());
    return is_there;
}

}  // namespace sft
