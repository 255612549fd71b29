// What is computed from other members of the group.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backup/image_layout.hpp"
#include "backup/parity_shadow.hpp"
#include "base/assert.hpp"
#include "base/raw_memory.hpp"

namespace sft {
namespace {

// Units that are computed together: what they are computed from is under way at the same time.
constexpr std::size_t kUnitsAtOnce = 64;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

}  // namespace

struct ParityShadow::Stripe {
    std::size_t unit = 0;
    ParityCode::Stripe at;
    std::vector<Source> sources;
    std::vector<std::int32_t> parities_left;  // that could stand for others
    std::byte* out = nullptr;
};

void ParityShadow::read(std::size_t offset, void* dest, std::size_t bytes) {
    auto* to = static_cast<std::byte*>(dest);
    while (bytes > 0) {
        const ParityUnits::At at = units_.at(offset);
        const std::size_t some = std::min(bytes, at.bytes);
        wanted_.push_back({at.unit, at.offset, some, to});
        offset += some;
        to += some;
        bytes -= some;
    }
}

bool ParityShadow::flush() {
    if (!wanted_.empty()) {
        know_others(is_building_ ? base_ : read_version_);
        compute(std::exchange(wanted_, {}));
    }
    return flush_folds();
}

// ---- what others have ----

void ParityShadow::know_others(Version version) {
    if (known_version_ == version && !known_.empty()) {
        return;
    }
    known_version_ = version;
    known_.clear();
    known_.resize(members_.size());
    for (std::int32_t position = 0; position < code_.n_members(); ++position) {
        const Member& member = members_[static_cast<std::size_t>(position)];
        if (position == position_ ? member.wire != nullptr : !member.is_lost) {
            know(position, version);
        }
    }
}

void ParityShadow::know(std::int32_t position, Version version) {
    const auto number = static_cast<std::size_t>(position);
    const Member& member = members_[number];
    Known& known = known_[number];
    const std::size_t n_rows =
        (units_.count() + static_cast<std::size_t>(code_.n_data()) - 1) / static_cast<std::size_t>(code_.n_data());
    const std::size_t stamps = n_rows * static_cast<std::size_t>(code_.n_parity()) * 2;
    const std::size_t place = store_.places + member.pe.index() * layout_.bytes;
    known.stamps.resize(stamps);
    if (member.wire == nullptr) {
        std::memcpy(known.stamps.data(), store_.memory + place + layout_.stamps, stamps * sizeof(std::uint64_t));
        known.image = Image(store_.memory + place + layout_.front(version), live_);
    } else {
        known.front.resize(layout_.front_bytes);
        const auto bring = [&](std::size_t from, void* to, std::size_t bytes) {
            for (std::size_t done = 0; done < bytes; done += kReadBytes) {
                member.wire->read(from + done, static_cast<std::byte*>(to) + done, std::min(kReadBytes, bytes - done));
            }
        };
        bring(place + layout_.front(version), known.front.data(), units_.front_bytes());
        bring(place + layout_.stamps, known.stamps.data(), stamps * sizeof(std::uint64_t));
        has_reads_[number] = true;
        if (!flush_wires()) {
            return;
        }
        known.image = Image(known.front.data(), live_);
    }
    known.is_left = known.image.sound(version);
}

bool ParityShadow::flush_wires() {
    for (std::size_t member = 0; member < members_.size(); ++member) {
        if (has_reads_[member] && !members_[member].wire->flush()) {
            gone_ = members_[member].process;
        }
        has_reads_[member] = false;
    }
    return gone_ == kNoProc;
}

// A member whose process died while its local copy followed a commit is repaired by whoever takes it over, who waits
// for nobody. If that one dies as well there is another plan, and this process is in its next attempt when its node is
// gone.
void ParityShadow::wait_for(std::int32_t member) {
    const Member& other = members_[static_cast<std::size_t>(member)];
    const std::size_t at = store_.local_copies + other.pe.index() * store_.image_bytes;
    while (await_ && gone_ == kNoProc) {
        alignas(kHeadBytes) std::byte head[kHeadBytes];
        if (other.wire == nullptr) {
            std::memcpy(head, store_.memory + at, sizeof head);
        } else {
            other.wire->read(at, head, sizeof head);
            has_reads_[static_cast<std::size_t>(member)] = true;
            if (!flush_wires()) {
                return;
            }
        }
        if (Image(head, live_).holds(known_version_)) {
            return;
        }
        if (await_(other.process)) {
            gone_ = other.process;
        }
    }
}

// ---- computing ----

void ParityShadow::compute(std::vector<Wanted> wanted) {
    std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) { return a.unit < b.unit; });
    units_computed_.resize(kUnitsAtOnce * kUnitBytes);
    buffers_.resize((kUnitsAtOnce * members_.size() + 1) * kUnitBytes);  // and one that is asked for in place of others
    for (std::size_t first = 0; first < wanted.size() && gone_ == kNoProc;) {
        std::vector<std::size_t> units;
        std::size_t end = first;
        for (; end < wanted.size(); ++end) {
            if (units.empty() || units.back() != wanted[end].unit) {
                if (units.size() == kUnitsAtOnce) {
                    break;
                }
                units.push_back(wanted[end].unit);
            }
        }
        compute_some(units);
        std::size_t place = 0;
        for (; first < end; ++first) {
            while (units[place] != wanted[first].unit) {
                ++place;
            }
            raw_copy(wanted[first].dest, units_computed_.data() + place * kUnitBytes + wanted[first].offset,
                     wanted[first].bytes);
        }
    }
}

