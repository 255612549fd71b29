// The receiver's side of remote_mail.hpp.

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "transport/mail/remote_mail.hpp"
#include "transport/mail/remote_mail_wire.hpp"

namespace sft {
namespace {

// Who has connected and not said who it is: how long, and how many of them.
constexpr std::int64_t kHelloWithinNs = 10'000 * kNsPerMs;
constexpr std::size_t kStrangersMax = 256;
// Numbers that wait for room are overtaken by the next one.
constexpr std::size_t kUnwrittenMax = 1024;
// A question, or its answer, and the greeting.
constexpr std::size_t kDatagramMax = 512;
static_assert(kDatagramMax > sizeof(Greeting));
static_assert(kUnwrittenMax > sizeof(StreamHead) + sizeof(Greeting), "a welcome has room for the numbers behind it");
constexpr int kDatagramsAtOnce = 256;
// Between datagrams of one process: longer than any that is only late.
constexpr std::int64_t kSilenceNs = 800 * kNsPerMs;

}  // namespace

Result<> RemoteMail::listen() {
    // The kernel chooses the number, and somebody else may have it for datagrams.
    constexpr int kAttempts = 100;
    const std::uint16_t wanted = options_.listen_on.port;
    Result<> bound;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        options_.listen_on.port = wanted;
        bound = bind_both();
        if (bound || bound.error().number != EADDRINUSE || wanted != 0) {
            break;
        }
    }
    return bound;
}

Result<> RemoteMail::bind_both() {
    for (int* const fd : {&listener_, &datagrams_}) {
        if (*fd >= 0) {
            ::close(*fd);
        }
    }
    listener_ = make_socket(options_.listen_on.family);
    datagrams_ = make_datagram_socket(options_.listen_on.family);
    const SocketAddress wanted(options_.listen_on);
    bool is_bound = listener_ >= 0 && datagrams_ >= 0 && ::bind(listener_, wanted.get(), wanted.bytes) == 0;
    if (is_bound) {
        sockaddr_storage own{};
        socklen_t bytes = sizeof own;
        getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &bytes);
        std::uint16_t port = 0;  // at the same place for both versions of the protocol
        std::memcpy(&port, reinterpret_cast<const char*>(&own) + sizeof(sa_family_t), sizeof port);
        options_.listen_on.port = ntohs(port);
        const SocketAddress same(options_.listen_on);
        is_bound = ::bind(datagrams_, same.get(), same.bytes) == 0 && ::listen(listener_, options_.backlog) == 0;
    }
    if (!is_bound) {
        const int number = errno;
        return fails(format("cannot listen for messages of other nodes on %s: %s",
                            to_string(options_.listen_on).c_str(), strerrordesc_np(number)),
                     number);
    }
    return {};
}

bool RemoteMail::admit(std::vector<HostAddress> hosts) {
    return attach_filter(datagrams_, filter_for(hosts, Filtered::packets)) &&
           attach_filter(listener_, filter_for(std::move(hosts), Filtered::connections));
}

void RemoteMail::lacks(const char* what, int error) {
    trouble_.note(what, error, now_ns());
    if (!std::exchange(has_lacked_, true)) {
        say("warning: cannot %s, will try on: %s", what, describe_error(error).c_str());
    }
}

std::vector<std::byte> RemoteMail::greeting(ProcId to) const {
    const Greeting own{.from = options_.self.value(), .to = to.value(), .secret = options_.secret};
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&own, 1));
    return {bytes.begin(), bytes.end()};
}

void RemoteMail::accept_all() {
    for (;;) {
        const int fd =
            fails(FaultPoint::call_accept) ? -1 : accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            if (errno != EAGAIN) {
                // Out of descriptors or memory: the connection waits, and the listener would be ready all the time.
                lacks("accept connections of other nodes", errno);
                is_listener_paused_ = true;
                watch(EPOLL_CTL_MOD, listener_, 0, Source::listener, 0);
                need_tick();
            }
            return;
        }
        const std::int64_t now = now_ns();
        if (now < cut_end_ns_) {
            close_abruptly(fd);
            continue;
        }
        set_no_delay(fd);
        const std::uint32_t connection = ++last_connection_;
        SFT_ASSERT(!incoming_.contains(connection));
        Incoming& incoming = incoming_[connection];
        incoming.stream = FrameStream(fd, sizeof(Greeting) + sizeof(Contact));
        incoming.since_ns = now;
        watch(EPOLL_CTL_ADD, fd, EPOLLIN, Source::incoming, connection);
        drop_older_strangers(now);
        need_tick();
    }
}

