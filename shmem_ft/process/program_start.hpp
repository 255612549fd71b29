// The start-up of the program, from shmem_init to its first committed version or, in a substitute, to its joining:
// where its record and the marks of writes lie (ops/startup.hpp), what PE 0 reads from its standard input, and when it
// is over.
//
// Threads: that of the collective calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/faults/fault_points.hpp"
#include "base/job_channel.hpp"
#include "base/own_pe.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/startup.hpp"
#include "shmem_ft/process/status_publisher.hpp"
#include "symheap/peer_map.hpp"
#include "symheap/symmetric_memory.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class ProgramStart {
public:
    struct Options {
        Engine* engine = nullptr;
        SymmetricMemory* memory = nullptr;
        PeerMap* peers = nullptr;
        const ControlSegment* control = nullptr;
        Network* network = nullptr;  // in a job on several nodes
        StatusPublisher* status = nullptr;
        JobChannel* channel = nullptr;
        std::string job_socket = {};  // oshrun's
        ProcId self = kNoProc;
        const OwnPe* me = nullptr;
        std::uint32_t life = 1;  // from 1: which one of this process
        std::function<void()> phase_changed = {};
        // From `begin_ns` to now, of `version` (EventLog).
        std::function<void(const char* name, std::int64_t begin_ns, std::uint64_t version)> report_span = {};
    };
    // Before anything else.
    void open(Options options);
    // Whether the program can have checkpoints: one without them has no substitutes, and its calls go the short way
    // from the beginning.
    [[nodiscard]] static bool may_checkpoint();

    // This process is a PE from here on.
    void enter() noexcept;
    // Between shmem_init and the first call: by a PE, and by a substitute that has its front.
    void record();
    void repeat();
    // A substitute has come to shmem_restart_pes.
    void end_replay(Version version) noexcept;
    // What was recorded goes into the version that is replicated now.
    void close() noexcept;
    // The first version is committed, or this substitute has joined: from here on calls go the short way.
    void end(Version version) noexcept;
    [[nodiscard]] ProgramPhase phase() const noexcept;

private:
    [[nodiscard]] Startup::Memory memory() const noexcept;
    void begin();
    void show() noexcept;
    void take_input() noexcept;

    Options o_;
    std::unique_ptr<Startup> startup_;
    std::int64_t begin_ns_ = 0;  // of the start-up or its repetition; 0: it is over
};

}  // namespace sft
