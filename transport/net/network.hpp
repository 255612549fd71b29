// One-sided operations on the memory of processes of other nodes, made of a fabric's messages (fabric.hpp).
//
// The target's side of every operation runs in the target's process, with processor atomics and ordinary stores, in
// whichever thread is in progress() there: one that waits in a routine of the library, or else the progress thread,
// which sleeps while nothing arrives. So an operation is atomic with respect to those of the same node, the program of
// the target need not take part, and the target decides what may touch its memory: it drops what does not carry the
// job's secret, what comes from a process that it knows to be dead, and what lies outside of its regions.
//
// Order and completion. Heads arrive in order, so a small put, an atomic or a signal is carried out after everything
// that was sent before it to the same PE, except for the payloads of large puts. Every operation is acknowledged, in
// batches; quiet() waits until all are. fence() waits only if a large put is still on its way.
//
// Fault rule: a put to a PE that is not reachable is dropped, a get leaves the destination as it was, a fetching atomic
// gives 0. All waits in here end when the other side's death becomes known (retire_peer()), or a fault is pending in
// the gate for those that say so.
//
// Threads: every function may be called by any thread at any time between open() and close(), unless it says otherwise.
// One mutex protects all; it is not held while waiting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "transport/fabric.hpp"
#include "transport/shm/channels.hpp"
#include "transport/shm/peer_table.hpp"
#include "transport/shm/wait.hpp"
#include "transport/shm/write_marks.hpp"

namespace sft {

enum class AtomicOperation : std::uint8_t { fetch, set, swap, compare_swap, add, bit_and, bit_or, bit_xor };

// block_bytes at a time; steps in bytes.
struct NetBlocks {
    std::size_t block_bytes = 0;
    std::size_t n_blocks = 0;
    std::ptrdiff_t dest_step = 0;
    std::ptrdiff_t source_step = 0;
};

// What folds do to a store. Called with the lock of the network.
class StoreFolder {
public:
    // Adds the bytes to what is at the offset; false: they do not belong there.
    [[nodiscard]] virtual bool fold(std::size_t offset, std::uint64_t build, bool is_anew, const std::byte* data,
                                    std::size_t bytes) noexcept = 0;

protected:
    ~StoreFolder() = default;
};

class Network {
public:
    struct Options {
        ProcId self = kNoProc;
        PeId me = kNoPe;  // a spare has none until set_self()
        std::int32_t n_pes = 0;
        std::int32_t n_slots = 0;
        std::uint64_t secret = 0;  // of the job
        std::unique_ptr<Fabric> fabric;
        std::string interface;
        std::string address;
        bool starts_shut = false;  // nobody can connect before admit(), if the fabric has listeners
        bool is_signed = false;    // Fabric::Options
        AddressRange heap;         // what others may write to and read
        AddressRange globals;
        Doorbell* doorbell = nullptr;  // of this process: rung when a message has come or memory has changed
        const FaultGate* gate = nullptr;
        WaitStyle wait_style{.spins = 400, .yields = 0};  // turns before a thread that waits in here sleeps
        // How a process is reached (Fabric::address()); asked until it is known, before the first message to it. Empty:
        // not known. Called with the lock of the network: it must not wait for anybody who may be in here.
        std::function<Bytes(ProcId)> address_of;
        // For lost_ms every attempt to connect again to a process that is not known to be dead has failed, or the
        // fabric cannot connect again; whatever waits for that process goes on waiting, for a connection or for
        // retire_peer(). Called by the progress thread, without the lock, once until something has got through. May be
        // empty.
        std::function<void(ProcId)> connection_lost;
        std::int64_t lost_ms = kSessionLostMs;
    };

    Network();
    ~Network();
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    // Starts the progress thread as well.
    [[nodiscard]] Result<> open(Options options);
    void close() noexcept;
    [[nodiscard]] Bytes address() const noexcept;
    [[nodiscard]] std::string describe() const;
    // What others write here is written by threads of this process, so its page tables tell of it.
    [[nodiscard]] bool writes_by_threads() const;

    // ---- who is where: the runtime ----

    // Whether admit() has anything to do.
    [[nodiscard]] bool has_listeners() const noexcept;
    // Only processes on the nodes of these can connect, and they only from now on. False: the system does not let
    // others be kept out.
    [[nodiscard]] bool admit(const std::vector<ProcId>& processes);

    // The PE that this process is, for the channels.
    void set_self(PeId me);

