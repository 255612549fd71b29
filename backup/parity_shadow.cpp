#include "backup/parity_shadow.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "base/raw_memory.hpp"

namespace sft {
namespace {

// Of changes under way.
constexpr std::size_t kChangesBytes = std::size_t{8} << 20;

}  // namespace

ParityShadow::ParityShadow(const LiveState& live, std::int32_t most_parity, std::int32_t n_parity,
                           std::int32_t position, std::vector<Member> members, std::function<bool(ProcId)> await,
                           const NodeStore& store)
    : units_(live),
      layout_(units_, most_parity),
      code_(static_cast<std::int32_t>(members.size()), n_parity),
      position_(position),
      members_(std::move(members)),
      await_(std::move(await)),
      store_(store),
      live_(live) {
    SFT_ASSERT(position >= 0 && self() < members_.size() && store.memory != nullptr && store.file >= 0);
    SFT_ASSERT(n_parity <= most_parity);
    has_folds_.resize(members_.size());
    has_reads_.resize(members_.size());
    far_.emplace(*this, 0);
}

Image ParityShadow::image(Version version) {
    read_version_ = version;
    known_.clear();  // it may be long since anything was read
    return {front(version), live_, &*far_};
}

// ---- a checkpoint ----

void ParityShadow::copy_front(Version from, Version to) {
    const auto place = static_cast<std::size_t>(own_place() - store_.memory);
    std::byte* const target = front(to);
    const auto clear = [&](std::size_t begin, std::size_t end) { std::memset(target + begin, 0, end - begin); };
    each_existing(store_.file, place + layout_.front(to), layout_.front_bytes, clear);
    if (from == kNoVersion) {
        return;
    }
    const std::byte* const source = front(from);
    const auto copy = [&](std::size_t begin, std::size_t end) {
        std::memcpy(target + begin, source + begin, end - begin);
    };
    each_existing(store_.file, place + layout_.front(from), layout_.front_bytes, copy);
}

void ParityShadow::begin(ParityBuild build, Version base, const Image* local) {
    SFT_ASSERT(!is_building_ && !build.is_anew && (base == kNoVersion) == (local == nullptr));
    SFT_ASSERT(base == kNoVersion || build.version.value() == base.value() + 1);
    build_ = build;
    base_ = base;
    local_ = local;
    if (base != kNoVersion) {
        is_refused_ = !bring_front_back(base) || is_refused_;  // it may have a flipped bit
    }
    is_building_ = true;
    copy_front(base, build.version);
    base_front_ = base == kNoVersion ? Image() : Image(front(base), live_);
}

void ParityShadow::write(std::size_t offset, const void* source, std::size_t bytes) {
    SFT_ASSERT(is_building_);
    if (offset == 0) {
        SFT_ASSERT(bytes <= kHeadBytes);  // it is cleared, and written at the end: finish() adds what comes of that
        return;
    }
    const auto* data = static_cast<const std::byte*>(source);
    while (bytes > 0 && gone_ == kNoProc) {
        const ParityUnits::At at = units_.at(offset);
        const std::size_t some = std::min(bytes, at.bytes);
        if (offset >= units_.stash_begin()) {
            raw_copy(own_place() + layout_.stash + (offset - units_.stash_begin()), data, some);
        }
        const std::byte* const before = base_of(at.unit);
        send_change(at.unit, at.offset, data, before == nullptr ? nullptr : before + at.offset, some);
        offset += some;
        data += some;
        bytes -= some;
    }
}

bool ParityShadow::finish() {
    SFT_ASSERT(is_building_);
    const Image now(front(build_.version), live_);
    if (base_ != kNoVersion) {
        for (std::size_t block = base_front_.next_existing(0); block < base_front_.blocks();
             block = base_front_.next_existing(block + 1)) {
            if (now.place_of(block).sum == kAbsent) {
                const std::size_t unit = units_.unit_of_block(block);
                send_change(unit, 0, nullptr, base_of(unit), units_.bytes_of(unit));
            }
        }
    }
    send_change(0, 0, front(build_.version), base_ == kNoVersion ? nullptr : front(base_), kHeadBytes);
    is_building_ = false;
    return flush_folds() && !is_refused_ && !far_->gone();
}

// What the unit was in the committed version: a piece of header and table, or a block of the local copy, if it existed.
const std::byte* ParityShadow::base_of(std::size_t unit) {
    if (base_ == kNoVersion) {
        return nullptr;
    }
    if (unit < units_.front_units()) {
        return front(base_) + unit * kUnitBytes;
    }
    const Image::Place place = base_front_.place_of(unit - units_.front_units());
    if (place.sum == kAbsent) {
        return nullptr;
    }
    const std::byte* const data = local_->begin() + place.offset;
    if (!place.fits(data)) {
        mend_base(unit);
    }
    return data;
}

// A bit of the local copy has flipped. Others have gone on with what it was.
void ParityShadow::mend_base(std::size_t unit) {
    const Image::Place place = base_front_.place_of(unit - units_.front_units());
    std::vector<std::byte> computed(place.bytes);
    know_others(base_);
    compute({{unit, 0, place.bytes, computed.data()}});
    if (place.fits(computed.data())) {
        raw_copy(local_->begin() + place.offset, computed.data(), place.bytes);
    } else {
        is_refused_ = true;
    }
}

// Room for a change and its products.
std::byte* ParityShadow::room(std::size_t bytes) {
    changes_.resize(kChangesBytes);
    const std::size_t all = bytes * (1 + static_cast<std::size_t>(code_.n_parity()));
    SFT_ASSERT(all <= kChangesBytes);
    if (changes_used_ + all > kChangesBytes) {
        static_cast<void>(flush_folds());
    }
    return changes_.data() + changes_used_;
}

void ParityShadow::send_change(std::size_t unit, std::size_t at, const std::byte* now, const std::byte* before,
                               std::size_t bytes) {
    std::byte* const change = room(bytes);
    if (!difference(change, now, before, bytes)) {
        return;
    }
    changes_used_ += bytes;
    const ParityCode::Stripe stripe = code_.stripe_of(position_, unit);
    for (std::int32_t parity = 0; parity < code_.n_parity(); ++parity) {
        const std::uint8_t factor = code_.coefficient(position_, stripe.type, parity);
        const std::byte* data = change;
        if (factor != 1) {
            std::byte* const product = changes_.data() + changes_used_;
            multiply(product, factor, change, bytes);
            changes_used_ += bytes;
            data = product;
        }
        send(unit, parity, at, data, bytes);
    }
}

// `data` must not change before flush_folds().
void ParityShadow::send(std::size_t unit, std::int32_t parity, std::size_t at, const std::byte* data,
                        std::size_t bytes) {
    const ParityCode::Stripe stripe = code_.stripe_of(position_, unit);
    send_to(code_.keeper_of(stripe.type, parity), code_.place_of(stripe.row, parity), at, data, bytes);
}

void ParityShadow::send_to(std::int32_t keeper, std::size_t kept, std::size_t at, const std::byte* data,
                           std::size_t bytes) {
    const auto number = static_cast<std::size_t>(keeper);
    const Member& member = members_[number];
    SFT_ASSERT(keeper != position_ && !member.is_lost);
    const std::size_t place = store_.places + member.pe.index() * layout_.bytes;
    if (member.wire != nullptr) {
        has_folds_[number] = true;
        member.wire->fold(place + layout_.slot(0, kept) + at, build_.stamp(), build_.is_anew, data, bytes);
    } else if (!ParityPlace(store_.memory + place, layout_, store_.file, place).fold(build_, kept, at, data, bytes)) {
        is_refused_ = true;
    }
}

bool ParityShadow::flush_folds() {
    for (std::size_t member = 0; member < members_.size(); ++member) {
        if (has_folds_[member] && !members_[member].wire->flush()) {
            gone_ = members_[member].process;
        }
        has_folds_[member] = false;
    }
    changes_used_ = 0;
    return gone_ == kNoProc;
}

// A block that others will compute with has to be what went into parity.
bool ParityShadow::heap_differs(const Image& local, const BlockSet& changed, Version version) {
    const Image now(front(version), live_);
    bool differs = false;
    changed.each_run(0, now.blocks(), [&](std::size_t first, std::size_t end) {
        for (std::size_t block = first; block < end; ++block) {
            const std::uint64_t sum = now.place_of(block).sum;
            differs = differs || (sum != kAbsent && local.place_of(block).sum != sum);
        }
    });
    return differs;
}

// ---- a recovery ----

void ParityShadow::drop_after(Version version) noexcept {
    const auto place = static_cast<std::size_t>(own_place() - store_.memory);
    ParityPlace(own_place(), layout_, store_.file, place).drop_after(version);
}

bool ParityShadow::make_anew(ParityBuild build, const std::vector<std::int32_t>& positions, const Image& local) {
    SFT_ASSERT(build.is_anew && !is_building_);
    static constexpr std::byte kNothing[8] = {};
    build_ = build;
    base_ = build.version;
    base_front_ = Image(front(base_), live_);
    local_ = &local;
    if (!bring_front_back(base_)) {
        return false;
    }
    const auto is_wanted = [&](std::int32_t keeper) {
        return std::find(positions.begin(), positions.end(), keeper) != positions.end();
    };
    // Whoever keeps it begins with nothing, even if all that comes is zero.
    for (const std::int32_t keeper : positions) {
        send_to(keeper, 0, 0, kNothing, sizeof kNothing);
    }
    const auto send_unit = [&](std::size_t unit) {
        const ParityCode::Stripe stripe = code_.stripe_of(position_, unit);
        for (std::int32_t parity = 0; parity < code_.n_parity() && gone_ == kNoProc; ++parity) {
            if (!is_wanted(code_.keeper_of(stripe.type, parity))) {
                continue;
            }
            fault_point(FaultPoint::parity_anew);
            const std::size_t bytes = units_.bytes_of(unit);
            const std::byte* data = base_of(unit);
            std::byte* const product = room(bytes);
            if (const std::uint8_t factor = code_.coefficient(position_, stripe.type, parity); factor != 1) {
                multiply(product, factor, data, bytes);
            } else {
                raw_copy(product, data, bytes);
            }
            changes_used_ += bytes;
            send(unit, parity, 0, product, bytes);
        }
    };
    for (std::size_t unit = 0; unit < units_.front_units(); ++unit) {
        if (!is_zero(front(base_) + unit * kUnitBytes, units_.bytes_of(unit))) {
            send_unit(unit);
        }
    }
    for (std::size_t block = base_front_.next_existing(0); block < base_front_.blocks();
         block = base_front_.next_existing(block + 1)) {
        send_unit(units_.unit_of_block(block));
    }
    return flush_folds() && !is_refused_;
}

}  // namespace sft
