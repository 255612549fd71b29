// The part of the mailbox for processes of other nodes: TCP.
//
// Whoever has something to say connects to the receiver's port, says who it is and the secret of the job (hello), and
// is answered in the same way (welcome). Messages are numbered and kept until the receiver has said that it took them;
// a connection that breaks is made again, and the welcome tells which messages have to be sent once more. So messages
// between two living processes arrive whole, once and in order, whatever happens to connections.
//
// Besides there are datagrams, from and to the port with the same number, for what is worth something only now: a
// question whether somebody lives, and its answer. They may be lost, doubled or late. TCP is silent for up to as long
// again as a link was away, since it waits twice as long before each repetition; a datagram shows at once that a link
// is whole.
//
// Fault model
//  - A link may lose everything for any time, or tell that it is down; what waits is sent when it is whole again. While
//    the other side's kernel does not answer, connections are made anew every few hundred ms at first, since an old one
//    would answer only seconds after the link is whole; then less often, since a link may be slow; and at once when a
//    datagram ends a silence.
//  - A process may be stopped: its kernel still answers, so nothing is done and messages wait.
//  - A process that is dead has a port that is closed. Its host's kernel says so (refused), and only then: a port that
//    was open once and refuses means that the process is certainly dead, or has left. The end of any connection is
//    taken as the occasion to find out, so the death of one that somebody talks to is known in milliseconds.
//  - What has been declared dead without being certainly so gets the newest message only, so nothing piles up.
//  - Strangers may connect and send anything: the first frame has to be a hello of this job, in time; else the
//    connection is closed, which is said once.
//
// Memory: what has not been acknowledged, and a bounded buffer for each connection.
//
// Threads: one at a time (the owner's lock). Waiting for fd() needs no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "transport/contact.hpp"
#include "transport/mail/frame_stream.hpp"
#include "transport/mail/lasting_trouble.hpp"
#include "transport/net/listeners.hpp"

namespace sft {

class RemoteMail {
public:
    struct Options {
        MailAddress listen_on;  // port 0: the kernel's choice
        ProcId self = kNoProc;
        std::uint64_t secret = 0;
        bool is_signed = false;     // connections, with the secret (net/signed_ways.hpp); datagrams are not
        std::size_t bytes_max = 0;  // of one message
        int backlog = 4096;
        // Where a process listens; asked when a connection is to be made.
        std::function<MailAddress(ProcId)> address_of;
        // A process that joins tells in its hello how it is reached.
        std::function<void(ProcId, const Contact&)> introduced;
    };
    using Sink = std::function<void(ProcId from, std::span<const std::byte> message)>;

    // A process that is gone: its port refuses, or it has said goodbye before.
    struct Gone {
        ProcId process = kNoProc;
        std::optional<std::uint64_t> goodbye;
    };

    RemoteMail() = default;
    ~RemoteMail() { close(); }
    RemoteMail(const RemoteMail&) = delete;
    RemoteMail& operator=(const RemoteMail&) = delete;

    [[nodiscard]] Result<> open(Options options);
    void close() noexcept;
    [[nodiscard]] bool is_open() const noexcept { return epoll_fd_ >= 0; }
    [[nodiscard]] int fd() const noexcept { return epoll_fd_; }
    // With the port.
    [[nodiscard]] MailAddress address() const noexcept { return options_.listen_on; }

    // For a process that joins: goes with every hello.
    void introduce_self(const Contact& own) { own_contact_ = own; }
    // From now on the kernel drops what other hosts ask for, or send as datagrams. False: it cannot.
    [[nodiscard]] bool admit(std::vector<HostAddress> hosts);

    void send(ProcId to, std::span<const std::byte> message);
    // At once or never.
    void send_datagram(ProcId to, std::span<const std::byte> message) const;
    // True: there was a message.
    bool pump(const Sink& sink);
    // Asked by the sink: what it gets has come as a datagram.
    [[nodiscard]] bool is_taking_datagram() const noexcept { return is_taking_datagram_; }
    // Everything has been taken by its receiver, or dropped.
    [[nodiscard]] bool is_settled() const noexcept { return n_waiting() == 0; }
    [[nodiscard]] std::size_t n_waiting() const noexcept;

    // Certainly dead: nothing is sent to it any more.
    void retire_peer(ProcId process);
    // Declared dead, perhaps alive: it is sent the last message only.
    void give_up(ProcId process);
    // Finds out whether `process` is dead, unless a connection to it shows that already.
    void probe(ProcId process);
    // Those that have been found to be gone since the last call.
    [[nodiscard]] std::vector<Gone> take_gone();

    // To whom messages wait while connection after connection fails, or carries nothing of them.
    struct Stuck {
        ProcId process = kNoProc;
        std::uint64_t n_moved = 0;   // rises whenever something of a message is acknowledged
        std::uint32_t n_failed = 0;  // connections since
    };
    [[nodiscard]] std::vector<Stuck> stuck() const;

