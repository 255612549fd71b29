// What channels between nodes keep (net/lanes.cpp): for each lane and peer an inbox of messages that have come, and the
// count of those that may be sent.
//
// Flow control: a pair has at most kChannelWindow messages that have been sent and not taken out; the receiver tells
// how many it has taken half a window at a time. So an inbox is a ring of that many cells, however far a sender is
// ahead. Both exist only for lanes and peers that have been used.
//
// Epochs: a reset begins a new one on every PE, not everywhere at the same moment. What carries an earlier one is
// dropped; what carries a later one waits outside of the inboxes, since the program may still be taking messages of
// the old one out.
//
// Threads: the network's lock, except that one thread per lane takes messages out while others put them in.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/assert.hpp"
#include "transport/net/wire.hpp"

namespace sft {

struct LaneInbox {
    struct Cell {
        std::uint32_t bytes;
        unsigned char payload[kChannelPayloadBytes];
    };
    static_assert(sizeof(Cell) == sizeof(std::uint32_t) + kChannelPayloadBytes);
    std::atomic<std::uint32_t> n_arrived{0};
    alignas(64) std::atomic<std::uint32_t> n_taken{0};
    std::uint32_t n_told = 0;  // of them, to the sender
    Cell cells[kChannelWindow];
};
static_assert(alignof(LaneInbox) == 64, "sender and receiver do not share a line");
static_assert(offsetof(LaneInbox, n_taken) % 64 == 0);
static_assert(std::atomic<LaneInbox*>::is_always_lock_free);

struct LaneOutbox {
    std::uint32_t n_sent = 0;
    std::uint32_t n_taken = 0;  // as far as the receiver has told
};

struct EarlyMessage {
    WireHead head;
    std::size_t bytes;
    std::byte payload[kChannelPayloadBytes];
};

struct Lanes {
    // By lane and PE.
    std::unique_ptr<std::atomic<LaneInbox*>[]> inboxes;
    std::unique_ptr<std::unique_ptr<LaneOutbox>[]> outboxes;
    std::vector<std::unique_ptr<LaneInbox>> owned;
    std::vector<EarlyMessage> early;
    std::uint32_t epoch = 0;
    std::size_t n_pes = 0;

    void open(std::size_t pes) {
        SFT_ASSERT(pes != 0 && inboxes == nullptr);
        n_pes = pes;
        inboxes = std::make_unique<std::atomic<LaneInbox*>[]>(kLanesMax * pes);
        outboxes = std::make_unique<std::unique_ptr<LaneOutbox>[]>(kLanesMax * pes);
    }
    [[nodiscard]] std::atomic<LaneInbox*>& inbox(std::uint32_t lane, std::size_t from) const noexcept {
        SFT_ASSERT_SLOW(lane < kLanesMax && from < n_pes);
        return inboxes[lane * n_pes + from];
    }
    [[nodiscard]] LaneOutbox& outbox(std::uint32_t lane, std::size_t to) const {
        SFT_ASSERT(lane < kLanesMax && to < n_pes);
        std::unique_ptr<LaneOutbox>& outbox = outboxes[lane * n_pes + to];
        if (outbox == nullptr) {
            outbox = std::make_unique<LaneOutbox>();
        }
        return *outbox;
    }
    // Nothing has been sent or has come since the last reset.
    [[nodiscard]] bool is_unused() const noexcept {
        return std::all_of(owned.begin(), owned.end(),
                           [](const auto& inbox) { return inbox->n_arrived.load() == 0; }) &&
               std::all_of(outboxes.get(), outboxes.get() + kLanesMax * n_pes,
                           [](const auto& outbox) { return outbox == nullptr; });
    }
};

}  // namespace sft
