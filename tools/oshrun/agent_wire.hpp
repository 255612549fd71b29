// What the guardian and the agents of other hosts say to each other: frames over TCP, a header and a payload of a fixed
// layout for each kind. agent_session.hpp makes one conversation of several connections.
//
// Fault model: either end may vanish or fall silent at any time, and anybody on the network may connect and send
// anything. Nothing is believed before the first frame has shown the secret, which has two halves: one that the agent
// shows and one that the guardian shows. Sizes are checked before anything is read or stored. What is said is not
// encrypted, as what the processes of the job say to each other is not either.
//
// Both ends are of one build, on machines of one kind; the first frame says so.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/clock.hpp"
#include "base/job_channel.hpp"
#include "tools/common/fd.hpp"

namespace sft::tools {

enum class FrameKind : std::uint16_t {
    hello = 1,     // agent: HelloFrame, the first frame of a connection; once more when it has its own pid
    welcome,       // guardian: WelcomeFrame, its answer
    event,         // agent: EventFrame, a report of a process
    ended,         // agent: EndedFrame, the end of a process
    answer,        // guardian: AnswerFrame, to a process that waits to become the program
    signal,        // guardian: SignalFrame
    watch,         // guardian: WatchFrame: end processes that stand still from now on
    start,         // guardian: StartFrame and the words of a command, each with a zero byte behind it
    started,       // agent: StartedFrame
    output,        // agent: OutputFrame and bytes that a process has written which it has started
    input,         // guardian: standard input of PE 0; empty: its end
    input_taken,   // agent: CountFrame, so many bytes of it have been handed on
    input_closed,  // agent: PE 0 reads no more
    output_taken,  // guardian: CountFrame, so many bytes of it have been handed on
    remark,        // agent: a line for the user
    alive,         // both, AliveFrame
    end,           // guardian, empty: the job is over, leave nothing behind
    peer,          // guardian: PeerFrame, another agent, by which it can be reached
    forward        // agent to agent: ForwardFrame; what follows is for the guardian, and what it says comes back
};

struct FrameHeader {
    std::uint32_t magic = 0x4153464f;  // "OFSA"
    FrameKind kind{};
    std::uint16_t version = 2;
    std::uint32_t bytes = 0;  // of the payload
    std::uint32_t reserved = 0;
    std::uint64_t number = 0;  // in the conversation; 0: not a part of it
};
static_assert(sizeof(FrameHeader) == 24);

// How often either end says that it is alive, per time of silence that makes it lost.
inline constexpr std::int64_t kBeatsPerBound = 8;
// Without such a time.
inline constexpr std::int64_t kBeatOfNone_ns = 1'000'000'000;
[[nodiscard]] constexpr std::int64_t beat_period_ns(std::uint32_t silence_ms) noexcept {
    return silence_ms == 0 ? kBeatOfNone_ns : silence_ms * kNsPerMs / kBeatsPerBound;
}

inline constexpr std::size_t kFramePayloadMax = 1U << 20;

using SecretHalf = std::array<std::uint8_t, 16>;

struct HelloFrame {
    SecretHalf secret{};
    std::uint32_t event_layout = JobEvent{}.layout;
    std::int32_t pid = -1;
    std::int32_t pretended_node = -1;  // an agent on the guardian's own machine; -1: another host
    std::uint32_t port = 0;            // where it connects others on to the guardian; 0: it does not
    std::uint64_t start_time = 0;      // of the agent
    std::int32_t number = -1;          // of the host, as the welcome has said; -1: this is the first connection
    std::uint32_t reserved = 0;
    std::uint64_t taken = 0;  // of the guardian's frames
    char host[256] = {};
};
static_assert(sizeof(HelloFrame) == 312);

struct WelcomeFrame {
    SecretHalf secret{};
    std::int64_t clock_ns = 0;  // CLOCK_MONOTONIC of the guardian
    std::uint32_t silence_ms = 0;
    std::int32_t number = -1;  // of the host
    std::uint64_t taken = 0;   // of the agent's frames
    char boot_id[40] = {};     // the guardian's: with the same one, the clocks are one clock
};
static_assert(sizeof(WelcomeFrame) == 80);

struct AliveFrame {
    std::uint64_t taken = 0;  // the number of the last frame of the other end
};

struct PeerFrame {
    std::uint32_t port = 0;
    char address[64] = {};  // in digits
};
static_assert(sizeof(PeerFrame) == 68);

struct ForwardFrame {
    SecretHalf secret{};
};

struct EventFrame {
    std::int32_t connection = -1;
    std::uint32_t reserved = 0;
    JobEvent event;
};
static_assert(sizeof(EventFrame) == 520);

struct EndedFrame {
    std::int32_t pid = -1;
    std::int32_t reason = 0;  // FailureReason::status()
};
static_assert(sizeof(EndedFrame) == 8);

enum class Answer : std::uint32_t { go, go_with_input, no };
struct AnswerFrame {
    std::int32_t connection = -1;
    Answer answer{};
};
static_assert(sizeof(AnswerFrame) == 8);

enum class SignalScope : std::uint32_t {
    one,          // the process with that pid
    one_stopped,  // it, if it is stopped
    all,          // all processes of the job
    leftovers     // and what they have left behind
};
struct SignalFrame {
    SignalScope scope{};
    std::int32_t pid = -1;
    std::int32_t number = 0;
};
static_assert(sizeof(SignalFrame) == 12);

struct WatchFrame {
    std::uint32_t bound_ms = 0;
};

struct StartFrame {
    std::int32_t rank = -1;
    std::int32_t donor_pid = -1;
    std::int32_t donor_fd = -1;
};
static_assert(sizeof(StartFrame) == 12);

struct StartedFrame {
    std::int32_t rank = -1;
    std::int32_t pid = -1;  // -1: could not be started
    std::int32_t error_number = 0;
};
static_assert(sizeof(StartedFrame) == 12);

struct OutputFrame {
    std::uint32_t descriptor = 0;  // 1 or 2
};

struct CountFrame {
    std::uint32_t bytes = 0;
};

struct Frame {
    FrameKind kind{};
    std::string payload;
    std::uint64_t number = 0;
};

template <class T>
[[nodiscard]] std::string with_part(const T& part, std::string_view more) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::string payload(reinterpret_cast<const char*>(&part), sizeof part);
    payload += more;
    return payload;
}

