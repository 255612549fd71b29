// The word in the control segment that moves as long as the service thread of this process runs. HangWatch and
// NodeGuard of the other processes of the node look at it; those of this one say how often it moves: each at its own
// pace, so that it moves at the faster of the two. Who has called exit() is not at work any more, and it stands still.
//
// Threads: the service thread only.
#pragma once

#include "base/assert.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class Heartbeat {
public:
    explicit Heartbeat(ProcessSlot& slot) noexcept : slot_(slot) {}
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;

    // From now on silence counts.
    void begin() noexcept {
        SFT_ASSERT(!has_begun_);
        has_begun_ = true;
        slot_.heartbeat.fetch_add(1);
    }
    // Once it has begun.
    void beat() noexcept {
        SFT_ASSERT(has_begun_);
        if (slot_.exit_status.load() == 0) {
            slot_.heartbeat.fetch_add(1);
        }
    }

private:
    ProcessSlot& slot_;
    bool has_begun_ = false;
};

}  // namespace sft
