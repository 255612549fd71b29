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

}  // namespace sft