    // `pe` is held by `process`, on another node. kNoProc: it is not reached through the network.
    void set_holder(PeId pe, ProcId process);
    [[nodiscard]] bool is_reachable(PeId pe) const noexcept;
    // `process` is dead. When this returns, nothing that it has sent can change memory any more, everything that waits
    // for it has been told, and what it sends is dropped.
    void retire_peer(ProcId process);
    // The fault is over: channels begin at zero. `epoch` is the same on all PEs and larger than at any reset before, or
    // the same again while nobody has used the channels since; at first it is 0. What was sent in an earlier epoch is
    // dropped, whenever it arrives; what others send that are ahead waits for this PE's reset. Not while a thread is in
    // send() or try_receive().
    void reset_channels(std::uint32_t epoch);
    // Memory that others may read and write by read_store and write_store: the shadows that this process keeps. When
    // this returns, nobody writes to what was the store before, unless it is part of the new one. What is being read
    // from it by others may still be: unmap it only when they are known to have finished, or are forgotten.
    void set_store(std::byte* begin, std::size_t bytes);
    // Null: folds are refused.
    void set_folder(StoreFolder* folder);

    // From now on, what others write here is marked; an empty one: no more.
    void set_marks(const WriteMarks& marks);

    // ---- put and get (ops) ----

    // The source may be changed when this returns.
    void put(PeId pe, void* dest, const void* source, std::size_t bytes);
    // The source must not be changed before quiet().
    void put_nbi(PeId pe, void* dest, const void* source, std::size_t bytes);
    void get(PeId pe, void* dest, const void* source, std::size_t bytes);
    // The data is there after quiet().
    void get_nbi(PeId pe, void* dest, const void* source, std::size_t bytes);
    void put_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks);
    void get_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks);

    // Everything before is carried out at its target before anything after it to the same target.
    void fence();
    // Everything before, of all threads, has been carried out, or its target is dead.
    void quiet();

    // ---- atomics: width 4 or 8 bytes; values in the low bytes ----

    [[nodiscard]] std::uint64_t atomic_fetch(PeId pe, AtomicOperation operation, std::size_t width, void* address,
                                             std::uint64_t operand, std::uint64_t condition = 0);
    void atomic_post(PeId pe, AtomicOperation operation, std::size_t width, void* address, std::uint64_t operand);

    // ---- channels: what barriers and collectives are made of (shm/channels.hpp) ----

    // In order, exactly once, for each lane and ordered pair of PEs. bytes <= kChannelPayloadBytes. Ordered behind the
    // puts of the same thread to the same PE: whoever has received the message sees their data.
    // False: a fault is pending.
    [[nodiscard]] bool send(PeId to, LaneId lane, const void* payload, std::size_t bytes);
    // False: nothing has come yet. Takes one message out.
    [[nodiscard]] bool try_receive(PeId from, LaneId lane, void* payload, std::size_t bytes);

    // ---- stores: backup ----

    // Writes to, or reads from, the store of `process` at an offset. The source of a write must not be changed before
    // flush_store(); reads have arrived after it. Any number may be under way; the caller bounds them.
    void write_store(ProcId process, std::size_t offset, const void* source, std::size_t bytes);
    void read_store(ProcId process, std::size_t offset, void* dest, std::size_t bytes);
    // Gives them to the folder there.
    void fold_store(ProcId process, std::size_t offset, std::uint64_t build, bool is_anew, const void* source,
                    std::size_t bytes);
    // Waits for all of these. False: `process` is dead, or a range was refused since the last flush.
    [[nodiscard]] bool flush_store(ProcId process);
    // Writes of so many bytes travel fastest.
    [[nodiscard]] std::size_t store_piece_bytes() const noexcept;
    // If more than so many bytes written there have not been acknowledged, waits until an eighth of that has been, or
    // `process` is dead. (Waiting for more lets the link run dry: all that is under way then moves in one clump.)
    void drain_store(ProcId process, std::size_t bytes);

    // ---- progress ----

    // What threads that wait in the library call: takes in what has come. True: something happened.
    bool poll();
    // While at least one exists, the progress thread leaves the work to its owner, who polls. Costs two system calls,
    // so it is for waits, not for single tests. An owner that sleeps on something else than the network gives it up
    // before. null: does nothing.
    class Polling {
    public:
        explicit Polling(Network* network) noexcept;
        ~Polling();
        Polling(const Polling&) = delete;
        Polling& operator=(const Polling&) = delete;

    private:
        Network* network_;
    };

    struct Counters {
        std::uint64_t sent = 0;  // messages
        std::uint64_t received = 0;
        std::uint64_t refused = 0;  // without the secret, out of range, damaged
        std::uint64_t stale = 0;    // from processes known to be dead
    };
    [[nodiscard]] Counters counters() const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

// By name: "ucx", "ofi"; "auto" takes the first that opens (in this order). `names` of those
// that this library was built with, for info.
[[nodiscard]] Result<std::unique_ptr<Fabric>> make_fabric(const std::string& name);
[[nodiscard]] std::string fabric_names();

}  // namespace sft
