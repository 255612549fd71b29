// Messages by libfabric: packets (wire.hpp) through one reliable endpoint per process.
//
// The provider is never told where a payload is to go. It puts packets one behind the other into buffers of this class,
// from which parts of large messages are copied to their places while they are in the cache. A receive that is under
// way cannot be taken back for certain in libfabric (fi_cancel finds only what has not begun, and the sender may have
// been stopped in the middle), so this copy is what makes the promise of retire_peer() certain with every provider; and
// there is no round trip before the data.
//
// Order: what is queued for a process leaves in the order of the calls, first packets of messages before further parts
// of large ones. Few packets are with the provider at a time, so a small message does not stand behind a large one.
//
// Invariants: a payload is read by the provider only between send() and receiver.sent(), except that packets which were
// with the provider when their receiver was forgotten may still be read, and then go to a process that is dead.
// What was lost is never skipped: after an error to a process everything further to it is gone. In a session
// (net/session_fabric.hpp) it is the session that sees to that: nothing is queued here, errors are reported, and
// packets are taken with whatever number they have.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "transport/fabric.hpp"
#include "transport/net/listeners.hpp"
#include "transport/ofi/device.hpp"
#include "transport/ofi/wire.hpp"

namespace sft::ofi {

class OfiFabric final : public Fabric {
public:
    OfiFabric();
    ~OfiFabric() override;

    [[nodiscard]] Result<> open(const Options& options) override;
    void close() noexcept override;
    Bytes address() const noexcept override { return address_; }
    void introduce(ProcId process, Bytes address) override;
    // Over UDP a filter that looks at connections would let everything through.
    bool has_listeners() const noexcept override { return device_.is_on_tcp(); }
    bool admit(std::span<const Bytes> addresses) override;
    Sent send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) override;
    std::size_t eager_bytes() const noexcept override {
        return options_.is_in_session && device_.gathers() ? kPartBytes : kEagerBytes;
    }
    bool progress() override;
    int fd() const noexcept override { return epoll_fd_; }
    bool arm() override;
    void retire_peer(ProcId process) override;
    // The provider connects again by itself.
    bool reconnects() const noexcept override { return true; }
    std::string describe() const override { return "ofi (" + device_.name() + ")"; }

private:
    struct Message;
    struct Packet;
    struct Buffer;
    struct Incoming;
    struct Peer;
    enum class Posted { yes, not_now, broken };

    [[nodiscard]] Result<> guard_listeners();
    [[nodiscard]] Result<> open_fds();
    [[nodiscard]] Result<> post_buffers();
    [[nodiscard]] Peer* peer(ProcId process) noexcept;

    // Sending (sending.cpp).
    [[nodiscard]] Packet& take_packet(Peer& peer);
    [[nodiscard]] Packet& begin_message(Peer& peer, Bytes head, std::size_t payload_bytes);
    void give_packet(Packet& packet) noexcept;
    [[nodiscard]] Sent send_at_once(Peer& peer, Bytes head, Bytes payload, std::uint64_t ticket);
    [[nodiscard]] Posted post_small(Peer& peer, Bytes head, Bytes payload);
    [[nodiscard]] Posted post_part(Peer& peer, const std::shared_ptr<Message>& message);
    [[nodiscard]] Posted post(Packet& packet, Bytes in_place);
    void packet_has_left(Packet& packet);
    void tell_if_finished(Peer& peer, Message& message);
    void flush(Peer& peer);
    void flush_all();
    void break_off(Peer& peer);
    void tell_sent();
    void linger() noexcept;

    [[nodiscard]] bool read_queue();
    void handle_error();
    void take_in(Bytes bytes);
    void begin_large(Peer& from, const PacketHead& packet_head, Bytes head, Bytes part);
    void add_part(Peer& from, const PacketHead& packet_head, Bytes part);
    void stop_listening_to(Peer& from);
    [[nodiscard]] ssize_t post(Buffer& buffer) noexcept;
    [[nodiscard]] bool has_no_connection(Peer& peer) const noexcept;
    void post_again();

    Options options_;
    Device device_;
    pid_t owner_ = 0;  // the process that has opened it
    std::uint64_t key_ = 0;
    std::optional<Listeners> listeners_;
    std::vector<std::byte> address_;  // the entrance, the key, then the provider's
    int epoll_fd_ = -1;
    int timer_fd_ = -1;
    std::int64_t retry_ms_ = 1;
    bool is_timer_set_ = false;
    bool is_closing_ = false;
    bool is_refused_ = false;  // in a session: the provider took no more packets

    std::vector<std::unique_ptr<Peer>> peers_;  // by process number; null: not introduced
    std::vector<Peer*> busy_;                   // with something in their queues
    std::vector<std::uint64_t> to_tell_;        // tickets for receiver.sent()
    std::vector<ProcId> broken_;                // in a session, to be told
    std::vector<std::unique_ptr<Packet>> packets_;
    std::vector<Packet*> free_packets_;
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::vector<Buffer*> buffers_to_post_;
};

}  // namespace sft::ofi
