// Sessions: what makes messages survive the connection that carries them.
//
// A connection between two processes that live may break: a firewall, a reset, a driver, a cable that was pulled. What
// the fabric below had taken is then lost in part, and nobody knows which part. So what is sent is divided into packets
// that are numbered for each ordered pair of processes, copied, and kept until the receiver says that it has them. When
// the fabric says that a connection has broken, a new one is made and everything kept is sent again; the receiver drops
// what it has already. So every message is delivered exactly once and in order, atomics and puts alike, however often
// connections break; nothing above notices but a delay.
//
// Fault model: connections break at any time, on one side or both, with any part of what was under way delivered, also
// late, after a new connection is there. Losses may be silent; the next packet with a higher number shows them, or else
// the answer to a question that is asked when nothing has been heard for a while. A process that is dead does not
// answer: attempts go on until the owner calls retire_peer(). What a process that lives cannot be reached for is
// reported (FabricReceiver::lost), not decided here.
//
// Invariants
//  1. unacked holds the packets acked + 1 to n_numbered, in order; the first `next` of them are with the fabric.
//  2. A packet that is handed over again has the same bytes.
//  3. A packet is delivered if and only if its number is received + 1.
//  4. The memory of a packet lives until the packet has been acknowledged and the fabric has done with it.
//
// Answers to questions are exact because packets of one connection stay in order: what was sent before the question and
// has not been received when it arrives will not be.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "transport/fabric.hpp"
#include "transport/net/session_memory.hpp"
#include "transport/net/session_wire.hpp"

namespace sft {

class SessionFabric final : public Fabric, private FabricReceiver {
public:
    // One that cannot connect again is used as it is.
    explicit SessionFabric(std::unique_ptr<Fabric> inner) : inner_(std::move(inner)) {}
    ~SessionFabric() override { close(); }
    SessionFabric(const SessionFabric&) = delete;
    SessionFabric& operator=(const SessionFabric&) = delete;

    [[nodiscard]] Result<> open(const Options& options) override;
    void close() noexcept override;
    [[nodiscard]] Bytes address() const noexcept override { return inner_->address(); }
    void introduce(ProcId process, Bytes address) override { inner_->introduce(process, address); }
    [[nodiscard]] bool has_listeners() const noexcept override { return inner_->has_listeners(); }
    [[nodiscard]] bool admit(std::span<const Bytes> addresses) override { return inner_->admit(addresses); }
    [[nodiscard]] Sent send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) override;
    [[nodiscard]] std::size_t eager_bytes() const noexcept override { return part_bytes_; }
    [[nodiscard]] std::size_t piece_bytes() const noexcept override { return inner_->piece_bytes(); }
    bool progress() override;
    [[nodiscard]] int fd() const noexcept override { return inner_->fd(); }
    [[nodiscard]] bool arm() override;
    void retire_peer(ProcId process) override;
    [[nodiscard]] std::string describe() const override { return inner_->describe(); }
    // Messages go by sessions: their payloads are copied by threads of this process, and never put in place by a card.
    [[nodiscard]] bool copies_payloads() const noexcept { return !is_bare_; }

private:
    struct Packet {
        SessionHead head;
        std::array<std::byte, kMessageHeadBytes> message_head;
        SessionMemory* memory = nullptr;  // null: no payload
        std::size_t bytes = 0;
    };
    // What has not been made packets of yet.
    struct Message {
        std::array<std::byte, kMessageHeadBytes> head;
        std::uint16_t head_bytes = 0;
        Bytes payload;
        std::vector<std::byte> copy;  // of the payload, if that was small
        std::uint64_t ticket = 0;
        bool wants_sent = false;
        std::uint64_t number = 0;  // of a large one
        std::size_t done = 0;      // bytes of the payload that are in packets
    };
    struct Incoming {
        std::byte* place = nullptr;  // null: nobody wants it
        std::uint64_t ticket = 0;
        std::size_t bytes = 0;
        std::size_t bytes_here = 0;
    };
    struct Peer {
        ProcId process = kNoProc;
        bool is_retired = false;
        // ---- to it ----
        std::uint64_t n_numbered = 0;
        std::uint64_t acked = 0;
        std::uint64_t n_large = 0;
        std::deque<Packet> unacked;
        std::size_t next = 0;
        std::size_t bytes_unacked = 0;
        std::deque<Message> to_begin;
        std::deque<Message> begun;  // large ones: their further parts leave while nothing is to begin
        bool is_busy = false;       // in busy_
        bool is_full = false;       // the fabric takes nothing at the moment
        bool has_left = false;      // it has said farewell
        // ---- from it ----
        std::uint64_t received = 0;
        std::uint64_t told = 0;  // of these
        std::size_t bytes_untold = 0;
        std::uint64_t gap_told = UINT64_MAX;
        SessionNote due = SessionNote::none;  // what it is to be told
        std::uint64_t answer = 0;             // the number of its question
        std::map<std::uint64_t, Incoming> incoming;
        // ---- the connection ----
        bool is_timed = false;  // in timed_
        bool is_broken = false;
        bool is_lost = false;  // and that has been told
        std::int64_t retry_ns = 0;
        std::int64_t delay_ns = 0;
        std::int64_t broken_since_ns = 0;  // 0: the last packets have got through
        bool is_unheard = false;           // it is new, and nothing has got through yet because nothing was to be sent
        std::uint64_t acked_at_look = 0;
        std::int64_t quiet_since_ns = 0;
        std::int64_t patience_ns = 0;
        std::uint64_t n_questions = 0;
        bool has_question = false;      // that the fabric has not taken yet
        std::uint64_t asked = 0;        // the question that counts; 0: none
        std::uint64_t asked_after = 0;  // the last packet before it
        std::uint64_t gap_heeded = UINT64_MAX;

