// What the agreement says to other processes, and its form on the wire (docs/protocols.md has the table).
//
// The form: little-endian, fixed fields, then lists with their lengths in front. decode() takes anything a socket may
// bring: a message is complete and within its limits, or it is refused.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

// A leader's attempt to lead. Leaders follow each other in the order of their turns, so the later leader's ballots are
// higher whatever numbers the earlier one has used; a leader never uses a number twice.
struct Ballot {
    std::int32_t leader = 0;  // its process number
    std::uint32_t number = 0;
    std::int32_t turn = leader;  // of the leader (JobShape::turn_of)

    friend constexpr bool operator==(Ballot, Ballot) noexcept = default;
    friend constexpr auto operator<=>(Ballot a, Ballot b) noexcept {
        return std::tie(a.turn, a.leader, a.number) <=> std::tie(b.turn, b.leader, b.number);
    }
};

// The sum of what the processes of a subtree are ready for. Goal::any adds to everything.
struct Readiness {
    Goal goal = Goal::none;  // none: somebody is not ready
    bool is_mixed = false;   // they are ready for different things
    std::uint64_t hash = 0;  // of what they ask for: the list of a restart

    friend bool operator==(const Readiness&, const Readiness&) noexcept = default;
};

// The sum of what the processes of a subtree have accepted as the next value.
struct Acceptance {
    enum class Kind : std::uint8_t {
        unset,     // of an empty subtree
        by_ready,  // what follows from being ready; nobody has proposed anything else
        proposal,  // all have accepted the proposal made in `ballot`
        differs,
    };
    Kind kind = Kind::unset;
    Ballot ballot;

    friend bool operator==(const Acceptance&, const Acceptance&) noexcept = default;
};

// What a process says of a node that it is asked about.
enum class Testimony : std::uint8_t {
    none,    // nothing: it does not know it well enough
    heard,   // it has heard that node lately
    silent,  // it has listened to that node for some time, and heard nothing
};

[[nodiscard]] Readiness sum(const Readiness& a, const Readiness& b) noexcept;
[[nodiscard]] Acceptance sum(const Acceptance& a, const Acceptance& b) noexcept;

struct EndRequest {
    bool is_set = false;
    EndReason reason = EndReason::none;
    ProcId from = kNoProc;
    std::int32_t exit_status = 0;

    friend bool operator==(const EndRequest&, const EndRequest&) noexcept = default;
};

enum class MessageKind : std::uint8_t {
    ready = 1,    // up the tree: my subtree is ready
    collect,      // down: a new ballot, with the last decided value and the deaths its leader knows
    report,       // up: the answer of my subtree to collect
    propose,      // down: accept this as the next value
    accepted,     // up: my subtree has accepted it
    decide,       // down: this is the next value
    deaths,       // to the leader: have you heard?
    end_request,  // to the leader
    census,       // between spares when every holder is dead: what have you heard last?
    census_reply,
    excluded,  // to a process that has been declared dead: stop
    heartbeat,
    join,           // to everybody: a spare that has come while the job runs
    ping,           // to another node: send me a heartbeat
    news,           // of deaths, to those who would lead next: has your leader heard?
    stalled,        // to another node: data from mine to yours does not get through (flow_watch.hpp)
    ballot_wanted,  // to the leader: words of readiness will not do for this value (agreement.hpp)
};
// Without those that a job on its own, or on one node, does not send.
inline constexpr std::uint8_t kMessageKinds = static_cast<std::uint8_t>(MessageKind::heartbeat);
inline constexpr MessageKind kLastMessageKind = MessageKind::ballot_wanted;
[[nodiscard]] const char* name_of(MessageKind kind) noexcept;

struct Message {
    MessageKind kind{};
    Ballot ballot;
    std::uint64_t index = 0;  // of `state` if there is one; else of the last value that the sender knows to be decided
    Readiness ready;
    Acceptance accepted;
    EndRequest end;
    std::optional<JobState> state;
    std::vector<Death> deaths;  // sorted by process
    NodeId node = kNoNode;      // join: where the sender runs; ping, heartbeat: what else is asked about, if any is
    std::int64_t asked_ns = 0;  // ping: the sender's time, which heartbeat brings back; stalled: for how long
    Testimony testimony = Testimony::none;  // heartbeat: about `node`

    friend bool operator==(const Message&, const Message&) = default;
};

inline constexpr std::size_t kMessageBytesMax = 160 * 1024;

[[nodiscard]] std::vector<std::byte> encode(const Message& message);
// Nothing: this is no message.
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte> bytes);

}  // namespace sft
