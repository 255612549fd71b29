#include "transport/net/session_fabric.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"

namespace sft {
namespace {

// Without a word about what was sent, until it is asked for; doubled each time.
constexpr std::int64_t kPatienceNs = 1000 * kNsPerMs;
constexpr std::int64_t kPatienceNsMax = 8000 * kNsPerMs;
constexpr std::int64_t kLookNs = 5 * kNsPerMs;
constexpr std::int64_t kLingerNs = 1000 * kNsPerMs;

// Payloads up to this are copied when they have to wait, if few do, so that their owner need not wait as well.
constexpr std::size_t kCopiedBytes = 8192;
constexpr std::size_t kCopiesMax = 64;
static_assert(kCopiedBytes * kCopiesMax <= kSessionWindowBytes, "of copies there are no more than of packets");
static_assert(kLookNs < kPatienceNs && kPatienceNs < kPatienceNsMax);

}  // namespace

// ---- opening and closing ----

Result<> SessionFabric::open(const Options& options) {
    SFT_ASSERT(options.receiver != nullptr && options.n_slots > 0);
    SFT_ASSERT(!is_open_);
    SFT_ASSERT(options.self.value() >= 0 && options.self.value() < options.n_slots);
    options_ = options;
    owner_ = ::getpid();
    peers_ = std::vector<Peer>(static_cast<std::size_t>(options.n_slots));
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        peers_[i].process = ProcId(static_cast<std::int32_t>(i));
    }
    Options below = options;
    below.receiver = this;
    below.is_in_session = true;
    if (Result<> done = inner_->open(below); !done) {
        return done;
    }
    part_bytes_ = inner_->eager_bytes();
    SFT_ASSERT(part_bytes_ != 0);
    is_bare_ = !inner_->reconnects();
    is_open_ = true;
    return {};
}

void SessionFabric::close() noexcept {
    if (!std::exchange(is_open_, false)) {
        return;
    }
    if (::getpid() == owner_ && !is_bare_) {
        linger();
    }
    options_.receiver = nullptr;
    inner_->close();
    peers_.clear();
    busy_.clear();
    timed_.clear();
}

// Until the others have what was sent to them, or are gone themselves, or take nothing.
void SessionFabric::linger() noexcept {
    is_closing_ = true;
    for (Peer& peer : peers_) {
        if (peer.n_numbered != 0 || peer.received != 0) {
            static_cast<void>(tell(peer, SessionNote::farewell, 0));
            ask(peer);
        }
    }
    const std::int64_t end_ns = now_ns() + kLingerNs;
    const auto is_any = [this](const Peer& peer) { return is_lingering_for(peer); };
    while (std::any_of(peers_.begin(), peers_.end(), is_any) && now_ns() < end_ns) {
        if (!progress() && arm()) {
            pollfd entry{.fd = fd(), .events = POLLIN, .revents = 0};
            ::poll(&entry, 1, 1);
        }
    }
}

bool SessionFabric::is_lingering_for(const Peer& peer) const noexcept {
    return !peer.is_retired && !peer.is_broken && !peer.has_left &&
           (!peer.unacked.empty() || !peer.to_begin.empty() || !peer.begun.empty());
}

SessionFabric::Peer* SessionFabric::peer_of(ProcId process) noexcept {
    return process.value() >= 0 && process.index() < peers_.size() ? &peers_[process.index()] : nullptr;
}

// The first of the header, and what follows from it.
void SessionFabric::check_invariants(const Peer& peer) noexcept {
    if (peer.is_retired) {
        return;
    }
    SFT_ASSERT(peer.acked + peer.unacked.size() == peer.n_numbered);
    SFT_ASSERT(peer.unacked.empty() || peer.unacked.front().head.number == peer.acked + 1);
    SFT_ASSERT(peer.unacked.empty() || peer.unacked.back().head.number == peer.n_numbered);
    SFT_ASSERT(!peer.unacked.empty() || peer.bytes_unacked == 0);
    SFT_ASSERT(peer.next <= peer.unacked.size());
    SFT_ASSERT(peer.told <= peer.received);
    SFT_ASSERT(peer.unacked.size() <= kSessionWindowPackets);
}

// ---- sending ----