void ParityShadow::compute_some(const std::vector<std::size_t>& units) {
    std::vector<Stripe> stripes;
    n_buffers_ = 0;
    for (const std::size_t unit : units) {
        Stripe& stripe = stripes.emplace_back();
        stripe.unit = unit;
        stripe.at = code_.stripe_of(position_, unit);
        stripe.out = units_computed_.data() + (stripes.size() - 1) * kUnitBytes;
        add_sources(stripe);
        for (Source& source : stripe.sources) {
            ask_for(source);
        }
    }
    if (!flush_wires()) {
        return;
    }
    for (Stripe& stripe : stripes) {
        settle(stripe);
    }
}

// The units of all members that are there, and as many parities as are needed besides.
void ParityShadow::add_sources(Stripe& stripe) {
    for (std::int32_t member = 0; member < code_.n_members(); ++member) {
        if (member == position_ || code_.parity_of(member, stripe.at.type) >= 0 ||
            !known_[static_cast<std::size_t>(member)].is_left) {
            continue;
        }
        stripe.sources.push_back({.member = member, .unit = code_.unit_of(member, stripe.at)});
    }
    for (std::int32_t parity = 0; parity < code_.n_parity(); ++parity) {
        if (!known_[static_cast<std::size_t>(code_.keeper_of(stripe.at.type, parity))].is_left) {
            continue;
        }
        if (stripe.sources.size() < static_cast<std::size_t>(code_.n_data())) {
            stripe.sources.push_back({.parity = parity, .unit = code_.place_of(stripe.at.row, parity)});
        } else {
            stripe.parities_left.push_back(parity);
        }
    }
    for (Source& source : stripe.sources) {
        if (source.parity >= 0) {
            source.member = code_.keeper_of(stripe.at.type, source.parity);
        }
    }
}

// Pieces that are shorter than others end with zeros.
void ParityShadow::ask_for(Source& source) {
    const auto number = static_cast<std::size_t>(source.member);
    const Member& member = members_[number];
    const Known& known = known_[number];
    std::size_t from = 0;
    std::size_t bytes = kUnitBytes;
    const std::size_t buffer = std::exchange(source.buffer, SIZE_MAX);
    source.data = nullptr;
    if (source.parity >= 0) {
        const std::uint64_t stamps[2] = {known.stamps[2 * source.unit], known.stamps[2 * source.unit + 1]};
        const std::int32_t slot = ParityPlace::slot_of(stamps, known_version_);
        if (slot < 0) {
            return;
        }
        from = store_.places + member.pe.index() * layout_.bytes +
               layout_.slot(static_cast<std::size_t>(slot), source.unit);
    } else if (source.unit >= units_.count()) {
        return;
    } else if (source.unit < units_.front_units()) {
        source.data = known.image.begin() + source.unit * kUnitBytes;  // there is room behind it, all zeros
        return;
    } else {
        const Image::Place place = known.image.place_of(source.unit - units_.front_units());
        if (place.sum == kAbsent) {
            return;
        }
        from = store_.local_copies + member.pe.index() * store_.image_bytes + place.offset;
        bytes = place.bytes;
    }
    source.buffer = buffer != SIZE_MAX ? buffer : n_buffers_++;
    SFT_ASSERT((source.buffer + 1) * kUnitBytes <= buffers_.size());
    std::byte* const to = buffers_.data() + source.buffer * kUnitBytes;
    std::memset(to + bytes, 0, kUnitBytes - bytes);
    if (member.wire == nullptr) {
        raw_copy(to, store_.memory + from, bytes);
    } else {
        member.wire->read(from, to, bytes);
        has_reads_[number] = true;
    }
}

