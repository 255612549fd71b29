// The sender's side: connections to others. remote_mail_in.cpp has the receiver's.

#include "transport/mail/remote_mail.hpp"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "transport/mail/remote_mail_wire.hpp"

namespace sft {
namespace {

constexpr std::int64_t kTickNs = 50 * kNsPerMs;
// A connection that has not come about by then is tried anew: the kernel's own second try comes after a whole second.
constexpr std::int64_t kAttemptNs = 400 * kNsPerMs;
// Each attempt gets twice as long as the one before, up to this: the way may have become that long.
constexpr std::int64_t kAttemptMaxNs = 3200 * kNsPerMs;
// To one that has been declared dead there is no hurry.
constexpr std::int64_t kAttemptGivenUpNs = 1000 * kNsPerMs;
// What is put into a connection ahead of what the kernel has taken.
constexpr std::size_t kAheadBytes = 64 * 1024;
static_assert(kTickNs < kAttemptNs && kAttemptNs < kAttemptMaxNs, "a tick ends an attempt");

}  // namespace

Result<> RemoteMail::open(Options options) {
    close();
    SFT_ASSERT(options.self != kNoProc && options.bytes_max != 0 && options.listen_on.is_set() && options.address_of);
    SFT_ASSERT(peers_.empty() && incoming_.empty());
    options_ = std::move(options);
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (epoll_fd_ < 0 || timer_ < 0) {
        const int number = errno;
        close();
        return fails(format("cannot wait for messages of other nodes: %s", strerrordesc_np(number)), number);
    }
    if (Result<> listening = listen(); !listening) {
        close();
        return listening;
    }
    watch(EPOLL_CTL_ADD, listener_, EPOLLIN, Source::listener, 0);
    watch(EPOLL_CTL_ADD, timer_, EPOLLIN, Source::timer, 0);
    watch(EPOLL_CTL_ADD, datagrams_, EPOLLIN, Source::datagrams, 0);
    return {};
}

void RemoteMail::close() noexcept {
    for (auto& [process, peer] : peers_) {
        if (peer.stream.fd() >= 0) {
            ::close(peer.stream.release());
        }
        stop_knocking(peer);
    }
    for (auto& [number, incoming] : incoming_) {
        ::close(incoming.stream.release());
    }
    for (int* const fd : {&listener_, &datagrams_, &timer_, &epoll_fd_}) {
        if (*fd >= 0) {
            ::close(*fd);
            *fd = -1;
        }
    }
    peers_.clear();
    incoming_.clear();
    received_.clear();
    goodbyes_.clear();
    gone_.clear();
    is_timer_set_ = is_listener_paused_ = has_complained_ = has_lacked_ = false;
    cut_end_ns_ = 0;
}

void RemoteMail::watch(int operation, int fd, std::uint32_t events, Source source,
                       std::uint32_t number) const noexcept {
    SFT_ASSERT(epoll_fd_ >= 0 && fd >= 0);
    epoll_event event{};
    event.events = events;
    event.data.u64 = (static_cast<std::uint64_t>(source) << 32) | number;
    epoll_ctl(epoll_fd_, operation, fd, &event);
}

void RemoteMail::watch_room(FrameStream& stream, bool& wants_room, Source source, std::uint32_t number) const noexcept {
    const bool wants = stream.n_unwritten() != 0;
    if (std::exchange(wants_room, wants) != wants) {
        watch(EPOLL_CTL_MOD, stream.fd(), EPOLLIN | (wants ? std::uint32_t{EPOLLOUT} : 0U), source, number);
    }
}

void RemoteMail::need_tick(bool at_once) noexcept {
    SFT_ASSERT(timer_ >= 0);
    if (is_timer_set_ && !at_once) {
        return;
    }
    is_timer_set_ = true;
    itimerspec once{};
    once.it_value.tv_nsec = at_once ? 1 : kTickNs;
    timerfd_settime(timer_, 0, &once, nullptr);
}

// ---- messages ----

void RemoteMail::send(ProcId to, std::span<const std::byte> message) {
    Peer& peer = peer_of(to);
    if (peer.state == PeerState::gone) {
        return;
    }
    if (peer.is_given_up) {
        // The gap in the numbers is told by the next hello.
        peer.waiting.clear();
        if (peer.state != PeerState::connecting && peer.state != PeerState::resting) {
            hang_up(peer);
        }
    }
    SFT_ASSERT(message.size() <= options_.bytes_max && to != options_.self);
    SFT_ASSERT(peer.waiting.empty() || peer.waiting.back().number == peer.last_number);
    peer.waiting.push_back({++peer.last_number, {message.begin(), message.end()}});
    if (peer.state == PeerState::idle) {
        connect(to, peer);
    } else if (peer.state == PeerState::open) {
        push(to, peer);
    }
    need_tick();
}

void RemoteMail::push(ProcId process, Peer& peer) {
    SFT_ASSERT(peer.state == PeerState::open && peer.stream.fd() >= 0);
    for (const Waiting& item : peer.waiting) {
        if (peer.stream.n_unwritten() > kAheadBytes) {
            break;
        }
        if (item.number >= peer.next_number) {
            peer.stream.append(FrameKind::message, item.number, item.message);
            peer.next_number = item.number + 1;
        }
    }
    SFT_ASSERT(peer.next_number <= peer.last_number + 1);
    if (!peer.stream.write_some()) {
        connection_ended(process, peer);
        return;
    }
    watch_room(peer.stream, peer.wants_room, Source::peer, static_cast<std::uint32_t>(process.value()));
}

// ---- connections ----

void RemoteMail::connect(ProcId process, Peer& peer) {
    SFT_ASSERT(peer.stream.fd() < 0 && peer.state != PeerState::gone);
    SFT_ASSERT(process != options_.self && process != kNoProc);
    const std::int64_t now = now_ns();
    peer.since_ns = now;
    peer.state = PeerState::resting;
    need_tick();
    if (now < cut_end_ns_) {
        return;
    }
    const MailAddress address = options_.address_of(process);
    if (!address.is_set()) {
        return;
    }
    const int fd = fails(FaultPoint::call_socket) ? -1 : make_socket(address.family);
    if (fd < 0) {
        lacks("connect to other nodes", errno);
        return;
    }
    const SocketAddress to(address);
    const int result = fails(FaultPoint::call_connect) ? -1 : ::connect(fd, to.get(), to.bytes);
    if (result != 0 && errno != EINPROGRESS) {
        const bool is_refused = errno == ECONNREFUSED;
        ::close(fd);
        if (is_refused) {
            found_gone(process, peer);
        }
        return;
    }
    peer.stream = FrameStream(fd, sizeof(Greeting));
    peer.wants_room = false;
    peer.state = PeerState::connecting;
    watch(EPOLL_CTL_ADD, fd, EPOLLOUT, Source::peer, static_cast<std::uint32_t>(process.value()));
    if (knock(process, peer, address)) {
        found_gone(process, peer);
    }
}

void RemoteMail::connected(ProcId process, Peer& peer) {
    SFT_ASSERT(peer.state == PeerState::connecting && peer.stream.fd() >= 0);
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(peer.stream.fd(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    // A dead process's port may be given to the very socket that looks for it.
    if (error == ECONNREFUSED || (error == 0 && is_connected_to_itself(peer.stream.fd()))) {
        hang_up(peer);
        found_gone(process, peer);
        return;
    }
    if (error != 0) {
        hang_up(peer);
        peer.state = PeerState::resting;
        need_tick();
        return;
    }
    stop_knocking(peer);
    peer.state = PeerState::greeting;
    const std::uint64_t first = peer.waiting.empty() ? peer.last_number + 1 : peer.waiting.front().number;
    SFT_ASSERT(first != 0 && first <= peer.last_number + 1);
    std::vector<std::byte> hello = greeting(process);
    if (own_contact_) {
        const Bytes own = own_contact_->bytes();
        hello.insert(hello.end(), own.begin(), own.end());
    }
    peer.stream.append(FrameKind::hello, first, hello);
    peer.hello_bytes = peer.stream.n_unwritten();
    watch(EPOLL_CTL_MOD, peer.stream.fd(), EPOLLIN, Source::peer, static_cast<std::uint32_t>(process.value()));
    if (!peer.stream.write_some()) {
        connection_ended(process, peer);
    }
}

void RemoteMail::hang_up(Peer& peer) noexcept {
    if (peer.stream.fd() >= 0) {
        const int fd = peer.stream.release();
        epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
        ::close(fd);
    }
    stop_knocking(peer);
    peer.wants_room = false;
    if (peer.state != PeerState::gone) {
        peer.state = PeerState::idle;
    }
}

// Either the link or the process is to blame: a new connection tells.
void RemoteMail::connection_ended(ProcId process, Peer& peer) {
    SFT_ASSERT(peer.state == PeerState::open || peer.state == PeerState::greeting);
    const bool was_open = peer.state == PeerState::open;
    hang_up(peer);
    if (goodbyes_.contains(process.value())) {
        found_gone(process, peer);
    } else if (was_open) {
        connect(process, peer);
    } else {
        peer.state = PeerState::resting;
        need_tick();
    }
}

void RemoteMail::found_gone(ProcId process, Peer& peer) {
    if (peer.state == PeerState::gone) {
        return;
    }
    hang_up(peer);
    peer.state = PeerState::gone;
    peer.waiting.clear();
    SFT_ASSERT(std::find(gone_.begin(), gone_.end(), process) == gone_.end());  // once: it stays gone
    gone_.push_back(process);
    need_tick(true);  // so that the owner looks
}

void RemoteMail::read_peer(ProcId process, Peer& peer) {
    const bool goes_on = peer.stream.read_some();
    FrameStream::Frame frame;
    for (;;) {
        const FrameStream::Next next = peer.stream.next(frame);
        if (next == FrameStream::Next::none) {
            break;
        }
        if (next == FrameStream::Next::oversize || !take_from_peer(process, peer, frame)) {
            if (peer.state != PeerState::gone) {
                hang_up(peer);
                peer.state = PeerState::resting;
                need_tick();
            }
            return;
        }
    }
    if (!goes_on) {
        connection_ended(process, peer);
    } else if (peer.state == PeerState::open) {
        push(process, peer);
    }
}

// False: this is not the process that was meant, or it talks nonsense.
bool RemoteMail::take_from_peer(ProcId process, Peer& peer, const FrameStream::Frame& frame) {
    switch (frame.head.kind) {
        case FrameKind::welcome: {
            const std::optional<Greeting> answer = read_greeting(frame.payload, options_.secret);
            if (peer.state != PeerState::greeting || !answer || answer->to != options_.self.value()) {
                return false;
            }
            if (answer->from != process.value()) {
                found_gone(process, peer);  // its port belongs to another process of the job by now
                return false;
            }
            peer.state = PeerState::open;
            peer.patience_ns = 0;
            peer.next_number = 1;
            peer.stream.allow(0);  // what follows are numbers
            break;
        }
        case FrameKind::received: break;
        case FrameKind::goodbye: goodbyes_.emplace(process.value(), frame.head.number); return true;
        default: return false;
    }
    if (peer.state != PeerState::open || frame.head.number > peer.last_number) {
        return false;
    }
    while (!peer.waiting.empty() && peer.waiting.front().number <= frame.head.number) {
        peer.waiting.pop_front();
        note_moved(peer);
    }
    SFT_ASSERT(peer.waiting.empty() || peer.waiting.front().number > frame.head.number);
    peer.next_number = std::max(peer.next_number, frame.head.number + 1);
    SFT_ASSERT(peer.next_number <= peer.last_number + 1);
    return true;
}

void RemoteMail::tick(std::int64_t now) {
    is_timer_set_ = false;
    if (std::exchange(is_listener_paused_, false)) {
        watch(EPOLL_CTL_MOD, listener_, EPOLLIN, Source::listener, 0);
    }
    bool is_needed = false;
    for (auto& [number, peer] : peers_) {
        const ProcId process(number);
        const std::int64_t patience = peer.is_given_up ? kAttemptGivenUpNs : std::max(peer.patience_ns, kAttemptNs);
        switch (peer.state) {
            case PeerState::connecting:
                if (now - peer.since_ns > patience) {
                    peer.patience_ns = std::min(2 * patience, kAttemptMaxNs);
                    ++peer.n_failed;
                    hang_up(peer);
                    connect(process, peer);
                }
                break;
            case PeerState::resting:
                if (peer.is_given_up && peer.waiting.empty()) {
                    peer.state = PeerState::idle;
                } else if (!peer.is_given_up || now - peer.since_ns > patience) {
                    connect(process, peer);
                }
                break;
            case PeerState::greeting:
            case PeerState::open:
                if (is_cut_off(peer)) {
                    hang_up(peer);
                    connect(process, peer);
                }
                break;
            default: break;
        }
        is_needed = is_needed || peer.state == PeerState::connecting || peer.state == PeerState::resting ||
                    peer.state == PeerState::greeting || !peer.waiting.empty();
    }
    drop_older_strangers(now);
    for (const auto& [number, incoming] : incoming_) {
        is_needed = is_needed || incoming.from == kNoProc;
    }
    if (is_needed) {
        need_tick();
    }
}

// ---- the owner's word ----

void RemoteMail::retire_peer(ProcId process) {
    Peer& peer = peer_of(process);
    peer.state = PeerState::gone;
    hang_up(peer);
    peer.waiting.clear();
    std::erase(gone_, process);
    std::vector<std::uint32_t> of_it;
    for (const auto& [number, incoming] : incoming_) {
        if (incoming.from == process) {
            of_it.push_back(number);
        }
    }
    std::for_each(of_it.begin(), of_it.end(), [this](std::uint32_t number) { drop_incoming(number); });
}

void RemoteMail::give_up(ProcId process) {
    Peer& peer = peer_of(process);
    if (peer.state != PeerState::gone) {
        peer.is_given_up = true;
        peer.waiting.clear();
    }
}

void RemoteMail::probe(ProcId process) {
    Peer& peer = peer_of(process);
    if (peer.state == PeerState::idle && !peer.is_given_up) {
        connect(process, peer);
    }
}

std::vector<RemoteMail::Gone> RemoteMail::take_gone() {
    std::vector<Gone> taken;
    for (const ProcId process : std::exchange(gone_, {})) {
        SFT_ASSERT(peer_of(process).state == PeerState::gone);
        const auto goodbye = goodbyes_.find(process.value());
        taken.push_back({process, goodbye == goodbyes_.end() ? std::nullopt : std::optional(goodbye->second)});
    }
    return taken;
}

void RemoteMail::leave(std::uint64_t how) {
    for (auto& [number, peer] : peers_) {
        if (peer.state == PeerState::open) {
            peer.stream.append(FrameKind::goodbye, how, {});
            static_cast<void>(peer.stream.write_some());
        }
    }
    for (auto& [number, incoming] : incoming_) {
        if (incoming.from != kNoProc) {
            incoming.stream.append(FrameKind::goodbye, how, {});
            static_cast<void>(incoming.stream.write_some());
        }
    }
}

void RemoteMail::cut_until(std::int64_t end_ns) {
    cut_end_ns_ = end_ns;
    for (auto& [number, peer] : peers_) {
        stop_knocking(peer);
        if (peer.stream.fd() >= 0) {
            const int fd = peer.stream.release();
            epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
            close_abruptly(fd);
            peer.wants_room = false;
            peer.state = PeerState::resting;
        }
    }
    for (auto& [number, incoming] : incoming_) {
        const int fd = incoming.stream.release();
        epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
        close_abruptly(fd);
    }
    incoming_.clear();
    need_tick();
}

bool RemoteMail::pump(const Sink& sink) {
    bool has_received = false;
    std::array<epoll_event, 32> events;
    const int n = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < n; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const auto number = static_cast<std::uint32_t>(event.data.u64);
        switch (static_cast<Source>(event.data.u64 >> 32)) {
            case Source::listener: accept_all(); break;
            case Source::timer: {
                std::uint64_t expirations = 0;
                static_cast<void>(!::read(timer_, &expirations, sizeof expirations));
                tick(now_ns());
                break;
            }
            case Source::incoming: has_received = read_incoming(number, sink) || has_received; break;
            case Source::datagrams: has_received = read_datagrams(sink) || has_received; break;
            case Source::knock: {
                const ProcId process(static_cast<std::int32_t>(number));
                if (peer_of(process).knock_fd >= 0) {
                    take_knock(process, peer_of(process));
                }
                break;
            }
            case Source::peer: {
                const ProcId process(static_cast<std::int32_t>(number));
                Peer& peer = peer_of(process);
                if (peer.stream.fd() < 0) {
                    break;  // an event of a connection that is no more
                }
                if (peer.state == PeerState::connecting) {
                    connected(process, peer);
                } else {
                    read_peer(process, peer);
                }
                break;
            }
        }
    }
    return has_received;
}

}  // namespace sft
