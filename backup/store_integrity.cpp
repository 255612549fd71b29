// Checking and mending of the copies, in the foreground and for the scrubber.
#include <algorithm>
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
        look_for_dead_keepers();  // that is no damage
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

BackupStore::Copies BackupStore::copies(const LiveState& live) const noexcept {
    Copies all;
    if (committed_ == kNoVersion) {
        return all;
    }
    all.has_local = local_version_ == committed_;
    SFT_ASSERT(!all.has_local || has_local_copy());
    SFT_ASSERT(!has_shadow_ || shadow_readable_);
    if (all.has_local) {
        all.local = Image(local_.address(), live);
    }
    if (!has_shadow_) {
        return all;
    }
    if (parity_ != nullptr) {
        all.group.push_back(parity_->image(committed_));
        return all;
    }
    const std::size_t slot = committed_.value() % 2;
    if (!is_far() && shadow_versions_[slot] == committed_) {
        all.shadows.push_back(shadow_slot(committed_, live));
    }
    for (const Far& far : fars_) {
        if (!far.shadow->gone() && far.versions[slot] == committed_) {
            all.shadows.push_back(far.shadow->slot(committed_, live));
        }
    }
    return all;
}

std::vector<Image> BackupStore::Copies::others_of(std::size_t shadow) const {
    std::vector<Image> others;
    if (has_local && shadow != kLocal) {
        others.push_back(local);
    } else {
        others = group;
    }
    for (std::size_t i = 0; i < shadows.size(); ++i) {
        if (i != shadow) {
            others.push_back(shadows[i]);
        }
    }
    return others;
}

bool BackupStore::mend(const LiveState& live) {
    const Use use(*this);
    Copies all = copies(live);
    // A shadow afterwards, from what is right in the local copy by then: damage to different blocks of both heals.
    const auto check = [&](Image& image, std::size_t number, const char* where) {
        mutex_.assert_held();
        const std::vector<Image> others = all.others_of(number);
        if (others.empty()) {
            return take_in(mend_front(image, nullptr), image, where) && take_in(image.verify(committed_), image, where);
        }
        bool is_well = false;
        for (std::size_t i = 0; i < others.size() && !is_well; ++i) {
            is_well = take_in(mend_front(image, &others[i]), image, where) &&
                      take_in(image.mend(committed_, others[i]), image, where);
        }
        return is_well;
    };
    bool is_well = !all.has_local || check(all.local, Copies::kLocal, "its local copy");
    for (std::size_t i = 0; i < all.shadows.size(); ++i) {
        is_well = check(all.shadows[i], i, "its shadow") && is_well;
    }
    return is_well;
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

// Headers and tables of all copies, once in each pass and for each version.
void BackupStore::describe_once(ScrubPlace& place, const Copies& all) {
    if (place.next != 0 && place.described == committed_) {
        return;
    }
    place.described = committed_;
    const auto check = [&](Image image, std::size_t number, const char* where) {
        mutex_.assert_held();
        const std::vector<Image> others = all.others_of(number);
        Findings findings = mend_front(image, others.empty() ? nullptr : &others.front());
        for (std::size_t i = 1; i < others.size() && !findings.sound && !findings.gone; ++i) {
            findings = mend_front(image, &others[i]);
        }
        take_in(findings, image, where);
    };
    if (all.has_local) {
        check(all.local, Copies::kLocal, "its local copy");
    }
    for (std::size_t i = 0; i < all.shadows.size(); ++i) {
        check(all.shadows[i], i, "its shadow");
    }
}

BackupStore::Scrubbed BackupStore::scrub(ScrubPlace& place, std::size_t blocks, const LiveState& live) {
    if (wanted_.load() != 0 || !mutex_.try_lock()) {
        return Scrubbed::busy;
    }
    const Locked lock(mutex_, AdoptMutex());
    const Copies all = copies(live);
    if (!all.has_local && all.shadows.empty()) {
        place = ScrubPlace{};
        return Scrubbed::end;
    }
    describe_once(place, all);
    SFT_ASSERT(blocks > 0 && place.described == committed_);
    const auto check = [&](Image image, std::size_t block, std::size_t number, const char* where) {
        mutex_.assert_held();
        if (image.gone() || !image.holds(committed_)) {
            return;  // counted already
        }
        Findings findings;
        findings.checked = 1;
        if (!image.intact(block)) {
            const std::vector<Image> others = all.others_of(number);
            const Version committed = committed_;
            if (std::any_of(others.begin(), others.end(), [&](const Image& other) {
                    return !image.gone() && image.mend_block(committed, block, other);
                })) {
                findings.mended = 1;
            } else if (image.gone()) {
                findings.gone = true;
            } else {
                findings.bad.push_back(block);
            }
        }
        take_in(findings, image, where);
    };
    const Image& first = all.has_local ? all.local : all.shadows.front();
    SFT_ASSERT(place.next <= first.blocks());
    SFT_ASSERT(all.shadows.empty() || all.shadows.front().blocks() == first.blocks());
    std::size_t block = first.next_existing(place.next);
    for (std::size_t done = 0; done < blocks && block < first.blocks(); ++done) {
        if (all.has_local) {
            check(all.local, block, Copies::kLocal, "its local copy");
        }
        for (std::size_t i = 0; i < all.shadows.size(); ++i) {
            check(all.shadows[i], block, i, "its shadow");
        }
        block = first.next_existing(block + 1);
    }
    SFT_ASSERT(block > place.next || block >= first.blocks());  // a pass comes to its end
    place.next = block;
    if (block < first.blocks()) {
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
    Copies all = copies(live);
    if (copy == Copy::local) {
        return all.has_local ? all.local.flip_bit(committed_, seed) : std::string();
    }
    return all.shadows.empty() ? std::string() : all.shadows.front().flip_bit(committed_, seed);
}

}  // namespace sft