void RemoteMail::drop_older_strangers(std::int64_t now) {
    std::vector<std::uint32_t> strangers;
    for (const auto& [number, incoming] : incoming_) {
        if (incoming.from == kNoProc) {
            strangers.push_back(number);
        }
    }
    std::sort(strangers.begin(), strangers.end());
    for (std::size_t i = 0; i < strangers.size(); ++i) {
        if (strangers.size() - i > kStrangersMax || now - incoming_.at(strangers[i]).since_ns > kHelloWithinNs) {
            refuse(strangers[i], "says nothing");
        }
    }
}

// ---- datagrams ----

void RemoteMail::send_datagram(ProcId to, std::span<const std::byte> message) const {
    const MailAddress address = options_.address_of(to);
    const auto peer = peers_.find(to.value());
    const bool is_gone = peer != peers_.end() && peer->second.state == PeerState::gone;
    if (!address.is_set() || is_gone || now_ns() < cut_end_ns_) {
        return;
    }
    SFT_ASSERT(message.size() <= kDatagramMax - sizeof(Greeting) && to != options_.self);  // else nobody takes it
    std::vector<std::byte> bytes = greeting(to);
    bytes.insert(bytes.end(), message.begin(), message.end());
    const SocketAddress where(address);
    [[maybe_unused]] const ssize_t sent =
        ::sendto(datagrams_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL, where.get(), where.bytes);
}

