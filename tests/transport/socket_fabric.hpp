// A fabric over TCP on the loopback: small enough to be right by inspection, so that the tests of what stands on a
// fabric do not depend on a communication library. It keeps everything that fabric.hpp promises: large payloads are
// received straight into their place, may be overtaken (a message is sent in pieces, between which smaller ones go
// first), and a death shows as `gone` or not at all.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/report.hpp"
#include "transport/fabric.hpp"

namespace sft {

class SocketFabric final : public Fabric {
public:
    static constexpr std::size_t kEagerBytes = 8192;
    static constexpr std::size_t kPieceBytes = 256 * 1024;  // of large payloads
    static constexpr std::size_t kWaitingMax = 100'000;     // bytes, in a session

    explicit SocketFabric(bool reconnects = false) : reconnects_(reconnects) {}
    ~SocketFabric() override { close(); }

    Result<> open(const Options& options) override {
        options_ = options;
        peers_.resize(static_cast<std::size_t>(options.n_slots));
        epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(listener_, 64) != 0) {
            return fails(std::strerror(errno));
        }
        socklen_t size = sizeof address_;
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &size);
        watch(listener_, nullptr, EPOLLIN, EPOLL_CTL_ADD);
        return {};
    }

    void close() noexcept override {
        for (const auto& connection : incoming_) {
            ::close(connection->fd);
        }
        incoming_.clear();
        for (Peer& peer : peers_) {
            if (peer.out.fd >= 0) {
                ::close(peer.out.fd);
            }
        }
        peers_.clear();
        if (epoll_ >= 0) {
            ::close(epoll_);
            ::close(listener_);
            epoll_ = -1;
        }
    }

    [[nodiscard]] Bytes address() const noexcept override { return std::as_bytes(std::span(&address_, 1)); }

    void introduce(ProcId process, Bytes address) override {
        std::memcpy(&peers_[process.index()].address, address.data(), sizeof(sockaddr_in));
    }

    Sent send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) override {
        Peer& peer = peers_[to.index()];
        if (reconnects_ && peer.waiting.size() - peer.begin > kWaitingMax) {
            return Sent::full;
        }
        if (peer.is_retired || peer.is_broken || (peer.out.fd < 0 && !connect(peer))) {
            return Sent::gone;
        }
        Frame frame{.head_bytes = static_cast<std::uint16_t>(head.size()),
                    .is_piece = 0,
                    .from = options_.self.value(),
                    .number = 0,
                    .total = payload.size(),
                    .bytes = payload.size()};
        if (payload.size() > kEagerBytes) {
            frame.number = ++peer.last_number;
            frame.bytes = 0;
            append(peer, frame, head, {});
            peer.large.push_back({frame.number, payload, 0, ticket});
        } else {
            append(peer, frame, head, payload);
        }
        flush(peer);
        return payload.size() > kEagerBytes ? Sent::pending : Sent::done;
    }

    [[nodiscard]] std::size_t eager_bytes() const noexcept override { return kEagerBytes; }

    bool progress() override {
        epoll_event events[16];
        const int n = ::epoll_wait(epoll_, events, 16, 0);
        for (int i = 0; i < n; ++i) {
            auto* const end = static_cast<End*>(events[i].data.ptr);
            if (end == nullptr) {
                accept();
            } else if (end->peer != nullptr) {
                if ((events[i].events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0) {
                    break_off(*end->peer);
                } else {
                    flush(*end->peer);
                }
            } else {
                receive(*static_cast<Connection*>(end));
            }
        }
        sweep();
        for (const ProcId process : std::exchange(broken_, {})) {
            options_.receiver->broken(process);
        }
        return n > 0;
    }

    [[nodiscard]] int fd() const noexcept override { return epoll_; }
    bool arm() override {
        epoll_event event;
        return ::epoll_wait(epoll_, &event, 1, 0) == 0;
    }

    void retire_peer(ProcId process) override {
        Peer& peer = peers_[process.index()];
        if (std::exchange(peer.is_retired, true)) {
            return;
        }
        break_off(peer);
        for (const auto& connection : incoming_) {
            if (connection->from == process.value()) {
                cut(*connection);
            }
        }
        sweep();
    }

    [[nodiscard]] bool reconnects() const noexcept override { return reconnects_; }
    void reconnect(ProcId process) override {
        Peer& peer = peers_[process.index()];
        if (!peer.is_retired) {
            break_off(peer);
            peer.is_broken = false;
        }
    }

    // Nothing waits to be sent.
    [[nodiscard]] bool is_idle() const {
        return std::all_of(peers_.begin(), peers_.end(),
                           [](const Peer& peer) { return peer.large.empty() && peer.begin == peer.waiting.size(); });
    }

    [[nodiscard]] std::string describe() const override { return "sockets of a test"; }

private:
    struct Frame {
        std::uint16_t head_bytes;
        std::uint16_t is_piece;
        std::int32_t from;
        std::uint64_t number;  // of a large message; 0: eager
        std::uint64_t total;
        std::uint64_t bytes;  // behind the head, in this frame
    };
    struct Peer;
    // What an event is about.
    struct End {
        int fd = -1;
        Peer* peer = nullptr;  // null: the incoming kind
    };
    struct Large {
        std::uint64_t number;
        Bytes payload;
        std::size_t sent;
        std::uint64_t ticket;
    };
    struct Peer {
        End out;
        sockaddr_in address{};
        bool is_retired = false;
        bool is_broken = false;
        std::uint64_t last_number = 0;
        std::vector<std::byte> waiting;  // what the socket had no room for, from `begin` on
        std::size_t begin = 0;
        std::deque<Large> large;
        bool wants_room = false;
    };
    struct Place {
        std::byte* address;
        std::uint64_t ticket;
        std::uint64_t left;
    };
    struct Connection : End {
        std::int32_t from = -1;
        bool is_dead = false;
        std::vector<std::byte> buffer;
        std::size_t begin = 0;
        std::map<std::uint64_t, Place> places;
        std::byte* direct = nullptr;  // the piece that is coming in goes here, null: nowhere
        std::uint64_t direct_left = 0;
        std::uint64_t direct_number = 0;
    };

    void watch(int fd, End* end, std::uint32_t what, int how) const {
        epoll_event event{};
        event.events = what;
        event.data.ptr = end;
        ::epoll_ctl(epoll_, how, fd, &event);
    }

    static void set_options(int fd) {
        const int one = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }

    bool connect(Peer& peer) const {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        set_options(fd);
        if (::connect(fd, reinterpret_cast<const sockaddr*>(&peer.address), sizeof peer.address) != 0) {
            ::close(fd);
            peer.is_broken = true;
            return false;
        }
        ::fcntl(fd, F_SETFL, O_NONBLOCK);
        peer.out.fd = fd;
        peer.out.peer = &peer;
        watch(fd, &peer.out, EPOLLRDHUP, EPOLL_CTL_ADD);
        return true;
    }

    static void append(Peer& peer, const Frame& frame, Bytes head, Bytes payload) {
        const Bytes parts[] = {std::as_bytes(std::span(&frame, 1)), head, payload};
        for (const Bytes part : parts) {
            peer.waiting.insert(peer.waiting.end(), part.begin(), part.end());
        }
    }

    // Small messages first, then a piece of a large one, the last of them first: so payloads are overtaken.
    void flush(Peer& peer) {
        for (;;) {
            while (peer.begin < peer.waiting.size()) {
                const ssize_t n = ::send(peer.out.fd, peer.waiting.data() + peer.begin,
                                         peer.waiting.size() - peer.begin, MSG_NOSIGNAL);
                if (n < 0) {
                    if (errno == EAGAIN) {
                        want_room(peer, true);
                    } else if (errno != EINTR) {
                        break_off(peer);
                    }
                    return;
                }
                peer.begin += static_cast<std::size_t>(n);
            }
            peer.waiting.clear();
            peer.begin = 0;
            if (peer.large.empty() || peer.out.fd < 0) {
                want_room(peer, false);
                return;
            }
            add_piece(peer);
        }
    }

    void add_piece(Peer& peer) {
        Large& large = peer.large.back();
        const std::size_t bytes = std::min(kPieceBytes, large.payload.size() - large.sent);
        const Frame frame{.head_bytes = 0,
                          .is_piece = 1,
                          .from = options_.self.value(),
                          .number = large.number,
                          .total = large.payload.size(),
                          .bytes = bytes};
        append(peer, frame, {}, large.payload.subspan(large.sent, bytes));
        large.sent += bytes;
        if (large.sent == large.payload.size()) {
            const std::uint64_t ticket = large.ticket;
            peer.large.pop_back();
            options_.receiver->sent(ticket);
        }
    }

    void want_room(Peer& peer, bool wants) const {
        if (peer.wants_room != wants && peer.out.fd >= 0) {
            peer.wants_room = wants;
            watch(peer.out.fd, &peer.out, EPOLLRDHUP | (wants ? EPOLLOUT : 0U), EPOLL_CTL_MOD);
        }
    }

    void break_off(Peer& peer) {
        if (!std::exchange(peer.is_broken, true)) {
            broken_.push_back(ProcId(static_cast<std::int32_t>(&peer - peers_.data())));
        }
        if (peer.out.fd >= 0) {
            ::close(peer.out.fd);
            peer.out.fd = -1;
        }
        peer.waiting.clear();
        peer.begin = 0;
        while (!peer.large.empty()) {
            const std::uint64_t ticket = peer.large.front().ticket;
            peer.large.pop_front();
            options_.receiver->sent(ticket);
        }
    }

    void accept() {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        set_options(fd);
        incoming_.push_back(std::make_unique<Connection>());
        incoming_.back()->fd = fd;
        watch(fd, incoming_.back().get(), EPOLLIN, EPOLL_CTL_ADD);
    }

    void receive(Connection& connection) {
        for (int turn = 0; turn < 8 && !connection.is_dead; ++turn) {
            ssize_t n;
            if (connection.direct != nullptr && connection.begin == connection.buffer.size()) {
                n = ::recv(connection.fd, connection.direct, connection.direct_left, 0);
                if (n > 0) {
                    take_direct(connection, static_cast<std::uint64_t>(n));
                }
            } else {
                std::byte bytes[65536];
                n = ::recv(connection.fd, bytes, sizeof bytes, 0);
                if (n > 0) {
                    connection.buffer.insert(connection.buffer.end(), bytes, bytes + n);
                    parse(connection);
                }
            }
            if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
                cut(connection);
            }
            if (n <= 0) {
                return;
            }
        }
    }

    void take_direct(Connection& connection, std::uint64_t n) {
        connection.direct += n;
        connection.direct_left -= n;
        Place& place = connection.places.at(connection.direct_number);
        place.address += n;
        place.left -= n;
        const std::uint64_t number = connection.direct_number;
        if (connection.direct_left == 0) {
            connection.direct = nullptr;
        }
        if (place.left == 0) {
            const std::uint64_t ticket = place.ticket;
            connection.places.erase(number);
            options_.receiver->arrived(ticket, true);
        }
    }

    void parse(Connection& connection) {
        while (!connection.is_dead) {
            const std::byte* const data = connection.buffer.data() + connection.begin;
            const std::size_t there = connection.buffer.size() - connection.begin;
            if (connection.direct != nullptr) {
                const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(there, connection.direct_left));
                if (n == 0) {
                    break;
                }
                std::memcpy(connection.direct, data, n);
                connection.begin += n;
                take_direct(connection, n);
                continue;
            }
            Frame frame;
            if (there < sizeof frame) {
                break;
            }
            std::memcpy(&frame, data, sizeof frame);
            const std::size_t rest = frame.is_piece != 0 ? 0 : frame.head_bytes + frame.bytes;
            const bool is_drop = frame.is_piece != 0 && !connection.places.contains(frame.number);
            if (there < sizeof frame + rest + (is_drop ? frame.bytes : 0)) {
                break;
            }
            connection.from = frame.from;
            connection.begin += sizeof frame + rest + (is_drop ? frame.bytes : 0);
            if (is_dead(frame.from)) {
                cut(connection);
            } else if (frame.is_piece == 0) {
                take_head(connection, frame, data + sizeof frame);
            } else if (!is_drop) {
                connection.direct = connection.places.at(frame.number).address;
                connection.direct_left = frame.bytes;
                connection.direct_number = frame.number;
            }
        }
        connection.buffer.erase(connection.buffer.begin(),
                                connection.buffer.begin() + static_cast<std::ptrdiff_t>(connection.begin));
        connection.begin = 0;
    }

    [[nodiscard]] bool is_dead(std::int32_t process) const {
        return process < 0 || process >= options_.n_slots || peers_[static_cast<std::size_t>(process)].is_retired;
    }

    void take_head(Connection& connection, const Frame& frame, const std::byte* data) {
        const Bytes head(data, frame.head_bytes);
        if (frame.number == 0) {
            options_.receiver->message(head, Bytes(data + frame.head_bytes, frame.bytes));
            return;
        }
        const FabricReceiver::Place place = options_.receiver->place(head, frame.total);
        if (place.address != nullptr) {
            connection.places[frame.number] = {place.address, place.ticket, frame.total};
        }
    }

    // Gives its places back. It is deleted when nobody is in the middle of it.
    void cut(Connection& connection) {
        if (std::exchange(connection.is_dead, true)) {
            return;
        }
        connection.direct = nullptr;
        ::epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.fd, nullptr);
        while (!connection.places.empty()) {
            const std::uint64_t ticket = connection.places.begin()->second.ticket;
            connection.places.erase(connection.places.begin());
            options_.receiver->arrived(ticket, false);
        }
    }

    void sweep() {
        std::erase_if(incoming_, [](const std::unique_ptr<Connection>& connection) {
            if (connection->is_dead) {
                ::close(connection->fd);
            }
            return connection->is_dead;
        });
    }

    bool reconnects_;
    Options options_;
    int epoll_ = -1;
    int listener_ = -1;
    sockaddr_in address_{};
    std::vector<Peer> peers_;
    std::vector<std::unique_ptr<Connection>> incoming_;
    std::vector<ProcId> broken_;
};

}  // namespace sft