Fabric::Sent SessionFabric::send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) {
    if (is_bare_) {
        return inner_->send(to, head, payload, ticket);
    }
    Peer* const peer = peer_of(to);
    if (peer == nullptr || peer->is_retired || head.size() > kMessageHeadBytes) {
        return Sent::gone;
    }
    Message& message = peer->to_begin.emplace_back();
    message.head_bytes = static_cast<std::uint16_t>(head.size());
    std::copy(head.begin(), head.end(), message.head.begin());
    message.payload = payload;
    message.ticket = ticket;
    message.number = payload.size() > part_bytes_ ? ++peer->n_large : 0;
    // Until this function knows whether all is in packets, nobody is told.
    const std::uint64_t n_large = peer->n_large;
    const bool is_large = message.number != 0;
    static_cast<void>(pump(*peer));
    watch(*peer);
    if (!is_large) {
        if (peer->to_begin.empty()) {  // they leave in their order, and this is the last
            return Sent::done;
        }
        Message& waiting = peer->to_begin.back();
        if (payload.size() <= kCopiedBytes && peer->to_begin.size() <= kCopiesMax) {
            waiting.copy.assign(payload.begin(), payload.end());
            waiting.payload = waiting.copy;
            return Sent::done;
        }
        waiting.wants_sent = true;
        return Sent::pending;
    }
    for (std::deque<Message>* some : {&peer->begun, &peer->to_begin}) {
        if (!some->empty() && some->back().number == n_large) {
            some->back().wants_sent = true;
            return Sent::pending;
        }
    }
    return Sent::done;
}

// Of the next message that there is. False: there is none, or no room.
bool SessionFabric::make_packet(Peer& peer) {
    if (!peer.has_room()) {
        return false;
    }
    std::deque<Message>& some = peer.to_begin.empty() ? peer.begun : peer.to_begin;
    if (some.empty()) {
        return false;
    }
    const bool is_first = &some == &peer.to_begin;
    SFT_ASSERT(is_first == (some.front().done == 0));
    SFT_ASSERT(is_first || some.front().number != 0);  // only large ones are divided
    make_part(peer, some.front());
    const bool is_whole = some.front().done == some.front().payload.size();
    if (is_whole && some.front().wants_sent) {
        to_tell_.push_back(some.front().ticket);
    }
    if (is_first && !is_whole) {
        peer.begun.push_back(std::move(some.front()));
    }
    if (is_first || is_whole) {
        some.pop_front();
    }
    return true;
}

void SessionFabric::make_part(Peer& peer, Message& message) {
    const std::size_t bytes = std::min(part_bytes_, message.payload.size() - message.done);
    SFT_ASSERT(message.done <= message.payload.size() && (bytes != 0 || message.payload.empty()));
    SFT_ASSERT(peer.has_room() && message.head_bytes <= kMessageHeadBytes);
    Packet& packet = peer.unacked.emplace_back();
    packet.head.secret = options_.secret;
    packet.head.number = ++peer.n_numbered;
    packet.head.from = options_.self.value();
    packet.head.to = peer.process.value();
    packet.head.message = message.number;
    packet.head.total_bytes = message.payload.size();
    packet.head.offset = message.done;
    packet.bytes = bytes;
    if (message.done == 0) {
        packet.head.head_bytes = message.head_bytes;
        packet.message_head = message.head;
    }
    if (bytes != 0) {
        packet.memory = pool_.take(bytes);
        std::memcpy(packet.memory->bytes.get(), message.payload.data() + message.done, bytes);
    }
    message.done += bytes;
    peer.bytes_unacked += bytes;
    SFT_ASSERT(peer.bytes_unacked < kSessionWindowBytes + part_bytes_);
}

// True: something was sent.
bool SessionFabric::pump(Peer& peer) {
    peer.is_full = false;
    bool is_any = false;
    while (!peer.is_retired && !peer.is_broken && (peer.next < peer.unacked.size() || make_packet(peer))) {
        if (!hand_over(peer, peer.unacked[peer.next])) {
            break;
        }
        ++peer.next;
        is_any = true;
    }
    if (!peer.is_full && peer.due != SessionNote::none && tell(peer, peer.due, peer.answer)) {
        is_any = true;
    }
    if (!peer.is_full && peer.has_question && put_question(peer)) {
        is_any = true;
    }
    if (peer.is_full) {
        touch(peer);
    }
    check_invariants(peer);
    return is_any;
}

