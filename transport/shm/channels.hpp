// Small messages between two PEs of a node, in order, exactly once: what barriers and collectives are made of.
//
// One single-producer single-consumer ring per lane and ordered pair of PEs, in the control segment. A message carries
// up to kChannelPayloadBytes in the same cache line as its sequence number, so it costs one line transfer.
// Because both ends count only messages of their own pair and lane, any collective over any set of PEs can be built on
// it without shared counters, as long as the PEs of a pair call the collectives they have in common in the same order,
// lane by lane (which the specification demands team by team).
//
// Lanes: a team has one of its own, its index, which is the same on all members (handles.hpp); so collectives of
// different teams may run at once, in different threads of a PE. A lane goes on counting when its index is given to the
// next team: whoever has called destroy has received everything that was sent to it. What nobody has used is holes of
// the segment, and the private counters are pages that nobody has touched.
//
// Faults: while a fault is pending (FaultGate) send and recv return false at once or as soon as the fault
// becomes known; the rings are then out of step and are reset, all of them, inside shmem_restart_pes: every PE clears
// the ones towards itself. A sender marks a lane at the receiver before it uses it for the first time, so a receiver
// knows which ones there are although it may be a substitute; a mark by somebody who then dies is harmless.
// Thread safety: one thread at a time per lane, none during reset.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/assert.hpp"
#include "base/ids.hpp"
#include "transport/shm/wait.hpp"

namespace sft {

using LaneId = StrongId<struct LaneIdTag, std::uint32_t>;

inline constexpr std::size_t kLanesMax = 256;
inline constexpr std::size_t kChannelPayloadBytes = 56;
inline constexpr std::uint32_t kChannelDepth = 4;

struct alignas(64) ChannelCell {
    std::atomic<std::uint32_t> sequence;
    std::uint32_t reserved;
    unsigned char payload[kChannelPayloadBytes];
};

// Lives in shared memory, zero-initialised.
struct ChannelRing {
    ChannelCell cells[kChannelDepth];
    alignas(64) std::atomic<std::uint32_t> consumed;  // written by the receiver only
};
static_assert(sizeof(ChannelCell) == 64 && alignof(ChannelCell) == 64);
static_assert(offsetof(ChannelCell, payload) == 8);
static_assert(std::has_single_bit(kChannelDepth), "places in the ring follow from counts that wrap around");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "in shared memory there are no locks");
static_assert(sizeof(ChannelRing) == 64 * (kChannelDepth + 1));
static_assert(offsetof(ChannelRing, consumed) == 64 * kChannelDepth, "what the receiver writes has a line of its own");

// The lanes in which somebody has sent to a PE, or met others at its meeting point, since the job began. Lives in
// shared memory, one per PE, zero at first; bits are only ever set.
struct alignas(64) LaneMarks {
    std::atomic<std::uint64_t> words[kLanesMax / 64];

    void mark(LaneId lane) noexcept;
    [[nodiscard]] bool is_marked(LaneId lane) const noexcept;
};
static_assert(kLanesMax % 64 == 0 && sizeof(LaneMarks) % 64 == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "in shared memory there are no locks");

// Where the PEs of a team wait for each other when they are many to a processor: whoever comes last lets all go on, so
// each has to run only once more. It is found by lane and first member, because teams without a common member, such as
// the rows of a grid, may have the same lane. Lives in shared memory, zero at first. Cleared like the rings when a
// fault is over, by the first member.
struct alignas(64) MeetingPoint {
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> meetings;  // that are over
};
static_assert(sizeof(MeetingPoint) == 64 && offsetof(MeetingPoint, meetings) == 4);

// Where the rings lie. By lane, receiver, sender: a PE clears a row at a time.
struct ChannelMap {
    ChannelRing* rings = nullptr;    // kLanesMax * n_pes * n_pes
    LaneMarks* marks = nullptr;      // n_pes
    MeetingPoint* points = nullptr;  // kLanesMax * n_pes
    std::size_t n_pes = 0;

