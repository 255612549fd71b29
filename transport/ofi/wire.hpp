// What fabrics on libfabric say to each other: packets, of which a small message is one and a large one several.
//
// A message begins with a packet that has its head and the first part of its payload; packets with the rest follow, in
// order, but packets of other messages may come between them. Each sender numbers its packets to each receiver. The
// provider keeps their order (FI_ORDER_SAS), so a number that is not the expected one means that something was lost:
// nothing is taken from that sender any more, because what comes later may rest on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/fabric.hpp"

namespace sft::ofi {

// Sender and receiver are of one build: the layout of memory is the form on the wire.
struct PacketHead {
    std::uint64_t key = 0;      // of the receiver: from its address, so strangers do not know it
    std::uint64_t number = 0;   // of the packet, for this pair of processes, from 0
    std::uint64_t message = 0;  // number of the large message that it is a part of, for this pair; 0 for a small one
    std::uint64_t total_bytes = 0;
    std::uint64_t offset = 0;  // in the payload; what begins a message has 0
    std::int32_t from = -1;
    std::uint16_t head_bytes = 0;  // of the message; of its first packet only
    std::uint16_t is_first = 0;
};
static_assert(sizeof(PacketHead) == 48 && std::is_trivially_copyable_v<PacketHead>);
static_assert(std::has_unique_object_representations_v<PacketHead>);
static_assert(kFabricHeadBytes <= UINT16_MAX, "PacketHead::head_bytes");
static_assert(offsetof(PacketHead, number) == 8 && offsetof(PacketHead, from) == 40);

// What travels with the head in the memory of the fabric, so that the sender's payload is free at once.
inline constexpr std::size_t kEagerBytes = 8192;
// Payload of one packet of a large message.
inline constexpr std::size_t kPartBytes = std::size_t{256} << 10;

inline constexpr std::size_t kPacketHeadBytes = sizeof(PacketHead) + kFabricHeadBytes;
inline constexpr std::size_t kPacketBytes = kPacketHeadBytes + kPartBytes;
static_assert(kEagerBytes <= kPartBytes && kPacketHeadBytes + kEagerBytes <= kPacketBytes);

// What others need to reach a process: its entrance (net/listeners.hpp), the key, and the provider's address behind it.
struct AddressHead {
    std::uint64_t key = 0;
};
static_assert(sizeof(AddressHead) == 8 && std::is_trivially_copyable_v<AddressHead>);
inline constexpr std::size_t kProviderAddressBytes = kFabricAddressBytes - sizeof(AddressHead);

}  // namespace sft::ofi
