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
//  1. Everything below is under mutex_, but what is atomic, and the cells of inboxes (lanes.hpp).
//  2. The fabric calls message(), place(), arrived() and sent() in the middle of its functions, send() among them. They
//     only note what is to be sent (replies_, acks_due_); finish() sends it. Every function that has called the fabric
//     calls finish() before it gives the lock away or waits.
//  3. What is sent to a process that is not forgotten, with an id or counted in `issued`, is answered by it: also what
//     it refuses.
#pragma once

#include <sched.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/net/lanes.hpp"
#include "transport/net/network.hpp"
#include "transport/net/regions.hpp"
#include "transport/net/requests.hpp"
#include "transport/net/wire.hpp"

namespace sft {

// What this process knows of another one.
struct NetPeer {
    // ---- what this process asks of it ----
    std::atomic<bool> is_forgotten{false};
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
        return issued == done || (issued - done < kWindowMessages && bytes_issued - bytes_done + bytes <= kWindowBytes);
    }
};

class Network::Impl final : public FabricReceiver {
public:
    using Lock = std::unique_lock<std::mutex>;

    [[nodiscard]] bool open(Options options, std::string& error_line);
    void close() noexcept;

    // ---- network.cpp ----
    void set_holder(PeId pe, ProcId process);
    [[nodiscard]] bool is_reachable(PeId pe) const noexcept;
    void forget(ProcId process);
    void set_store(std::byte* begin, std::size_t bytes);
    void set_marks(const WriteMarks& marks);