// The fixed part at the beginning of a payload; nothing if it is too short, or not as long as it has to be.
template <class T>
[[nodiscard]] std::optional<T> fixed_part(const Frame& frame, bool has_more = false) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (frame.payload.size() < sizeof(T) || (!has_more && frame.payload.size() != sizeof(T))) {
        return std::nullopt;
    }
    T part;
    std::memcpy(&part, frame.payload.data(), sizeof part);
    return part;
}

// A connection with whole frames in both directions; never blocks.
class FrameStream {
public:
    enum class State { open, closed, broken };

    FrameStream() = default;
    // payload_max: of what comes in, until believe() is called.
    explicit FrameStream(Fd fd, std::size_t payload_max = kFramePayloadMax)
        : fd_(std::move(fd)), payload_max_(payload_max) {}

    void believe() noexcept { payload_max_ = kFramePayloadMax; }
    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(fd_); }
    void close() noexcept { fd_.reset(); }
    // For somebody who goes on with the connection: it, and what has been read of it and not taken.
    [[nodiscard]] Fd release() noexcept { return std::move(fd_); }
    [[nodiscard]] std::string take_rest() { return std::exchange(in_, {}); }

    // Reads what is there. closed: the other end has gone, but whole frames may still be here.
    [[nodiscard]] State receive();
    // The next whole frame; nothing: not here yet, or broken (then is_broken): not of this protocol.
    [[nodiscard]] std::optional<Frame> next();
    [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }

    // Queues, and sends what can be sent. A stream that has gone takes everything in silence.
    void send(FrameKind kind, std::string_view payload = {}, std::uint64_t number = 0);
    template <class T>
    void send(FrameKind kind, const T& part,
              std::string_view more = {}) requires std::is_trivially_copyable_v<T> && std::is_class_v<T> {
        send(kind, std::string_view(with_part(part, more)));
    }
    void flush();
    [[nodiscard]] bool has_to_send() const noexcept { return !out_.empty(); }

private:
    Fd fd_;
    std::size_t payload_max_ = kFramePayloadMax;
    std::string in_;
    std::string out_;
    bool is_broken_ = false;
};

// Takes as long for a wrong one as for a right one.
[[nodiscard]] bool are_equal(const SecretHalf& a, const SecretHalf& b) noexcept;

// ---- how an agent finds the guardian: the text of the variable kGuardianVariable ----

// Removed from the environment before a process becomes the program.
inline constexpr const char* kGuardianVariable = "OSHRUN_GUARDIAN";

struct GuardianAddress {
    std::string address;  // IPv4 or IPv6, in digits
    std::uint16_t port = 0;
    SecretHalf agent_secret{};     // shown by agents
    SecretHalf guardian_secret{};  // shown by the guardian
    std::string host;              // its name

    friend bool operator==(const GuardianAddress&, const GuardianAddress&) = default;
};

[[nodiscard]] std::string to_text(const GuardianAddress& guardian);
[[nodiscard]] std::optional<GuardianAddress> parse_guardian_address(std::string_view text);

}  // namespace sft::tools