    [[nodiscard]] static std::size_t bytes_of_rings(std::size_t n_pes) noexcept {
        return kLanesMax * n_pes * n_pes * sizeof(ChannelRing);
    }
    [[nodiscard]] static std::size_t bytes_of_points(std::size_t n_pes) noexcept {
        return kLanesMax * n_pes * sizeof(MeetingPoint);
    }
    [[nodiscard]] MeetingPoint& point(LaneId lane, PeId first) const noexcept {
        SFT_ASSERT(lane.index() < kLanesMax && first.value() >= 0 && first.index() < n_pes);
        return points[lane.index() * n_pes + first.index()];
    }
    [[nodiscard]] ChannelRing* incoming(LaneId lane, PeId to) const noexcept {
        SFT_ASSERT(lane.index() < kLanesMax && to.value() >= 0 && to.index() < n_pes);
        return rings + (lane.index() * n_pes + to.index()) * n_pes;
    }
};

class Channels {
    // What one PE knows of its side of the pair with a peer in a lane; zero at first.
    struct Pair {
        std::uint32_t sent;
        std::uint32_t received;
        std::uint32_t room;  // messages that can be sent without looking how far the receiver is
        std::uint32_t reserved;
    };
    static_assert(sizeof(Pair) == 16);

public:
    Channels() = default;

    // doorbells has the one of every PE's holder and, as everything that is given here, outlives this.
    void connect(const ChannelMap& map, PeId me, std::vector<Doorbell*> doorbells, Waiter* waiter);

    // Everything towards this PE, and all it has counted. REQUIRES: nobody sends to it until all PEs have done this.
    void reset() noexcept;

    // One lane of all pairs with this PE. A view, made anew for each collective.
    class Lane {
    public:
        // False: a fault is pending.
        [[nodiscard]] bool send(PeId to, const void* payload, std::size_t bytes) const noexcept {
            SFT_ASSERT_SLOW(bytes <= kChannelPayloadBytes);
            return put(to, payload, bytes);
        }
        // As many bytes as the sender sent. False: a fault is pending; payload is then unchanged.
        [[nodiscard]] bool recv(PeId from, void* payload, std::size_t bytes) const noexcept {
            SFT_ASSERT_SLOW(bytes <= kChannelPayloadBytes);
            return take(from, payload, bytes);
        }

        // Empty messages. They are what a barrier consists of, so they are put into it.
        [[nodiscard, gnu::always_inline]] bool notify(PeId to) const noexcept { return put(to, nullptr, 0); }
        [[nodiscard, gnu::always_inline]] bool await(PeId from) const noexcept { return take(from, nullptr, 0); }

        // All PEs of a team are here. others(ring) calls ring(pe) for every one of them but this one. False when a
        // fault is pending. Not for active sets, which may have the first member in common.
        struct Team {
            PeId first;
            std::uint32_t size;
        };
        template <class Others>
        [[nodiscard]] bool meet(Team team, Others&& others) const noexcept {
            channels_->mark(id_, team.first);
            SFT_ASSERT_SLOW(team.size > 1 && team.size <= channels_->map_.n_pes && id_.index() != 0);
            MeetingPoint& point = channels_->map_.point(id_, team.first);
            const std::uint32_t before = point.meetings.load(std::memory_order_acquire);
            if (point.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != team.size) {
                return channels_->waiter_->block_until(
                    [&] { return point.meetings.load(std::memory_order_acquire) != before; });
            }
            point.arrived.store(0, std::memory_order_relaxed);
            point.meetings.store(before + 1, std::memory_order_seq_cst);
            others([&](PeId pe) { channels_->doorbells_[pe.index()]->ring_if_sleeping(); });
            return true;
        }

    private:
        friend class Channels;

