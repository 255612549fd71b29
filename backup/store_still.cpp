// The part of BackupStore that begins a version which is made in the background.
#include <utility>

#include "backup/store.hpp"
#include "backup/store_use.hpp"
#include "base/assert.hpp"

namespace sft {

void BackupStore::take_still(Version version, const LiveState& live, StillState& still) {
    const Use use(*this);
    SFT_ASSERT(parity_ == nullptr);  // it goes back to the heap of the dead
    SFT_ASSERT(version != kNoVersion && version > committed_);
    fault_point(FaultPoint::still_begin);
    if (tracker_ != nullptr) {
        tracker_->begin(version);
    }
    const Version before = std::exchange(still_version_, version);
    still.take(version, live, before == still.version() ? may_differ(before, version) : nullptr, checks_tracker_);
    fault_point(FaultPoint::still_end);
}

bool BackupStore::has_near_shadow() const {
    const Use use(*this);
    return has_shadow_ && shadow_readable_ && !is_far();
}

// To hold chunks costs a change of the entry of each of their pages, in page tables, and the handler's time later;
// where fewer pages are copied than one in so many it is not worth it. Measured: docs/speed.md.
BackupStore::Hold BackupStore::begin_in_shadow(Version version, const LiveState& live) {
    constexpr std::size_t kWorthOneOf = 24;
    const Use use(*this);
    SFT_ASSERT(version != kNoVersion && version > committed_ && shadow_readable_ && !is_far());
    fault_point(FaultPoint::still_begin);
    if (tracker_ != nullptr) {
        tracker_->begin(version);
    }
    const Image image = slot(shadow_.address(), version, live);
    const BlockSet* const names = may_differ(image.version(), version);
    if (names == nullptr || checks_tracker_ || SFT_SLOW_ASSERTIONS) {
        return {.is_worth_it = true, .only = nullptr};
    }
    const Image::Share share = image.share_of_heap(*names);
    return {.is_worth_it = share.named >= share.all / kWorthOneOf, .only = names};
}

}  // namespace sft