bool RemoteMail::read_datagrams(const Sink& sink) {
    bool has_received = false;
    std::array<std::byte, kDatagramMax> buffer;
    for (int i = 0; i < kDatagramsAtOnce; ++i) {
        const ssize_t bytes = ::recv(datagrams_, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (bytes < 0) {
            break;  // nothing more, or news of one that was sent, which connections tell better
        }
        if (static_cast<std::size_t>(bytes) > buffer.size() || static_cast<std::size_t>(bytes) < sizeof(Greeting) ||
            now_ns() < cut_end_ns_) {
            continue;
        }
        const std::span<const std::byte> content(buffer.data(), static_cast<std::size_t>(bytes));
        const std::optional<Greeting> head = read_greeting(content.first(sizeof(Greeting)), options_.secret);
        if (!head || head->to != options_.self.value() || head->from == options_.self.value() ||
            peer_of(ProcId(head->from)).state == PeerState::gone) {
            continue;
        }
        note_datagram(ProcId(head->from));
        SFT_ASSERT(!is_taking_datagram_);
        is_taking_datagram_ = true;
        sink(ProcId(head->from), content.subspan(sizeof(Greeting)));
        is_taking_datagram_ = false;
        has_received = true;
    }
    return has_received;
}

// The first one after a silence: the link is whole again, and what was tried meanwhile would take longer than a new
// attempt.
void RemoteMail::note_datagram(ProcId from) {
    Peer& peer = peer_of(from);
    const std::int64_t now = now_ns();
    const bool ends_silence = now - std::exchange(peer.datagram_ns, now) > kSilenceNs;
    if (ends_silence && !peer.is_given_up &&
        (peer.state == PeerState::connecting || peer.state == PeerState::resting)) {
        hang_up(peer);
        peer.patience_ns = 0;
        connect(from, peer);
    }
}

bool RemoteMail::read_incoming(std::uint32_t connection, const Sink& sink) {
    const auto first = incoming_.find(connection);
    if (first == incoming_.end()) {
        return false;
    }
    bool has_received = false;
    const bool goes_on = first->second.stream.read_some();
    for (;;) {
        // Looked up each time: the sink may do anything in between.
        const auto at = incoming_.find(connection);
        if (at == incoming_.end()) {
            return has_received;
        }
        Incoming& incoming = at->second;
        FrameStream::Frame frame;
        const FrameStream::Next next = incoming.stream.next(frame);
        if (next == FrameStream::Next::none) {
            break;
        }
        if (next == FrameStream::Next::oversize) {
            refuse(connection, "has sent more than a message may have");
            return has_received;
        }
        if (incoming.from == kNoProc) {
            if (!take_hello(connection, frame)) {
                return has_received;
            }
            continue;
        }
        if (frame.head.kind == FrameKind::goodbye) {
            goodbyes_.emplace(incoming.from.value(), frame.head.number);
            continue;
        }
        SFT_ASSERT(incoming.from != options_.self);
        std::uint64_t& last = received_[incoming.from.value()];
        if (frame.head.kind != FrameKind::message || frame.head.number > last + 1) {
            refuse(connection, "has sent something else than the next message");
            return has_received;
        }
        if (frame.head.number == last + 1) {
            ++last;
            has_received = true;
            sink(incoming.from, frame.payload);
        }
    }
    Incoming& incoming = incoming_.at(connection);
    if (goes_on && incoming.from != kNoProc) {
        static_cast<void>(incoming.stream.write_some());  // if it cannot, the next reading tells
        if (incoming.stream.n_unwritten() < kUnwrittenMax) {
            incoming.stream.append(FrameKind::received, received_[incoming.from.value()], {});
        }
        static_cast<void>(incoming.stream.write_some());
        watch_room(incoming.stream, incoming.wants_room, Source::incoming, connection);
    }
    if (!goes_on) {
        const ProcId from = incoming.from;
        drop_incoming(connection);
        if (from != kNoProc && goodbyes_.contains(from.value())) {
            found_gone(from, peer_of(from));
        } else if (from != kNoProc) {
            probe(from);
        }
    }
    return has_received;
}

// The first frame says who is at the other end.
bool RemoteMail::take_hello(std::uint32_t connection, const FrameStream::Frame& frame) {
    const std::size_t greeting_bytes = std::min(frame.payload.size(), sizeof(Greeting));
    const std::optional<Greeting> hello = read_greeting(frame.payload.first(greeting_bytes), options_.secret);
    if (frame.head.kind != FrameKind::hello || !hello || hello->from == options_.self.value()) {
        refuse(connection, "does not belong to the job");
        return false;
    }
    Incoming& incoming = incoming_.at(connection);
    const ProcId from(hello->from);
    if (frame.payload.size() > greeting_bytes) {
        const std::optional<Contact> contact = read_contact(frame.payload.subspan(greeting_bytes));
        if (!contact) {
            refuse(connection, "does not say how it is reached");
            return false;
        }
        options_.introduced(from, *contact);
    }
    std::uint64_t& last = received_[from.value()];
    const bool is_meant = hello->to == options_.self.value();
    if (is_meant && frame.head.number > last + 1) {
        last = frame.head.number - 1;  // what came before was not worth keeping
    }
    incoming.stream.append(FrameKind::welcome, last, greeting(from));
    if (!incoming.stream.write_some() || !is_meant) {
        drop_incoming(connection);  // whoever looked for another process sees who has its port now
        return false;
    }
    // An older connection is one that its sender has lost.
    std::vector<std::uint32_t> older;
    for (const auto& [number, other] : incoming_) {
        if (other.from == from) {
            older.push_back(number);
        }
    }
    std::for_each(older.begin(), older.end(), [this](std::uint32_t number) { drop_incoming(number); });
    SFT_ASSERT(incoming.from == kNoProc && incoming.stream.fd() >= 0);
    incoming.from = from;
    incoming.stream.allow(options_.bytes_max);
    return true;
}

// Said once: somebody may be trying all the time.
void RemoteMail::refuse(std::uint32_t connection, const char* what) {
    if (!std::exchange(has_complained_, true)) {
        sockaddr_storage other{};
        socklen_t bytes = sizeof other;
        MailAddress address;
        if (getpeername(incoming_.at(connection).stream.fd(), reinterpret_cast<sockaddr*>(&other), &bytes) == 0) {
            address = mail_address_of(reinterpret_cast<const sockaddr*>(&other));
        }
        say("warning: a connection from %s to process %d %s: closed, as others like it will be",
            to_string(address).c_str(), options_.self.value(), what);
    }
    drop_incoming(connection);
}

void RemoteMail::drop_incoming(std::uint32_t connection) noexcept {
    const auto at = incoming_.find(connection);
    SFT_ASSERT(at != incoming_.end());
    const int fd = at->second.stream.release();
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
    ::close(fd);
    incoming_.erase(at);
}

}  // namespace sft
