// Looks for flipped bits in the background: a thread that reads the local copy and the shadow of the committed version
// again and again, and mends each from the other. Damage is then found while there is still a good copy, not when the
// copy is needed. Off unless SHMEM_FT_SCRUB says how often.
//
// The thread is at the lowest priority, reads no faster than SHMEM_FT_SCRUB_RATE, and holds the store's mutex for a
// batch of blocks at a time (some ten microseconds), so a checkpoint waits for one batch at most.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "backup/store.hpp"
#include "base/idle_thread.hpp"
#include "base/mutex.hpp"

namespace sft {

class Scrubber {
public:
    struct Pace {
        std::chrono::milliseconds between_passes{0};
        std::uint64_t bytes_per_second = 1;  // of both copies together
    };

    // Starts if the settings say so: `scrubber.start(store, live, config)` once the first keeper is in use, and
    // `scrubber.stop()` before store.release(). False: no thread to be had.
    [[nodiscard]] bool start(BackupStore& store, const LiveState& live, const Config& config);
    // `store` and `live` must live until stop(). The first pass begins after one interval.
    [[nodiscard]] bool start(BackupStore& store, const LiveState& live, Pace pace);
    // Waits for the end of the batch that is under way.
    void stop() noexcept { thread_.stop(); }

    [[nodiscard]] std::uint64_t passes() const noexcept { return passes_.load(); }
    // Returns when so many more passes have ended; the last of them has then begun after the call if count > 1.
    void await_passes(std::uint64_t count) const;

private:
    static constexpr std::size_t kBatchBlocks = 4;

    void run(BackupStore& store, const LiveState& live, Pace pace);
    void pass(BackupStore& store, const LiveState& live, std::uint64_t bytes_per_second);

    mutable Mutex mutex_{MutexRank::scrubber};
    mutable Condition passed_;
    std::atomic<std::uint64_t> passes_{0};
    IdleThread thread_;  // ends before the rest
};

}  // namespace sft
