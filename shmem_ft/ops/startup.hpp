// The beginning of a program, from shmem_init to its first committed checkpoint, repeated in a substitute.
//
// A program reads its input, broadcasts it, keeps what it needs in local variables, allocates, fills, and enters its
// loop. A substitute runs through the same code, but alone: the others are in the loop. So every PE records what the
// library gives to it in that time (startup_log.hpp), the record is saved with the PE's memory, and a substitute is
// given the same again. docs/protocols.md ("The start-up of a substitute") says why that is enough.
//
// What is recorded: the calls that bring data or a decision, with the values they return and the memory they fill; and
// with each of them what others had written into the PE's symmetric memory by then (transport/shm/write_queues.hpp,
// write_marks.hpp).
// In a substitute a call finds its entry by routine, place in the program and arguments, and delivers that. Stores to
// others go nowhere, those to the PE itself are carried out.
//
// How a call comes here: while there is an object of this class in the engine, g_fast_engine is null, so every entry
// takes the branch that it has for calls outside init and finalize; after the first commit nothing of this costs
// anything.
//
// Threads: calls with a record are those of the thread that initialised. If another one makes such a call, the record
// ends, because the order of calls would be another one in every run; a substitute says so. Marks may be made by any
// thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/call_place.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/startup_log.hpp"
#include "symheap/peer_map.hpp"
#include "symheap/symmetric_memory.hpp"
#include "transport/shm/write_marks.hpp"
#include "transport/shm/write_queues.hpp"

namespace sft {

struct CallSite {
    const char* routine;
    const void* address;  // where the call returns to
};

// What an entry knows of a call before it is carried out.
struct StartupCall {
    CallSite where{};
    std::uint32_t arguments = 0;  // a checksum
    CallKind kind = CallKind::ordinary;
    // The memory that it fills: `count` pieces, `step` bytes from one to the next.
    struct Piece {
        void* address = nullptr;
        std::size_t bytes = 0;
        std::size_t count = 1;
        std::size_t step = 0;
    } out;
    std::size_t out_per_result = 0;  // not 0: only so many bytes for each unit of the returned value are filled
    // Variables of this PE that the call has looked at: the program may read them now.
    const void* seen = nullptr;
    std::size_t seen_bytes = 0;
    // Handles that it makes, of teams or contexts, with the numbers of then: where it puts them.
    const void* const* handles[2] = {};

    // Of the heap: what becomes of the block that the call returns. A substitute allocates nothing, but the contents
    // are its own.
    struct Allocation {
        std::size_t bytes = 0;
        bool is_zeroed = false;
        const void* moved_from = nullptr;
    } allocation;
    // shmem_ptr: the PE, and its memory.
    PeId pointed_pe = kNoPe;
    const void* pointed = nullptr;

    // In a substitute as well.
    [[nodiscard]] bool is_carried_out() const noexcept { return makes_handles() || kind == CallKind::algo_init; }

    // Whatever is the same in every run.
    [[nodiscard]] StartupCall with(std::uint64_t argument) const noexcept {
        StartupCall call = *this;
        call.arguments = static_cast<std::uint32_t>(
            ((std::uint64_t{arguments} ^ argument) + 1) * std::uint64_t{0x9e3779b97f4a7c15} >> 32U);
        return call;
    }
    [[nodiscard]] StartupCall with_symmetric(const Engine& e, const void* address) const noexcept {
        return e.peers.is_symmetric(address) ? with(reinterpret_cast<std::uintptr_t>(address)) : *this;
    }
    [[nodiscard]] StartupCall filling(void* address, std::size_t bytes) const noexcept {
        return filling_pieces({address, bytes, 1, 0});
    }
    [[nodiscard]] StartupCall filling_pieces(Piece piece) const noexcept {
        StartupCall call = *this;
        call.out = piece;
        return call.with(piece.bytes).with(piece.count);
    }
    [[nodiscard]] StartupCall filling_per_result(void* address, std::size_t bytes) const noexcept {
        StartupCall call = *this;
        call.out.address = address;
        call.out_per_result = bytes;
        return call;
    }
    [[nodiscard]] StartupCall seeing(const void* variables, std::size_t bytes) const noexcept {
        StartupCall call = *this;
        call.seen = variables;
        call.seen_bytes = bytes;
        return call.with(reinterpret_cast<std::uintptr_t>(variables)).with(bytes);
    }
    [[nodiscard]] StartupCall pointing(const Engine& e, const void* symmetric, int pe) const noexcept {
        StartupCall call = *this;
        call.kind = CallKind::pointer;
        call.pointed_pe = pe >= 0 && pe < e.peers.n_pes ? PeId(pe) : kNoPe;
        call.pointed = symmetric;
        return call.with_symmetric(e, symmetric).with(static_cast<std::uint64_t>(pe));
    }
    [[nodiscard]] bool makes_handles() const noexcept { return handles[0] != nullptr; }
    template <class Handle>
    [[nodiscard]] StartupCall making(Handle* const* first, Handle* const* second = nullptr) const noexcept {
        StartupCall call = *this;
        call.handles[0] = reinterpret_cast<const void* const*>(first);
        call.handles[1] = reinterpret_cast<const void* const*>(second);
        return call;
    }
    [[nodiscard]] StartupCall allocating(Allocation made) const noexcept {
        StartupCall call = of_kind(CallKind::heap).with(made.bytes).with(made.is_zeroed ? 1 : 0);
        call.allocation = made;
        return call;
    }
    [[nodiscard]] StartupCall of_kind(CallKind chosen) const noexcept {
        StartupCall call = *this;
        call.kind = chosen;
        return call;
    }
};

class Startup {
public:
    struct Memory {
        std::byte* record = nullptr;
        std::size_t record_bytes = 0;
        WriteMarks marks;
        WriteQueues queues;
        SymmetricMemory* symmetric = nullptr;
        PeerMap* peers = nullptr;
        std::atomic<std::uint32_t>* told = nullptr;  // of the node: somebody has said that a record is of no use
    };

