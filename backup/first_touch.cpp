#include "backup/first_touch.hpp"

#include <algorithm>
#include <chrono>

#include "base/memory_left.hpp"

namespace sft {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSoon(20);
constexpr milliseconds kLate(5000);
constexpr milliseconds kWhileBusy(1);  // a checkpoint takes longer than that
constexpr std::size_t kPieceBlocks = 16;
constexpr int kPiecesPerLook = 32;  // at what is left

}  // namespace

// most: what a PE may come to take.
bool FirstTouch::is_memory_left(std::size_t most) const {
    constexpr std::uint64_t kKeptFree = 64;  // one part in so many
    const MemoryLeft left = memory_left();
    return left.bytes > left.limit - left.limit / 4 ||
           most * static_cast<std::uint64_t>(n_pes_) <= left.bytes - left.bytes / kKeptFree;
}

bool FirstTouch::start(BackupStore& store, const LiveState& live, std::int32_t n_pes) {
    n_pes_ = n_pes;
    return thread_.start([this, &store, &live] { run(store, live); });
}

void FirstTouch::run(BackupStore& store, const LiveState& live) {
    milliseconds pause = kSoon;
    while (thread_.nap(pause)) {
        bool found = false;
        if (!look(store, live, found)) {
            return;
        }
        pause = found ? kSoon : std::min(2 * pause, kLate);
    }
}

bool FirstTouch::look(BackupStore& store, const LiveState& live, bool& found) {
    BackupStore::TouchPlace place;
    const std::size_t most = store.room(live).most;
    int pieces = 0;
    for (milliseconds pause(0); thread_.nap(pause);) {
        if (pieces++ % kPiecesPerLook == 0 && !is_memory_left(most)) {
            return true;  // some may be free later
        }
        const BackupStore::Touched touched = store.touch(place, kPieceBlocks, live);
        if (touched == BackupStore::Touched::end || touched == BackupStore::Touched::refused) {
            return touched == BackupStore::Touched::end;
        }
        found = found || touched == BackupStore::Touched::more;
        pause = touched == BackupStore::Touched::busy ? kWhileBusy : milliseconds(0);
    }
    return false;
}

}  // namespace sft
