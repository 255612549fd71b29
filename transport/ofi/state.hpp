// What a fabric on libfabric keeps of processes, messages and what is with the provider.
#pragma once

#include <rdma/fabric.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "transport/ofi/ofi_fabric.hpp"
#include "transport/ofi/wire.hpp"

namespace sft::ofi {

// Memory for what arrives: one packet each. While one is being emptied and posted again the others take in. They are
// not larger ones that take many packets (FI_MULTI_RECV), because libfabric 1.17 then keeps for itself that a buffer is
// used up when the connection of its last packet breaks: after four of these a process would receive nothing more.
inline constexpr std::size_t kBuffers = 32;

// With the provider at a time, per receiver. Parts are bounded more closely: what is behind them has to wait.
inline constexpr int kPacketsPerPeer = 32;
inline constexpr int kPartsPerPeer = 4;
// Small messages that are copied for a receiver that does not keep up; of further ones the sender has to keep the
// bytes.
inline constexpr std::size_t kCopiesPerPeer = 64;
static_assert(kPartsPerPeer < kPacketsPerPeer, "a small message does not stand behind a large one");

// What is with the provider. It comes back in a completion as the address of its context.
struct Operation {
    fi_context2 context{};
    bool is_receive = false;

    static Operation* of(void* op_context) noexcept { return static_cast<Operation*>(op_context); }
};
static_assert(offsetof(Operation, context) == 0);

struct OfiFabric::Buffer : Operation {
    Buffer() : bytes(std::make_unique_for_overwrite<std::byte[]>(kPacketBytes)) { is_receive = true; }
    std::unique_ptr<std::byte[]> bytes;
};

// A message that could not leave at once.
struct OfiFabric::Message {
    std::array<std::byte, kFabricHeadBytes> head{};
    std::size_t head_bytes = 0;
    Bytes payload;
    std::vector<std::byte> copy;  // of the payload, if that could be copied
    std::uint64_t ticket = 0;
    bool wants_sent = false;     // the sender keeps the payload until it is told
    std::uint64_t number = 0;    // 0: small
    std::size_t bytes_left = 0;  // have been given to the provider
    int parts_with_provider = 0;
    bool has_begun = false;

    [[nodiscard]] bool has_left() const noexcept { return has_begun && bytes_left == payload.size(); }
};

struct OfiFabric::Packet : Operation {
    Peer* to = nullptr;
    std::shared_ptr<Message> message;  // whose payload the provider reads in its place
    std::uint64_t ticket = 0;          // in a session, of a payload that the provider reads in its place
    bool is_in_place = false;
    std::size_t bytes_used = 0;
    std::array<std::byte, kPacketHeadBytes + kEagerBytes> bytes;

    void begin(const PacketHead& packet_head) noexcept;
    void append(Bytes more) noexcept;
};

struct OfiFabric::Incoming {
    std::byte* place = nullptr;  // null: nobody wants it
    std::uint64_t ticket = 0;
    std::size_t bytes = 0;
    std::size_t bytes_here = 0;
};

struct OfiFabric::Peer {
    ProcId process = kNoProc;
    // Sending.
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    std::uint64_t key = 0;
    bool is_gone = false;
    bool is_busy = false;      // in busy_
    std::uint64_t number = 0;  // of the next packet
    std::uint64_t n_large = 0;
    int n_with_provider = 0;
    int parts_with_provider = 0;
    std::int64_t refused_since_ns = 0;  // the provider has nothing for it and takes nothing; 0: it does
    std::deque<std::shared_ptr<Message>> to_begin;
    std::deque<std::shared_ptr<Message>> begun;
    std::vector<std::shared_ptr<Message>> waiting;  // those whose senders keep the payload

    // Receiving.
    bool is_mute = false;  // it is dead, or something of it was lost: nothing more is taken
    std::uint64_t number_to_come = 0;
    std::map<std::uint64_t, Incoming> incoming;

    [[nodiscard]] bool has_queue() const noexcept { return !to_begin.empty() || !begun.empty(); }
};

}  // namespace sft::ofi