    // Says goodbye on all connections. Nothing is sent afterwards.
    void leave(std::uint64_t how);
    // For tests: every connection is reset, and none is made or accepted before the time (now_ns()).
    void cut_until(std::int64_t end_ns);
    // Descriptors, memory.
    [[nodiscard]] const LastingTrouble& trouble() const noexcept { return trouble_; }

private:
    struct Waiting {
        std::uint64_t number;
        std::vector<std::byte> message;
    };
    enum class PeerState : std::uint8_t {
        idle,        // nothing to say yet
        connecting,  // the kernel is at it
        greeting,    // hello has been sent
        open,
        resting,  // the next tick tries again
        gone,
    };
    struct Peer {
        PeerState state = PeerState::idle;
        FrameStream stream;
        std::deque<Waiting> waiting;    // not acknowledged, in order
        std::uint64_t last_number = 0;  // given to a message
        std::uint64_t next_number = 1;  // to be put into this connection
        std::int64_t since_ns = 0;      // the attempt
        std::int64_t patience_ns = 0;   // with it; 0: as with the first one
        std::int64_t datagram_ns = 0;   // the last one from it
        std::uint64_t hello_bytes = 0;  // of what has been sent, what is no message
        std::uint64_t n_moved = 0;      // Stuck
        std::uint32_t n_failed = 0;
        bool is_given_up = false;
        bool wants_room = false;
        int knock_fd = -1;
    };
    struct Incoming {
        FrameStream stream;
        ProcId from = kNoProc;  // until the hello: nobody
        std::int64_t since_ns = 0;
        bool wants_room = false;
    };
    enum class Source : std::uint32_t { listener, timer, peer, incoming, datagrams, knock };

    // remote_mail.cpp: the sender's side
    void connect(ProcId process, Peer& peer);
    void connected(ProcId process, Peer& peer);
    void push(ProcId process, Peer& peer);
    void read_peer(ProcId process, Peer& peer);
    [[nodiscard]] bool take_from_peer(ProcId process, Peer& peer, const FrameStream::Frame& frame);
    void connection_ended(ProcId process, Peer& peer);
    void hang_up(Peer& peer) noexcept;
    void found_gone(ProcId process, Peer& peer);
    void tick(std::int64_t now);
    [[nodiscard]] static bool is_cut_off(Peer& peer) noexcept;
    static void note_moved(Peer& peer) noexcept;

    // remote_mail_knock.cpp
    [[nodiscard]] int make_socket(std::uint16_t family) const noexcept;
    [[nodiscard]] bool knock(ProcId process, Peer& peer, const MailAddress& address);
    void take_knock(ProcId process, Peer& peer);
    void stop_knocking(Peer& peer) noexcept;

    // remote_mail_in.cpp: the receiver's side
    [[nodiscard]] Result<> listen();
    [[nodiscard]] Result<> bind_both();
    bool read_datagrams(const Sink& sink);
    void note_datagram(ProcId from);
    void accept_all();
    void lacks(const char* what, int error);
    bool read_incoming(std::uint32_t connection, const Sink& sink);
    [[nodiscard]] bool take_hello(std::uint32_t connection, const FrameStream::Frame& frame);
    void refuse(std::uint32_t connection, const char* what);
    void drop_incoming(std::uint32_t connection) noexcept;
    void drop_older_strangers(std::int64_t now);
    [[nodiscard]] std::vector<std::byte> greeting(ProcId to) const;

    void watch(int operation, int fd, std::uint32_t events, Source source, std::uint32_t number) const noexcept;
    void watch_room(FrameStream& stream, bool& wants_room, Source source, std::uint32_t number) const noexcept;
    void need_tick(bool at_once = false) noexcept;
    [[nodiscard]] Peer& peer_of(ProcId process) { return peers_[process.value()]; }

    Options options_;
    std::optional<Contact> own_contact_;
    int epoll_fd_ = -1;
    int listener_ = -1;
    int datagrams_ = -1;
    int timer_ = -1;
    bool is_timer_set_ = false;
    bool is_taking_datagram_ = false;
    bool is_listener_paused_ = false;
    bool has_complained_ = false;  // about strangers
    bool has_lacked_ = false;      // descriptors, memory
    LastingTrouble trouble_;
    std::int64_t cut_end_ns_ = 0;
    std::unordered_map<std::int32_t, Peer> peers_;  // by process
    std::unordered_map<std::uint32_t, Incoming> incoming_;
    std::unordered_map<std::int32_t, std::uint64_t> received_;  // by process: number of the last message
    std::unordered_map<std::int32_t, std::uint64_t> goodbyes_;  // by process: how it leaves
    std::vector<ProcId> gone_;
    std::uint32_t last_connection_ = 0;
};

}  // namespace sft
