#include "transport/mail/mailbox.hpp"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// Sender and receiver are of one build and on one machine: the layout of memory is the form on the wire.
struct FrameHead {
    std::uint32_t magic = 0x5346544d;  // "SFTM"
    std::uint32_t layout = 1;
    std::int32_t from = -1;
    std::int32_t to = -1;
    std::uint64_t secret = 0;
};
static_assert(sizeof(FrameHead) == 24 && std::is_trivially_copyable_v<FrameHead>);
static_assert(std::has_unique_object_representations_v<FrameHead>);
static_assert(offsetof(FrameHead, from) == 8 && offsetof(FrameHead, secret) == 16);

// What an epoll event is about: its kind above the number of a process or a connection.
enum class Source : std::uint32_t { listener, timer, peer, incoming, remote };
constexpr std::uint64_t key_of(Source source, std::uint32_t number) noexcept {
    return (static_cast<std::uint64_t>(source) << 32) | number;
}
std::uint64_t key_of(ProcId process) noexcept {
    return key_of(Source::peer, static_cast<std::uint32_t>(process.value()));
}

constexpr std::size_t kEventsAtOnce = 32;
// One sender's flood must not keep the others waiting.
constexpr int kFramesAtOnce = 64;
// The kernel's own overhead, which counts against the size of a socket's buffer.
constexpr std::size_t kPacketOverhead = 1024;

struct Address {
    sockaddr_un name{};
    socklen_t bytes = 0;

    Address(const MailToken& token, ProcId process) {
        name.sun_family = AF_UNIX;
        const std::string text =
            format("shmem-ft-mail-%016llx-%d", static_cast<unsigned long long>(token.name), process.value());
        // An abstract name: a zero byte, then the name without a terminator.
        SFT_ASSERT(text.size() + 1 <= sizeof name.sun_path);
        std::memcpy(name.sun_path + 1, text.data(), text.size());
        bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    }
    [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&name); }
};

// Abstract names are open to everybody on the machine.
bool is_of_same_user(int fd) noexcept {
    ucred other{};
    socklen_t bytes = sizeof other;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == geteuid();
}

int make_socket() noexcept {
    return fails(FaultPoint::call_socket) ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// Room for two of the largest frames; the kernel grants what net.core.wmem_max allows, which is checked once in open().
std::size_t make_room(int fd, std::size_t frame_bytes) noexcept {
    const auto wanted = static_cast<int>(frame_bytes + kPacketOverhead);  // the kernel doubles it
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
    int granted = 0;
    socklen_t bytes = sizeof granted;
    return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &granted, &bytes) == 0 ? static_cast<std::size_t>(granted) : 0;
}

}  // namespace

std::optional<MailToken> make_mail_token() noexcept {
    MailToken token;
    if (getrandom(&token, sizeof token, 0) != static_cast<ssize_t>(sizeof token)) {
        return std::nullopt;
    }
    return token;
}

Result<> Mailbox::open(const Options& options) {
    SFT_ASSERT(options.self != kNoProc && options.bytes_max != 0);
    SFT_ASSERT(!options.remote.listen_on.is_set() || (options.remote.is_remote && options.remote.address_of));
    close();
    SFT_ASSERT(peers_.empty() && incoming_.empty());
    SFT_ASSERT(epoll_fd_ < 0 && listener_ < 0 && timer_ < 0 && !remote_.is_open());
    options_ = options;
    owner_ = getpid();
    const auto gives_up = [this](std::string line) {
        close();
        return fails(std::move(line));
    };
    has_complained_ = false;
    trouble_ = LastingTrouble();
    lost_.clear();
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (epoll_fd_ < 0 || timer_ < 0) {
        return gives_up(format("cannot wait for messages of other processes: %s", strerrordesc_np(errno)));
    }
    if (const Result<> listening = listen(options.backlog); !listening) {
        return gives_up(listening.error().line);
    }
    buffer_.resize(sizeof(FrameHead) + options.bytes_max);
    if (!watch(EPOLL_CTL_ADD, listener_, EPOLLIN, key_of(Source::listener, 0)) ||
        !watch(EPOLL_CTL_ADD, timer_, EPOLLIN, key_of(Source::timer, 0))) {
        return gives_up(format("cannot wait for messages of other processes: %s", describe_error(errno).c_str()));
    }
    if (options_.remote.listen_on.is_set()) {
        const Result<> opened = remote_.open({.listen_on = options_.remote.listen_on,
                                              .self = options_.self,
                                              .secret = options_.token.secret,
                                              .is_signed = options_.remote.is_signed,
                                              .bytes_max = options_.bytes_max,
                                              .backlog = options_.backlog,
                                              .address_of = options_.remote.address_of,
                                              .introduced = options_.remote.introduced});
        if (!opened) {
            return gives_up(opened.error().line);
        }
        if (!watch(EPOLL_CTL_ADD, remote_.fd(), EPOLLIN, key_of(Source::remote, 0))) {
            return gives_up(format("cannot wait for messages of other nodes: %s", describe_error(errno).c_str()));
        }
    }
    return {};
}