const std::byte* ParityShadow::data_of(const Source& source) const noexcept {
    return source.buffer == SIZE_MAX ? source.data : buffers_.data() + source.buffer * kUnitBytes;
}

// The rest is checked by what comes of it.
bool ParityShadow::is_good(const Source& source) const noexcept {
    SFT_ASSERT(source.member != position_);
    if (source.parity >= 0 || source.buffer == SIZE_MAX) {
        return true;
    }
    const Known& known = known_[static_cast<std::size_t>(source.member)];
    return known.image.place_of(source.unit - units_.front_units()).fits(data_of(source));
}

bool ParityShadow::fits(std::size_t unit, const std::byte* data) const noexcept {
    const Image own(front(known_version_), live_);
    if (unit < units_.front_units() || !own.holds(known_version_)) {
        return true;  // not known
    }
    const Image::Place place = own.place_of(unit - units_.front_units());
    return place.sum == kAbsent || place.fits(data);
}

// Zeros if there is too little: whoever reads them finds that they do not fit.
void ParityShadow::settle(Stripe& stripe) {
    const auto replace = [&](Source& source) {
        const std::int32_t parity = stripe.parities_left.front();
        stripe.parities_left.erase(stripe.parities_left.begin());
        source = {.member = code_.keeper_of(stripe.at.type, parity),
                  .parity = parity,
                  .unit = code_.place_of(stripe.at.row, parity),
                  .buffer = source.buffer};
        ask_for(source);
        return flush_wires();
    };
    std::memset(stripe.out, 0, kUnitBytes);
    for (Source& source : stripe.sources) {
        if (is_good(source)) {
            continue;
        }
        wait_for(source.member);
        ask_for(source);
        if (!flush_wires()) {
            return;
        }
        if (!is_good(source) && (stripe.parities_left.empty() || !replace(source))) {
            return;
        }
    }
    if (stripe.sources.size() < static_cast<std::size_t>(code_.n_data())) {
        return;
    }
    std::vector<ParityCode::Piece> pieces;
    for (const Source& source : stripe.sources) {
        pieces.push_back({source.parity >= 0 ? -1 : source.member, source.parity, data_of(source)});
    }
    const std::size_t bytes = units_.bytes_of(stripe.unit);
    code_.decode(position_, stripe.at.type, pieces, stripe.out, bytes);
    // A parity may be bad: each of the others in its place.
    const std::vector<std::int32_t> others = stripe.parities_left;
    for (std::size_t i = 0; i < others.size() && !fits(stripe.unit, stripe.out); ++i) {
        for (std::size_t at = 0; at < pieces.size() && !fits(stripe.unit, stripe.out); ++at) {
            if (pieces[at].parity < 0) {
                continue;
            }
            Source other{.member = code_.keeper_of(stripe.at.type, others[i]),
                         .parity = others[i],
                         .unit = code_.place_of(stripe.at.row, others[i]),
                         .buffer = buffers_.size() / kUnitBytes - 1};
            ask_for(other);
            if (!flush_wires()) {
                return;
            }
            std::vector<ParityCode::Piece> then = pieces;
            then[at] = {-1, other.parity, data_of(other)};
            code_.decode(position_, stripe.at.type, then, stripe.out, bytes);
        }
    }
}

// ---- bringing back ----

// Of pages that were cleared; those of zeros stay holes.
void ParityShadow::fill_front(Version version, std::size_t at, const std::byte* data,
                              std::size_t bytes) const noexcept {
    SFT_ASSERT(at % kPageBytes == 0 && bytes % kPageBytes == 0);
    for (std::size_t page = 0; page < bytes; page += kPageBytes) {
        if (!is_zero(data + page, kPageBytes)) {
            std::memcpy(front(version) + at + page, data + page, kPageBytes);
        }
    }
}

