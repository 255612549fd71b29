// Control messages between the processes of a job: opaque bytes, whole, once, and in order for each pair of processes
// that live. What goes to other nodes is the business of remote_mail.hpp; here is what stays on the node.
//
// Every process listens on an abstract Unix socket (SOCK_SEQPACKET) under a name made from the job's token and its own
// number. Whoever has something to say connects, once, and keeps the connection; a connection carries messages in one
// direction only, so there is one for each ordered pair that talks. A frame is a head and the message, in one packet.
//
// Fault model
//  - A process may die at any instruction. A frame is in the kernel whole or not at all, and what is there reaches the
//    receiver even if the sender is dead by then. send() puts it there before it returns if the socket has room.
//  - What is sent to a dead process is dropped without a word: death is the detector's business. A process that is gone
//    stays gone: its number is never used again.
//  - A receiver that is stopped or slow makes frames wait in the sender's memory, for as long as it lives or until
//    retire_peer(). Nothing here ever blocks.
//  - Abstract names vanish with the last descriptor: nothing is left behind, whatever happens.
//  - Strangers: both ends check that the other belongs to the same user, the receiver also the half of the token that
//    is not in the name (names are for everybody to see in /proc/net/unix). A connection that brings anything else than
//    a frame of this job for this process is closed.
//
// Start-up: open() before others learn the token and the number: who sends to a process that does not listen yet takes
// it for dead.
//
// Children of the application: descriptors are closed by exec. A child without exec keeps copies of them that it does
// not touch: send, pump, flush and the destructor do nothing in it. While it lives its dead parent's socket does,
// too; that is why the owner calls retire_peer() when it learns of a death.
//
// Limits: two descriptors for each
// pair of processes that talk in both directions, in each of the two.
//
// Threads: one at a time (the owner's lock). Waiting for fd() needs no lock.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/assert.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "transport/contact.hpp"
#include "transport/mail/lasting_trouble.hpp"
#include "transport/mail/remote_mail.hpp"

struct iovec;

namespace sft {

// 128 random bits of a job, known to its processes only.
struct MailToken {
    std::uint64_t name = 0;    // names the sockets
    std::uint64_t secret = 0;  // is in every frame
};
static_assert(sizeof(MailToken) == 16 && std::has_unique_object_representations_v<MailToken>, "all of it is random");
// Nothing: the kernel has no random numbers; errno says why.
[[nodiscard]] std::optional<MailToken> make_mail_token() noexcept;

class Mailbox {
public:
    struct Options {
        MailToken token;
        ProcId self = kNoProc;
        std::size_t bytes_max = 0;  // of one message, the same in all processes
        int backlog = 4096;         // connections that may wait for being accepted; more than that try again
        // In a job on several nodes.
        struct Remote {
            MailAddress listen_on;  // not set: there is one node only
            bool is_signed = false;
            std::function<bool(ProcId)> is_remote;
            std::function<MailAddress(ProcId)> address_of;
            // A process that joins the job has said how it is reached.
            std::function<void(ProcId, const Contact&)> introduced;
        };
        Remote remote = {};
    };
    using Sink = std::function<void(ProcId from, std::span<const std::byte> message)>;

    Mailbox() = default;
    ~Mailbox() { close(); }
    Mailbox(const Mailbox&) = delete;
    Mailbox& operator=(const Mailbox&) = delete;

    // Listens.
    [[nodiscard]] Result<> open(const Options& options);
    // What still waits for room is lost.
    void close() noexcept;

    // Of at most bytes_max.
    void send(ProcId to, std::span<const std::byte> message);
    // Takes in what is there, sends what has waited, and returns: true if there was any message. Call it again while
    // fd() is readable. The sink may call send, flush and forget, nothing else; it gets the mailbox's own bytes, which
    // are good until it returns.
    bool pump(const Sink& sink);
    // Tries again to send what waits. True: everything is in the kernel, or dropped.
    bool flush();
    // `process` is dead: what waits for it is dropped, and so is what is sent to it from now on.
    void retire_peer(ProcId process);
    // `process` has been declared dead but may live: of what is sent to it the last message is kept.
    void give_up(ProcId process);

    // ---- what fails while everybody lives ----

    // Something has been refused for lack of descriptors or memory since before that time (now_ns()), however often it
    // was tried again.
    [[nodiscard]] std::optional<Trouble> lasting_trouble(std::int64_t begin_ns) const;
    // Connections of this node that have ended though nobody has said that the process is dead. That is no proof of a
    // death: the owner has to find out. What is sent to it is dropped.
    struct Lost {
        ProcId process;
        std::int64_t since_ns = 0;
        int error = 0;
    };
    [[nodiscard]] const std::vector<Lost>& lost() const noexcept { return lost_; }
    // The owner knows why.
    void settle_lost(ProcId process);
    [[nodiscard]] bool has_trouble() const noexcept;

