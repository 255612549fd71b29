// The receiver's side of remote_mail.hpp.

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "shmem_ft/base/clock.hpp"
#include "shmem_ft/base/report.hpp"
#include "shmem_ft/transport/mail/remote_mail.hpp"
#include "shmem_ft/transport/mail/remote_mail_wire.hpp"

namespace sft {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
// Who has connected and not said who it is: how long, and how many of them.
constexpr std::int64_t kHelloWithinNs = 10'000 * kNsPerMs;
constexpr std::size_t kStrangersMax = 256;
// Numbers that wait for room are overtaken by the next one.
constexpr std::size_t kUnwrittenMax = 1024;

}  // namespace

bool RemoteMail::listen(std::string& error_line) {
    listener_ = make_tcp_socket(options_.listen_on.family);
    const SocketAddress wanted(options_.listen_on);
    if (listener_ < 0 || ::bind(listener_, wanted.get(), wanted.bytes) != 0 ||
        ::listen(listener_, options_.backlog) != 0) {
        error_line = format("cannot listen for messages of other nodes on %s: %s",
                            to_string(options_.listen_on).c_str(), strerrordesc_np(errno));
        return false;
    }
    sockaddr_storage own{};
    socklen_t bytes = sizeof own;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &bytes);
    std::uint16_t port = 0;  // at the same place for both versions of the protocol
    std::memcpy(&port, reinterpret_cast<const char*>(&own) + sizeof(sa_family_t), sizeof port);
    options_.listen_on.port = ntohs(port);
    return true;
}

std::vector<std::byte> RemoteMail::greeting(ProcId to) const {
    const Greeting own{.from = options_.self.value(), .to = to.value(), .secret = options_.secret};
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&own, 1));
    return {bytes.begin(), bytes.end()};
}

void RemoteMail::accept_all() {
    for (;;) {
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            if (errno != EAGAIN) {
                // Out of descriptors or memory: the connection waits, and the listener would be ready all the time.
                if (!std::exchange(has_lacked_, true)) {
                    say("cannot accept connections of other nodes, will try on: %s", strerrordesc_np(errno));
                }
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
    const int fd = at->second.stream.release();
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
    ::close(fd);
    incoming_.erase(at);
}

}  // namespace sft