Result<> Mailbox::listen(int backlog) {
    const Address address(options_.token, options_.self);
    listener_ = make_socket();
    if (listener_ < 0 || bind(listener_, address.get(), address.bytes) != 0 || ::listen(listener_, backlog) != 0) {
        return fails(format("cannot listen for messages of other processes on the abstract socket %s: %s",
                            address.name.sun_path + 1, strerrordesc_np(errno)));
    }
    const std::size_t frame_bytes = sizeof(FrameHead) + options_.bytes_max;
    if (make_room(listener_, frame_bytes) < frame_bytes + kPacketOverhead) {
        return fails(format("a socket has no room for messages of %zu bytes: raise the limit net.core.wmem_max",
                            options_.bytes_max));
    }
    return {};
}

void Mailbox::close() noexcept {
    if (is_mine()) {
        remote_.close();
        for (auto& [process, peer] : peers_) {
            release(peer.fd);
        }
        for (auto& [number, incoming] : incoming_) {
            release(incoming.fd);
        }
        if (listener_ >= 0) {
            shutdown(listener_, SHUT_RDWR);
            // Whoever has connected and was not accepted has to hear of the end, too.
            for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
                release(fd);
            }
        }
        release(listener_);
        release(timer_);
        if (epoll_fd_ >= 0) {
            ::close(epoll_fd_);
        }
    }
    epoll_fd_ = listener_ = timer_ = -1;
    owner_ = 0;
    is_listener_paused_ = timer_runs_ = false;
    retry_after_ns_ = 0;
    peers_.clear();
    incoming_.clear();
}

// In a child of the application the descriptors, the epoll set above all, are those of its parent.
bool Mailbox::is_mine() const noexcept { return owner_ != 0 && owner_ == getpid(); }

bool Mailbox::watch(int operation, int fd, std::uint32_t events, std::uint64_t key) const noexcept {
    epoll_event event{};
    event.events = events;
    event.data.u64 = key;
    SFT_ASSERT(epoll_fd_ >= 0 && fd >= 0);
    const bool is_new = operation == EPOLL_CTL_ADD;
    return !(is_new && fails(FaultPoint::call_watch)) && epoll_ctl(epoll_fd_, operation, fd, &event) == 0;
}

// Changing what is watched takes no memory, so it does not fail.
void Mailbox::watch_listener(bool is_wanted) noexcept {
    is_listener_paused_ = !is_wanted;
    static_cast<void>(
        watch(EPOLL_CTL_MOD, listener_, is_wanted ? std::uint32_t{EPOLLIN} : 0U, key_of(Source::listener, 0)));
}

// Taken out of the set and shut down by name: closing does neither while a child of the application has a copy.
void Mailbox::release(int& fd) const noexcept {
    if (fd >= 0) {
        epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
        shutdown(fd, SHUT_RDWR);
        ::close(fd);
        fd = -1;
    }
}

void Mailbox::send(ProcId to, std::span<const std::byte> message) {
    SFT_ASSERT(message.size() <= options_.bytes_max);
    SFT_ASSERT(to != kNoProc);
    if (!is_mine()) {
        return;
    }
    if (is_remote(to)) {
        remote_.send(to, message);
        return;
    }
    Peer& peer = peers_[to.value()];
    if (peer.is_gone) {
        return;
    }
    FrameHead head;
    head.from = options_.self.value();
    head.to = to.value();
    head.secret = options_.token.secret;
    std::array<iovec, 2> parts{{{&head, sizeof head}, {const_cast<std::byte*>(message.data()), message.size()}}};
    Outcome outcome = drain(to, peer);
    if (outcome == Outcome::sent) {
        SFT_ASSERT(peer.frames.empty());  // it overtakes nothing
        outcome = transmit(to, peer, parts.data(), parts.size());
    }
    SFT_ASSERT(outcome != Outcome::gone || (peer.is_gone && peer.frames.empty()));
    if (outcome == Outcome::later) {
        std::vector<std::byte>& frame = peer.frames.emplace_back(sizeof head + message.size());
        std::memcpy(frame.data(), &head, sizeof head);
        std::copy(message.begin(), message.end(), frame.begin() + sizeof head);
    }
}

