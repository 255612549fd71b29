// What reductions inside a node and over nodes have in common: the order in which elements are combined depends on the
// group and the counts, never on where the members are. For their own files, not for others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "shmem_ft/ops/handles.hpp"
#include "shmem_ft/ops/reductions.hpp"

namespace sft {

inline constexpr std::size_t kChunkBytes = 4096;    // worked on at once, on the stack
inline constexpr std::size_t kCacheLineBytes = 64;  // slices begin on multiples of it
inline constexpr std::size_t kElementBytesMax = 16;
static_assert(kChunkBytes % kElementBytesMax == 0 && kChunkBytes % kCacheLineBytes == 0);
static_assert(kCacheLineBytes % kElementBytesMax == 0);

// What travels in messages: whole elements of every size in each, and fewer messages than a channel holds.
inline constexpr std::size_t kPieceBytes = kChannelPayloadBytes / kElementBytesMax * kElementBytesMax;
inline constexpr std::size_t kSmallBytes = 3 * kPieceBytes;
static_assert(kPieceBytes != 0 && kSmallBytes / kPieceBytes < kChannelDepth);

// Recursive doubling with the data in the messages. Where the size is no power of two, the first members go in pairs:
// the odd one hands its data to the even one and gets the result in the end.
template <class Lane>
class SmallReduction {
public:
    SmallReduction(const Lane& lane, const PeGroup& group, std::size_t count, ElementKind kind) noexcept
        : group_(group), lane_(lane), count_(count), kind_(kind), bytes_(count * kind.bytes) {
        SFT_ASSERT_SLOW(count != 0 && count * kind.bytes <= kSmallBytes && kind.bytes <= kElementBytesMax);
        while (active_ * 2 <= group.size) {
            active_ *= 2;
        }
        pairs_ = group.size - active_;
        SFT_ASSERT_SLOW(pairs_ >= 0 && pairs_ < active_);
    }

    // data: this member's elements, then the result.
    [[nodiscard]] bool run(void* data) const noexcept {
        const bool is_paired = group_.me < 2 * pairs_;
        if (is_paired && group_.me % 2 == 1) {
            const PeId partner = group_.pe(group_.me - 1);
            return send(partner, data) && receive(partner, data);
        }
        if (is_paired && !take_from(group_.pe(group_.me + 1), data, Side::right)) {
            return false;
        }
        const std::int32_t rank = is_paired ? group_.me / 2 : group_.me - pairs_;
        for (std::int32_t distance = 1; distance < active_; distance *= 2) {
            const std::int32_t other = rank ^ distance;
            const PeId partner = group_.pe(other < pairs_ ? 2 * other : other + pairs_);
            if (!send(partner, data) || !take_from(partner, data, other < rank ? Side::left : Side::right)) {
                return false;
            }
        }
        return !is_paired || send(group_.pe(group_.me + 1), data);
    }

private:
    enum class Side { left, right };

    [[nodiscard]] bool send(PeId to, const void* data) const noexcept {
        return in_pieces([&](std::size_t offset, std::size_t bytes) {
            return lane_.send(to, static_cast<const unsigned char*>(data) + offset, bytes);
        });
    }

    [[nodiscard]] bool receive(PeId from, void* data) const noexcept {
        return in_pieces([&](std::size_t offset, std::size_t bytes) {
            return lane_.recv(from, static_cast<unsigned char*>(data) + offset, bytes);
        });
    }

    template <class Move>
    [[nodiscard]] bool in_pieces(Move&& move) const noexcept {
        for (std::size_t offset = 0; offset < bytes_; offset += kPieceBytes) {
            if (!move(offset, std::min(kPieceBytes, bytes_ - offset))) {
                return false;
            }
        }
        return true;
    }

    // Combines with what a partner sends, which stands on the given side of the own data.
    [[nodiscard]] bool take_from(PeId partner, void* data, Side side) const noexcept {
        alignas(16) unsigned char theirs[kSmallBytes];
        if (!receive(partner, theirs)) {
            return false;
        }
        if (side == Side::right) {
            kind_.combine(data, theirs, count_);
        } else {
            kind_.combine(theirs, data, count_);
            std::memcpy(data, theirs, bytes_);
        }
        return true;
    }

    const PeGroup& group_;
    const Lane lane_;
    std::size_t count_;
    ElementKind kind_;
    std::size_t bytes_;
    std::int32_t active_ = 1;
    std::int32_t pairs_ = 0;
};

// Larger data is cut into one slice per member. A member alone reads its slice of all sources and writes it to all
// destinations, so nobody reads what somebody else writes, in place or not. In elements.
struct Slice {
    std::size_t begin;
    std::size_t end;
};
[[nodiscard]] inline Slice own_slice(const PeGroup& group, std::size_t count, std::size_t element_bytes) noexcept {
    SFT_ASSERT(group.me < group.size);
    SFT_ASSERT(element_bytes != 0 && element_bytes <= kElementBytesMax);
    const auto members = static_cast<std::size_t>(group.size);
    const std::size_t line = std::max<std::size_t>(1, kCacheLineBytes / element_bytes);
    const std::size_t slice = ((count + members - 1) / members + line - 1) / line * line;
    const std::size_t begin = std::min(count, static_cast<std::size_t>(group.me) * slice);
    return {begin, std::min(count, begin + slice)};
}

// A member's instance of a symmetric object; null when it is not mapped here.
template <class T>
[[nodiscard]] T* instance(Engine& e, const PeGroup& group, std::int32_t member, T* symmetric,
                          std::size_t offset) noexcept {
    using Byte = std::conditional_t<std::is_const_v<T>, const unsigned char, unsigned char>;
    if (member == group.me) {
        return static_cast<Byte*>(symmetric) + offset;
    }
    return static_cast<T*>(e.peers.locate(static_cast<Byte*>(symmetric) + offset, group.pe(member)));
}

// Behind every write to what instance() has given.
inline void wrote_instance(const Engine& e, const PeGroup& group, std::int32_t member, const void* symmetric,
                           std::size_t offset, std::size_t bytes) noexcept {
    e.peers.wrote(static_cast<const unsigned char*>(symmetric) + offset, group.pe(member), bytes);
}

// Where the members are on several nodes (reductions_wide.cpp). Not of 0 elements.
[[nodiscard]] bool reduce_wide(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count,
                               ElementKind kind) noexcept;
[[nodiscard]] bool scan_wide(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count,
                             ElementKind kind, ScanKind scan_kind) noexcept;

}  // namespace sft