// Header and table as the process before has left them on another node.
bool ParityShadow::take_front_from_before(Version version) {
    if (members_[self()].wire == nullptr) {
        return false;
    }
    know_others(version);
    const Known& before = known_[self()];
    if (!before.is_left) {
        return false;
    }
    copy_front(kNoVersion, version);
    fill_front(version, 0, before.front.data(), units_.front_bytes());
    return Image(front(version), live_).sound(version);
}

// Whatever is there, if it is whole; else from before, or computed.
bool ParityShadow::bring_front_back(Version version) {
    if (Image(front(version), live_).sound(version)) {
        return true;
    }
    if (take_front_from_before(version)) {
        return true;
    }
    copy_front(kNoVersion, version);
    know_others(version);
    std::vector<std::byte> some(std::min(kReadBytes, layout_.front_bytes));
    for (std::size_t done = 0; done < units_.front_bytes() && gone_ == kNoProc; done += some.size()) {
        const std::size_t bytes = std::min(some.size(), units_.front_bytes() - done);
        read(done, some.data(), bytes);
        compute(std::exchange(wanted_, {}));
        fill_front(version, done, some.data(), bytes);
    }
    return gone_ == kNoProc && Image(front(version), live_).sound(version);
}

// Its header and table say the version only when everything is right that can be had here: others wait for that.
void ParityShadow::mend_torn(PeId pe, const std::byte* heap, Version version) const {
    Image local(store_.memory + store_.local_copies + pe.index() * store_.image_bytes, live_);
    const Image now(place_of(pe) + layout_.front(version), live_);
    if (local.sound(version) || !now.sound(version)) {
        return;
    }
    std::vector<std::byte> some(kUnitBytes);
    for (std::size_t block = now.next_existing(0); block < now.blocks(); block = now.next_existing(block + 1)) {
        const Image::Place place = now.place_of(block);
        std::byte* const data = local.begin() + place.offset;
        if (place.fits(data)) {
            continue;
        }
        const std::byte* const other = place.offset >= units_.stash_begin()
                                           ? place_of(pe) + layout_.stash + (place.offset - units_.stash_begin())
                                           : heap + (place.offset - units_.front_bytes());
        // Others may be doing the same, and the program of who has taken it over may write to the heap by now.
        raw_copy(some.data(), other, place.bytes);
        if (place.fits(some.data())) {
            raw_copy(data, some.data(), place.bytes);
        }
    }
    static_cast<void>(local.mend_table(version, now));
}

// From the local copy on another node, as far as it is right there.
void ParityShadow::bring_from_before(Version version, Image& local) {
    know_others(version);
    if (members_[self()].wire == nullptr || !known_[self()].is_left) {
        return;
    }
    wait_for(position_);
    const Image now(front(version), live_);
    const std::size_t there = store_.local_copies + members_[self()].pe.index() * store_.image_bytes;
    std::size_t under_way = 0;
    for (std::size_t block = now.next_existing(0); block < now.blocks(); block = now.next_existing(block + 1)) {
        const Image::Place place = now.place_of(block);
        members_[self()].wire->read(there + place.offset, local.begin() + place.offset, place.bytes);
        has_reads_[self()] = true;
        if (++under_way == kUnitsAtOnce * members_.size()) {
            under_way = 0;
            if (!flush_wires()) {
                return;
            }
        }
    }
    static_cast<void>(flush_wires());
}

bool ParityShadow::bring_back(Version version, Image& local) {
    const PeId pe = members_[self()].pe;
    mend_torn(pe, reinterpret_cast<const std::byte*>(live_.heap.begin), version);
    if (local.sound(version)) {
        return true;  // but for blocks that are bad on their own, which who loads it mends
    }
    if (!bring_front_back(version)) {
        return false;
    }
    bring_from_before(version, local);
    const Image now(front(version), live_);
    std::vector<Wanted> wanted;
    const auto compute_wanted = [&] {
        compute(std::exchange(wanted, {}));
        return gone_ == kNoProc;
    };
    for (std::size_t block = now.next_existing(0); block < now.blocks(); block = now.next_existing(block + 1)) {
        const Image::Place place = now.place_of(block);
        std::byte* const data = local.begin() + place.offset;
        if (members_[self()].wire != nullptr && place.fits(data)) {
            continue;
        }
        wanted.push_back({units_.unit_of_block(block), 0, place.bytes, data});
        if (wanted.size() == kUnitsAtOnce && !compute_wanted()) {
            return false;
        }
    }
    return compute_wanted() && local.mend_table(version, now);
}

}  // namespace sft
