// The sending half of OfiFabric.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "transport/ofi/ofi_fabric.hpp"
#include "transport/ofi/state.hpp"

namespace sft::ofi {

Fabric::Sent OfiFabric::send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) {
    Peer* peer = this->peer(to);
    if (peer == nullptr || peer->is_gone || peer->address == FI_ADDR_NOTAVAIL || head.size() > kFabricHeadBytes) {
        return Sent::gone;
    }
    if (options_.is_in_session) {
        return send_at_once(*peer, head, payload, ticket);
    }
    const bool is_small = payload.size() <= kEagerBytes;
    if (is_small && peer->to_begin.empty()) {
        switch (post_small(*peer, head, payload)) {
            case Posted::yes: return Sent::done;
            case Posted::broken: return Sent::gone;
            case Posted::not_now: break;
        }
    }
    const auto message = std::make_shared<Message>();
    std::copy(head.begin(), head.end(), message->head.begin());
    message->head_bytes = head.size();
    message->payload = payload;
    message->ticket = ticket;
    message->wants_sent = !payload.empty() && (!is_small || peer->to_begin.size() >= kCopiesPerPeer);
    if (!message->wants_sent) {
        message->copy.assign(payload.begin(), payload.end());
        message->payload = message->copy;
    }
    if (!is_small) {
        message->number = ++peer->n_large;
    }
    if (message->wants_sent) {
        peer->waiting.push_back(message);
    }
    peer->to_begin.push_back(message);
    flush(*peer);
    return message->wants_sent ? Sent::pending : Sent::done;
}

Fabric::Sent OfiFabric::send_at_once(Peer& peer, Bytes head, Bytes payload, std::uint64_t ticket) {
    const bool is_copied = payload.size() <= kEagerBytes;
    SFT_ASSERT(payload.size() <= eager_bytes());
    if (peer.n_with_provider >= kPacketsPerPeer || (!is_copied && peer.parts_with_provider >= kPartsPerPeer)) {
        return Sent::full;
    }
    Packet& packet = begin_message(peer, head, payload.size());
    if (is_copied) {
        packet.append(payload);
    } else {
        packet.ticket = ticket;
        packet.is_in_place = true;
    }
    switch (post(packet, is_copied ? Bytes() : payload)) {
        case Posted::yes: peer.parts_with_provider += is_copied ? 0 : 1; return is_copied ? Sent::done : Sent::pending;
        case Posted::not_now: is_refused_ = true; return Sent::full;
        case Posted::broken: break;
    }
    return Sent::gone;
}

OfiFabric::Packet& OfiFabric::take_packet(Peer& peer) {
    if (free_packets_.empty()) {
        packets_.push_back(std::make_unique<Packet>());
        free_packets_.push_back(packets_.back().get());
    }
    Packet& packet = *free_packets_.back();
    free_packets_.pop_back();
    SFT_ASSERT(packet.message == nullptr && !packet.is_in_place && packet.ticket == 0);
    packet.to = &peer;
    return packet;
}

// The first packet of a message, with the head of that.
OfiFabric::Packet& OfiFabric::begin_message(Peer& peer, Bytes head, std::size_t payload_bytes) {
    Packet& packet = take_packet(peer);
    packet.begin({.key = peer.key,
                  .number = peer.number,
                  .total_bytes = payload_bytes,
                  .from = options_.self.value(),
                  .head_bytes = static_cast<std::uint16_t>(head.size()),
                  .is_first = 1});
    packet.append(head);
    return packet;
}

// Copies into the packet, behind its head.
void OfiFabric::Packet::append(Bytes more) noexcept {
    SFT_ASSERT(more.size() <= bytes.size() - bytes_used);
    std::copy(more.begin(), more.end(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes_used));
    bytes_used += more.size();
}

void OfiFabric::Packet::begin(const PacketHead& packet_head) noexcept {
    bytes_used = 0;
    append(std::as_bytes(std::span(&packet_head, 1)));
}

OfiFabric::Posted OfiFabric::post_small(Peer& peer, Bytes head, Bytes payload) {
    if (peer.n_with_provider >= kPacketsPerPeer) {
        return Posted::not_now;
    }
    Packet& packet = begin_message(peer, head, payload.size());
    packet.append(payload);
    return post(packet, {});
}

// The next part of a large message, or a small one that had to wait.
OfiFabric::Posted OfiFabric::post_part(Peer& peer, const std::shared_ptr<Message>& message) {
    const bool is_small = message->number == 0;
    if (peer.n_with_provider >= kPacketsPerPeer || (!is_small && peer.parts_with_provider >= kPartsPerPeer)) {
        return Posted::not_now;
    }
    const std::size_t bytes_max = device_.gathers() ? kPartBytes : kEagerBytes;
    const Bytes part = message->payload.subspan(message->bytes_left,
                                                std::min(bytes_max, message->payload.size() - message->bytes_left));
    const bool is_first = !message->has_begun;
    SFT_ASSERT(message->bytes_left <= message->payload.size() && (is_first || !is_small));
    Packet& packet = take_packet(peer);
    packet.begin({.key = peer.key,
                  .number = peer.number,
                  .message = message->number,
                  .total_bytes = message->payload.size(),
                  .offset = message->bytes_left,
                  .from = options_.self.value(),
                  .head_bytes = static_cast<std::uint16_t>(is_first ? message->head_bytes : 0),
                  .is_first = is_first});
    if (is_first) {
        packet.append(Bytes(message->head).first(message->head_bytes));
    }
    const bool is_copied = part.size() <= kEagerBytes;
    if (is_copied) {
        packet.append(part);
    }
    if (!is_small) {
        packet.message = message;
    }
    const Posted posted = post(packet, is_copied ? Bytes() : part);
    if (posted == Posted::yes) {
        message->has_begun = true;
        message->bytes_left += part.size();
        message->parts_with_provider += is_small ? 0 : 1;
        peer.parts_with_provider += is_small ? 0 : 1;
    }
    return posted;
}

