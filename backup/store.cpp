#include "backup/store.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "shmem_ft/base/report.hpp"
#include "shmem_ft/transport/shm/control.hpp"

namespace sft {

bool BackupStore::create(BackupMode mode, const LiveState& live, std::int32_t n_pes, std::string& error) {
    mode_ = mode;
    if (mode == BackupMode::none) {
        return true;
    }
    if (!kept_.create("shmem-ft-store", room_bytes(live) * static_cast<std::size_t>(n_pes), error)) {
        return false;
    }
    if (mode == BackupMode::double_copy) {
        if (!local_.reserve(Image::bytes_for(live), error)) {
            return false;
        }
        // Private pages, huge where the kernel grants them: faulting in small ones takes longer than the copy itself.
        if (::mprotect(local_.address(), local_.bytes(), PROT_READ | PROT_WRITE) != 0) {
            error = format("cannot get %zu bytes for the local copy: %s", local_.bytes(), std::strerror(errno));
            return false;
        }
        ::madvise(local_.address(), local_.bytes(), MADV_HUGEPAGE);
        ::madvise(local_.address(), local_.bytes(), MADV_DONTFORK);
    }
    return true;
}

class BackupStore::Use {
public:
    explicit Use(const BackupStore& store) : store_(store) {
        store_.wanted_.fetch_add(1);
        store_.mutex_.lock();
    }
    ~Use() {
        store_.mutex_.unlock();
        store_.wanted_.fetch_sub(1);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

private:
    const BackupStore& store_;
};

void BackupStore::release() noexcept {
    const Use use(*this);
    kept_.release();
    shadow_.release();
    local_.release();
    has_shadow_ = shadow_readable_ = false;
    committed_ = local_version_ = kNoVersion;
}

bool BackupStore::use_keeper(const Door& door, PeId pe, const LiveState& live, std::string& error) {
    const Use use(*this);
    pe_ = pe;
    has_shadow_ = false;
    const int fd = open_descriptor_of(door.pid, door.store_fd);
    if (fd < 0) {
        error = format("cannot open the store of process %d: %s", door.pid, std::strerror(errno));
        return false;
    }
    const std::size_t room = room_bytes(live);
    has_shadow_ = shadow_readable_ =
        (shadow_.address() != nullptr || shadow_.reserve(room, error)) && shadow_.show(fd, pe.index() * room, error);
    ::close(fd);
    if (has_shadow_) {
        // A substitute finds the shadow that its predecessor has shipped.
        shadow_versions_[0] = slot(shadow_.address(), Version(0), live).version();
        shadow_versions_[1] = slot(shadow_.address(), Version(1), live).version();
    }
    return has_shadow_;
}

void BackupStore::forget_keeper() noexcept {
    const Use use(*this);
    has_shadow_ = false;
}

ImageStats BackupStore::ship(Version version, const LiveState& live) noexcept {
    const Use use(*this);
    if (!has_shadow_) {
        return {};
    }
    shadow_versions_[version.value() % 2] = kNoVersion;
    fault_point(FaultPoint::ship_begin);
    const ImageStats stats = slot(shadow_.address(), version, live).store(version, live, FaultPoint::ship_middle);
    shadow_versions_[version.value() % 2] = version;
    fault_point(FaultPoint::ship_end);
    return stats;
}

ImageStats BackupStore::fold(Version version, const LiveState& live) noexcept {
    const Use use(*this);
    committed_ = version;
    if (mode_ != BackupMode::double_copy) {
        return {};
    }
    fault_point(FaultPoint::fold_begin);
    local_version_ = version;
    const ImageStats stats = Image(local_.address(), live).store(version, live);
    fault_point(FaultPoint::fold_end);
    return stats;
}

bool BackupStore::roll_back(Version version, const LiveState& live) {
    const Use use(*this);
    const bool has_local = mode_ == BackupMode::double_copy;
    if (!has_local && !shadow_readable_) {
        explanation_ = format("PE %d has no copy of checkpoint %u", pe_.value(), version.value());
        return false;
    }
    Image shadow = shadow_readable_ ? slot(shadow_.address(), version, live) : Image();
    Image image = has_local ? Image(local_.address(), live) : shadow;
    const Image* other = has_local && shadow_readable_ ? &shadow : nullptr;
    if (!take_in(image.load(version, live, other), image,
                 other != nullptr ? "its local copy and in its shadow"
                 : has_local      ? "its local copy, the only one"
                                  : "its shadow, the only copy")) {
        return false;
    }
    committed_ = version;
    local_version_ = has_local ? version : kNoVersion;
    return true;
}

namespace {

std::string tell(PeId pe, const Findings& findings, const Image& image, const std::string& where) {
    if (!findings.sound) {
        return format("the header or the table of checksums of the last checkpoint of PE %d is bad or missing in %s",
                      pe.value(), where.c_str());
    }
    const std::string more = findings.bad.size() < 2 ? "" : format(" (and %zu more blocks)", findings.bad.size() - 1);
    return format("%s of the last checkpoint of PE %d%s is bad in %s", image.name_of(findings.bad.front()).c_str(),
                  pe.value(), more.c_str(), where.c_str());
}

}  // namespace

template <class Load>
BackupStore::Fetched BackupStore::with_shadow(const Door& door, PeId pe, Version version, const LiveState& live,
                                              std::string* why, Load&& load) {
    const int fd = open_descriptor_of(door.pid, door.store_fd);
    if (fd < 0) {
        return Fetched::keeper_gone;
    }
    std::string error;
    Window window;
    const std::size_t room = room_bytes(live);
    const bool shown = window.reserve(room, error) && window.show(fd, pe.index() * room, error);
    ::close(fd);
    if (!shown) {
        return Fetched::keeper_gone;
    }
    Image image = slot(window.address(), version, live);
    const Findings findings = load(image);
    if (findings.intact()) {
        return Fetched::done;
    }
    if (why != nullptr) {
        *why = tell(pe, findings, image, format("its shadow at process %d, the only copy", door.pid));
    }
    return Fetched::corrupt;
}

BackupStore::Fetched BackupStore::fetch(const Door& door, PeId pe, Version version, const LiveState& live,
                                        std::string* why) {
    return with_shadow(door, pe, version, live, why, [&](Image& image) { return image.load(version, live); });
}

BackupStore::Fetched BackupStore::fetch_front(const Door& door, PeId pe, Version version, const LiveState& live,
                                              std::size_t heap_bytes, std::string* why) {
    return with_shadow(door, pe, version, live, why,
                       [&](Image& image) { return image.load_front(version, live, heap_bytes); });
}

// ---- integrity ----

bool BackupStore::take_in(const Findings& findings, const Image& image, const std::string& where) {
    checked_ += findings.checked;
    bad_ += findings.bad.size() + findings.mended + (findings.sound ? 0 : 1);
    repaired_ += findings.mended;
    if (findings.intact()) {
        return true;
    }
    explanation_ = tell(pe_, findings, image, where);
    return false;
}

std::string BackupStore::explanation() const {
    const Use use(*this);
    return explanation_;
}

void BackupStore::explain(std::string why) {
    const Use use(*this);
    explanation_ = std::move(why);
}

BackupStore::Counters BackupStore::counters() const noexcept {
    return {checked_.load(), bad_.load(), repaired_.load()};
}

BackupStore::Pair BackupStore::copies(const LiveState& live) const noexcept {
    Pair pair;
    if (committed_ == kNoVersion) {
        return pair;
    }
    pair.has_local = local_version_ == committed_;
    pair.has_shadow = has_shadow_ && shadow_versions_[committed_.value() % 2] == committed_;
    if (pair.has_local) {
        pair.local = Image(local_.address(), live);
    }
    if (pair.has_shadow) {
        pair.shadow = slot(shadow_.address(), committed_, live);
    }
    return pair;
}

bool BackupStore::mend(const LiveState& live) {
    const Use use(*this);
    Pair pair = copies(live);
    // The shadow afterwards, from what is right in the local copy by then: damage to different blocks of both heals.
    const auto check = [&](Image& image, bool has_other, const Image& other, const char* where) {
        return take_in(has_other ? image.mend(committed_, other) : image.verify(committed_), image, where);
    };
    const bool local = !pair.has_local || check(pair.local, pair.has_shadow, pair.shadow, "its local copy");
    const bool shadow = !pair.has_shadow || check(pair.shadow, pair.has_local, pair.local, "its shadow");
    return local && shadow;
}

// Both copies' headers and tables, once in each pass and for each version.
void BackupStore::describe_once(ScrubPlace& place, const Pair& pair) {
    if (place.next != 0 && place.described == committed_) {
        return;
    }
    place.described = committed_;
    const auto check = [&](Image image, bool has_other, const Image& other, const char* where) {
        Findings findings;
        if (!image.sound(committed_)) {
            findings.sound = has_other && image.mend_table(committed_, other);
            findings.mended = findings.sound ? 1 : 0;
        }
        take_in(findings, image, where);
    };
    if (pair.has_local) {
        check(pair.local, pair.has_shadow, pair.shadow, "its local copy");
    }
    if (pair.has_shadow) {
        check(pair.shadow, pair.has_local, pair.local, "its shadow");
    }
}

BackupStore::Scrubbed BackupStore::scrub(ScrubPlace& place, std::size_t blocks, const LiveState& live) {
    if (wanted_.load() != 0 || !mutex_.try_lock()) {
        return Scrubbed::busy;
    }
    const std::lock_guard guard(mutex_, std::adopt_lock);
    const Pair pair = copies(live);
    if (!pair.has_local && !pair.has_shadow) {
        place = ScrubPlace{};
        return Scrubbed::end;
    }
    describe_once(place, pair);
    const auto check = [&](Image image, std::size_t number, bool has_other, const Image& other, const char* where) {
        if (!image.holds(committed_)) {
            return;  // counted already
        }
        Findings findings;
        findings.checked = 1;
        if (!image.intact(number)) {
            if (has_other && image.mend_block(committed_, number, other)) {
                findings.mended = 1;
            } else {
                findings.bad.push_back(number);
            }
        }
        take_in(findings, image, where);
    };
    const Image& first = pair.has_local ? pair.local : pair.shadow;
    std::size_t number = first.next_existing(place.next);
    for (std::size_t i = 0; i < blocks && number < first.blocks(); ++i) {
        if (pair.has_local) {
            check(pair.local, number, pair.has_shadow, pair.shadow, "its local copy");
        }
        if (pair.has_shadow) {
            check(pair.shadow, number, pair.has_local, pair.local, "its shadow");
        }
        number = first.next_existing(number + 1);
    }
    place.next = number;
    if (number < first.blocks()) {
        return Scrubbed::more;
    }
    place = ScrubPlace{};
    return Scrubbed::end;
}

std::string BackupStore::flip_bit(Copy copy, std::uint64_t seed, const LiveState& live) {
    const Use use(*this);
    Pair pair = copies(live);
    if (copy == Copy::local) {
        return pair.has_local ? pair.local.flip_bit(committed_, seed) : std::string();
    }
    return pair.has_shadow ? pair.shadow.flip_bit(committed_, seed) : std::string();
}

}  // namespace sft