        [[nodiscard, gnu::always_inline]] bool put(PeId to, const void* payload, std::size_t bytes) const noexcept {
            SFT_ASSERT_SLOW(to.value() >= 0 && to.index() < channels_->map_.n_pes && to != channels_->me_);
            Pair& pair = pairs_[to.index()];
            SFT_ASSERT_SLOW(pair.room <= kChannelDepth);
            ChannelRing& ring = *reinterpret_cast<ChannelRing*>(outgoing_ + to.index() * channels_->row_bytes_);
            if (pair.room == 0 && !channels_->make_room(pair, ring, id_, to)) [[unlikely]] {
                return false;
            }
            ChannelCell& cell = ring.cells[pair.sent % kChannelDepth];
            if (bytes != 0) {
                std::memcpy(cell.payload, payload, bytes);
            }
            --pair.room;
            ++pair.sent;
            // Sequentially consistent: the store must be visible before the sleeping flag is read (Waiter).
            cell.sequence.exchange(pair.sent, std::memory_order_seq_cst);
            channels_->doorbells_[to.index()]->ring_if_sleeping();
            return true;
        }

        [[nodiscard, gnu::always_inline]] bool take(PeId from, void* payload, std::size_t bytes) const noexcept {
            Pair& pair = pairs_[from.index()];
            SFT_ASSERT_SLOW(from.value() >= 0 && from.index() < channels_->map_.n_pes && from != channels_->me_);
            ChannelRing& ring = incoming_[from.index()];
            ChannelCell& cell = ring.cells[pair.received % kChannelDepth];
            const std::uint32_t expected = pair.received + 1;
            if (!channels_->waiter_->block_until(
                    [&] { return cell.sequence.load(std::memory_order_acquire) == expected; })) [[unlikely]] {
                return false;
            }
            if (bytes != 0) {
                std::memcpy(payload, cell.payload, bytes);
            }
            pair.received = expected;
            ring.consumed.exchange(expected, std::memory_order_seq_cst);
            // A sender sleeps on a full ring only when it is that far ahead.
            channels_->doorbells_[from.index()]->ring_if_sleeping();
            return true;
        }

        Channels* channels_;
        Pair* pairs_;            // by peer
        std::byte* outgoing_;    // the ring to PE 0; to the next PE it is row_bytes_ further
        ChannelRing* incoming_;  // by sender
        LaneId id_;
    };

    // One multiplication for both, because a small collective is over within a hundred instructions.
    [[nodiscard]] Lane lane(LaneId id) noexcept {
        SFT_ASSERT_SLOW(id.index() < kLanesMax && pairs_ != nullptr);
        const std::size_t offset = id.index() * lane_bytes_;
        Lane lane;
        lane.channels_ = this;
        lane.pairs_ = pairs_.get() + id.index() * pairs_stride_;
        lane.outgoing_ = outgoing_ + offset;
        lane.incoming_ = reinterpret_cast<ChannelRing*>(incoming_ + offset);
        lane.id_ = id;
        return lane;
    }

private:
    // Memory of the system, zero until it is touched.
    struct Unmap {
        std::size_t bytes;
        void operator()(Pair* pairs) const noexcept;
    };

    void mark(LaneId lane, PeId at) noexcept;
    [[nodiscard]] bool make_room(Pair& pair, ChannelRing& ring, LaneId lane, PeId to) noexcept;

    ChannelMap map_;
    PeId me_ = kNoPe;
    std::unique_ptr<Pair[], Unmap> pairs_;  // by lane and peer; lanes do not share cache lines
    std::size_t pairs_stride_ = 0;
    std::byte* outgoing_ = nullptr;  // of lane 0: the ring to PE 0
    std::byte* incoming_ = nullptr;  // of lane 0: the row
    std::size_t row_bytes_ = 0;
    std::size_t lane_bytes_ = 0;
    std::vector<Doorbell*> doorbells_;
    Waiter* waiter_ = nullptr;
};

}  // namespace sft
