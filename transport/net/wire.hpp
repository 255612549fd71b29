// What messages between the processes of different nodes look like: a head of 64 bytes, and for some kinds a payload.
//
// All nodes of a job have the same byte order and the same program (the start of the job compares), so a head is sent
// as it lies in memory.
//
// Fault model: anything may arrive at the address of a process, from strangers, from jobs that are over, from processes
// that have been declared dead. A head counts only with the job's secret, the number of its receiver, and a sender that
// is a process of the job; every number in it is checked against what the receiver owns before it is used (regions.hpp,
// target.cpp, requests.hpp).
//
// Fields by kind; what is not named is 0.
//
//   kind          address        length          request       operand        payload
//   put           destination    bytes           0 or id       value if small the bytes if not small
//   put_blocks    destination    blocks          0             step           the blocks without gaps
//   get           source         bytes           id
//   get_blocks    source         blocks          id            step
//   fetch         variable       condition       id            operand
//   post          variable                                     operand
//   reply                        bytes           id            value if small what was asked for if not small
//   channel       pair of PEs    bytes           sequence      lane           up to 56 bytes
//   credit        pair of PEs    messages                      lane
//   store_write   offset         bytes           id                           the bytes
//   store_read    offset         bytes           id
//   store_fold    offset         bytes           id            build          the bytes
//   ack                          n                                            n times an id, highest bit: refused
//
// small: up to 8 bytes. blocks: bytes of one in the low half, their number in the high one. pair of PEs: sender of the
// head in the low half. lane: in the low half, the channels' epoch in the high one.
//
// `done` counts the put, put_blocks and post without an id that the sender of the head has carried out, or refused, for
// its receiver, since the two began. They are carried out in the order in which they were sent. What has an id is
// answered one by one: replies by `reply`, the others in `ack`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/fabric.hpp"
#include "transport/shm/channels.hpp"

namespace sft {

inline constexpr std::uint32_t kWireMagic = 0x31746673;  // "sft1"

enum class WireKind : std::uint8_t {
    put = 1,
    put_blocks,
    get,
    get_blocks,
    fetch,
    post,
    reply,
    channel,
    credit,
    store_write,
    store_read,
    ack,
    store_fold,
};

static_assert(static_cast<std::uint8_t>(WireKind::put) == 1, "0 is no kind: a head that nobody has filled in");

inline constexpr std::uint8_t kWireRefused = 1;  // a flag of replies
inline constexpr std::uint8_t kWireAnew = 2;     // a flag of store_fold: the build begins from nothing

struct WireHead {
    std::uint32_t magic = kWireMagic;
    WireKind kind{};
    std::uint8_t operation = 0;  // AtomicOperation
    std::uint8_t width = 0;      // of an atomic
    std::uint8_t flags = 0;
    std::uint64_t secret = 0;
    std::int32_t from = -1;  // processes
    std::int32_t to = -1;
    std::uint64_t done = 0;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t request = 0;
    std::uint64_t operand = 0;
};
static_assert(sizeof(WireHead) == kMessageHeadBytes);
static_assert(std::has_unique_object_representations_v<WireHead>);
static_assert(std::is_trivially_copyable_v<WireHead>);
static_assert(offsetof(WireHead, secret) == 8 && offsetof(WireHead, from) == 16 && offsetof(WireHead, done) == 24);
static_assert(offsetof(WireHead, address) == 32 && offsetof(WireHead, operand) == 56);

// Payloads up to this travel in `operand`.
inline constexpr std::size_t kWireSmallBytes = sizeof(WireHead::operand);

inline constexpr std::uint64_t kAckRefused = std::uint64_t{1} << 63;

// Two halves of a field.
[[nodiscard]] constexpr std::uint64_t wire_pair(std::uint32_t low, std::uint32_t high) noexcept {
    return std::uint64_t{high} << 32 | low;
}
[[nodiscard]] constexpr std::uint32_t wire_low(std::uint64_t pair) noexcept { return static_cast<std::uint32_t>(pair); }
[[nodiscard]] constexpr std::uint32_t wire_high(std::uint64_t pair) noexcept {
    return static_cast<std::uint32_t>(pair >> 32);
}

// Bounds on what is under way. The sender keeps to them; they are what a receiver's memory is bounded by.
//
// Messages and bytes to one process that wait for their turn in `done`, and operations with an id.
inline constexpr std::uint64_t kWindowMessages = 1024;
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{4} << 20;
inline constexpr std::uint32_t kWindowRequests = 1024;
static_assert(kWindowBytes <= UINT32_MAX, "NetPeer::bytes_of has 32 bits");
// What is put together from several pieces, at most; each message of that kind has a buffer of its own.
inline constexpr std::size_t kPackedBytes = std::size_t{56} << 10;
static_assert(kPackedBytes <= kWindowBytes && kPackedBytes >= kChannelPayloadBytes);
static_assert(kPackedBytes % sizeof(std::uint64_t) == 0, "acknowledgements are whole ids");
// Messages of one lane and ordered pair of PEs that have not been taken out. Those that have been are told half a
// window at a time.
inline constexpr std::uint32_t kChannelWindow = 32;
inline constexpr std::uint32_t kChannelCreditStep = kChannelWindow / 2;
static_assert(std::has_single_bit(kChannelWindow), "places in the ring follow from counts that wrap around");
static_assert(kChannelCreditStep != 0 && kChannelCreditStep < kChannelWindow, "else a sender waits for ever");

static_assert(wire_low(wire_pair(7, 9)) == 7 && wire_high(wire_pair(7, 9)) == 9);

}  // namespace sft
