#include "backup/parity_place.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "base/mutex.hpp"
#include "base/pages.hpp"
#include "base/private_data.hpp"
#include "symheap/existing_pages.hpp"

namespace sft {
namespace {

constexpr std::size_t up_to_units(std::size_t bytes) noexcept {
    return (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
}

// Of this process.
SFT_LIBRARY_STATE Mutex g_folding{MutexRank::parity};

}  // namespace

static_assert(kUnitBytes == kBlockBytes, "a unit is a block, or a piece of header and table");

ParityUnits::ParityUnits(const LiveState& live)
    : front_bytes_(Image::front_bytes_for(live)),
      front_units_((front_bytes_ + kUnitBytes - 1) / kUnitBytes),
      image_bytes_(Image::bytes_for(live)) {
    std::size_t offset = front_bytes_;
    Part* part = parts_;
    for (const AddressRange& range : {live.heap, live.globals, live.library}) {
        *part++ = {offset, range.bytes, front_units_ + n_blocks_};
        offset += whole_pages(range.bytes);
        n_blocks_ += blocks_of(range.bytes);
    }
    SFT_ASSERT(offset == image_bytes_);
}

ParityUnits::At ParityUnits::at(std::size_t image_offset) const noexcept {
    if (image_offset < front_bytes_) {
        const std::size_t unit = image_offset / kUnitBytes;
        return {unit, image_offset % kUnitBytes, bytes_of(unit) - image_offset % kUnitBytes};
    }
    const Part* part = &parts_[2];
    while (image_offset < part->image_offset) {
        --part;
    }
    const std::size_t within = image_offset - part->image_offset;
    SFT_ASSERT(within < part->bytes);
    const std::size_t unit = part->first_unit + within / kUnitBytes;
    return {unit, within % kUnitBytes, bytes_of(unit) - within % kUnitBytes};
}

const ParityUnits::Part& ParityUnits::part_of(std::size_t unit) const noexcept {
    SFT_ASSERT(unit >= front_units_ && unit < count());
    const Part* part = &parts_[2];
    while (unit < part->first_unit) {
        --part;
    }
    return *part;
}

std::size_t ParityUnits::bytes_of(std::size_t unit) const noexcept {
    if (unit < front_units_) {
        return std::min(kUnitBytes, front_bytes_ - unit * kUnitBytes);
    }
    const Part& part = part_of(unit);
    return block_bytes(part.bytes, unit - part.first_unit);
}

std::size_t ParityUnits::image_offset(std::size_t unit) const noexcept {
    if (unit < front_units_) {
        return unit * kUnitBytes;
    }
    const Part& part = part_of(unit);
    return part.image_offset + (unit - part.first_unit) * kUnitBytes;
}

// In the smallest groups, of m + 1 members, each keeps m units for each unit of its state.
ParityLayout::ParityLayout(const ParityUnits& units, std::int32_t most_parity) noexcept
    : front_bytes(up_to_units(units.front_bytes())),
      stash(2 * front_bytes),
      head(stash + up_to_units(units.stash_bytes())),
      stamps(head + kPageBytes),
      slots(0),
      n_kept(units.count() * static_cast<std::size_t>(most_parity)),
      bytes(0) {
    slots = stamps + whole_pages(n_kept * 2 * sizeof(std::uint64_t));
    bytes = slots + 2 * n_kept * kUnitBytes;
}

// The file is locked for one at a time on this node. The kernel lets go of it when a process dies. Threads of one
// process have the lock together, so they have a mutex besides.
class SFT_THREAD_SAFETY(scoped_lockable) ParityPlace::Claim {
public:
    Claim(int file, std::size_t offset) noexcept SFT_ACQUIRES(g_folding) : file_(file), offset_(offset) {
        g_folding.lock();
        set(F_WRLCK);
    }
    ~Claim() SFT_THREAD_SAFETY(release_capability()) {
        set(F_UNLCK);
        g_folding.unlock();
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

private:
    void set(short type) const noexcept {
        struct flock lock {};
        lock.l_type = type;
        lock.l_whence = SEEK_SET;
        lock.l_start = static_cast<off_t>(offset_);
        lock.l_len = 1;
        int failed = 0;
        do {
            failed = ::fcntl(file_, F_OFD_SETLKW, &lock);
        } while (failed != 0 && errno == EINTR);
        SFT_ASSERT(failed == 0);
    }

    int file_;
    std::size_t offset_;
};

std::uint64_t* ParityPlace::stamps_of(std::size_t unit) const noexcept {
    SFT_ASSERT(unit < layout_.n_kept);
    return reinterpret_cast<std::uint64_t*>(memory_ + layout_.stamp(unit));
}

std::int32_t ParityPlace::slot_of(const std::uint64_t (&stamps)[2], Version version) noexcept {
    std::int32_t found = -1;
    for (std::int32_t slot = 0; slot < 2; ++slot) {
        const std::uint64_t stamp = stamps[slot];
        if (stamp != 0 && ParityBuild::version_of(stamp) <= version && (found < 0 || stamp > stamps[1 - slot])) {
            found = slot;
        }
    }
    return found;
}

void ParityPlace::wipe() noexcept {
    std::byte* const begin = memory_ + layout_.stamps;
    const std::size_t bytes = layout_.bytes - layout_.stamps;
    if (::madvise(begin, bytes, MADV_REMOVE) != 0) {
        each_existing(file_, offset_ + layout_.stamps, bytes,
                      [&](std::size_t from, std::size_t to) { std::memset(begin + from, 0, to - from); });
    }
}

std::int32_t ParityPlace::slot_to_build_in(ParityBuild build, std::size_t unit, std::int32_t& now) const noexcept {
    const std::uint64_t stamp = build.stamp();
    const std::uint64_t* const stamps = stamps_of(unit);
    now = stamps[0] == 0 && stamps[1] == 0 ? -1 : stamps[0] > stamps[1] ? 0 : 1;
    if (now >= 0 && stamps[now] >= stamp) {
        return stamps[now] == stamp ? now : -1;  // builds come in the order of time
    }
    return now == 0 ? 1 : 0;
}

// What it begins with, and the first change: in one pass if that is all of it.
void ParityPlace::begin_unit(std::size_t unit, std::int32_t slot_number, std::int32_t now, std::size_t at,
                             const std::byte* data, std::size_t bytes) noexcept {
    std::byte* const to = slot(static_cast<std::size_t>(slot_number), unit);
    const std::byte* const from = now < 0 ? nullptr : slot(static_cast<std::size_t>(now), unit);
    if (from != nullptr && bytes == kUnitBytes) {
        sum_of(to, from, data, bytes);
        return;
    }
    if (from != nullptr) {
        std::memcpy(to, from, kUnitBytes);
    } else {
        std::memset(to, 0, kUnitBytes);
    }
    add_bytes(to + at, data, bytes);
}

// The committed content stays, whoever dies: a stamp says what its slot has, or nothing.
bool ParityPlace::fold(ParityBuild build, std::size_t unit, std::size_t at, const std::byte* data,
                       std::size_t bytes) noexcept {
    if (unit >= layout_.n_kept || at > kUnitBytes || bytes > kUnitBytes - at || build.version == kNoVersion) {
        return false;
    }
    const Claim claim(file_, offset_);
    auto* const begun = reinterpret_cast<std::uint64_t*>(memory_ + layout_.head);
    if (build.is_anew && *begun != build.stamp()) {
        wipe();
        *begun = build.stamp();
    }
    std::int32_t now = -1;
    const std::int32_t slot_number = slot_to_build_in(build, unit, now);
    if (slot_number < 0) {
        return false;
    }
    fault_point(FaultPoint::parity_fold);
    if (slot_number == now) {
        add_bytes(slot(static_cast<std::size_t>(slot_number), unit) + at, data, bytes);
        return true;
    }
    std::uint64_t& stamp = stamps_of(unit)[slot_number];
    stamp = 0;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    begin_unit(unit, slot_number, now, at, data, bytes);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    stamp = build.stamp();
    return true;
}

bool ParityPlace::fold_at(std::byte* memory, const ParityLayout& layout, int file, std::size_t places,
                          std::size_t offset, std::uint64_t stamp, bool is_anew, const std::byte* data,
                          std::size_t bytes) noexcept {
    const std::size_t within = (offset - places) % layout.bytes;
    if (offset < places || within < layout.slots) {
        return false;
    }
    const ParityBuild build{ParityBuild::version_of(stamp), static_cast<std::uint32_t>(stamp >> 32), is_anew};
    const std::size_t at = within - layout.slots;
    return ParityPlace(memory + (offset - within), layout, file, offset - within)
        .fold(build, at / kUnitBytes, at % kUnitBytes, data, bytes);
}

void ParityPlace::drop_after(Version version) noexcept {
    const Claim claim(file_, offset_);
    const std::size_t bytes = layout_.n_kept * 2 * sizeof(std::uint64_t);
    auto* const stamps = reinterpret_cast<std::uint64_t*>(memory_ + layout_.stamps);
    each_existing(file_, offset_ + layout_.stamps, bytes, [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from / sizeof *stamps; i < to / sizeof *stamps; ++i) {
            if (stamps[i] != 0 && ParityBuild::version_of(stamps[i]) > version) {
                stamps[i] = 0;
            }
        }
    });
}

}  // namespace sft
