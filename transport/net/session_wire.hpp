// What sessions (session_fabric.hpp) put in front of the head of every packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/fabric.hpp"

namespace sft {

// Of what carries nothing (number 0), and is therefore not numbered, kept, or sent again.
enum class SessionNote : std::uint16_t {
    none,
    received,  // only says what has been received
    question,  // what has been received, of all that was sent before this? `message` is its number
    answer,    // to the question with this number
    gap,       // what comes has a higher number than what is missing
    farewell,  // the sender takes nothing more
};

struct SessionHead {
    std::uint64_t secret = 0;    // of the job
    std::uint64_t number = 0;    // of the packet, for this ordered pair of processes, from 1
    std::uint64_t received = 0;  // of the packets of the receiver of this one: all up to this number
    std::uint64_t message = 0;   // number of the large message that this is a part of; 0: a whole one
    std::uint64_t total_bytes = 0;
    std::uint64_t offset = 0;  // of the payload in that of the large message; the part with 0 has its head
    std::int32_t from = -1;
    std::int32_t to = -1;
    SessionNote note = SessionNote::none;
    std::uint16_t head_bytes = 0;  // of the message
    std::uint32_t unused = 0;
};
static_assert(sizeof(SessionHead) == kFabricHeadBytes - kMessageHeadBytes);
static_assert(std::has_unique_object_representations_v<SessionHead>);
static_assert(std::is_trivially_copyable_v<SessionHead>);
static_assert(offsetof(SessionHead, number) == 8 && offsetof(SessionHead, message) == 24);
static_assert(offsetof(SessionHead, from) == 48 && offsetof(SessionHead, head_bytes) == 58);
static_assert(kMessageHeadBytes <= UINT16_MAX, "SessionHead::head_bytes");
static_assert(SessionNote::none < SessionNote::received && SessionNote::received < SessionNote::question &&
                  SessionNote::received < SessionNote::gap,
              "of two notes that are due the one that says more stays");

// What one process keeps for another one that has not said that it has it, at most.
inline constexpr std::size_t kSessionWindowBytes = std::size_t{4} << 20;
inline constexpr std::size_t kSessionWindowPackets = 4096;
// A receiver that has nothing to send says what it has received after so much.
inline constexpr std::size_t kSessionToldBytes = kSessionWindowBytes / 4;
inline constexpr std::uint64_t kSessionToldPackets = 256;
static_assert(kSessionToldBytes < kSessionWindowBytes && kSessionToldPackets < kSessionWindowPackets,
              "else both sides wait for each other");

}  // namespace sft
