// The processes of this node whose ends the kernel tells this one: a pidfd each, and one descriptor that says when one
// of them has something to tell. So it costs nothing to wait for the ends of many.
//
// Invariants: each descriptor is closed once, and each end is found once: a process whose end has been found is watched
// no more, and its number is never used again.
//
// Threads: one at a time.
#pragma once

#include <vector>

#include "base/assert.hpp"
#include "base/process_watch.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class ProcessWatches {
public:
    explicit ProcessWatches(const ControlSegment& control)
        : control_(control), pidfds_(static_cast<std::size_t>(control.n_slots()), -1) {}
    ~ProcessWatches() { clear(); }
    ProcessWatches(const ProcessWatches&) = delete;
    ProcessWatches& operator=(const ProcessWatches&) = delete;

    // The process that the slot names. If it is gone, or cannot be opened, it is not watched.
    struct Outcome {
        Reach reach = Reach::gone;
        int error = 0;  // errno, if it cannot be opened
    };
    [[nodiscard]] Outcome watch(ProcId process);
    [[nodiscard]] bool is_watched(ProcId process) const noexcept {
        SFT_ASSERT(process.value() >= 0 && process.index() < pidfds_.size());
        return pidfds_[process.index()] >= 0;
    }
    // Readable when a process has ended; -1: none was ever watched.
    [[nodiscard]] int fd() const noexcept { return set_; }
    // Those that have ended, in the order of their numbers. Does not wait.
    [[nodiscard]] std::vector<ProcId> ended() const;
    // It has ended: how, as far as the kernel tells.
    [[nodiscard]] FailureReason take_end(ProcId process) noexcept;

    // Nothing happens if it is not watched.
    void kill(ProcId process) const noexcept;
    void kill_all() const noexcept;
    void clear() noexcept;

private:
    [[nodiscard]] int forget(std::size_t index) noexcept;

    const ControlSegment& control_;
    std::vector<int> pidfds_;  // by process; -1: not watched
    int set_ = -1;             // of epoll: all of them
};

}  // namespace sft
