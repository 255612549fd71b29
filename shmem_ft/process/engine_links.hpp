// What the operations know of where the PEs are: their table of peers, their channels and, in a job on several nodes,
// which PE is where. Set when this process becomes a PE, and again inside a restart, when PEs have moved.
//
// Threads: that of the collective calls.
#pragma once

#include "base/own_pe.hpp"
#include "base/result.hpp"
#include "recovery/coordinator.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "symheap/peer_map.hpp"
#include "symheap/symmetric_memory.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class EngineLinks {
public:
    struct Options {
        Engine* engine = nullptr;
        const ControlSegment* control = nullptr;
        const Coordinator* coordinator = nullptr;
        const SymmetricMemory* memory = nullptr;
        PeerMap* peers = nullptr;
        Network* network = nullptr;   // in a job on several nodes
        bool notes_changes = false;   // what is written to other PEs, for those that track that
        ProcessSlot* slot = nullptr;  // its own
        const OwnPe* me = nullptr;
    };
    void open(const Options& options) noexcept { o_ = options; }

    // This process is a PE now: its table of peers, in which nobody is shown yet, and how it waits.
    void connect_peers();
    void connect_channels();
    // Behind each checkpoint and restart: whether what is written to other PEs is noted until the next one.
    void take_notes() noexcept;
    // Everybody is protected again, with that value: all counts begin anew.
    void reset_channels(const JobState& state);

private:
    void connect_network(const JobState& state);

    Options o_;
};

}  // namespace sft
