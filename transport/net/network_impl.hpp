// The inside of Network: state, and what the files of this folder call of each other.
//
//   network.cpp     who is where, forget; the entries of Network
//   operations.cpp  the asking side of put, get, atomics, stores; fence and quiet
//   target.cpp      what is done with messages that ask for something
//   answers.cpp     what is sent back, and what is done with it
//   lanes.cpp       channels
//   progress.cpp    open, close, the progress thread, threads that wait
//
// Invariants
//  1. Everything below is under mutex_, but what is atomic, what open() has set, and the cells of inboxes (lanes.hpp).
//  2. The fabric calls message(), place(), arrived() and sent() in the middle of its functions, send() among them. They
//     only note what is to be sent (replies_, acks_due_); finish() sends it. Every function that has called the fabric
//     calls finish() before it gives the lock away or waits.
//  3. What is sent to a process that is not forgotten, with an id or counted in `issued`, is answered by it: also what
//     it refuses.
#pragma once

#include <sched.h>

#include <deque>
#include <thread>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "transport/net/lanes.hpp"
#include "transport/net/network.hpp"
#include "transport/net/regions.hpp"
#include "transport/net/requests.hpp"
#include "transport/net/session_fabric.hpp"
#include "transport/net/wire.hpp"

namespace sft {

// What this process knows of another one.
struct NetPeer {
    // ---- what this process asks of it ----
    std::atomic<bool> is_retired{false};
    bool is_introduced = false;
    bool is_lost = false;  // the connection, and that has been told
    std::uint64_t issued = 0;
    std::uint64_t done = 0;  // of them
    std::uint64_t bytes_issued = 0;
    std::uint64_t bytes_done = 0;
    std::unique_ptr<std::uint32_t[]> bytes_of;  // by issued % kWindowMessages
    RequestLists requests;
    std::size_t store_bytes = 0;
    bool is_store_refused = false;
    // ---- what it asks of this process ----
    std::uint64_t executed = 0;
    bool is_ack_due = false;
    std::vector<std::uint64_t> answered;  // ids that the next ack carries

    [[nodiscard]] bool has_room(std::size_t bytes) const noexcept {
        SFT_ASSERT(done <= issued && bytes_done <= bytes_issued);
        SFT_ASSERT(done != issued || bytes_done == bytes_issued);
        return issued == done || (issued - done < kWindowMessages && bytes_issued - bytes_done + bytes <= kWindowBytes);
    }
};

class Network::Impl final : public FabricReceiver {
public:
    [[nodiscard]] Result<> open(Options options) SFT_EXCLUDES(mutex_);
    void close() noexcept SFT_EXCLUDES(mutex_);

    // ---- network.cpp ----
    void set_holder(PeId pe, ProcId process);
    [[nodiscard]] bool is_reachable(PeId pe) const noexcept;
    void retire_peer(ProcId process) SFT_EXCLUDES(mutex_);
    void set_store(std::byte* begin, std::size_t bytes) SFT_EXCLUDES(mutex_);
    void set_folder(StoreFolder* folder) SFT_EXCLUDES(mutex_);
    void set_marks(const WriteMarks& marks) SFT_EXCLUDES(mutex_);

