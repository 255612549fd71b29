// Which PE this process is, and whether it takes part in the job's calls already: a spare is none and sleeps; as a
// substitute it has a number, but what it does is answered from what is saved, until it joins in a restart.
//
// Thread safety: asked by any thread; the changes belong to the thread that makes the collective calls.
#pragma once

#include <atomic>

#include "base/assert.hpp"
#include "base/ids.hpp"

namespace sft {

class OwnPe {
public:
    explicit OwnPe(PeId pe = kNoPe) noexcept : pe_(pe) {}
    OwnPe(const OwnPe&) = delete;
    OwnPe& operator=(const OwnPe&) = delete;

    // kNoPe: a spare, or not that far yet.
    [[nodiscard]] PeId get() const noexcept { return pe_.load(); }
    [[nodiscard]] std::int32_t value() const noexcept { return get().value(); }
    // It has started as a spare.
    [[nodiscard]] bool is_substitute() const noexcept { return is_substitute_.load(); }
    [[nodiscard]] bool has_joined() const noexcept { return has_joined_.load(); }

    void become_spare() noexcept {
        SFT_ASSERT(get() == kNoPe && !is_substitute());
        is_substitute_.store(true);
        has_joined_.store(false);
    }
    // The job goes on from a stored version: as it were a substitute of itself.
    void begin_with_stored() noexcept {
        SFT_ASSERT(get() == kNoPe && !is_substitute());
        begins_with_stored_.store(true);
        has_joined_.store(false);
    }
    [[nodiscard]] bool begins_with_stored() const noexcept { return begins_with_stored_.load(); }
    // The start-up of its program has been gone through before.
    [[nodiscard]] bool repeats_start() const noexcept { return is_substitute() || begins_with_stored(); }
    // Once.
    void take(PeId pe) noexcept {
        SFT_ASSERT(get() == kNoPe && pe != kNoPe);
        pe_.store(pe);
    }
    // Also if it has.
    void join() noexcept {
        SFT_ASSERT(get() != kNoPe);
        has_joined_.store(true);
    }

private:
    std::atomic<PeId> pe_;
    std::atomic<bool> is_substitute_{false};
    std::atomic<bool> begins_with_stored_{false};
    std::atomic<bool> has_joined_{true};
};

}  // namespace sft
