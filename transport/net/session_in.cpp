// What comes in a session, and what it says about what was sent.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "transport/net/session_fabric.hpp"

namespace sft {
namespace {

// Before a connection is made again. The first attempt waits as long as the death of a process mostly takes to become
// known.
constexpr std::int64_t kRetryNs = 20 * kNsPerMs;
constexpr std::int64_t kRetryNsMax = 500 * kNsPerMs;
static_assert(kRetryNs > 0 && kRetryNs < kRetryNsMax);

}  // namespace

void SessionFabric::message(Bytes bytes, Bytes payload) {
    SessionHead head;
    if (is_bare_ && options_.receiver != nullptr) {
        options_.receiver->message(bytes, payload);
        return;
    }
    if (options_.receiver == nullptr) {
        return;
    }
    std::memcpy(&head, bytes.data(), std::min(bytes.size(), sizeof head));
    const Bytes message_head = bytes.subspan(std::min(bytes.size(), sizeof head));
    Peer* const peer = peer_of(ProcId(head.from));
    if (head.secret != options_.secret || bytes.size() < sizeof head || head.to != options_.self.value() ||
        peer == nullptr || head.head_bytes != message_head.size()) {
        options_.receiver->stranger();
        return;
    }
    if (peer->is_retired) {
        return;
    }
    if (!take_acknowledgement(*peer, head.received)) {
        options_.receiver->stranger();
        return;
    }
    if (head.number == 0) {
        take_note(*peer, head);
        return;
    }
    if (is_closing_) {
        return;  // it is not taken, and not acknowledged either
    }
    if (head.number != peer->received + 1) {
        // Older: sent again, because its sender does not know that it has arrived.
        const bool is_gap = head.number > peer->received;
        if (!is_gap || peer->gap_told != peer->received) {
            peer->gap_told = is_gap ? peer->received : peer->gap_told;
            peer->due = is_gap ? SessionNote::gap : std::max(peer->due, SessionNote::received);
            touch(*peer);
        }
        return;
    }
    peer->received = head.number;
    SFT_ASSERT(peer->told < peer->received);
    peer->bytes_untold += payload.size();
    if (peer->bytes_untold >= kSessionToldBytes || peer->received - peer->told >= kSessionToldPackets) {
        peer->due = std::max(peer->due, SessionNote::received);
        touch(*peer);
    }
    deliver(*peer, head, message_head, payload);
}

void SessionFabric::has_got_through(Peer& peer) noexcept {
    peer.broken_since_ns = 0;
    peer.is_unheard = false;
    peer.delay_ns = 0;
    peer.is_lost = false;
}

// False: it acknowledges what was not sent.
bool SessionFabric::take_acknowledgement(Peer& peer, std::uint64_t received) {
    if (received > peer.n_numbered) {
        return false;
    }
    if (received <= peer.acked) {
        return true;  // it was sent earlier than one that is known
    }
    const auto n = static_cast<std::size_t>(received - peer.acked);
    SFT_ASSERT(n <= peer.unacked.size());
    for (std::size_t i = 0; i < n; ++i) {
        const Packet& packet = peer.unacked.front();
        SFT_ASSERT(packet.head.number == peer.acked + i + 1);
        SFT_ASSERT(peer.bytes_unacked >= packet.bytes);
        peer.bytes_unacked -= packet.bytes;
        pool_.give(packet.memory);
        peer.unacked.pop_front();
    }
    peer.acked = received;
    peer.next -= std::min(peer.next, n);
    check_invariants(peer);
    has_got_through(peer);
    if (!peer.to_begin.empty() || !peer.begun.empty()) {
        touch(peer);
    }
    return true;
}

void SessionFabric::take_note(Peer& peer, const SessionHead& head) {
    switch (head.note) {
        case SessionNote::question:
            peer.due = SessionNote::answer;
            peer.answer = head.message;
            touch(peer);
            break;
        case SessionNote::answer:
            if (peer.asked != 0 && head.message == peer.asked) {
                peer.asked = 0;
                has_got_through(peer);
                if (peer.acked < peer.asked_after) {
                    send_again(peer);
                }
            }
            break;
        case SessionNote::gap:
            // Once for each packet that is missing: should it be lost again, a question finds that out.
            if (head.received == peer.acked && peer.gap_heeded != peer.acked && !peer.unacked.empty()) {
                peer.gap_heeded = peer.acked;
                send_again(peer);
            }
            break;
        case SessionNote::farewell: peer.has_left = true; break;
        case SessionNote::received:
        case SessionNote::none: break;
    }
}

void SessionFabric::deliver(Peer& peer, const SessionHead& head, Bytes message_head, Bytes payload) {
    if (head.message == 0) {
        options_.receiver->message(message_head, payload);
        return;
    }
    if (head.offset == 0) {
        const Place place = options_.receiver->place(message_head, head.total_bytes);
        peer.incoming[head.message] =
            Incoming{.place = place.address, .ticket = place.ticket, .bytes = head.total_bytes, .bytes_here = 0};
    }
    const auto found = peer.incoming.find(head.message);
    if (found == peer.incoming.end() || head.offset != found->second.bytes_here ||
        payload.size() > found->second.bytes - found->second.bytes_here) {
        return;  // no sender of this job divides a message like this
    }
    Incoming& incoming = found->second;
    if (incoming.place != nullptr && !payload.empty()) {
        std::memcpy(incoming.place + incoming.bytes_here, payload.data(), payload.size());
    }
    incoming.bytes_here += payload.size();
    if (incoming.bytes_here == incoming.bytes) {
        const Incoming whole = incoming;
        peer.incoming.erase(found);
        if (whole.place != nullptr) {
            options_.receiver->arrived(whole.ticket, true);
        }
    }
}

void SessionFabric::drop_incoming(Peer& peer) {
    for (const auto& [number, incoming] : std::exchange(peer.incoming, {})) {
        if (incoming.place != nullptr && options_.receiver != nullptr) {
            options_.receiver->arrived(incoming.ticket, false);
        }
    }
}

// The fabric has done with a payload.
void SessionFabric::sent(std::uint64_t ticket) {
    if (!is_bare_) {
        pool_.give(reinterpret_cast<SessionMemory*>(ticket));
    } else if (options_.receiver != nullptr) {
        options_.receiver->sent(ticket);
    }
}

FabricReceiver::Place SessionFabric::place(Bytes head, std::size_t bytes) {
    return is_bare_ && options_.receiver != nullptr ? options_.receiver->place(head, bytes) : Place{};
}

void SessionFabric::arrived(std::uint64_t ticket, bool is_whole) {
    if (is_bare_ && options_.receiver != nullptr) {
        options_.receiver->arrived(ticket, is_whole);
    }
}

void SessionFabric::broken(ProcId process) {
    Peer* const peer = peer_of(process);
    if (peer == nullptr || peer->is_retired || peer->is_broken || peer->has_left || is_bare_) {
        return;
    }
    const std::int64_t now = now_ns();
    peer->is_broken = true;
    peer->is_full = false;
    peer->delay_ns = std::clamp(peer->delay_ns * 2, kRetryNs, kRetryNsMax);
    peer->retry_ns = now + peer->delay_ns;
    if (peer->broken_since_ns == 0) {
        peer->broken_since_ns = now;
    }
    watch(*peer);
}

}  // namespace sft
