#include "backup/first_touch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace sft {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSoon(20);
constexpr milliseconds kLate(5000);
constexpr milliseconds kWhileBusy(1);  // a checkpoint takes longer than that
constexpr std::size_t kPieceBlocks = 16;
constexpr int kPiecesPerLook = 32;  // at what is left

}  // namespace

bool is_plenty(const MemoryLeft& left) noexcept { return left.bytes > left.limit - left.limit / 4; }

bool may_touch_ahead(const MemoryLeft& left, std::uint64_t most) noexcept {
    return is_plenty(left) || most <= left.may_be_taken();
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
    const BackupStore::TouchSign sign = store.touch_sign(live);
    if (sign.is_known() && sign == seen_) {
        return true;
    }
    std::optional<std::uint64_t> most;
    const auto may_go_on = [&] {
        const MemoryLeft left = memory_left();
        if (!most && !is_plenty(left)) {
            most = store.room(live).most * static_cast<std::uint64_t>(n_pes_);
        }
        return may_touch_ahead(left, most.value_or(UINT64_MAX));
    };
    BackupStore::TouchPlace place;
    int pieces = 0;
    for (milliseconds pause(0); thread_.nap(pause);) {
        if (pieces++ % kPiecesPerLook == 0 && !may_go_on()) {
            return true;  // some may be free later
        }
        const BackupStore::Touched touched = store.touch(place, kPieceBlocks, live);
        if (touched == BackupStore::Touched::end && !found) {
            seen_ = sign;
        }
        if (touched == BackupStore::Touched::end || touched == BackupStore::Touched::refused) {
            return touched == BackupStore::Touched::end;
        }
        found = found || touched == BackupStore::Touched::more;
        pause = touched == BackupStore::Touched::busy ? kWhileBusy : milliseconds(0);
    }
    return false;
}

}  // namespace sft
