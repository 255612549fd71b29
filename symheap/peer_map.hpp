// Whose memory this process sees as that of each PE: the windows into which heap and globals of the holders on this
// node are mapped, and the entries of the table of peers that follow from them.
//
// Fault model: a holder may die at any time. Its memory stays mapped, harmless, until a substitute's is shown in its
// place; its entries are kUnreachable from the moment that its death is known here. What is shown of one that died
// before is retired by the next retire_dead(), which therefore comes behind every show().
//
// The only place that changes an entry, and the only one that tells the network who holds a PE of another node.
//
// Thread safety: all; entries are read by anybody at any time (transport/shm/peer_table.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/address_range.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "symheap/segment.hpp"
#include "transport/shm/control.hpp"
#include "transport/shm/peer_table.hpp"
#include "transport/shm/wait.hpp"

namespace sft {

class Network;

class PeerMap {
public:
    struct Options {
        const ControlSegment* control = nullptr;
        std::int32_t n_pes = 0;
        AddressRange heap;                  // of this process, and at the same address in all
        std::size_t heap_window_bytes = 0;  // with what lies behind the heap in its memory file
        AddressRange globals;               // none: bytes 0
        int node_file = -1;                 // in which heaps and globals of this node lie; none: -1
        std::size_t node_heaps = 0;         // where they begin there, by PE
        std::size_t node_globals = 0;
        FaultGate* gate = nullptr;            // opened by whoever finds a peer dead
        Network* network = nullptr;           // in a job on several nodes
        std::function<bool(ProcId)> is_dead;  // known here; may be asked while the map is locked
        std::function<bool(ProcId)> is_remote;
    };
    // Before anything else. All PEs are unreachable then.
    void open(Options options);
    // Addresses for the memory of all PEs but `me`, whose entry is that of its own memory from now on.
    [[nodiscard]] Result<> reserve(PeId me);

    // The holder's memory is that of the PE from now on. Failure::gone: the holder has ended.
    [[nodiscard]] Result<> show(PeId pe, ProcId holder) SFT_EXCLUDES(mutex_);
    [[nodiscard]] ProcId shown(PeId pe) const SFT_EXCLUDES(mutex_);
    // PEs whose holders are known to be dead cannot be reached any more, and a fault is pending.
    void retire_dead() SFT_EXCLUDES(mutex_);
    // No fault is pending any more, unless somebody has died again.
    void end_fault() SFT_EXCLUDES(mutex_);

    // For PeerTable.
    [[nodiscard]] PeerEntry* entries() noexcept { return entries_.data(); }
    // Where the symmetric object of a PE is seen, also before there is any memory of another one: then it can be read
    // and written, and comes to nothing. Null: no such PE or object, or the system does not allow that.
    [[nodiscard]] void* before_joining(PeId pe, const void* address);

private:
    // Heaps, or globals: a window for each PE.
    struct Part {
        const char* name = nullptr;
        std::size_t in_node_file = 0;  // where the first one begins there
        WindowRow windows = {};        // none: this job has no such memory
        bool is_any_shown = false;
        // By PE: where in the node's file that lies which its window shows, + 1; 0: it is none of that file. It stays
        // when the next holder takes it over.
        std::vector<std::uint64_t> shown = {};
    };
    [[nodiscard]] Result<> map_memory(PeId pe, ProcId holder) SFT_REQUIRES(mutex_);
    [[nodiscard]] Result<> map_part(Part& part, PeId pe, ProcId holder, std::uint64_t place, int fd)
        SFT_REQUIRES(mutex_);
    [[nodiscard]] Result<> map_file(Part& part, PeId pe, ProcId holder, int fd) SFT_REQUIRES(mutex_);
    [[nodiscard]] Result<> map_of_node(Part& part, PeId pe, ProcId holder, std::uint64_t place) SFT_REQUIRES(mutex_);
    [[nodiscard]] static std::intptr_t distance(const Part& part, PeId pe, const AddressRange& own);
    void retire_dead_locked() SFT_REQUIRES(mutex_);

    Options options_;
    PeId me_ = kNoPe;
    mutable Mutex mutex_{MutexRank::peers};
    std::vector<PeerEntry> entries_;  // by PE; changed with the mutex held
    Part heaps_{.name = "heap"};      // what they show is changed with the mutex held
    Part globals_{.name = "globals"};
    std::vector<ProcId> shown_ SFT_GUARDED_BY(mutex_);  // by PE: whose memory that is
};

}  // namespace sft
