#include "backup/first_touch.hpp"

#include <algorithm>
#include <chrono>

namespace sft {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSoon(20);
constexpr milliseconds kLate(5000);
constexpr milliseconds kWhileBusy(1);  // a checkpoint takes longer than that
constexpr std::size_t kPieceBlocks = 16;

}  // namespace

bool FirstTouch::start(BackupStore& store, const LiveState& live) {
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
    for (milliseconds pause(0); thread_.nap(pause);) {
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