// In the order in which they were sent.
Mailbox::Outcome Mailbox::drain(ProcId to, Peer& peer) {
    while (!peer.frames.empty()) {
        std::vector<std::byte>& frame = peer.frames.front();
        SFT_ASSERT(frame.size() >= sizeof(FrameHead) && frame.size() <= sizeof(FrameHead) + options_.bytes_max);
        iovec whole{frame.data(), frame.size()};
        const Outcome outcome = transmit(to, peer, &whole, 1);
        if (outcome != Outcome::sent) {
            return outcome;
        }
        peer.frames.pop_front();
    }
    wait_for_room(to, peer, false);
    return Outcome::sent;
}

Mailbox::Outcome Mailbox::transmit(ProcId to, Peer& peer, iovec* parts, std::size_t n_parts) {
    if (peer.fd < 0) {
        const Outcome outcome = connect(to, peer);
        if (outcome != Outcome::sent) {
            return outcome;
        }
    }
    SFT_ASSERT(peer.fd >= 0 && !peer.is_gone);
    msghdr packet{};
    packet.msg_iov = parts;
    packet.msg_iovlen = n_parts;
    while (fails(FaultPoint::call_send) || sendmsg(peer.fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        switch (errno) {
            case EINTR: break;
            case EAGAIN: wait_for_room(to, peer, true); return Outcome::later;
            case ENOBUFS:
            case ENOMEM: retry_soon("send to other processes", errno); return Outcome::later;
            default: lose(to, peer, errno); return Outcome::gone;
        }
    }
    return Outcome::sent;
}

// The kernel connects at once, whether or not the other accepts, or says that it cannot.
Mailbox::Outcome Mailbox::connect(ProcId to, Peer& peer) {
    SFT_ASSERT(peer.fd < 0 && !peer.is_gone);
    const int fd = make_socket();
    if (fd < 0) {
        retry_soon("connect to other processes", errno);
        return Outcome::later;
    }
    make_room(fd, buffer_.size());
    const Address address(options_.token, to);
    if (fails(FaultPoint::call_connect) || ::connect(fd, address.get(), address.bytes) != 0) {
        const int error = errno;
        ::close(fd);
        if (error == ECONNREFUSED) {
            lose(to, peer, error);
            return Outcome::gone;
        }
        retry_soon("connect to other processes", error);
        return Outcome::later;
    }
    if (!is_of_same_user(fd)) {  // it is dead, and somebody else has taken its name
        ::close(fd);
        lose(to, peer, EACCES);
        return Outcome::gone;
    }
    // Without any event asked for, the end of the connection is still told.
    if (!watch(EPOLL_CTL_ADD, fd, 0, key_of(to))) {
        const int error = errno;
        ::close(fd);
        retry_soon("connect to other processes", error);
        return Outcome::later;
    }
    SFT_ASSERT(!peer.waits_for_room);  // what has been dropped waits for nothing
    peer.fd = fd;
    has_succeeded();
    return Outcome::sent;
}

void Mailbox::wait_for_room(ProcId to, Peer& peer, bool waits) noexcept {
    if (peer.waits_for_room != waits && peer.fd >= 0) {
        peer.waits_for_room = waits;
        static_cast<void>(watch(EPOLL_CTL_MOD, peer.fd, waits ? std::uint32_t{EPOLLOUT} : 0U, key_of(to)));
    }
}

void Mailbox::drop(Peer& peer) noexcept {
    release(peer.fd);
    peer.is_gone = true;
    peer.waits_for_room = false;
    peer.frames.clear();
}

bool Mailbox::flush() {
    if (!is_mine()) {
        return true;
    }
    bool is_empty = true;
    for (auto& [process, peer] : peers_) {
        if (!peer.frames.empty()) {
            is_empty = drain(ProcId(process), peer) != Outcome::later && is_empty;
        }
    }
    return is_empty;
}

void Mailbox::retire_peer(ProcId process) {
    if (is_mine() && is_remote(process)) {
        remote_.retire_peer(process);
    } else if (is_mine()) {
        drop(peers_[process.value()]);
        settle_lost(process);
    }
}

// ---- receiving ----

std::size_t Mailbox::n_waiting() const noexcept {
    std::size_t n = remote_.n_waiting();
    for (const auto& [process, peer] : peers_) {
        n += peer.frames.size();
    }
    return n;
}

bool Mailbox::pump(const Sink& sink) {
    if (!is_mine()) {
        return false;
    }
    bool has_received = false;
    std::array<epoll_event, kEventsAtOnce> events;
    const int n = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < n; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const auto number = static_cast<std::uint32_t>(event.data.u64);
        switch (static_cast<Source>(event.data.u64 >> 32)) {
            case Source::listener: accept_all(); break;
            case Source::timer: retry(); break;
            case Source::remote: has_received = remote_.pump(sink) || has_received; break;
            case Source::incoming: has_received = receive_all(number, sink) || has_received; break;
            case Source::peer: {
                const ProcId process(static_cast<std::int32_t>(number));
                Peer& peer = peers_[process.value()];
                if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) {
                    lose(process, peer, ECONNRESET);
                } else if (!peer.is_gone) {
                    // Whatever becomes of them, nobody waits for an answer.
                    static_cast<void>(drain(process, peer));
                }
                break;
            }
        }
    }
    return has_received;
}