    // ---- operations.cpp ----
    void put(PeId pe, void* dest, const void* source, std::size_t bytes, bool is_source_reused) SFT_EXCLUDES(mutex_);
    void get(PeId pe, void* dest, const void* source, std::size_t bytes, bool is_awaited) SFT_EXCLUDES(mutex_);
    void put_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks) SFT_EXCLUDES(mutex_);
    void get_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks) SFT_EXCLUDES(mutex_);
    void fence() SFT_EXCLUDES(mutex_);
    void quiet() SFT_EXCLUDES(mutex_);
    [[nodiscard]] std::uint64_t fetch(PeId pe, const WireHead& what) SFT_EXCLUDES(mutex_);
    void post(PeId pe, const WireHead& what) SFT_EXCLUDES(mutex_);
    void write_store(ProcId process, std::size_t offset, const void* source, std::size_t bytes) SFT_EXCLUDES(mutex_);
    void read_store(ProcId process, std::size_t offset, void* dest, std::size_t bytes) SFT_EXCLUDES(mutex_);
    void fold_store(ProcId process, std::size_t offset, std::uint64_t build, bool is_anew, const void* source,
                    std::size_t bytes) SFT_EXCLUDES(mutex_);
    [[nodiscard]] bool flush_store(ProcId process) SFT_EXCLUDES(mutex_);
    void drain_store(ProcId process, std::size_t bytes) SFT_EXCLUDES(mutex_);

    // ---- lanes.cpp ----
    [[nodiscard]] bool send(PeId to, LaneId lane, const void* payload, std::size_t bytes) SFT_EXCLUDES(mutex_);
    [[nodiscard]] bool try_receive(PeId from, LaneId lane, void* payload, std::size_t bytes) SFT_EXCLUDES(mutex_);
    void reset_channels(std::uint32_t epoch) SFT_EXCLUDES(mutex_);

    // ---- progress.cpp ----
    bool poll() SFT_EXCLUDES(mutex_);
    void enter_polling() SFT_EXCLUDES(mutex_);
    void leave_polling() SFT_EXCLUDES(mutex_);

    // ---- FabricReceiver: target.cpp, answers.cpp ----
    void message(Bytes head, Bytes payload) override SFT_REQUIRES(mutex_);
    [[nodiscard]] Place place(Bytes head, std::size_t payload_bytes) override SFT_REQUIRES(mutex_);
    void arrived(std::uint64_t ticket, bool is_whole) override SFT_REQUIRES(mutex_);
    void sent(std::uint64_t ticket) override SFT_REQUIRES(mutex_);
    void lost(ProcId process) override SFT_REQUIRES(mutex_);
    void stranger() override SFT_REQUIRES(mutex_) { refuse(WireHead{}, "it does not carry the secret of this job"); }

    mutable Mutex mutex_{MutexRank::network};
    // Who wants the lock from a thread that makes progress: as long as something happens, that would not let go of it,
    // and the news that it waits for would never come.
    std::atomic<int> n_urgent_{0};
    Options options_;
    std::unique_ptr<SessionFabric> fabric_;
    Regions regions_ SFT_GUARDED_BY(mutex_);
    StoreFolder* folder_ SFT_GUARDED_BY(mutex_) = nullptr;
    WriteMarks marks_ SFT_GUARDED_BY(mutex_);  // before the first checkpoint
    Counters counters_ SFT_GUARDED_BY(mutex_);
    std::atomic<std::int32_t> me_{-1};

