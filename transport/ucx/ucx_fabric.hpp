// Messages between processes by UCX's active messages.
//
// Over TCP this is always in a session (net/session_fabric.hpp), and then nothing of a message is ever left with UCX:
// it is given away whole, by an active message that UCX calls short and that has to be completed at once, or not at
// all. UCX copies what the system does not take. So there is no request, and the other side is not asked for anything
// to set a connection up (UCX's "wire-up"); what UCX has queued when the other side dies has ended the process
// (UCX 1.13: ucp_request_send_state_ff with a wire-up request, or one without a copy that is completed twice).
//
// Messages come and go by two workers of UCX. With one it would use a connection for both directions if both sides make
// one, and what it does to bring the two together cannot bear that they break (UCX 1.13: tcp_cm.c, stale_fd).
//
// Over RDMA requests are left with UCX: a head is the header of an active message, behind a few bytes of this file that
// say who sends. Eager payloads are sent in one fragment with it. For larger ones UCX sends an announcement first, by
// the same lane as the eager messages, so that heads stay in order; the receiver then either reads the data (RDMA) or
// asks for it and copies it to its place (TCP). UCX's third way, that the sender writes to the receiver's memory, is
// switched off: the receiver could not take its memory back from a sender that is dead for the others but only stopped.
//
// Invariants:
//  1. Nothing is sent on an endpoint that has failed or is being closed: UCX has crashed on that.
//  2. Every request that UCX has not completed is in exactly one Send or Receive, counted or listed with its process.
//  3. retire_peer() leaves none of its process: the endpoints that its requests belong to are closed by force, which
//  makes
//     UCX complete them without the other side.
//
// A child after fork() has a copy of all this and leaves it alone: close() does nothing there.
#pragma once

#include <sys/types.h>
#include <ucp/api/ucp.h>

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "transport/fabric.hpp"
#include "transport/net/listeners.hpp"

namespace sft {

inline constexpr unsigned kUcxMessageId = 1;

class UcxFabric final : public Fabric {
public:
    UcxFabric() = default;
    ~UcxFabric() override { close(); }
    UcxFabric(const UcxFabric&) = delete;
    UcxFabric& operator=(const UcxFabric&) = delete;

    [[nodiscard]] Result<> open(const Options& options) override;
    void close() noexcept override;
    [[nodiscard]] Bytes address() const noexcept override { return address_; }
    void introduce(ProcId process, Bytes address) override;
    [[nodiscard]] bool has_listeners() const noexcept override { return is_on_tcp_; }
    [[nodiscard]] bool admit(std::span<const Bytes> addresses) override;
    [[nodiscard]] Sent send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) override;
    [[nodiscard]] std::size_t eager_bytes() const noexcept override;
    [[nodiscard]] std::size_t piece_bytes() const noexcept override;
    bool progress() override;
    [[nodiscard]] int fd() const noexcept override { return fd_; }
    [[nodiscard]] bool arm() override;
    void retire_peer(ProcId process) override;
    [[nodiscard]] bool reconnects() const noexcept override { return is_tcp_only_; }
    void reconnect(ProcId process) override;
    [[nodiscard]] std::string describe() const override { return "ucx (" + resources_ + ")"; }

private:
    // In front of every head.
    struct Prefix {
        std::int32_t from;
        std::uint32_t head_bytes;
    };
    static_assert(sizeof(Prefix) == 8);

    struct Peer {
        UcxFabric* fabric = nullptr;
        std::vector<std::byte> address;
        ucp_ep_h endpoint = nullptr;
        bool is_broken = false;
        bool is_retired = false;
        std::size_t n_sends = 0;  // that UCX has not completed
    };

    // What UCX needs until a send is complete.
    struct Send {
        UcxFabric* fabric = nullptr;
        Peer* peer = nullptr;
        std::uint64_t ticket = 0;
        std::byte header[sizeof(Prefix) + kFabricHeadBytes];
    };

    struct Receive {
        UcxFabric* fabric = nullptr;
        ProcId from = kNoProc;
        std::uint64_t ticket = 0;
        std::size_t bytes = 0;
        ucp_ep_h endpoint = nullptr;  // by which the data comes; null: it is being closed
        std::list<Receive>::iterator self;
    };

    static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
    static void on_sent(void* request, ucs_status_t status, void* send);
    static void on_received(void* request, ucs_status_t status, std::size_t bytes, void* receive);
    static ucs_status_t on_message(void* fabric, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* parameters);

    Result<> open_context();
    Result<> init_context(const std::string& devices);
    Result<> open_worker();
    Result<> open_fd();
    Result<> sign_listeners();
    bool progress_workers();
    [[nodiscard]] Peer* peer_of(ProcId process);
    bool connect(Peer& peer);
    [[nodiscard]] Sent send_at_once(Peer& peer, Bytes head, Bytes payload);
    [[nodiscard]] Sent hand_over(Peer& peer, Bytes head, Bytes payload, std::uint64_t ticket);
    void note_broken(Peer& peer);
    void take_large(Bytes head, void* data, std::size_t bytes, const ucp_am_recv_param_t* parameters);
    void end_receive(Receive& receive, bool is_whole);
    [[nodiscard]] bool is_receiving_from(ProcId process) const;
    // Starts it; reap() takes what has ended.
    void close_endpoint(ucp_ep_h endpoint, unsigned flags);
    void close_broken();
    void close_incoming(ProcId process);
    void reap();
    [[nodiscard]] Send* take_send();
    void flush();

    Options options_;
    pid_t owner_ = 0;
    std::string devices_;  // "UCX_NET_DEVICES=..."
    std::string resources_;
    std::size_t eager_bytes_ = 0;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;  // by which messages come
    ucp_worker_h out_ = nullptr;     // by which they go: over TCP another one
    int fd_ = -1;
    int own_fd_ = -1;          // the same, if it is not UCX's
    bool is_drained_ = false;  // the last look at both workers has found nothing
    bool is_on_tcp_ = false;
    bool is_tcp_only_ = false;
    std::size_t bytes_at_once_ = 0;  // so large a message has been given away at once
    std::optional<Listeners> listeners_;
    std::vector<std::byte> address_;  // the entrance, then the worker's
    std::vector<Peer> peers_;
    std::vector<Peer*> broken_;  // whose endpoints are to be closed
    std::vector<std::unique_ptr<Send>> sends_;
    std::vector<Send*> free_sends_;
    std::list<Receive> receives_;
    std::vector<void*> closing_;  // requests that are not about messages
};

}  // namespace sft
