// Checking and mending of the two copies, in the foreground and for the scrubber.
#include <utility>

#include "backup/store_use.hpp"
#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {

std::string BackupStore::tell(PeId pe, const Findings& findings, const Image& image, const std::string& where) {
    if (!findings.sound) {
        return format("the header or the table of checksums of the last checkpoint of PE %d is bad or missing in %s",
                      pe.value(), where.c_str());
    }
    SFT_ASSERT(!findings.bad.empty() && findings.bad.front() < image.blocks());
    const std::string more = findings.bad.size() < 2 ? "" : format(" (and %zu more blocks)", findings.bad.size() - 1);
    return format("%s of the last checkpoint of PE %d%s is bad in %s", image.name_of(findings.bad.front()).c_str(),
                  pe.value(), more.c_str(), where.c_str());
}

bool BackupStore::take_in(const Findings& findings, const Image& image, const std::string& where) {
    checked_ += findings.checked;
    if (findings.gone) {
        has_shadow_ = shadow_readable_ = false;  // a dead keeper is no damage
        return true;
    }
    bad_ += findings.bad.size() + findings.mended + (findings.sound ? 0 : 1);
    repaired_ += findings.mended;
    SFT_ASSERT(repaired_.load() <= bad_.load());
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

BackupStore::Counters BackupStore::counters() const noexcept {
    return {checked_.load(), bad_.load(), repaired_.load(), replicated_.load()};
}

BackupStore::Pair BackupStore::copies(const LiveState& live) const noexcept {
    Pair pair;
    if (committed_ == kNoVersion) {
        return pair;
    }
    pair.has_local = local_version_ == committed_;
    pair.has_shadow = has_shadow_ && shadow_versions_[committed_.value() % 2] == committed_;
    SFT_ASSERT(!pair.has_local || has_local_copy());
    SFT_ASSERT(!has_shadow_ || shadow_readable_);
    if (pair.has_local) {
        pair.local = Image(local_.address(), live);
    }
    if (pair.has_shadow) {
        pair.shadow = shadow_slot(committed_, live);
    }
    return pair;
}

bool BackupStore::mend(const LiveState& live) {
    const Use use(*this);
    Pair pair = copies(live);
    // The shadow afterwards, from what is right in the local copy by then: damage to different blocks of both heals.
    const auto check = [&](Image& image, const Image* other, const char* where) {
        mutex_.assert_held();
        return take_in(mend_front(image, other), image, where) &&
               take_in(other != nullptr ? image.mend(committed_, *other) : image.verify(committed_), image, where);
    };
    const bool local = !pair.has_local || check(pair.local, pair.has_shadow ? &pair.shadow : nullptr, "its local copy");
    const bool shadow = !pair.has_shadow || check(pair.shadow, pair.has_local ? &pair.local : nullptr, "its shadow");
    return local && shadow;
}

// Header and table only. Those of a far shadow are here as well, so they can be mended without another copy.
Findings BackupStore::mend_front(Image& image, const Image* other) const {
    SFT_ASSERT(committed_ != kNoVersion);
    Findings findings;
    if (!image.sound(committed_)) {
        findings.sound = other != nullptr && image.mend_table(committed_, *other);
        findings.mended = findings.sound ? 1 : 0;
    } else if (!image.front_matches()) {
        findings.sound = image.rewrite_front(committed_);
        findings.mended = findings.sound ? 1 : 0;
    }
    findings.gone = image.gone();
    return findings;
}

// Both copies' headers and tables, once in each pass and for each version.
void BackupStore::describe_once(ScrubPlace& place, const Pair& pair) {
    if (place.next != 0 && place.described == committed_) {
        return;
    }
    place.described = committed_;
    const auto check = [&](Image image, const Image* other, const char* where) {
        mutex_.assert_held();
        take_in(mend_front(image, other), image, where);
    };
    if (pair.has_local) {
        check(pair.local, pair.has_shadow ? &pair.shadow : nullptr, "its local copy");
    }
    if (pair.has_shadow) {
        check(pair.shadow, pair.has_local ? &pair.local : nullptr, "its shadow");
    }
}

BackupStore::Scrubbed BackupStore::scrub(ScrubPlace& place, std::size_t blocks, const LiveState& live) {
    if (wanted_.load() != 0 || !mutex_.try_lock()) {
        return Scrubbed::busy;
    }
    const Locked lock(mutex_, AdoptMutex());
    const Pair pair = copies(live);
    if (!pair.has_local && !pair.has_shadow) {
        place = ScrubPlace{};
        return Scrubbed::end;
    }
    describe_once(place, pair);
    SFT_ASSERT(blocks > 0 && place.described == committed_);
    const auto check = [&](Image image, std::size_t number, bool has_other, const Image& other, const char* where) {
        mutex_.assert_held();
        if (!image.holds(committed_)) {
            return;  // counted already
        }
        Findings findings;
        findings.checked = 1;
        if (!image.intact(number)) {
            if (has_other && image.mend_block(committed_, number, other)) {
                findings.mended = 1;
            } else if (image.gone()) {
                findings.gone = true;
            } else {
                findings.bad.push_back(number);
            }
        }
        take_in(findings, image, where);
    };
    const Image& first = pair.has_local ? pair.local : pair.shadow;
    SFT_ASSERT(place.next <= first.blocks() && (!pair.has_shadow || pair.shadow.blocks() == first.blocks()));
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
    SFT_ASSERT(number > place.next || number >= first.blocks());  // a pass comes to its end
    place.next = number;
    if (number < first.blocks()) {
        return Scrubbed::more;
    }
    place = ScrubPlace{};
    return Scrubbed::end;
}

std::string BackupStore::flip_bit(Copy copy, std::uint64_t seed, const LiveState& live) {
    if (holder_.load() == ::pthread_self()) {  // at a fault point inside of a protocol
        mutex_.assert_held();
        return flip_bit_here(copy, seed, live);
    }
    const Use use(*this);
    return flip_bit_here(copy, seed, live);
}

std::string BackupStore::flip_bit_here(Copy copy, std::uint64_t seed, const LiveState& live) {
    Pair pair = copies(live);
    if (copy == Copy::local) {
        return pair.has_local ? pair.local.flip_bit(committed_, seed) : std::string();
    }
    return pair.has_shadow ? pair.shadow.flip_bit(committed_, seed) : std::string();
}

}  // namespace sft
