// Small messages between two PEs of a node, in order, exactly once: what barriers and collectives are made of.
//
// One single-producer single-consumer ring per ordered pair of PEs, in the control segment. A message carries
// up to kChannelPayloadBytes in the same cache line as its sequence number, so it costs one line transfer.
// Because both ends count only messages of their own pair, any collective over any set of PEs can be built on
// it without shared counters, as long as the PEs of a pair call the collectives they have in common in the
// same order (which the specification demands).
//
// Faults: while a fault is pending (FaultGate) send and recv return false at once or as soon as the fault
// becomes known; the rings are then out of step and are reset, all of them, inside shmem_restart_pes.
// Thread safety: one thread at a time per peer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shmem_ft/base/ids.hpp"
#include "shmem_ft/transport/shm/wait.hpp"

namespace sft {

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
static_assert(sizeof(ChannelCell) == 64);
static_assert(sizeof(ChannelRing) == 64 * (kChannelDepth + 1));

class Channels {
public:
    // What one PE knows of its side of the pair with a peer; process-private.
    struct Pair {
        ChannelRing* outgoing = nullptr;  // me -> peer
        ChannelRing* incoming = nullptr;  // peer -> me
        Doorbell* peer_doorbell = nullptr;
        std::uint32_t sent = 0;
        std::uint32_t received = 0;
        std::uint32_t peer_consumed = 0;  // last value read of outgoing->consumed
    };

    Channels() = default;
    Channels(Pair* pairs, Waiter* waiter) noexcept : pairs_(pairs), waiter_(waiter) {}

    // REQUIRES: bytes <= kChannelPayloadBytes. Returns false when a fault is pending.
    bool send(PeId to, const void* payload, std::size_t bytes) noexcept {
        Pair& pair = pairs_[to.index()];
        if (pair.sent - pair.peer_consumed >= kChannelDepth && !wait_for_room(pair)) [[unlikely]] {
            return false;
        }
        ChannelCell& cell = pair.outgoing->cells[pair.sent % kChannelDepth];
        if (bytes != 0) {
            std::memcpy(cell.payload, payload, bytes);
        }
        ++pair.sent;
        // Sequentially consistent: the store must be visible before the sleeping flag is read (Waiter).
        cell.sequence.exchange(pair.sent, std::memory_order_seq_cst);
        pair.peer_doorbell->ring_if_sleeping();
        return true;
    }

    // REQUIRES: bytes is what the sender sent. Returns false when a fault is pending; payload is then unchanged.
    bool recv(PeId from, void* payload, std::size_t bytes) noexcept {
        Pair& pair = pairs_[from.index()];
        ChannelCell& cell = pair.incoming->cells[pair.received % kChannelDepth];
        const std::uint32_t expected = pair.received + 1;
        if (!waiter_->block_until([&] { return cell.sequence.load(std::memory_order_acquire) == expected; }))
            [[unlikely]] {
            return false;
        }
        if (bytes != 0) {
            std::memcpy(payload, cell.payload, bytes);
        }
        pair.received = expected;
        pair.incoming->consumed.exchange(expected, std::memory_order_seq_cst);
        // A sender sleeps on a full ring only when it is that far ahead.
        pair.peer_doorbell->ring_if_sleeping();
        return true;
    }

    // Empty messages.
    bool notify(PeId to) noexcept { return send(to, nullptr, 0); }
    bool await(PeId from) noexcept { return recv(from, nullptr, 0); }

private:
    bool wait_for_room(Pair& pair) noexcept;

    Pair* pairs_ = nullptr;
    Waiter* waiter_ = nullptr;
};

}  // namespace sft