    // ---- the runtime ----

    // By the thread that initialises, before the program goes on.
    void begin_recording(Engine& e, const Memory& memory);
    // The same in a substitute, whose record is there.
    void begin_replay(Engine& e, const Memory& memory);
    // The record is complete, and saved with the version that follows. Says once if it is of no use.
    void close_record() noexcept;
    // The calls that follow have no counterpart and need none: the program goes to shmem_restart_pes. A checkpoint is
    // the call at which the record has to be at its end.
    enum class End { checkpoint, restart };
    void end_replay(End how, CallSite where) noexcept;

    [[nodiscard]] bool is_recording() const noexcept { return mode_ == Mode::recording; }
    [[nodiscard]] bool is_replaying() const noexcept { return mode_ == Mode::replaying; }
    // Of the heap, that the substitute has made or left out so far.
    [[nodiscard]] std::uint64_t heap_calls() const noexcept { return heap_calls_; }
    [[nodiscard]] const WriteMarks& marks() const noexcept { return memory_.marks; }
    struct Size {
        StartupState state = StartupState::none;
        std::uint64_t calls = 0;
        std::uint64_t bytes = 0;  // of a record that can be used
    };
    [[nodiscard]] Size size() const noexcept;

    // ---- entries ----

    // The call has been carried out. `result`: the value that it returns.
    void record(const StartupCall& call, const void* result, std::size_t result_bytes) noexcept;
    // Delivers what the call of then gave. False: nothing is delivered, because there is no record (any more).
    [[nodiscard]] bool replay(const StartupCall& call, void* result, std::size_t result_bytes) noexcept;
    // Before a call that makes handles is carried out, in a substitute.
    void prepare_handles(const StartupCall& call) noexcept;
    // quiet and fence: programs that wait in loops around plain loads have nothing else in there. True: no fault is to
    // be met there, because the program is being repeated.
    bool light_call(CallSite where) noexcept;

    // These bytes of `pe` have been written by this process.
    void wrote(PeId pe, const void* address, std::size_t bytes) noexcept;

private:
    enum class Mode { off, recording, replaying, without_record };

    [[nodiscard]] CallKey key_of(const StartupCall& call) noexcept;
    [[nodiscard]] bool has_changes() const noexcept;
    void take_changes(const StartupCall& call) noexcept;
    void write_changes() noexcept;
    void expose_pointed(const StartupCall& call) const noexcept;
    void write_change(std::uintptr_t address, std::size_t bytes) noexcept;
    void compare_exposed() noexcept;
    void write_filled(const StartupCall& call, const void* result, std::size_t result_bytes) noexcept;
    void give_up(StartupState why) noexcept;
    void note_size(const CallKey& key, const StartupCall& call, std::size_t bytes) noexcept;
    [[nodiscard]] bool is_owner() const noexcept { return ::pthread_equal(owner_, ::pthread_self()) != 0; }

    [[nodiscard]] bool find(const CallKey& key) noexcept;
    [[nodiscard]] bool may_be_skipped(const CallEntry& entry) const noexcept;
    [[nodiscard]] bool look_ahead(const CallKey& key, bool by_place, StartupReader& ahead) const noexcept;
    void apply_changes(const RecordedCall& call) noexcept;
    void pass(const RecordedCall& call) noexcept;
    void advance(const RecordedCall& call) noexcept;
    void fill_block(const StartupCall& call, const RecordedCall& recorded) noexcept;
    [[nodiscard]] void* pointer_to_nothing(const StartupCall& call) noexcept;
    void deliver(const StartupCall& call, void* result, std::size_t result_bytes) noexcept;
    [[noreturn]] void fail(const StartupCall& call) noexcept;
    void tell_without_record(const StartupCall& call) noexcept;
    [[nodiscard]] std::string text_of(const CallKey& key);

    Engine* engine_ = nullptr;
    Memory memory_;
    Mode mode_ = Mode::off;
    pthread_t owner_{};
    CodePlaces places_;
    bool is_past_algo_init_ = false;  // from here on keys have stacks
    std::uint32_t n_light_ = 0;

    StartupWriter writer_;
    std::atomic<StartupState> given_up_{StartupState::none};
    struct Way {
        WriteQueues::Writing to;
        WriteQueues::Reading from;
    };
    std::vector<Way> ways_;  // of each PE, if there are queues of writes
    struct Change {
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
    };
    std::vector<Change> changes_;  // of the call that is being recorded
    struct Exposed {
        WriteMarks::Exposed place;
        std::vector<std::byte> seen;
    };
    std::vector<Exposed> exposed_;
    struct Place {
        CallKey key;
        const char* routine = nullptr;
        std::size_t bytes = 0;
    };
    std::vector<Place> largest_;  // places in the program by what their calls take in the record

    bool reads_ = false;  // in a substitute
    StartupReader reader_;
    bool may_skip_ = false;                      // behind a shmem_ft_algo_init that was 1 then and is 0 now
    std::unordered_set<std::uint64_t> visited_;  // stacks of calls since then
    std::uint64_t heap_calls_ = 0;
    std::unordered_map<const void*, std::size_t> blocks_;  // of the heap, that the substitute has been given
    bool is_told_ = false;
    bool has_told_pointer_ = false;
};

}  // namespace sft