bool SessionFabric::hand_over(Peer& peer, const Packet& packet) {
    std::array<std::byte, kFabricHeadBytes> bytes;
    SFT_ASSERT(packet.head.number > peer.acked && packet.head.number <= peer.n_numbered);
    SFT_ASSERT(packet.head.to == peer.process.value() && packet.head.head_bytes <= kMessageHeadBytes);
    SFT_ASSERT((packet.memory == nullptr) == (packet.bytes == 0));
    SessionHead head = packet.head;
    head.received = peer.received;
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, packet.message_head.data(), head.head_bytes);
    SessionMemory* const memory = packet.memory;
    const Bytes payload = memory == nullptr ? Bytes() : Bytes(memory->bytes.get(), packet.bytes);
    if (memory != nullptr) {
        ++memory->n_users;  // the fabric, until it says otherwise
    }
    const Sent sent = inner_->send(peer.process, Bytes(bytes).first(sizeof head + head.head_bytes), payload,
                                   reinterpret_cast<std::uintptr_t>(memory));
    if (sent != Sent::pending) {
        pool_.give(memory);
    }
    if (sent == Sent::done || sent == Sent::pending) {
        peer.told = head.received;
        peer.bytes_untold = 0;
        if (peer.due == SessionNote::received) {
            peer.due = SessionNote::none;
        }
        return true;
    }
    peer.is_full = sent == Sent::full;
    if (sent == Sent::gone) {
        broken(peer.process);
    }
    return false;
}

// False: not now.
bool SessionFabric::tell(Peer& peer, SessionNote note, std::uint64_t number) {
    SessionHead head;
    head.secret = options_.secret;
    head.received = peer.received;
    head.message = number;
    head.from = options_.self.value();
    head.to = peer.process.value();
    head.note = note;
    const Sent sent =
        peer.is_broken ? Sent::gone : inner_->send(peer.process, std::as_bytes(std::span(&head, 1)), Bytes(), 0);
    if (sent == Sent::full) {
        peer.is_full = true;
        return false;
    }
    if (sent == Sent::gone) {
        broken(peer.process);  // what is due stays so
        return false;
    }
    SFT_ASSERT(!peer.is_retired && note != SessionNote::none);
    peer.told = peer.received;
    peer.bytes_untold = 0;
    if (note == peer.due) {
        peer.due = SessionNote::none;
    }
    return true;
}

void SessionFabric::touch(Peer& peer) {
    if (!std::exchange(peer.is_busy, true)) {
        busy_.push_back(&peer);
    }
}

// ---- progress ----

bool SessionFabric::progress() {
    const bool is_busy = inner_->progress();
    return tend() || is_busy;
}

bool SessionFabric::arm() {
    // What is in busy_ only because the fabric was full waits for the fabric.
    static_cast<void>(tend());
    const bool is_done = std::all_of(busy_.begin(), busy_.end(), [](const Peer* peer) { return peer->is_full; });
    return is_done && to_tell_.empty() && inner_->arm();
}

bool SessionFabric::tend() {
    bool is_any = false;
    for (Peer* const peer : std::exchange(busy_, {})) {
        peer->is_busy = false;
        if (!peer->is_retired) {
            is_any |= pump(*peer);
        }
    }
    if (!timed_.empty()) {
        const std::int64_t now = now_ns();
        if (now >= next_look_ns_) {
            next_look_ns_ = now + kLookNs;
            look(now);
        }
    }
    // The receiver may send again from inside, and so make this longer.
    while (!to_tell_.empty() && options_.receiver != nullptr) {
        is_any = true;
        for (const std::uint64_t ticket : std::exchange(to_tell_, {})) {
            options_.receiver->sent(ticket);
        }
    }
    return is_any;
}

// ---- when nothing is heard ----

// A new connection that nobody answers may be silent for as long as the system tries, which is minutes: from the first
// thing that is sent by it counts what counts from the end of one by which something was under way.
void SessionFabric::watch(Peer& peer) {
    if (!peer.unacked.empty() && std::exchange(peer.is_unheard, false) && peer.broken_since_ns == 0) {
        peer.broken_since_ns = now_ns();
    }
    if (!peer.is_timed && (peer.is_broken || !peer.unacked.empty() || !peer.to_begin.empty())) {
        peer.is_timed = true;
        peer.acked_at_look = peer.acked;
        peer.quiet_since_ns = now_ns();
        peer.patience_ns = kPatienceNs;
        timed_.push_back(&peer);
    }
}

