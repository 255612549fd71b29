#include "shmem_ft/ops/reductions.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/links.hpp"
#include "shmem_ft/ops/reduction_parts.hpp"

namespace sft {
namespace {

// Calls work(offset, elements) for pieces of the own slice, of at most kChunkBytes. The syncs around it are rule 2 of
// collectives.hpp.
template <class Work>
bool for_own_slice(Engine& e, const PeGroup& group, std::size_t count, std::size_t element_bytes,
                   Work&& work) noexcept {
    if (!sync(e, group)) {
        return false;
    }
    const Slice slice = own_slice(group, count, element_bytes);
    const std::size_t step = kChunkBytes / element_bytes;
    SFT_ASSERT(step > 0 && slice.begin <= slice.end && slice.end <= count);
    for (std::size_t at = slice.begin; at < slice.end; at += step) {
        work(at * element_bytes, std::min(step, slice.end - at));
    }
    return sync(e, group);
}

}  // namespace

bool reduce(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count,
            ElementKind kind) noexcept {
    if (!e.gate.is_plain()) [[unlikely]] {
        if (e.waiter.fault_pending()) {
            return false;
        }
        if (count != 0 && is_wide(e, group)) {
            return reduce_wide(e, group, dest, source, count, kind);
        }
    }
    if (count == 0) {
        return true;
    }
    SFT_ASSERT_SLOW(kind.combine != nullptr && kind.bytes != 0 && kind.bytes <= kChunkBytes);
    const std::size_t bytes = count * kind.bytes;
    if (group.size == 1) {
        std::memmove(dest, source, bytes);
        return true;
    }
    if (bytes <= kSmallBytes) {
        alignas(16) unsigned char data[kSmallBytes];
        std::memcpy(data, source, bytes);
        const bool ok = SmallReduction(e.channels.lane(group.lane), group, count, kind).run(data);
        if (ok) {
            std::memcpy(dest, data, bytes);
        }
        return ok;
    }
    return for_own_slice(e, group, count, kind.bytes, [&](std::size_t offset, std::size_t elements) {
        alignas(kCacheLineBytes) unsigned char result[kChunkBytes];
        const std::size_t piece = elements * kind.bytes;
        for (std::int32_t member = 0; member < group.size; ++member) {
            const void* const theirs = instance(e, group, member, source, offset);
            if (theirs == nullptr) {
                continue;
            }
            if (member == 0) {
                std::memcpy(result, theirs, piece);
            } else {
                kind.combine(result, theirs, elements);
            }
        }
        for (std::int32_t member = 0; member < group.size; ++member) {
            if (void* const theirs = instance(e, group, member, dest, offset)) {
                std::memcpy(theirs, result, piece);
                wrote_instance(e, group, member, dest, offset, piece);
            }
        }
    });
}

bool scan(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count, ElementKind kind,
          ScanKind scan_kind) noexcept {
    if (!e.gate.is_plain()) [[unlikely]] {
        if (e.waiter.fault_pending()) {
            return false;
        }
        if (count != 0 && is_wide(e, group)) {
            return scan_wide(e, group, dest, source, count, kind, scan_kind);
        }
    }
    if (count == 0) {
        return true;
    }
    return for_own_slice(e, group, count, kind.bytes, [&](std::size_t offset, std::size_t elements) {
        alignas(kCacheLineBytes) unsigned char before[kChunkBytes];   // members 0 .. member-1
        alignas(kCacheLineBytes) unsigned char through[kChunkBytes];  // members 0 .. member
        const std::size_t piece = elements * kind.bytes;
        std::memset(before, 0, piece);
        for (std::int32_t member = 0; member < group.size; ++member) {
            const void* const theirs = instance(e, group, member, source, offset);
            void* const place = instance(e, group, member, dest, offset);
            if (theirs == nullptr || place == nullptr) {
                continue;
            }
            // The first one is copied, not added to zero, which would turn -0.0 into 0.0.
            if (member == 0) {
                std::memcpy(through, theirs, piece);
            } else {
                std::memcpy(through, before, piece);
                kind.combine(through, theirs, elements);
            }
            std::memcpy(place, scan_kind == ScanKind::inclusive ? through : before, piece);
            wrote_instance(e, group, member, dest, offset, piece);
            std::memcpy(before, through, piece);
        }
    });
}

}  // namespace sft
