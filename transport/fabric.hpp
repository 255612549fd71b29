// What the network code needs of a communication library (UCX, libfabric): messages between the processes of a job that
// run on different nodes. What the messages mean is net/network.hpp; a fabric only moves them.
//
// A message is a head of at most kFabricHeadBytes and a payload of any size. Small payloads ("eager", up to
// eager_bytes()) arrive in the fabric's own memory; of a larger one the receiver first sees the head and says where the
// payload is to go, so it is not copied on the way.
//
// Order: for each pair of processes the receiver sees heads in the order in which they were sent. Payloads of large
// messages may arrive later than what was sent after them; FabricReceiver::arrived says when.
//
// Fault model: a process may die, stop, or be cut off at any moment. What is sent to it is then lost without a word, or
// reported as gone, sooner or later or never: detection is not the fabric's business. A connection between two
// processes that live may break, too, and takes with it what was under way; who wants more puts a session in front of
// the fabric (net/session_fabric.hpp), if that can connect again (reconnects()). retire_peer() is how the owner says
// that a process is dead; after that nothing of it is delivered, nothing that it has sent can change memory any more,
// and everything that was under way to it is given back (FabricReceiver::sent).
//
// Strangers: a fabric may deliver whatever arrives at its address; the receiver checks a secret in every head, and
// sizes before it names a place. A library that does what strangers ask for without asking its owner must not be
// reached by them: admit().
//
// Threads: none of these functions may run at the same time as another one (the owner's lock), except that any thread
// may wait for fd().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace sft {

// Of what the owner says with a message; a session puts as much again in front of it.
inline constexpr std::size_t kMessageHeadBytes = 64;
inline constexpr std::size_t kFabricHeadBytes = 2 * kMessageHeadBytes;

using Bytes = std::span<const std::byte>;

// Called from inside progress(), send() and retire_peer() of the fabric.
class FabricReceiver {
public:
    virtual ~FabricReceiver() = default;

    // An eager message. The bytes are good until this returns.
    virtual void message(Bytes head, Bytes payload) = 0;

    // The head of a large message. Where its payload is to go, or null: it is dropped. `from` must be set if it is not
    // null: retire_peer(from) gives the place back. `ticket` comes back with arrived().
    struct Place {
        std::byte* address = nullptr;
        ProcId from = kNoProc;
        std::uint64_t ticket = 0;
    };
    [[nodiscard]] virtual Place place(Bytes head, std::size_t payload_bytes) = 0;
    // The payload is at its place (is_whole), or will never be, and nothing is written there any more.
    virtual void arrived(std::uint64_t ticket, bool is_whole) = 0;

    // The payload of a send that was pending may be changed again. Says nothing about its having arrived.
    virtual void sent(std::uint64_t ticket) = 0;

    // The connection to `process` has broken, and some of what was sent to it may be lost.
    virtual void broken(ProcId /*process*/) {}
    // Of a session: for a while (Fabric::Options::lost_ms) every attempt to connect to `process` again has failed. Said
    // once, until a message has got through.
    virtual void lost(ProcId /*process*/) {}
    // Of a session: something has come that does not belong to this job.
    virtual void stranger() {}
};

// Who carries out an operation on the memory of another process: that process, which a message tells to; or the wire,
// without its part.
enum class Way : std::uint8_t { by_message, one_sided };
enum class WireOperation : std::uint8_t { put, get, atomic, message };

inline constexpr std::int64_t kSessionLostMs = 10'000;

class Fabric {
public:
    struct Options {
        ProcId self = kNoProc;
        std::int32_t n_slots = 0;  // processes have numbers below this
        FabricReceiver* receiver = nullptr;
        std::string interface;     // name of the network interface to use; empty: the fabric's own choice
        std::string address;       // numeric address of this process's node on it, if known
        bool starts_shut = false;  // nobody can connect before admit()
        bool is_signed = false;    // only who knows the secret can connect; open() fails where that cannot be
        std::uint64_t secret = 0;  // of the job, for sessions and signatures
        std::int64_t lost_ms = kSessionLostMs;
        // A session is in front: it keeps what is sent until it has arrived, and calls reconnect() after broken().
        bool is_in_session = false;
    };

    virtual ~Fabric() = default;

    // The error is one clause.
    [[nodiscard]] virtual Result<> open(const Options& options) = 0;
    virtual void close() noexcept = 0;

    // By which others reach this process; at most kFabricAddressBytes.
    [[nodiscard]] virtual Bytes address() const noexcept = 0;
    // How `process` is reached. Before the first send to it; connects nothing yet.
    virtual void introduce(ProcId process, Bytes address) = 0;

    // Whether admit() has anything to do here.
    [[nodiscard]] virtual bool has_listeners() const noexcept { return false; }
    // From now on only processes of the nodes that these are addresses of can connect. False: the system does not let
    // others be kept out.
    [[nodiscard]] virtual bool admit(std::span<const Bytes> /*addresses*/) { return true; }

    enum class Sent {
        done,     // head and payload have been taken: the payload may be changed
        pending,  // receiver.sent(ticket) will tell
        gone,     // the process was forgotten, or its connection is broken
        full,     // in a session: nothing has been sent; to be tried again after progress() has done something
    };
    // Never waits for the other side. In a session no payload is larger than eager_bytes(). head.size() <=
    // kFabricHeadBytes.
    [[nodiscard]] virtual Sent send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) = 0;
    // Of one pair of processes and one kind of operation. One-sided may be only what keeps the fault rules all the
    // same: after retire_peer() nothing of the dead one changes memory, atomics are atomic with those of the target's
    // own node, and no address outside of the regions is reached. No fabric here does, so all is by message.
    [[nodiscard]] virtual Way way_to(ProcId /*process*/, WireOperation /*operation*/) const noexcept {
        return Way::by_message;
    }
    // Payloads up to this travel with their heads.
    [[nodiscard]] virtual std::size_t eager_bytes() const noexcept = 0;
    // Of data that may be divided, messages of so many bytes travel fastest.
    [[nodiscard]] virtual std::size_t piece_bytes() const noexcept { return std::size_t{1} << 20; }

    // Takes in what is there, moves on what is under way. True: something happened.
    virtual bool progress() = 0;
    // Readable when there may be something to do. Sleeping on it is allowed only after arm() gave true: then whatever
    // comes later makes it readable.
    [[nodiscard]] virtual int fd() const noexcept = 0;
    [[nodiscard]] virtual bool arm() = 0;

    virtual void retire_peer(ProcId process) = 0;

    // In a session a broken connection can be made anew: the next send() connects. What was under way may arrive late,
    // may have been lost, in any part, and a payload that was pending stays so until sent() says otherwise.
    [[nodiscard]] virtual bool reconnects() const noexcept { return false; }
    virtual void reconnect(ProcId /*process*/) {}

    // For `shmem-ft info` and SHMEM_DEBUG: "ucx (tcp over eth0)".
    [[nodiscard]] virtual std::string describe() const = 0;
};

// Process addresses of both fabrics fit; longer ones are an error at open().
inline constexpr std::size_t kFabricAddressBytes = 512;

}  // namespace sft
