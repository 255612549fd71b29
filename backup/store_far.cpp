// The shadow at a keeper on another node.
#include <algorithm>
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
    Far far{.shadow = std::make_unique<FarShadow>(location.process)};
    if (const Reach reach = open_far(*far.shadow, location, pe, live, trouble); reach != Reach::opened) {
        return reach;
    }
    // A substitute finds what its predecessor has written; on a new keeper there is nothing.
    for (const Version parity : {Version(0), Version(1)}) {
        if (!far.shadow->read_front(parity, live)) {
            trouble.what = format("process %d, the keeper, is gone", location.process.value());
            return Reach::gone;
        }
        far.versions[parity.index()] = far.shadow->slot(parity, live).version();
        far.differs[parity.index()].reset(far.shadow->slot(parity, live).blocks());
    }
    SFT_ASSERT(!far.shadow->gone() && far.shadow->keeper() == location.process);
    fars_.push_back(std::move(far));
    has_shadow_ = shadow_readable_ = true;
    return Reach::opened;
}

Reach BackupStore::add_keeper(const KeeperLocation& location, PeId pe, const LiveState& live, Trouble& trouble) {
    const Use use(*this);
    SFT_ASSERT(location.is_far() && pe != kNoPe && mode_ != BackupMode::none);
    SFT_ASSERT(pe_ == kNoPe || pe_ == pe);  // a process is one PE, for ever
    SFT_ASSERT(!has_shadow_ || is_far());   // a near keeper is the only one
    pe_ = pe;
    if (const Reach shown = show_local_copy(pe, live, trouble); shown != Reach::opened) {
        return shown;
    }
    changed_in_ = kNoVersion;
    std::erase_if(fars_, [&](const Far& far) { return far.shadow->keeper() == location.process; });
    SFT_ASSERT(fars_.size() < kPartnersMax);  // each is dropped when another takes its place
    return use_far(location, pe, live, trouble);
}

void BackupStore::keep_only(std::span<const ProcId> keepers) noexcept {
    const Use use(*this);
    if (!is_far()) {
        if (keepers.size() > 1) {  // a near one is the only one
            has_shadow_ = shadow_readable_ = false;
            forget_differences();
        }
        return;
    }
    look_for_dead_keepers();
    std::erase_if(fars_, [&](const Far& far) {
        return far.shadow->gone() || std::find(keepers.begin(), keepers.end(), far.shadow->keeper()) == keepers.end();
    });
    if (fars_.empty()) {
        has_shadow_ = shadow_readable_ = false;
    }
}

void BackupStore::look_for_dead_keepers() noexcept {
    if (parity_ != nullptr) {
        return note_group_gone();
    }
    bool is_any_left = !is_far();
    for (const Far& far : fars_) {
        if (far.shadow->gone()) {
            lost_keeper_ = far.shadow->keeper();
        } else {
            is_any_left = true;
        }
    }
    if (!is_any_left) {
        has_shadow_ = shadow_readable_ = false;
    }
}

ImageStats BackupStore::replicate_far(Far& far, Version version, const LiveState& live) noexcept {
    SFT_ASSERT(has_shadow_);
    far.versions[version.value() % 2] = kNoVersion;
    Image image = far.shadow->slot(version, live);
    const Image local = has_local_copy() ? Image(local_.address(), live) : Image();
    const bool knows_local = has_local_copy() && local_version_ != kNoVersion && local.sound(local_version_);
    BlockSet& slot_differs = far.differs[version.value() % 2];
    // What the first one has found differs for all.
    const bool is_first = changed_in_ != version;
    BlockSet again;
    Image::Shipping shipping;
    shipping.checks = checks_tracker_;
    // What a predecessor has left there, or this process at an earlier time, may differ in what nobody has written
    // since.
    const bool is_own = std::exchange(far.is_written[version.value() % 2], false);
    if (is_own && !has_local_copy()) {
        shipping.written = may_differ(image.version(), version);
    }
    if (knows_local) {
        shipping.local = &local;
        shipping.slot_differs = &slot_differs;
        shipping.live_differs = is_first ? &changed_ : &again;
        const BlockSet* const written = may_differ(local_version_, version);
        shipping.written = is_own ? written : nullptr;
        shipping.may_differ = is_first ? written : &changed_;
    }
    const bool is_there = image.ship(version, live, shipping);
    SFT_ASSERT(is_there || image.gone());
    if (knows_local) {
        slot_differs = changed_;
        changed_in_ = version;
    } else {
        slot_differs.fill();  // until the local copy is updated
    }
    if (is_there) {
        far.versions[version.value() % 2] = version;
        far.is_written[version.value() % 2] = true;
    }
    return shipping.stats;
}

std::string BackupStore::lost_with_keeper(Version version) const {
    return format(
        "PE %d has no copy of checkpoint %u any more: the only one was with process %d on another node, which has died "
        "(SHMEM_FT_BACKUP_MODE=double keeps one in the PE as well)",
        pe_.value(), version.value(), lost_keeper_.value());
}

}  // namespace sft