    // ---- operations.cpp ----
    void put(PeId pe, void* dest, const void* source, std::size_t bytes, bool is_source_reused);
    void get(PeId pe, void* dest, const void* source, std::size_t bytes, bool is_awaited);
    void put_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks);
    void get_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks);
    void fence();
    void quiet();
    [[nodiscard]] std::uint64_t fetch(PeId pe, const WireHead& what);
    void post(PeId pe, const WireHead& what);
    void write_store(ProcId process, std::size_t offset, const void* source, std::size_t bytes);
    void read_store(ProcId process, std::size_t offset, void* dest, std::size_t bytes);
    [[nodiscard]] bool flush_store(ProcId process);
    void drain_store(ProcId process, std::size_t bytes);

    // ---- lanes.cpp ----
    [[nodiscard]] bool send(PeId to, LaneId lane, const void* payload, std::size_t bytes);
    [[nodiscard]] bool try_receive(PeId from, LaneId lane, void* payload, std::size_t bytes);
    void reset_channels(std::uint32_t epoch);

    // ---- progress.cpp ----
    bool poll();
    void enter_polling();
    void leave_polling();

    // ---- FabricReceiver: target.cpp, answers.cpp ----
    void message(Bytes head, Bytes payload) override;
    [[nodiscard]] Place place(Bytes head, std::size_t payload_bytes) override;
    void arrived(std::uint64_t ticket, bool is_whole) override;
    void sent(std::uint64_t ticket) override;
    void lost(ProcId process) override;
    void stranger() override { refuse(WireHead{}, "it does not carry the secret of this job"); }

    mutable std::mutex mutex_;
    // Who wants the lock from a thread that makes progress: as long as something happens, that would not let go of it,
    // and the news that it waits for would never come.
    std::atomic<int> n_urgent_{0};
    Options options_;
    std::unique_ptr<Fabric> fabric_;
    Regions regions_;
    WriteMarks marks_;  // before the first checkpoint
    Counters counters_;
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
    };

    // ---- sending: operations.cpp ----
    [[nodiscard]] NetPeer* peer_of(PeId pe, ProcId& process);
    [[nodiscard]] NetPeer* reach(ProcId process);
    [[nodiscard]] NetPeer& peer(ProcId process) noexcept { return peers_[process.index()]; }
    [[nodiscard]] bool introduce(ProcId process);
    Fabric::Sent transmit(ProcId process, WireHead& head, Bytes payload = {}, std::uint64_t ticket = 0);
    // Waits for room in the window and counts. False: forgotten.
    [[nodiscard]] bool begin_counted(Lock& lock, NetPeer& peer, std::size_t bytes);
    [[nodiscard]] bool await_request_room(Lock& lock, NetPeer& peer);
    void put_small(Lock& lock, ProcId process, WireHead& head, const void* source);
    void put_bytes(Lock& lock, ProcId process, WireHead& head, Bytes payload, bool is_source_reused);
    void put_packed(PeId pe, std::byte* to, const std::byte* from, const NetBlocks& blocks, std::size_t n);
    void ask(Lock& lock, PeId pe, WireHead& head, const Wanted& wanted, Awaited* awaited);
    void ask_get(Lock& lock, PeId pe, void* dest, const void* source, std::size_t bytes, Awaited* awaited);
    void access_store(ProcId process, WireKind kind, std::size_t offset, std::byte* dest, Bytes data);
    [[nodiscard]] std::size_t blocks_per_message(std::size_t block_bytes) const noexcept;
    void fence(Lock& lock, NetPeer& peer);
    [[nodiscard]] Outgoing& begin_outgoing(Awaited* awaited);
    void end_outgoing(std::uint64_t ticket);
    [[nodiscard]] Outgoing& begin_packed();
    void transmit_outgoing(ProcId process, WireHead& head, Bytes payload, Outgoing& outgoing);

    // ---- what has come: target.cpp ----
    // Null: the message has been counted and is not to be looked at further.
    [[nodiscard]] NetPeer* admit(Bytes bytes, WireHead& head);
    void refuse(const WireHead& head, const char* why);
    // What was asked for, with an id or counted, is over on this side.
    void settle(NetPeer& from, const WireHead& head, bool is_refused);
    void owe_ack(NetPeer& from, ProcId process);
    void on_put(NetPeer& from, const WireHead& head, Bytes payload);
    void on_put_blocks(NetPeer& from, const WireHead& head, Bytes payload);
    void on_store_write(NetPeer& from, const WireHead& head, Bytes payload);
    void on_get(const WireHead& head, const std::byte* source);
    void on_get_blocks(const WireHead& head);
    void on_fetch(const WireHead& head);
    void on_post(NetPeer& from, const WireHead& head);
    void mark_written(const std::byte* place, std::size_t bytes) noexcept;
    [[nodiscard]] bool execute_atomic(const WireHead& head, std::uint64_t& value);
    void reply_refused(const WireHead& head);
    [[nodiscard]] Place expect(const WireHead& head, std::byte* address, bool is_answer);
    // ---- what is sent back: answers.cpp ----
    void on_reply(const WireHead& head, Bytes payload);
    void on_ack(const WireHead& head, Bytes payload);
    // False: it cannot be.
    [[nodiscard]] bool take_done(NetPeer& from, std::uint64_t done);
    void end_request(Request& request, bool is_refused);
    bool finish();
    void send_replies();
    void send_reply(Reply& reply);
    void send_acks();

    // ---- lanes.cpp ----
    void on_channel(const WireHead& head, Bytes payload);
    void on_credit(const WireHead& head);
    [[nodiscard]] bool deliver(const WireHead& head, Bytes payload);

    // ---- progress.cpp ----
    bool progress();
    // Until done(), which is called with the lock. False: a fault is pending, and that was to be heeded.
    template <class Done>
    bool await(Lock& lock, Done&& done, bool heeds_gate = false) {
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
                lock.unlock();
                ::sched_yield();
                lock.lock();
            }
            if (progress()) {
                turn = 0;
            } else {
                pass_time(lock, turn);
            }
        }
        end_polling();
        return is_done;
    }
    void begin_polling();
    void end_polling();
    void pass_time(Lock& lock, std::uint32_t turn);
    void doze(Lock& lock);
    void wake_sleepers();
    void watch_fabric(bool is_on);
    void run_thread();
    void work(Lock& lock);
    void lock_behind_pollers(Lock& lock);
    void kick_thread() noexcept;

    std::unique_ptr<NetPeer[]> peers_;
    std::vector<std::int32_t> known_;  // those that were introduced
    std::unique_ptr<std::atomic<std::int32_t>[]> holders_;
    RequestTable requests_;
    std::size_t eager_bytes_ = 0;
    std::size_t packed_bytes_ = 0;  // of blocks, and of channels: at most these

    std::deque<Outgoing> outgoing_;  // places that do not move
    std::vector<std::uint32_t> outgoing_free_;
    std::deque<Arrival> arrivals_;
    std::vector<std::uint32_t> arrivals_free_;
    std::deque<Reply> replies_;
    std::vector<std::int32_t> acks_due_;
    bool is_memory_changed_ = false;  // others have written to it since the doorbell was rung
    bool has_news_ = false;           // something that a waiting thread may wait for
    bool is_refusal_said_ = false;

    Lanes lanes_;

    int epoll_ = -1;
    int stop_ = -1;  // wakes the progress thread
    int wake_ = -1;  // wakes the thread that sleeps on the fabric in doze()
    bool is_open_ = false;
    bool is_stopping_ = false;
    bool is_watched_ = false;
    bool is_parked_ = false;  // the progress thread looks by itself soon: the last poller need not wake it
    std::atomic<std::uint32_t> n_pollers_{0};  // written under the lock
    std::uint64_t n_phases_ = 0;               // of polling, since the beginning
    bool has_sleeper_ = false;
    std::uint32_t n_waiting_for_sleeper_ = 0;
    std::condition_variable sleeper_is_back_;
    std::vector<ProcId> lost_;
    std::thread thread_;
};

}  // namespace sft
