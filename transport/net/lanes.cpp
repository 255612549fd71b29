#include "transport/net/lanes.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "transport/net/network_impl.hpp"

namespace sft {
namespace {

// Messages of PEs that are ahead with the reset: a few for each of those that talk to this one.
constexpr std::size_t kEarlyPerPe = kChannelWindow * 4;

}  // namespace

bool Network::Impl::send(PeId to, LaneId lane, const void* payload, std::size_t bytes) {
    SFT_ASSERT(bytes <= kChannelPayloadBytes && (bytes == 0 || payload != nullptr));
    const Locked lock(mutex_);
    ProcId process;
    NetPeer* const peer = peer_of(to, WireOperation::message, process);
    if (peer == nullptr) {
        return !options_.gate->is_pending();
    }
    // Behind the puts: the small ones are, by the order of the fabric.
    fence(*peer);
    LaneOutbox& outbox = lanes_.outbox(lane.value(), to.index());
    const auto has_room = [&] {
        return outbox.n_sent - outbox.n_taken < kChannelWindow || peer->is_retired.load(std::memory_order_relaxed);
    };
    if (!await(has_room, true)) {
        return false;
    }
    SFT_ASSERT(outbox.n_sent - outbox.n_taken < kChannelWindow || peer->is_retired.load(std::memory_order_relaxed));
    SFT_ASSERT(me_.load(std::memory_order_relaxed) >= 0);
    WireHead head;
    head.kind = WireKind::channel;
    head.address = wire_pair(static_cast<std::uint32_t>(me_.load(std::memory_order_relaxed)),
                             static_cast<std::uint32_t>(to.value()));
    head.length = bytes;
    head.request = ++outbox.n_sent;
    head.operand = wire_pair(lane.value(), lanes_.epoch);
    if (bytes == 0) {
        transmit(process, head);
    } else {
        // A copy, since the fabric may not take it at once and the caller does not wait for that.
        Outgoing& outgoing = begin_packed();
        SFT_ASSERT(bytes <= packed_bytes_);
        std::memcpy(outgoing.buffer.get(), payload, bytes);
        transmit_outgoing(process, head, Bytes(outgoing.buffer.get(), bytes), outgoing);
    }
    finish();
    return true;
}

bool Network::Impl::try_receive(PeId from, LaneId lane, void* payload, std::size_t bytes) {
    SFT_ASSERT(lane.index() < kLanesMax && from.value() >= 0 && from.index() < lanes_.n_pes);
    LaneInbox* const inbox = lanes_.inbox(lane.value(), from.index()).load(std::memory_order_acquire);
    if (inbox == nullptr) {
        return false;
    }
    const std::uint32_t taken = inbox->n_taken.load(std::memory_order_relaxed);
    if (inbox->n_arrived.load(std::memory_order_acquire) == taken) {
        return false;
    }
    SFT_ASSERT_SLOW(inbox->n_arrived.load(std::memory_order_relaxed) - taken <= kChannelWindow);
    const LaneInbox::Cell& cell = inbox->cells[taken % kChannelWindow];
    SFT_ASSERT_SLOW(cell.bytes <= kChannelPayloadBytes);
    if (bytes != 0) {
        std::memcpy(payload, cell.payload, std::min<std::size_t>(bytes, cell.bytes));
    }
    inbox->n_taken.store(taken + 1, std::memory_order_release);
    if (taken + 1 - inbox->n_told < kChannelCreditStep) {
        return true;
    }
    const Locked lock(mutex_);
    SFT_ASSERT(taken + 1 - inbox->n_told <= kChannelWindow);
    inbox->n_told = taken + 1;
    ProcId process;
    if (peer_of(from, WireOperation::message, process) != nullptr) {
        WireHead head;
        head.kind = WireKind::credit;
        head.address = wire_pair(static_cast<std::uint32_t>(me_.load(std::memory_order_relaxed)),
                                 static_cast<std::uint32_t>(from.value()));
        head.length = taken + 1;
        head.operand = wire_pair(lane.value(), lanes_.epoch);
        transmit(process, head);
        finish();
    }
    return true;
}

void Network::Impl::reset_channels(std::uint32_t epoch) {
    const Locked lock(mutex_);
    SFT_ASSERT(epoch >= lanes_.epoch);
    SFT_ASSERT(epoch > lanes_.epoch || lanes_.is_unused());
    lanes_.epoch = epoch;
    for (const auto& inbox : lanes_.owned) {
        inbox->n_arrived.store(0, std::memory_order_relaxed);
        inbox->n_taken.store(0, std::memory_order_relaxed);
        inbox->n_told = 0;
    }
    for (std::size_t i = 0; i < kLanesMax * lanes_.n_pes; ++i) {
        lanes_.outboxes[i].reset();
    }
    std::vector<EarlyMessage> early;
    early.swap(lanes_.early);
    for (const EarlyMessage& message : early) {
        on_channel(message.head, Bytes(message.payload, message.bytes));
    }
    finish();
}

void Network::Impl::on_channel(const WireHead& head, Bytes payload) {
    const std::uint32_t from = wire_low(head.address);
    const std::uint32_t lane = wire_low(head.operand);
    const std::uint32_t epoch = wire_high(head.operand);
    if (from >= lanes_.n_pes || wire_high(head.address) >= lanes_.n_pes || lane >= kLanesMax ||
        payload.size() > kChannelPayloadBytes || head.length != payload.size()) {
        refuse(head, "no such channel");
    } else if (epoch > lanes_.epoch) {
        if (lanes_.early.size() >= kEarlyPerPe * lanes_.n_pes) {
            refuse(head, "too many messages ahead of a reset");
            return;
        }
        SFT_ASSERT(payload.size() <= sizeof EarlyMessage::payload);
        EarlyMessage& early = lanes_.early.emplace_back();
        early.head = head;
        early.bytes = payload.size();
        std::memcpy(early.payload, payload.data(), payload.size());
    } else if (epoch < lanes_.epoch) {
        ++counters_.stale;
    } else if (!deliver(head, payload)) {
        refuse(head, "out of turn in its channel");
    }
}

bool Network::Impl::deliver(const WireHead& head, Bytes payload) {
    std::atomic<LaneInbox*>& entry = lanes_.inbox(wire_low(head.operand), wire_low(head.address));
    LaneInbox* inbox = entry.load(std::memory_order_relaxed);
    if (inbox == nullptr) {
        lanes_.owned.push_back(std::make_unique<LaneInbox>());
        inbox = lanes_.owned.back().get();
        entry.store(inbox, std::memory_order_release);
    }
    const std::uint32_t n_arrived = inbox->n_arrived.load(std::memory_order_relaxed);
    const std::uint32_t n_waiting = n_arrived - inbox->n_taken.load(std::memory_order_acquire);
    SFT_ASSERT(n_waiting <= kChannelWindow);
    const bool is_full = n_waiting == kChannelWindow;
    if (is_full || head.request != static_cast<std::uint32_t>(n_arrived + 1)) {
        return false;
    }
    SFT_ASSERT(payload.size() <= kChannelPayloadBytes);  // on_channel has looked
    LaneInbox::Cell& cell = inbox->cells[n_arrived % kChannelWindow];
    cell.bytes = static_cast<std::uint32_t>(payload.size());
    if (!payload.empty()) {
        std::memcpy(cell.payload, payload.data(), payload.size());
    }
    inbox->n_arrived.store(n_arrived + 1, std::memory_order_release);
    is_memory_changed_ = true;
    return true;
}

void Network::Impl::on_credit(const WireHead& head) {
    const std::uint32_t from = wire_low(head.address);
    const std::uint32_t lane = wire_low(head.operand);
    if (from >= lanes_.n_pes || lane >= kLanesMax) {
        refuse(head, "no such channel");
        return;
    }
    if (wire_high(head.operand) != lanes_.epoch) {
        ++counters_.stale;
        return;
    }
    LaneOutbox& outbox = lanes_.outbox(lane, from);
    const auto n_taken = static_cast<std::uint32_t>(head.length);
    if (n_taken - outbox.n_taken > outbox.n_sent - outbox.n_taken) {
        refuse(head, "credit for messages that were not sent");
        return;
    }
    outbox.n_taken = n_taken;
    has_news_ = true;
}

}  // namespace sft
