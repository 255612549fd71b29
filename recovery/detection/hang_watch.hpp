// Processes of the node that live but stand still: stopped, or stuck on their way out.
//
// Every service thread counts a word in its slot of the control segment (heartbeat.hpp); the next processes round the
// ring look whether it moves (recovery/detection/detector.hpp says who looks at whom). Whoever has not moved for the
// configured time is killed first and is dead only when the kernel says so: nobody is declared dead who could still
// write somewhere.
//
// Fault model: a process may be stopped and continued at any time, also this one, or all at once (a suspended job):
// then nobody could have heard anybody, and watching starts afresh. A word that moves proves that the service thread
// runs, not that the application gets on; an application may compute for as long as it likes. Who has called exit()
// without shmem_finalize stops counting, so it may take that long for its exit handlers and not longer. Who is traced
// is in a debugger, and has all the time that the user takes.
//
// Threads: the service thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "recovery/detection/detector.hpp"
#include "recovery/detection/heartbeat.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class HangWatch {
public:
    struct Options {
        ControlSegment* control = nullptr;
        Heartbeat* heartbeat = nullptr;  // its own
        ProcId self = kNoProc;
        std::int64_t bound_ns = 0;       // 0: nobody is suspected
        const NodeMap* nodes = nullptr;  // null: all processes are on this node
    };
    HangWatch(const Options& options, std::int64_t now_ns);

    // How long poll() may sleep before the next tick; -1: as long as it likes.
    [[nodiscard]] int timeout_ms(std::int64_t now_ns) const noexcept;
    // Lets the own heart beat and calls `kill` for everybody who has stood still for too long. Does nothing before its
    // time.
    void tick(std::span<const Death> dead, std::int64_t now_ns, const std::function<void(ProcId)>& kill);

private:
    static constexpr std::int64_t kTicksPerBound = 5;
    // Until its word has moved once a process may still be on its way through shmem_init, on a machine that is busy
    // starting many of them.
    static constexpr std::int64_t kStartBounds = 10;
    static_assert(kTicksPerBound > 2, "a process that has missed two ticks of its own begins afresh");

    ControlSegment* control_;
    Heartbeat* heartbeat_;
    ProcId self_;
    std::int64_t bound_ns_;
    std::int64_t period_ns_;
    std::int64_t began_ns_;
    std::int64_t last_tick_ns_;
    Detector detector_;
    std::vector<std::uint32_t> last_seen_;  // by process: its word
    std::vector<Death> elsewhere_;          // sorted: on other nodes, so not watched
};

}  // namespace sft
