// Reductions and scans over nodes. The same slices and the same order of operations as on one node (reductions.cpp);
// what differs is how data travels. The owner of a slice gets a large chunk of it from all members of other nodes at
// once, and while it works on one chunk the next one is on its way, and so are the results of the one before.
//
// Fault rule: as in collectives.hpp. What was not got is garbage, and is thrown away: the sync at the end fails.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/links.hpp"
#include "shmem_ft/ops/reduction_parts.hpp"

namespace sft {
namespace {

// Memory that a slice is worked on in, per team, and the largest piece that is got at once.
constexpr std::size_t kSpaceBytes = std::size_t{4} << 20;
constexpr std::size_t kPartBytesMax = std::size_t{512} << 10;
static_assert(kPartBytesMax % kCacheLineBytes == 0 && kPartBytesMax >= kChunkBytes);
static_assert(kSpaceBytes % kCacheLineBytes == 0 && kSpaceBytes >= 4 * kPartBytesMax);

// A symmetric array that all members reduce.
struct Arrays {
    void* dest;
    const void* source;
    std::size_t count;
    ElementKind kind;
};

// The own slice, part by part: work(part) is called when the part is there, finished results go out in put().
class SliceParts {
public:
    SliceParts(Engine& e, const PeGroup& group, const Arrays& arrays, std::size_t spare_buffers)
        : engine_(e),
          network_(*e.network),
          group_(group),
          arrays_(arrays),
          slice_(own_slice(group, arrays.count, arrays.kind.bytes)),
          slot_of_(static_cast<std::size_t>(group.size), kHere) {
        std::size_t n_remote = 0;
        for (std::int32_t member = 0; member < group.size; ++member) {
            if (!e.nodes.is_here(group.pe(member))) {
                slot_of_[static_cast<std::size_t>(member)] = n_remote++;
            }
        }
        const std::size_t buffers = n_remote + spare_buffers;
        SFT_ASSERT(n_remote != 0);
        const std::size_t room = kSpaceBytes / (2 * buffers) / kCacheLineBytes * kCacheLineBytes;
        const std::size_t whole = (slice_.end - slice_.begin) * arrays.kind.bytes;
        const std::size_t needed = (whole + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
        buffer_bytes_ = std::min(needed, std::clamp(room, kChunkBytes, kPartBytesMax));
        side_bytes_ = buffers * buffer_bytes_;
        SFT_ASSERT(buffer_bytes_ % kCacheLineBytes == 0 && buffer_bytes_ <= kPartBytesMax);
        SFT_ASSERT(slice_.begin <= slice_.end && slice_.end <= arrays.count);
        n_remote_ = n_remote;
        space_ = reinterpret_cast<unsigned char*>(e.nodes.view(group).at_least(2 * side_bytes_));
    }

    // One part: elements [begin, end), and in which of the two sides of the space it is.
    struct Part {
        std::size_t begin = 0;
        std::size_t elements = 0;
        std::size_t side = 0;
    };

    template <class Work>
    void run(Work&& work) {
        const std::size_t step = buffer_bytes_ / arrays_.kind.bytes;
        if (slice_.begin == slice_.end) {
            return;
        }
        SFT_ASSERT(step > 0);  // else no part would be the last
        const auto part_at = [&](std::size_t begin, std::size_t side) {
            return Part{begin, std::min(step, slice_.end - begin), side};
        };
        Part part = part_at(slice_.begin, 0);
        fetch(part);
        for (;;) {
            network_.quiet();  // of this part, and of the results that lie where the next one goes
            const std::size_t next = part.begin + part.elements;
            SFT_ASSERT(part.elements != 0 && next <= slice_.end);
            const Part following = next < slice_.end ? part_at(next, 1 - part.side) : Part{};
            fetch(following);
            work(part);
            if (following.elements == 0) {
                break;
            }
            part = following;
        }
        network_.quiet();
    }

    [[nodiscard]] bool is_remote(std::int32_t member) const noexcept {
        return slot_of_[static_cast<std::size_t>(member)] != kHere;
    }
    // Of a member of another node: its source, and the place for what goes into its destination.
    [[nodiscard]] unsigned char* buffer(const Part& part, std::int32_t member) const noexcept {
        SFT_ASSERT(part.side < 2 && is_remote(member));
        SFT_ASSERT(part.elements * arrays_.kind.bytes <= buffer_bytes_);
        return space_ + part.side * side_bytes_ + slot_of_[static_cast<std::size_t>(member)] * buffer_bytes_;
    }
    // One that belongs to no member.
    [[nodiscard]] unsigned char* spare_buffer(const Part& part) const noexcept {
        SFT_ASSERT(part.side < 2 && (n_remote_ + 1) * buffer_bytes_ <= side_bytes_);
        return space_ + part.side * side_bytes_ + n_remote_ * buffer_bytes_;
    }
    // What may be changed again when the part after the next one is worked on.
    void put(const Part& part, std::int32_t member, const void* results) const noexcept {
        remote_put<Completion::by_quiet>({engine_, group_.pe(member)}, at(arrays_.dest, offset_of(part)), results,
                                         part.elements * arrays_.kind.bytes);
    }
    [[nodiscard]] std::size_t offset_of(const Part& part) const noexcept { return part.begin * arrays_.kind.bytes; }

private:
    static constexpr std::size_t kHere = SIZE_MAX;

    void fetch(const Part& part) const noexcept {
        for (std::int32_t k = 1; part.elements != 0 && k < group_.size; ++k) {
            const std::int32_t member = (group_.me + k) % group_.size;  // not all from the same one first
            if (is_remote(member)) {
                remote_get<Completion::by_quiet>({engine_, group_.pe(member)}, buffer(part, member),
                                                 at(arrays_.source, offset_of(part)),
                                                 part.elements * arrays_.kind.bytes, nullptr);
            }
        }
    }

    Engine& engine_;
    Network& network_;
    const PeGroup& group_;
    const Arrays& arrays_;
    const Slice slice_;
    std::vector<std::size_t> slot_of_;  // by member: which buffer; kHere: it is mapped
    std::size_t n_remote_ = 0;
    std::size_t buffer_bytes_ = 0;
    std::size_t side_bytes_ = 0;
    unsigned char* space_ = nullptr;
};

// piece(offset in the part, elements) for pieces that fit the processor's cache.
template <class Piece>
void in_pieces(std::size_t elements, std::size_t element_bytes, Piece&& piece) noexcept {
    const std::size_t step = kChunkBytes / element_bytes;
    SFT_ASSERT(step > 0);
    for (std::size_t done = 0; done < elements; done += step) {
        piece(done * element_bytes, std::min(step, elements - done));
    }
}

void reduce_part(Engine& e, const PeGroup& group, const Arrays& arrays, const SliceParts& parts,
                 const SliceParts::Part& part) noexcept {
    unsigned char* const results = parts.spare_buffer(part);
    in_pieces(part.elements, arrays.kind.bytes, [&](std::size_t offset, std::size_t elements) {
        const std::size_t bytes = elements * arrays.kind.bytes;
        const std::size_t place = parts.offset_of(part) + offset;
        unsigned char* const result = results + offset;
        for (std::int32_t member = 0; member < group.size; ++member) {
            const void* const theirs = parts.is_remote(member) ? parts.buffer(part, member) + offset
                                                               : instance(e, group, member, arrays.source, place);
            if (theirs == nullptr) {
                continue;  // it is dead
            }
            if (member == 0) {
                std::memcpy(result, theirs, bytes);
            } else {
                arrays.kind.combine(result, theirs, elements);
            }
        }
        for (std::int32_t member = 0; member < group.size; ++member) {
            if (parts.is_remote(member)) {
                continue;
            }
            if (void* const theirs = instance(e, group, member, arrays.dest, place)) {
                std::memcpy(theirs, result, bytes);
                wrote_instance(e, group, member, arrays.dest, place, bytes);
            }
        }
    });
    for (std::int32_t k = 1; k < group.size; ++k) {
        const std::int32_t member = (group.me + k) % group.size;
        if (parts.is_remote(member)) {
            parts.put(part, member, results);
        }
    }
}

void scan_part(Engine& e, const PeGroup& group, const Arrays& arrays, ScanKind scan_kind, const SliceParts& parts,
               const SliceParts::Part& part) noexcept {
    in_pieces(part.elements, arrays.kind.bytes, [&](std::size_t offset, std::size_t elements) {
        alignas(kCacheLineBytes) unsigned char before[kChunkBytes];   // members 0 .. member-1
        alignas(kCacheLineBytes) unsigned char through[kChunkBytes];  // members 0 .. member
        const std::size_t bytes = elements * arrays.kind.bytes;
        const std::size_t place = parts.offset_of(part) + offset;
        std::memset(before, 0, bytes);
        for (std::int32_t member = 0; member < group.size; ++member) {
            const bool is_remote = parts.is_remote(member);
            const void* const theirs =
                is_remote ? parts.buffer(part, member) + offset : instance(e, group, member, arrays.source, place);
            void* const result =
                is_remote ? parts.buffer(part, member) + offset : instance(e, group, member, arrays.dest, place);
            if (theirs == nullptr || result == nullptr) {
                continue;
            }
            // The first one is copied, not added to zero, which would turn -0.0 into 0.0.
            if (member == 0) {
                std::memcpy(through, theirs, bytes);
            } else {
                std::memcpy(through, before, bytes);
                arrays.kind.combine(through, theirs, elements);
            }
            std::memcpy(result, scan_kind == ScanKind::inclusive ? through : before, bytes);
            if (!is_remote) {
                wrote_instance(e, group, member, arrays.dest, place, bytes);
            }
            std::memcpy(before, through, bytes);
        }
    });
    for (std::int32_t member = 0; member < group.size; ++member) {
        if (parts.is_remote(member)) {
            parts.put(part, member, parts.buffer(part, member));
        }
    }
}

}  // namespace

bool reduce_wide(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count,
                 ElementKind kind) noexcept {
    SFT_ASSERT(count != 0);
    if (count * kind.bytes <= kSmallBytes) {
        alignas(16) unsigned char data[kSmallBytes];
        std::memcpy(data, source, count * kind.bytes);
        const WideLane lane(e.channels, e.waiter, e.nodes, group.lane);
        const bool ok = SmallReduction(lane, group, count, kind).run(data);
        if (ok) {
            std::memcpy(dest, data, count * kind.bytes);
        }
        return ok;
    }
    if (!sync(e, group)) {
        return false;
    }
    const Arrays arrays{dest, source, count, kind};
    SliceParts parts(e, group, arrays, 1);
    parts.run([&](const SliceParts::Part& part) { reduce_part(e, group, arrays, parts, part); });
    return sync(e, group);
}

bool scan_wide(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count, ElementKind kind,
               ScanKind scan_kind) noexcept {
    SFT_ASSERT(count != 0);
    if (!sync(e, group)) {
        return false;
    }
    const Arrays arrays{dest, source, count, kind};
    SliceParts parts(e, group, arrays, 0);
    parts.run([&](const SliceParts::Part& part) { scan_part(e, group, arrays, scan_kind, parts, part); });
    return sync(e, group);
}

}  // namespace sft