    // ---- several nodes ----

    // Where others reach this process; not set in a job on one node.
    [[nodiscard]] MailAddress address() const noexcept;
    // For a process that joins: tells everybody whom it connects to.
    void introduce_self(const Contact& own) { remote_.introduce_self(own); }
    // By which connections from other nodes have to be signed, if they have.
    [[nodiscard]] std::optional<std::uint64_t> signing_key() const noexcept {
        return options_.remote.is_signed ? std::optional(options_.token.secret) : std::nullopt;
    }
    // From now on only these can send to it from other nodes. False: the system does not let others be kept out.
    [[nodiscard]] bool admit(std::vector<HostAddress> hosts) { return remote_.admit(std::move(hosts)); }
    // Processes of other nodes that have been found to be dead, or to have left (goodbye: how).
    [[nodiscard]] std::vector<RemoteMail::Gone> take_gone();
    // To a process of another node: at once or never. Of what a sink gets the second one tells whether it came that
    // way.
    void send_datagram(ProcId to, std::span<const std::byte> message);
    [[nodiscard]] bool is_taking_datagram() const noexcept { return remote_.is_taking_datagram(); }
    // Finds out whether a process of another node is dead.
    void probe(ProcId process);
    // Nothing that was sent to another node is still on its way.
    [[nodiscard]] bool is_settled() const noexcept;
    [[nodiscard]] std::vector<RemoteMail::Stuck> stuck() const;
    // Tells other nodes that this process is leaving because the job is over.
    void leave(std::uint64_t how);
    // For tests: no connection to other nodes before that time (now_ns()).
    void cut_until(std::int64_t end_ns);

    // Readable when there is something to do for pump().
    [[nodiscard]] int fd() const noexcept { return epoll_fd_; }
    [[nodiscard]] bool is_open() const noexcept { return epoll_fd_ >= 0; }
    // Frames that wait in this process.
    [[nodiscard]] std::size_t n_waiting() const noexcept;

private:
    enum class Outcome { sent, later, gone };

    struct Peer {
        int fd = -1;
        bool is_gone = false;
        bool waits_for_room = false;
        std::deque<std::vector<std::byte>> frames;  // in order; not in the kernel yet
    };
    struct Incoming {
        int fd = -1;
        ProcId from = kNoProc;  // until the first frame: nobody
    };

    [[nodiscard]] bool is_mine() const noexcept;
    [[nodiscard]] Result<> listen(int backlog);
    [[nodiscard]] Outcome connect(ProcId to, Peer& peer);
    [[nodiscard]] Outcome transmit(ProcId to, Peer& peer, iovec* parts, std::size_t n_parts);
    [[nodiscard]] Outcome drain(ProcId to, Peer& peer);
    void wait_for_room(ProcId to, Peer& peer, bool waits) noexcept;
    void drop(Peer& peer) noexcept;
    void lose(ProcId process, Peer& peer, int error);
    void accept_all();
    bool receive_all(std::uint32_t connection, const Sink& sink);
    [[nodiscard]] bool check_head(Incoming& incoming, std::size_t bytes) const noexcept;
    void hang_up(std::uint32_t connection) noexcept;
    void retry();
    void retry_soon(const char* what, int error) noexcept;
    // The next pause is a short one again.
    void has_succeeded() noexcept { retry_after_ns_ = 0; }
    [[nodiscard]] bool watch(int operation, int fd, std::uint32_t events, std::uint64_t key) const noexcept;
    void watch_listener(bool is_wanted) noexcept;
    void release(int& fd) const noexcept;

    [[nodiscard]] bool is_remote(ProcId process) const {
        SFT_ASSERT(process != kNoProc);
        return remote_.is_open() && options_.remote.is_remote(process);
    }

    Options options_;
    RemoteMail remote_;
    pid_t owner_ = 0;
    int epoll_fd_ = -1;
    int listener_ = -1;
    int timer_ = -1;  // runs while something has to be tried again that the kernel will not call us for
    bool timer_runs_ = false;
    std::int64_t retry_after_ns_ = 0;  // 0: nothing has failed lately
    bool is_listener_paused_ = false;
    bool has_complained_ = false;
    LastingTrouble trouble_;
    std::vector<Lost> lost_;
    std::unordered_map<std::int32_t, Peer> peers_;  // by process
    std::unordered_map<std::uint32_t, Incoming> incoming_;
    std::uint32_t last_connection_ = 0;
    std::vector<std::byte> buffer_;  // of one frame
};

}  // namespace sft
