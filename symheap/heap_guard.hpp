// Holds up whatever this process writes to the heaps of the PEs of its node, its own one included, where that must not
// be written yet (GuardWords): for a version that is made while the program goes on, each PE saves its heap as it was
// when all had come, and writers wait for the chunk that they write to, and for no other.
//
// raise() takes the right to write from the mappings of this process, chunk by chunk where something is held. A write
// there faults; the handler of SIGSEGV tells the owner, waits until the chunk has been saved, gives the right back, and
// the instruction is tried again. All kinds of writes are seen so: of the program, of routines of the library, through
// shmem_ptr, of any thread.
//
// What is not: what the kernel writes for a system call, which fails with EFAULT instead; devices; and writes through
// mappings that are not the library's. So a program that has symmetric memory filled by read(), recv() or another
// library must not do so until the version is made. And a thread that blocks SIGSEGV is killed by the kernel.
//
// Fault model: of GuardWords. What is held by a dead PE is let go of once its death is known here: the version that was
// being made fails.
//
// Threads: raise() and lower() by one thread at a time, raise() only while no thread of the program writes; the handler
// runs in any thread. One for the process at a time.
#pragma once

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/address_range.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "transport/shm/guard_words.hpp"
#include "transport/shm/peer_table.hpp"

namespace sft {

class HeapGuard {
public:
    struct Options {
        AddressRange heap;                   // of this process
        std::size_t words_offset = 0;        // from its beginning on: where its words are
        const PeerEntry* entries = nullptr;  // of all PEs; a heap that is on this node is at its distance from the own
        std::int32_t n_pes = 0;
        PeId me = kNoPe;
    };
    HeapGuard() = default;
    ~HeapGuard() { close(); }
    HeapGuard(const HeapGuard&) = delete;
    HeapGuard& operator=(const HeapGuard&) = delete;

    // Takes SIGSEGV; what is none of its own goes to the handler before. The failure is a line for the user.
    [[nodiscard]] Result<> open(const Options& options);
    void close() noexcept;
    [[nodiscard]] bool is_open() const noexcept { return o_.heap.bytes != 0; }
    // The program, or another library, has not taken the signal since.
    [[nodiscard]] bool has_signal() const noexcept;

    [[nodiscard]] GuardWords own() const noexcept { return words_at(0); }
    // Some PE of the node refuses.
    [[nodiscard]] bool is_refused() const noexcept;
    // False: the system does not do it, and nothing is held up; await_all() is the way then.
    [[nodiscard]] bool raise() noexcept;
    // Nothing is held up any more.
    void lower() noexcept;
    // Until no PE holds anything.
    void await_all() const noexcept;

private:
    struct Heap {
        std::atomic<std::uintptr_t> begin{0};  // 0: it was never guarded
        GuardWords words;
    };
    static void on_fault(int signal, siginfo_t* info, void* context);
    void pass_on(int signal, siginfo_t* info, void* context) noexcept;
    // Whether that was a write to what raise() has guarded; it can be tried again then.
    [[nodiscard]] bool let_pass(std::uintptr_t address) noexcept;
    [[nodiscard]] GuardWords words_at(std::intptr_t distance) const noexcept;
    // Of a PE whose heap is mapped here; false: it is not.
    [[nodiscard]] bool distance_to(PeId pe, std::intptr_t& distance) const noexcept;
    [[nodiscard]] bool raise(const Heap& heap) noexcept;

    Options o_;
    struct sigaction before_ = {};
    std::unique_ptr<Heap[]> heaps_;  // by PE
};

}  // namespace sft
