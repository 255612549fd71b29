#include "backup/store.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backup/image_layout.hpp"
#include "backup/store_use.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/report.hpp"
#include "transport/net/network.hpp"

namespace sft {

void BackupStore::track_changes_by(ChangeTracker& tracker, bool is_checked) noexcept {
    const Use use(*this);
    SFT_ASSERT(committed_ == kNoVersion);
    tracker_ = &tracker;
    checks_tracker_ = is_checked;
}

void BackupStore::give_versions_to(VersionStore& versions) noexcept {
    const Use use(*this);
    SFT_ASSERT(committed_ == kNoVersion);
    versions_ = &versions;
}

Result<> BackupStore::create(BackupMode mode, const LiveState& live, std::int32_t n_pes) {
    const Use use(*this);
    SFT_ASSERT(n_pes > 0 && kept_.fd() < 0);  // once
    mode_ = mode;
    if (mode == BackupMode::none) {
        return {};
    }
    kept_bytes_ = room_bytes(live) * static_cast<std::size_t>(n_pes);
    if (Result<> done = kept_.create("shmem-ft-store", kept_bytes_); !done) {
        return done;
    }
    if (mode == BackupMode::double_copy) {
        if (Result<> done = local_.reserve(Image::bytes_for(live)); !done) {
            return done;
        }
        // Private pages, huge where the kernel grants them: faulting in small ones takes longer than the copy itself.
        if (::mprotect(local_.address(), local_.bytes(), PROT_READ | PROT_WRITE) != 0) {
            return fails(
                format("cannot get %zu bytes for the local copy: %s", local_.bytes(), describe_error(errno).c_str()));
        }
        ::madvise(local_.address(), local_.bytes(), MADV_HUGEPAGE);
        ::madvise(local_.address(), local_.bytes(), MADV_DONTFORK);
    }
    return {};
}

void BackupStore::release() noexcept {
    const Use use(*this);
    if (served_ != nullptr) {
        served_->set_folder(nullptr);
        served_->set_store(nullptr, 0);
        served_ = nullptr;
    }
    kept_.release();
    served_memory_.release();
    node_file_ = -1;
    is_local_shown_ = is_shadow_shown_ = false;
    shadow_.release();
    drop_parity();
    fars_.clear();
    lost_keeper_ = kNoProc;
    local_.release();
    has_shadow_ = shadow_readable_ = false;
    pe_ = kNoPe;
    committed_ = local_version_ = kNoVersion;
    forget_differences();
    tracker_ = nullptr;
}

Image BackupStore::shadow_slot(Version version, const LiveState& live) const noexcept {
    SFT_ASSERT(parity_ == nullptr);  // there is no image of its own
    if (!is_far()) {
        SFT_ASSERT(shadow_.address() != nullptr);
        return slot(shadow_.address(), version, live);
    }
    const auto alive = std::find_if(fars_.begin(), fars_.end(), [](const Far& far) { return !far.shadow->gone(); });
    SFT_ASSERT(alive != fars_.end());  // shadow_readable_
    return alive->shadow->slot(version, live);
}

// Opens a keeper's store on this node and shows the room of the PE in it.
Reach BackupStore::show_room(Window& window, const KeeperLocation& location, PeId pe, const LiveState& live,
                             Trouble& trouble) {
    const std::size_t room = room_bytes(live);
    SFT_ASSERT(pe.value() >= 0 && room % kPageBytes == 0);              // it begins with a page of the file
    SFT_ASSERT(window.address() == nullptr || window.bytes() == room);  // states do not change their size
    const auto show = [&](int fd) {
        return (window.address() != nullptr ? Result<>() : window.reserve(room)).then([&] {
            return window.show(fd, pe.index() * room);
        });
    };
    if (location.node_file >= 0) {
        const Result<> shown = show(location.node_file);
        if (!shown) {
            trouble = {format("the copies of PE %d on this node: %s", pe.value(), shown.error().line.c_str()),
                       shown.error().number};
        }
        return shown ? Reach::opened : Reach::cannot_be_opened;
    }
    const auto of_keeper = [&] {
        return location.process != kNoProc ? format("process %d (pid %d)", location.process.value(), location.pid)
                                           : format("pid %d", location.pid);
    };
    const Opening opening = open_descriptor_of(location.pid, location.start_time, location.store_fd);
    if (opening.reach != Reach::opened) {
        trouble = {format("cannot open the store of %s: %s", of_keeper().c_str(),
                          opening.reach == Reach::gone ? "it is gone" : describe_error(opening.error).c_str()),
                   opening.error};
        return opening.reach;
    }
    const Result<> shown = show(opening.fd);
    ::close(opening.fd);
    if (!shown) {
        trouble = {format("the store of %s: %s", of_keeper().c_str(), shown.error().line.c_str()),
                   shown.error().number};
        return Reach::cannot_be_opened;
    }
    return Reach::opened;
}

Reach BackupStore::use_keeper(const KeeperLocation& location, PeId pe, const LiveState& live, Trouble& trouble) {
    const Use use(*this);
    SFT_ASSERT(pe != kNoPe && mode_ != BackupMode::none);
    SFT_ASSERT(pe_ == kNoPe || pe_ == pe);  // a process is one PE, for ever
    SFT_ASSERT(location.is_far() || location.node_file == node_file_ || node_file_ < 0);
    pe_ = pe;
    has_shadow_ = shadow_readable_ = false;
    fars_.clear();
    lost_keeper_ = kNoProc;
    shadow_versions_[0] = shadow_versions_[1] = kNoVersion;
    forget_differences();
    // In the node's memory both copies stay where they are, whoever the keeper is.
    const bool is_shown = location.node_file >= 0 && is_local_shown_ && (location.is_far() || is_shadow_shown_);
    if (!is_shown) {
        touched_[0] = touched_[1] = BlockSet();
        ++touch_places_;
    }
    if (const Reach shown = show_local_copy(pe, live, trouble); shown != Reach::opened) {
        return shown;
    }
    if (location.is_far()) {
        return use_far(location, pe, live, trouble);
    }
    const Reach reach = is_shown ? Reach::opened : show_room(shadow_, location, pe, live, trouble);
    is_shadow_shown_ = reach == Reach::opened && location.node_file >= 0;
    has_shadow_ = shadow_readable_ = reach == Reach::opened;
    if (has_shadow_) {
        // A substitute finds the shadow that its predecessor has replicated.
        shadow_versions_[0] = slot(shadow_.address(), Version(0), live).version();
        shadow_versions_[1] = slot(shadow_.address(), Version(1), live).version();
    }
    return reach;
}

void BackupStore::forget_keeper() noexcept {
    const Use use(*this);
    has_shadow_ = false;
    forget_differences();
}

BackupStore::Replicated BackupStore::replicate(Version version, const LiveState& live, ProcId only,
                                               BlockSource* source) noexcept {
    const Use use(*this);
    changed_in_ = kNoVersion;
    if (!has_shadow_) {
        return {};
    }
    SFT_ASSERT(version != kNoVersion && pe_ != kNoPe);
    SFT_ASSERT(version >= committed_);
    SFT_ASSERT(only == kNoProc || is_far());
    SFT_ASSERT(source == nullptr || !is_far());
    // The slot that holds the committed version is never written as another one.
    SFT_ASSERT(version == committed_ || committed_ == kNoVersion || (version.value() - committed_.value()) % 2 == 1);
    fault_point(FaultPoint::replicate_begin);
    if (tracker_ != nullptr && !live.is_still) {
        tracker_->begin(version);
    }
    Replicated replicated;
    if (!is_far()) {
        shadow_versions_[version.value() % 2] = kNoVersion;
        static_cast<ImageStats&>(replicated) = replicate_near(version, live, source);
        shadow_versions_[version.value() % 2] = version;
        if (tracker_ != nullptr && !has_local_copy()) {
            tracker_->heard(replicated.bytes_stored, replicated.bytes_copied);
        }
    }
    if (parity_ != nullptr) {
        replicate_to_group(version, live, replicated);
    }
    for (Far& far : fars_) {
        if (far.shadow->gone() || (only != kNoProc && only != far.shadow->keeper())) {
            continue;
        }
        const ImageStats sent = replicate_far(far, version, live);
        replicated.bytes_stored = sent.bytes_stored;
        replicated.bytes_copied += sent.bytes_copied;
        if (far.shadow->gone()) {
            replicated.keeper_gone = true;
            replicated.gone = far.shadow->keeper();
            look_for_dead_keepers();
            break;  // nobody commits it
        }
    }
    if (is_far() && tracker_ != nullptr && !has_local_copy() && !replicated.keeper_gone) {
        tracker_->heard(replicated.bytes_stored, std::min(replicated.bytes_stored, replicated.bytes_copied));
    }
    replicated_ += replicated.bytes_copied;
    fault_point(FaultPoint::replicate_end);
    return replicated;
}

ImageStats BackupStore::replicate_near(Version version, const LiveState& live, BlockSource* source) noexcept {
    Image image = slot(shadow_.address(), version, live);
    const Version before = image.version();
    changed_.reset(image.blocks());
    Image::Storing storing;
    storing.middle = FaultPoint::replicate_middle;
    storing.may_differ = may_differ(before, version);
    storing.checks = checks_tracker_;
    storing.changed = &changed_;
    storing.source = source;
    Present& present = present_[version.value() % 2];
    const Present now{version, live.heap_calls != nullptr ? *live.heap_calls : 0};
    storing.is_present_known = live.heap_calls != nullptr && before != kNoVersion && present.slot == before &&
                               present.heap_calls == now.heap_calls;
    present = now;
    Fit& fit = fits_[version.value() % 2];
    const bool fits = before != kNoVersion && fit.slot == before && fit.local == local_version_;
    fit = {};  // until the local copy is updated
    const ImageStats stats = image.store(version, live, storing);
    if (fits && stats.was_sound) {
        changed_.merge(slot_differs_[version.value() % 2]);
        changed_in_ = version;
        existing_bytes_ = stats.bytes_stored;
    }
    return stats;
}

// What is known of both slots once the local copy is that of `version`, `changed` of its blocks by that.
void BackupStore::note_local_copy(Version version, const LiveState& live, const BlockSet& changed,
                                  bool has_followed) noexcept {
    const std::size_t own = version.value() % 2;
    BlockSet& differs = slot_differs_[own];
    differs.reset(Image(local_.address(), live).blocks());
    slot_differs_[1 - own].merge(changed);
    for (Far& far : fars_) {  // the slot was written from the same live memory
        far.differs[own].reset(Image(local_.address(), live).blocks());
        far.differs[1 - own].merge(changed);
    }
    if (is_far()) {
        return;
    }
    Fit& other = fits_[1 - own];
    other = other.local != kNoVersion && other.local.next() == version ? Fit{other.slot, version} : Fit{};
    fits_[own] = {};
    const Image shadow = shadow_readable_ ? slot(shadow_.address(), version, live) : Image();
    if (shadow_readable_ && shadow.holds(version)) {
        // From the same live memory, unless a thread of the application went on writing there.
        Image(local_.address(), live).note_differences(shadow, has_followed ? &changed_ : nullptr, differs);
        fits_[own] = {version, version};
    }
}

void BackupStore::forget_differences() noexcept {
    fits_[0] = fits_[1] = {};
    present_[0] = present_[1] = {};
    changed_in_ = kNoVersion;
    still_version_ = kNoVersion;
}

ImageStats BackupStore::update_local_copy(Version version, const LiveState& live, bool from_shadow) noexcept {
    const Use use(*this);
    SFT_ASSERT(version != kNoVersion && version >= committed_);  // commits are never taken back
    SFT_ASSERT(committed_ == kNoVersion || version.value() - committed_.value() <= 1);
    committed_ = version;
    if (!has_local_copy()) {
        if (versions_ != nullptr && shadow_readable_) {
            versions_->committed(version, shadow_slot(version, live));
        }
        return {};
    }
    SFT_ASSERT(local_.address() != nullptr);
    fault_point(FaultPoint::update_begin);
    Image local(local_.address(), live);
    const Image shadow = !is_far() && shadow_readable_ ? slot(shadow_.address(), version, live) : Image();
    const bool is_known = changed_in_ == version;
    const bool follows = is_known && !is_far() && shadow_readable_ && local.version() == local_version_ &&
                         shadow.holds(version) && !checks_tracker_;
    SFT_ASSERT(!from_shadow || (shadow_readable_ && !is_far() && shadow.holds(version)));
    local_version_ = version;
    Image::Storing storing;
    storing.may_differ = follows ? &changed_ : from_shadow ? nullptr : may_differ(local.version(), version);
    storing.like = follows || from_shadow ? &shadow : nullptr;
    storing.copies_like = from_shadow;
    storing.like_bytes = existing_bytes_;
    storing.checks = checks_tracker_;
    updated_.reset(local.blocks());
    storing.changed = &updated_;
    storing.differing = is_known && is_far() ? &changed_ : nullptr;
    storing.listener = versions_;
    storing.stash = parity_ != nullptr ? parity_->stash() : nullptr;
    const ImageStats stats = local.store(version, live, storing);
    if (tracker_ != nullptr) {
        tracker_->heard(stats.bytes_stored, stats.bytes_copied);
    }
    if (parity_ != nullptr) {
        compare_with_parity(local, updated_, version);
    }
    note_local_copy(version, live, updated_, follows && stats.was_sound);
    changed_in_ = kNoVersion;
    fault_point(FaultPoint::update_end);
    if (versions_ != nullptr) {
        versions_->committed(version, local);
    }
    return stats;
}

bool BackupStore::roll_back(Version version, const LiveState& live) {
    const Use use(*this);
    SFT_ASSERT(version != kNoVersion && version >= committed_);
    SFT_ASSERT(committed_ == kNoVersion || version.value() - committed_.value() <= 1);  // nobody lags by more
    return load_copy(version, live, has_local_copy());
}

// It may have died before it had the version in its local copy, or in the middle of that.
bool BackupStore::take_over(Version version, const LiveState& live) {
    const Use use(*this);
    SFT_ASSERT(version != kNoVersion && node_file_ >= 0 && shadow_readable_);
    const bool has_local = has_local_copy() && Image(local_.address(), live).holds(version);
    if (!load_copy(version, live, has_local)) {
        return false;
    }
    if (versions_ != nullptr && has_local) {
        versions_->committed(version, Image(local_.address(), live));
    }
    return true;
}

bool BackupStore::has_local_copy_of(Version version) const {
    const Use use(*this);
    return has_local_copy() && local_version_ == version;
}

bool BackupStore::load_copy(Version version, const LiveState& live, bool has_local) {
    std::vector<Image> shadows = readable_shadows(version, live);
    if (!has_local && shadows.empty()) {
        explanation_ = lost_keeper_ != kNoProc
                           ? lost_with_keeper(version)
                           : format("PE %d has no copy of checkpoint %u", pe_.value(), version.value());
        return false;
    }
    std::vector<ProcId> keepers;  // of the shadows, if they are far
    for (const Far& far : fars_) {
        if (!far.shadow->gone()) {
            keepers.push_back(far.shadow->keeper());
        }
    }
    // One shadow is enough; the next one is for what cannot be had from the ones before.
    for (std::size_t next = 0;; ++next) {
        const Image* const shadow = next < shadows.size() ? &shadows[next] : nullptr;
        SFT_ASSERT(has_local || shadow != nullptr);
        Image image = has_local ? Image(local_.address(), live) : *shadow;
        const Findings findings = image.load(version, live, has_local ? shadow : nullptr);
        look_for_dead_keepers();
        const bool is_lost = findings.gone || (!has_local && shadow->gone());
        if (is_lost && next + 1 >= shadows.size()) {
            explanation_ = lost_with_keeper(version);
            return false;
        }
        const bool has_both = has_local && shadow != nullptr && !shadow->gone();
        const bool is_known = next < keepers.size() && keepers[next] != kNoProc;
        const std::string at = is_known ? format(" at process %d", keepers[next].value()) : "";
        const bool is_well = take_in(findings, image,
                                     has_both    ? "its local copy and in its shadow"
                                     : has_local ? "its local copy, the only one"
                                                 : "its shadow" + at + ", the only copy");
        if (is_well && !is_lost) {
            SFT_ASSERT(findings.intact());
            break;
        }
        if (next + 1 >= shadows.size()) {
            return false;
        }
    }
    committed_ = version;
    local_version_ = has_local ? version : kNoVersion;
    forget_differences();
    if (tracker_ != nullptr) {
        tracker_->restart(version);
    }
    return true;
}

// Whatever they hold; those of dead far keepers left out.
std::vector<Image> BackupStore::readable_shadows(Version version, const LiveState& live) {
    std::vector<Image> shadows;
    look_for_dead_keepers();
    if (!shadow_readable_) {
        return shadows;
    }
    if (parity_ != nullptr) {
        shadows.push_back(parity_->image(version));
        return shadows;
    }
    if (!is_far()) {
        shadows.push_back(shadow_slot(version, live));
    }
    for (Far& far : fars_) {
        if (far.shadow->gone()) {
            continue;
        }
        Image shadow = far.shadow->slot(version, live);
        if (!shadow.sound(version)) {
            static_cast<void>(shadow.read_front());  // it may be the mirror that is bad
        }
        shadows.push_back(shadow);
    }
    return shadows;
}

// A copy with the number of the new one is of an attempt that was not committed.
const BlockSet* BackupStore::may_differ(Version then, Version now) const {
    return tracker_ == nullptr || then == kNoVersion || then == now ? nullptr : tracker_->changed_since(then);
}

template <class Load>
BackupStore::Fetched BackupStore::with_shadow(const KeeperLocation& location, PeId pe, Version version,
                                              const LiveState& live, Trouble* trouble, Load&& load) {
    Trouble unheard;
    Trouble& told = trouble != nullptr ? *trouble : unheard;
    Window window;
    FarShadow far(location.process);
    const Reach reach =
        location.is_far() ? open_far(far, location, pe, live, told) : show_room(window, location, pe, live, told);
    if (reach == Reach::cannot_be_opened) {
        return Fetched::cannot_be_opened;
    }
    const auto keeper_gone = [&] {
        SFT_ASSERT(location.is_far());  // memory of this node stays when its process has died
        told.what = format("process %d, the keeper, is gone", location.process.value());
        return Fetched::keeper_gone;
    };
    if (reach == Reach::gone) {
        return Fetched::keeper_gone;
    }
    if (location.is_far() && !far.read_front(version, live)) {
        return keeper_gone();
    }
    Image image = location.is_far() ? far.slot(version, live) : slot(window.address(), version, live);
    const Findings findings = load(image);
    if (findings.intact()) {
        return Fetched::done;
    }
    if (findings.gone) {
        return keeper_gone();
    }
    const std::string keeper =
        location.process != kNoProc ? format("%d", location.process.value()) : format("%d", location.pid);
    told.what = tell(pe, findings, image, format("its shadow at process %s, the only copy", keeper.c_str()));
    return Fetched::corrupt;
}

BackupStore::Fetched BackupStore::fetch(const KeeperLocation& location, PeId pe, Version version, const LiveState& live,
                                        Trouble* trouble) {
    return with_shadow(location, pe, version, live, trouble, [&](Image& image) { return image.load(version, live); });
}

BackupStore::Fetched BackupStore::fetch_front(const KeeperLocation& location, PeId pe, Version version,
                                              const LiveState& live, std::size_t heap_bytes, Trouble* trouble) {
    const Fetched fetched = with_shadow(location, pe, version, live, trouble,
                                        [&](Image& image) { return image.load_front(version, live, heap_bytes); });
    if (fetched != Fetched::corrupt || location.node_file < 0) {
        return fetched;
    }
    // The one before may have left its local copy.
    const std::size_t bytes = Image::bytes_for(live);
    Window local;
    const bool is_there =
        local.reserve(bytes)
            .then([&] { return local.show(location.node_file, location.local_copies + pe.index() * bytes); })
            .has_value();
    return is_there && Image(local.address(), live).load_front(version, live, heap_bytes).intact() ? Fetched::done
                                                                                                   : fetched;
}

}  // namespace sft