private:
    // A send whose payload the fabric still reads.
    struct Outgoing {
        std::unique_ptr<std::byte[]> buffer;  // of packed_bytes_, once it was needed; kept for the next one
        Awaited* awaited = nullptr;
        std::uint32_t slot = 0;
    };
    struct Reply {
        ProcId to;
        WireHead head;
        const std::byte* source = nullptr;  // null: all is in the head
        WireBlocks blocks;                  // no blocks: head.length bytes in one piece
    };
    // Where what is asked for is to go.
    struct Wanted {
        Request::Kind kind = Request::Kind::none;
        std::byte* dest = nullptr;
        std::size_t bytes = 0;
        std::size_t n_blocks = 0;
        std::ptrdiff_t dest_step = 0;
    };
    // A payload that the fabric writes to a place: for a request of this process, or an operation of another one.
    struct Arrival {
        bool is_used = false;
        bool is_answer = false;
        WireHead head;
        std::vector<std::byte> buffer;  // of what is not to be written, but folded; kept for the next one
    };

    // ---- sending: operations.cpp ----
    [[nodiscard]] NetPeer* peer_of(PeId pe, WireOperation operation, ProcId& process) SFT_REQUIRES(mutex_);
    [[nodiscard]] NetPeer* reach(ProcId process) SFT_REQUIRES(mutex_);
    [[nodiscard]] NetPeer& peer(ProcId process) noexcept {
        SFT_ASSERT(process.value() >= 0 && process.value() < options_.n_slots);
        return peers_[process.index()];
    }
    [[nodiscard]] bool introduce(ProcId process) SFT_REQUIRES(mutex_);
    Fabric::Sent transmit(ProcId process, WireHead& head, Bytes payload = {}, std::uint64_t ticket = 0)
        SFT_REQUIRES(mutex_);
    // Waits for room in the window and counts. False: forgotten.
    [[nodiscard]] bool begin_counted(NetPeer& peer, std::size_t bytes) SFT_REQUIRES(mutex_);
    [[nodiscard]] bool await_request_room(NetPeer& peer) SFT_REQUIRES(mutex_);
    void put_small(ProcId process, WireHead& head, const void* source) SFT_REQUIRES(mutex_);
    void put_bytes(ProcId process, WireHead& head, Bytes payload, bool is_source_reused) SFT_REQUIRES(mutex_);
    void put_packed(PeId pe, std::byte* to, const std::byte* from, const NetBlocks& blocks, std::size_t n)
        SFT_EXCLUDES(mutex_);
    void ask(PeId pe, WireHead& head, const Wanted& wanted, Awaited* awaited) SFT_REQUIRES(mutex_);
    void ask_get(PeId pe, void* dest, const void* source, std::size_t bytes, Awaited* awaited) SFT_REQUIRES(mutex_);
    void access_store(ProcId process, WireHead head, std::byte* dest, Bytes data) SFT_EXCLUDES(mutex_);
    [[nodiscard]] std::size_t blocks_per_message(std::size_t block_bytes) const noexcept;
    void fence(NetPeer& peer) SFT_REQUIRES(mutex_);
    [[nodiscard]] Outgoing& begin_outgoing(Awaited* awaited) SFT_REQUIRES(mutex_);
    void end_outgoing(std::uint64_t ticket) SFT_REQUIRES(mutex_);
    [[nodiscard]] Outgoing& begin_packed() SFT_REQUIRES(mutex_);
    void transmit_outgoing(ProcId process, WireHead& head, Bytes payload, Outgoing& outgoing) SFT_REQUIRES(mutex_);

    // ---- what has come: target.cpp ----
    // Null: the message has been counted and is not to be looked at further.
    [[nodiscard]] NetPeer* admit(Bytes bytes, WireHead& head) SFT_REQUIRES(mutex_);
    void refuse(const WireHead& head, const char* why) SFT_REQUIRES(mutex_);
    // What was asked for, with an id or counted, is over on this side.
    void settle(NetPeer& from, const WireHead& head, bool is_refused) SFT_REQUIRES(mutex_);
    void owe_ack(NetPeer& from, ProcId process) SFT_REQUIRES(mutex_);
    void on_put(NetPeer& from, const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);
    void on_put_blocks(NetPeer& from, const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);
    void on_store_write(NetPeer& from, const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);
    void on_store_fold(NetPeer& from, const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);
    void on_get(const WireHead& head, const std::byte* source) SFT_REQUIRES(mutex_);
    void on_get_blocks(const WireHead& head) SFT_REQUIRES(mutex_);
    void on_fetch(const WireHead& head) SFT_REQUIRES(mutex_);
    void on_post(NetPeer& from, const WireHead& head) SFT_REQUIRES(mutex_);
    void mark_written(const std::byte* place, std::size_t bytes) noexcept SFT_REQUIRES(mutex_);
    [[nodiscard]] bool execute_atomic(const WireHead& head, std::uint64_t& value) SFT_REQUIRES(mutex_);
    void reply_refused(const WireHead& head) SFT_REQUIRES(mutex_);
    [[nodiscard]] Place expect(const WireHead& head, std::byte* address, bool is_answer) SFT_REQUIRES(mutex_);
    // ---- what is sent back: answers.cpp ----
    void on_reply(const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);
    void on_ack(const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);
    // False: it cannot be.
    [[nodiscard]] bool take_done(NetPeer& from, std::uint64_t done) SFT_REQUIRES(mutex_);
    void end_request(Request& request, bool is_refused) SFT_REQUIRES(mutex_);
    bool finish() SFT_REQUIRES(mutex_);
    void send_replies() SFT_REQUIRES(mutex_);
    void send_reply(Reply& reply) SFT_REQUIRES(mutex_);
    void send_acks() SFT_REQUIRES(mutex_);

    // ---- lanes.cpp ----
    void on_channel(const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);
    void on_credit(const WireHead& head) SFT_REQUIRES(mutex_);
    [[nodiscard]] bool deliver(const WireHead& head, Bytes payload) SFT_REQUIRES(mutex_);

    // ---- progress.cpp ----
    bool progress() SFT_REQUIRES(mutex_);
    // Until done(), which is called with the lock. False: a fault is pending, and that was to be heeded.
    template <class Done>
    bool await(Done&& done, bool heeds_gate = false) SFT_REQUIRES(mutex_) {
        if (done()) {
            return true;
        }
        begin_polling();
        bool is_done = true;
        for (std::uint32_t turn = 0; !done(); ++turn) {
            if (heeds_gate && options_.gate->is_pending()) {
                is_done = false;
                break;
            }
            if (n_urgent_.load(std::memory_order_relaxed) != 0) {
                mutex_.unlock();
                ::sched_yield();
                mutex_.lock();
            }
            if (progress()) {
                turn = 0;
            } else {
                back_off(turn);
            }
        }
        end_polling();
        return is_done;
    }
    void begin_polling() SFT_REQUIRES(mutex_);
    void end_polling() SFT_REQUIRES(mutex_);
    void back_off(std::uint32_t turn) SFT_REQUIRES(mutex_);
    void sleep_on_fabric() SFT_REQUIRES(mutex_);
    void wake_sleepers() SFT_REQUIRES(mutex_);
    void watch_fabric(bool is_on) SFT_REQUIRES(mutex_);
    void run_thread() SFT_EXCLUDES(mutex_);
    void work() SFT_REQUIRES(mutex_);
    void lock_behind_pollers() SFT_ACQUIRES(mutex_);
    void wake_thread() noexcept;

    std::unique_ptr<NetPeer[]> peers_;
    std::vector<std::int32_t> known_ SFT_GUARDED_BY(mutex_);  // those that were introduced
    std::unique_ptr<std::atomic<std::int32_t>[]> holders_;
    RequestTable requests_ SFT_GUARDED_BY(mutex_);
    std::size_t eager_bytes_ = 0;
    std::size_t packed_bytes_ = 0;  // of blocks, and of channels: at most these

    std::deque<Outgoing> outgoing_ SFT_GUARDED_BY(mutex_);  // places that do not move
    std::vector<std::uint32_t> outgoing_free_ SFT_GUARDED_BY(mutex_);
    std::deque<Arrival> arrivals_ SFT_GUARDED_BY(mutex_);
    std::vector<std::uint32_t> arrivals_free_ SFT_GUARDED_BY(mutex_);
    std::deque<Reply> replies_ SFT_GUARDED_BY(mutex_);
    std::vector<std::int32_t> acks_due_ SFT_GUARDED_BY(mutex_);
    bool is_memory_changed_ SFT_GUARDED_BY(mutex_) = false;  // others have written to it since the doorbell was rung
    bool has_news_ SFT_GUARDED_BY(mutex_) = false;           // something that a waiting thread may wait for
    bool is_refusal_said_ SFT_GUARDED_BY(mutex_) = false;

    Lanes lanes_;

    int epoll_ = -1;
    int stop_ = -1;  // wakes the progress thread
    int wake_ = -1;  // wakes the thread that sleeps on the fabric in sleep_on_fabric()
    bool is_open_ = false;
    bool is_stopping_ SFT_GUARDED_BY(mutex_) = false;
    bool is_watched_ SFT_GUARDED_BY(mutex_) = false;
    // The progress thread looks by itself soon: the last poller need not wake it.
    bool is_parked_ SFT_GUARDED_BY(mutex_) = false;
    std::atomic<std::uint32_t> n_pollers_{0};            // written under the lock
    std::uint64_t n_phases_ SFT_GUARDED_BY(mutex_) = 0;  // of polling, since the beginning
    bool has_sleeper_ SFT_GUARDED_BY(mutex_) = false;
    std::uint32_t n_waiting_for_sleeper_ SFT_GUARDED_BY(mutex_) = 0;
    Condition sleeper_is_back_;
    std::vector<ProcId> lost_ SFT_GUARDED_BY(mutex_);
    std::thread thread_;
};

}  // namespace sft