        [[nodiscard]] bool has_room() const noexcept {
            return bytes_unacked < kSessionWindowBytes && unacked.size() < kSessionWindowPackets;
        }
    };

    // ---- FabricReceiver: session_in.cpp ----
    void message(Bytes head, Bytes payload) override;
    [[nodiscard]] Place place(Bytes head, std::size_t bytes) override;
    void arrived(std::uint64_t ticket, bool is_whole) override;
    void sent(std::uint64_t ticket) override;
    void broken(ProcId process) override;

    static void has_got_through(Peer& peer) noexcept;
    [[nodiscard]] bool take_acknowledgement(Peer& peer, std::uint64_t received);
    void take_note(Peer& peer, const SessionHead& head);
    void deliver(Peer& peer, const SessionHead& head, Bytes message_head, Bytes payload);
    void drop_incoming(Peer& peer);

    // ---- session_fabric.cpp ----
    [[nodiscard]] Peer* peer_of(ProcId process) noexcept;
    static void check_invariants(const Peer& peer) noexcept;
    [[nodiscard]] bool make_packet(Peer& peer);
    void make_part(Peer& peer, Message& message);
    [[nodiscard]] bool pump(Peer& peer);
    [[nodiscard]] bool hand_over(Peer& peer, const Packet& packet);
    [[nodiscard]] bool tell(Peer& peer, SessionNote note, std::uint64_t number);
    void touch(Peer& peer);
    void watch(Peer& peer);
    void send_again(Peer& peer);
    void ask(Peer& peer);
    [[nodiscard]] bool put_question(Peer& peer);
    [[nodiscard]] bool tend();
    void look(std::int64_t now);
    void look_at(Peer& peer, std::int64_t now);
    void reconnect_to(Peer& peer, std::int64_t now);
    void drop_outgoing(Peer& peer);
    void linger() noexcept;
    [[nodiscard]] bool is_lingering_for(const Peer& peer) const noexcept;

    std::unique_ptr<Fabric> inner_;
    Options options_;
    pid_t owner_ = 0;
    bool is_open_ = false;
    bool is_bare_ = false;  // the fabric cannot connect again
    bool is_closing_ = false;
    std::size_t part_bytes_ = 0;
    std::vector<Peer> peers_;
    std::vector<Peer*> busy_;   // that something is to be sent to
    std::vector<Peer*> timed_;  // that something is to be heard of, or whose connection is broken
    std::int64_t next_look_ns_ = 0;
    std::vector<std::uint64_t> to_tell_;  // tickets for receiver.sent()
    SessionMemoryPool pool_;
};

}  // namespace sft
