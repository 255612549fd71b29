// The shadow at a keeper on another node.
#include <cerrno>
#include <utility>

#include "backup/store_use.hpp"
#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {

// What can fail is the memory for the mirror, which says nothing about the keeper.
Reach BackupStore::open_far(FarShadow& far, const KeeperLocation& location, PeId pe, const LiveState& live,
                            Trouble& trouble) {
    SFT_ASSERT(location.is_far() && pe != kNoPe);
    SFT_ASSERT(location.wire != nullptr || location.process != kNoProc);
    std::unique_ptr<StoreWire> own;
    if (location.wire == nullptr) {
        own = make_network_wire(*location.network, location.process);
    }
    StoreWire& wire = location.wire != nullptr ? *location.wire : *own;
    if (Result<> opened = far.open(wire, std::move(own), pe.index() * room_bytes(live), live); !opened) {
        trouble = {std::move(opened.error().line), opened.error().number};
        return Reach::cannot_be_opened;
    }
    return Reach::opened;
}

Reach BackupStore::use_far(const KeeperLocation& location, PeId pe, const LiveState& live, Trouble& trouble) {
    auto far = std::make_unique<FarShadow>(location.process);
    if (const Reach reach = open_far(*far, location, pe, live, trouble); reach != Reach::opened) {
        return reach;
    }
    // A substitute finds what its predecessor has written; on a new keeper there is nothing.
    for (const Version parity : {Version(0), Version(1)}) {
        if (!far->read_front(parity, live)) {
            trouble.what = format("process %d, the keeper, is gone", location.process.value());
            return Reach::gone;
        }
        shadow_versions_[parity.index()] = far->slot(parity, live).version();
        slot_differs_[parity.index()].reset(far->slot(parity, live).blocks());
    }
    SFT_ASSERT(!far->gone() && far->keeper() == location.process);
    far_ = std::move(far);
    has_shadow_ = shadow_readable_ = true;
    return Reach::opened;
}

bool BackupStore::replicate_far(Version version, const LiveState& live, ImageStats& stats) noexcept {
    SFT_ASSERT(far_ != nullptr && has_shadow_);
    Image image = far_->slot(version, live);
    const Image local = has_local_copy() ? Image(local_.address(), live) : Image();
    const bool knows_local = has_local_copy() && local_version_ != kNoVersion && local.sound(local_version_);
    BlockSet& slot_differs = slot_differs_[version.value() % 2];
    Image::Shipping shipping;
    if (knows_local) {
        shipping.local = &local;
        shipping.slot_differs = &slot_differs;
        shipping.live_differs = &changed_;
        shipping.may_differ = may_differ(local_version_, version);
    }
    const bool is_there = image.ship(version, live, shipping);
    SFT_ASSERT(is_there || image.gone());
    stats = shipping.stats;
    if (knows_local) {
        slot_differs = changed_;
        changed_in_ = version;
    } else {
        slot_differs.fill();  // until the local copy is updated
    }
    return is_there;
}

std::string BackupStore::lost_with_keeper(Version version) const {
    return format(
        "PE %d has no copy of checkpoint %u any more: the only one was with process %d on another node, which has died "
        "(SHMEM_FT_BACKUP_MODE=double keeps one in the PE as well)",
        pe_.value(), version.value(), far_->keeper().value());
}

}  // namespace sft