void Mailbox::accept_all() {
    for (;;) {
        const int fd =
            fails(FaultPoint::call_accept) ? -1 : accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            if (errno != EAGAIN) {
                // Out of descriptors or memory: the connection waits, and the listener would be ready all the time.
                retry_soon("accept messages of other processes", errno);
                watch_listener(false);
            }
            return;
        }
        const std::uint32_t connection = ++last_connection_;
        // If it cannot be watched, the sender hears that the connection has ended, and says so.
        if (!is_of_same_user(fd) || !watch(EPOLL_CTL_ADD, fd, EPOLLIN, key_of(Source::incoming, connection))) {
            ::close(fd);
            continue;
        }
        SFT_ASSERT(!incoming_.contains(connection));
        incoming_[connection].fd = fd;
        has_succeeded();
    }
}

bool Mailbox::receive_all(std::uint32_t connection, const Sink& sink) {
    bool has_received = false;
    for (int i = 0; i < kFramesAtOnce; ++i) {
        // Looked up each time: the sink may do anything in between.
        const auto at = incoming_.find(connection);
        if (at == incoming_.end()) {
            break;
        }
        iovec whole{buffer_.data(), buffer_.size()};
        msghdr packet{};
        packet.msg_iov = &whole;
        packet.msg_iovlen = 1;
        const ssize_t bytes = fails(FaultPoint::call_receive) ? -1 : recvmsg(at->second.fd, &packet, MSG_DONTWAIT);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0 && errno == EAGAIN) {
            break;
        }
        if (bytes < 0 && is_lack(errno)) {
            retry_soon("receive messages of other processes", errno);
            break;
        }
        if (bytes <= 0 || (packet.msg_flags & MSG_TRUNC) != 0 ||
            !check_head(at->second, static_cast<std::size_t>(bytes))) {
            hang_up(connection);
            break;
        }
        has_received = true;
        SFT_ASSERT(at->second.from != kNoProc);
        sink(at->second.from, std::span(buffer_).first(static_cast<std::size_t>(bytes)).subspan(sizeof(FrameHead)));
    }
    return has_received;
}

// The first frame says who is at the other end, the others must not say otherwise.
bool Mailbox::check_head(Incoming& incoming, std::size_t bytes) const noexcept {
    FrameHead head;
    SFT_ASSERT(bytes <= buffer_.size());
    if (bytes < sizeof head) {
        return false;
    }
    std::memcpy(&head, buffer_.data(), sizeof head);
    if (head.magic != FrameHead{}.magic || head.layout != FrameHead{}.layout || head.secret != options_.token.secret ||
        head.to != options_.self.value() || head.from < 0) {
        return false;
    }
    if (incoming.from == kNoProc) {
        incoming.from = ProcId(head.from);
    }
    return incoming.from.value() == head.from;
}

void Mailbox::hang_up(std::uint32_t connection) noexcept {
    const auto at = incoming_.find(connection);
    SFT_ASSERT(at != incoming_.end());
    release(at->second.fd);
    incoming_.erase(at);
}

}  // namespace sft