void SessionFabric::look(std::int64_t now) {
    for (Peer* const peer : std::exchange(timed_, {})) {
        peer->is_timed = false;
        if (peer->is_retired || peer->has_left) {
            continue;
        }
        look_at(*peer, now);
        if (!peer->is_timed && (peer->is_broken || !peer->unacked.empty() || !peer->to_begin.empty())) {
            peer->is_timed = true;
            timed_.push_back(peer);
        }
    }
}

void SessionFabric::look_at(Peer& peer, std::int64_t now) {
    SFT_ASSERT(!peer.is_retired && !peer.has_left);
    if (peer.broken_since_ns != 0 && !peer.is_lost && now - peer.broken_since_ns > options_.lost_ms * kNsPerMs) {
        peer.is_lost = true;
        if (options_.receiver != nullptr) {
            options_.receiver->lost(peer.process);
        }
    }
    if (peer.is_broken) {
        if (now >= peer.retry_ns) {
            reconnect_to(peer, now);
        }
    } else if (peer.acked != peer.acked_at_look) {
        peer.acked_at_look = peer.acked;
        peer.quiet_since_ns = now;
        peer.patience_ns = kPatienceNs;
    } else if (now - peer.quiet_since_ns >= peer.patience_ns && peer.next == peer.unacked.size()) {
        peer.quiet_since_ns = now;
        peer.patience_ns = std::min(peer.patience_ns * 2, kPatienceNsMax);
        ask(peer);
    }
}

// A question that the fabric does not take stays due until it does: the first attempt may be no more than what makes it
// connect, and without a second one soon the new connection may be gone again.
void SessionFabric::ask(Peer& peer) {
    peer.has_question = !peer.unacked.empty();
    touch(peer);
}

// False: not now.
bool SessionFabric::put_question(Peer& peer) {
    if (peer.unacked.empty()) {
        peer.has_question = false;
        return false;
    }
    if (!tell(peer, SessionNote::question, peer.n_questions + 1)) {
        return false;
    }
    SFT_ASSERT(peer.next == peer.unacked.size());
    peer.has_question = false;
    peer.asked = ++peer.n_questions;
    peer.asked_after = peer.acked + peer.next;
    return true;
}

void SessionFabric::reconnect_to(Peer& peer, std::int64_t now) {
    SFT_ASSERT(peer.is_broken && !peer.is_retired && !is_bare_);
    peer.is_broken = false;
    inner_->reconnect(peer.process);
    if (peer.unacked.empty() && peer.to_begin.empty() && peer.begun.empty()) {
        peer.broken_since_ns = 0;  // nothing of this process depends on it yet
        peer.is_unheard = true;
        touch(peer);
        return;
    }
    peer.quiet_since_ns = now;
    peer.patience_ns = kPatienceNs;
    send_again(peer);
}

void SessionFabric::send_again(Peer& peer) {
    check_invariants(peer);
    peer.next = 0;
    peer.asked = 0;
    peer.has_question = false;
    touch(peer);
}

// ---- the end ----

void SessionFabric::retire_peer(ProcId process) {
    Peer* const peer = peer_of(process);
    if (peer == nullptr || std::exchange(peer->is_retired, true)) {
        return;
    }
    drop_outgoing(*peer);
    drop_incoming(*peer);
    inner_->retire_peer(process);  // of a bare one everything
    if (options_.receiver != nullptr) {
        for (const std::uint64_t ticket : std::exchange(to_tell_, {})) {
            options_.receiver->sent(ticket);
        }
    }
}

void SessionFabric::drop_outgoing(Peer& peer) {
    for (const std::deque<Message>* some : {&peer.to_begin, &peer.begun}) {
        for (const Message& message : *some) {
            if (message.wants_sent) {
                to_tell_.push_back(message.ticket);
            }
        }
    }
    peer.to_begin.clear();
    peer.begun.clear();
    for (const Packet& packet : peer.unacked) {
        pool_.give(packet.memory);
    }
    peer.unacked.clear();
    peer.next = 0;
    peer.bytes_unacked = 0;
    peer.has_question = false;
}

}  // namespace sft