OfiFabric::Posted OfiFabric::post(Packet& packet, Bytes in_place) {
    Peer& peer = *packet.to;
    SFT_ASSERT(peer.n_with_provider < kPacketsPerPeer && peer.parts_with_provider <= kPartsPerPeer);
    SFT_ASSERT(in_place.empty() || device_.gathers());
    const std::array<iovec, 2> pieces{
        {{.iov_base = packet.bytes.data(), .iov_len = packet.bytes_used},
         {.iov_base = const_cast<std::byte*>(in_place.data()), .iov_len = in_place.size()}}};
    const ssize_t status =
        in_place.empty() ? ::fi_send(device_.endpoint(), packet.bytes.data(), packet.bytes_used, nullptr, peer.address,
                                     &packet.context)
                         : ::fi_sendv(device_.endpoint(), pieces.data(), nullptr, 2, peer.address, &packet.context);
    if (status == 0) {
        peer.refused_since_ns = 0;
        ++peer.number;
        ++peer.n_with_provider;
        return Posted::yes;
    }
    give_packet(packet);
    if (options_.is_in_session) {
        return status == -FI_EAGAIN && !has_no_connection(peer) ? Posted::not_now : Posted::broken;
    }
    // Nothing has been sent to it yet, so nothing is lost if the next attempt to connect succeeds.
    if (status == -FI_EAGAIN || peer.number == 0) {
        return Posted::not_now;
    }
    break_off(peer);
    return Posted::broken;
}

// The provider does not say that it is refused: it tries again for ever, and takes nothing meanwhile. Who keeps packets
// from it only because it has not read what it has been sent has a connection. A process that is stopped answers
// nothing either, so this takes longer than to lose one that was there.
bool OfiFabric::has_no_connection(Peer& peer) const noexcept {
    const std::int64_t now = now_ns();
    if (peer.n_with_provider != 0 || peer.refused_since_ns == 0) {
        peer.refused_since_ns = peer.n_with_provider != 0 ? 0 : now;
        return false;
    }
    return now - peer.refused_since_ns > 2 * options_.lost_ms * kNsPerMs;
}

void OfiFabric::give_packet(Packet& packet) noexcept {
    packet.message.reset();
    packet.ticket = 0;
    packet.is_in_place = false;
    free_packets_.push_back(&packet);
}

void OfiFabric::packet_has_left(Packet& packet) {
    Peer& peer = *packet.to;
    SFT_ASSERT(peer.n_with_provider > 0);
    --peer.n_with_provider;
    if (packet.is_in_place) {
        SFT_ASSERT(peer.parts_with_provider > 0);
        --peer.parts_with_provider;
        to_tell_.push_back(packet.ticket);
    }
    if (const std::shared_ptr<Message> message = std::exchange(packet.message, nullptr)) {
        --peer.parts_with_provider;
        SFT_ASSERT(peer.parts_with_provider >= 0 && message->parts_with_provider > 0);
        --message->parts_with_provider;
        tell_if_finished(peer, *message);
    }
    give_packet(packet);
}

void OfiFabric::tell_if_finished(Peer& peer, Message& message) {
    if (!message.wants_sent || !message.has_left() || message.parts_with_provider > 0) {
        return;
    }
    message.wants_sent = false;
    to_tell_.push_back(message.ticket);
    std::erase_if(peer.waiting, [&](const std::shared_ptr<Message>& waiting) { return waiting.get() == &message; });
}

void OfiFabric::flush(Peer& peer) {
    Posted posted = Posted::yes;
    while (posted == Posted::yes && peer.has_queue()) {
        // First packets in their order; further parts while there are none, or none that may leave now.
        std::deque<std::shared_ptr<Message>>& queue = peer.to_begin.empty() ? peer.begun : peer.to_begin;
        const std::shared_ptr<Message> message = queue.front();
        posted = post_part(peer, message);
        if (posted == Posted::yes) {
            const bool was_in_begun = &queue == &peer.begun;
            if (!was_in_begun || message->has_left()) {
                queue.pop_front();
            }
            if (!was_in_begun && !message->has_left()) {
                peer.begun.push_back(message);
            }
            tell_if_finished(peer, *message);
        }
    }
    if (peer.has_queue() && !peer.is_busy) {
        peer.is_busy = true;
        busy_.push_back(&peer);
    }
}

void OfiFabric::flush_all() {
    for (Peer* peer : std::exchange(busy_, {})) {
        peer->is_busy = false;
        flush(*peer);
    }
}

// Gives everything back that is under way to it. What the provider has it may still read.
void OfiFabric::break_off(Peer& peer) {
    peer.is_gone = true;
    peer.to_begin.clear();
    peer.begun.clear();
    for (const std::shared_ptr<Message>& message : std::exchange(peer.waiting, {})) {
        message->wants_sent = false;
        to_tell_.push_back(message->ticket);
    }
}

void OfiFabric::tell_sent() {
    // The receiver may send again from inside, and so make this longer.
    while (!to_tell_.empty()) {
        for (const std::uint64_t ticket : std::exchange(to_tell_, {})) {
            options_.receiver->sent(ticket);
        }
    }
}

}  // namespace sft::ofi
