// Nobody is left to take over a PE, and the job may wait for a spare (SHMEM_FT_UNREPLACED). The rules let it wait; for
// how long, and whether the program's handler agrees, is the leader's business. A timer wakes its service thread: at
// once to ask the handler, and later when the bound has passed. If the leader dies, the next one begins to count anew.
//
// Invariants
//  1. A spare is asked for when it is clear that the job waits: not before the handler has said so, if there is one to
//     be asked.
//  2. The timer is set if and only if somebody is awaited.
//
// Thread safety: awaits() by any thread, one call at a time; timer_rang() by the service thread; the others by any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fault_action.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"

namespace sft {

class SpareWait {
public:
    struct Options {
        bool asks_handler = false;
        std::uint32_t timeout_seconds = 0;
        std::string remedy;                            // ends the line that says that the job waits
        std::function<void(PeId)> ask_for_spare = {};  // may bring one; with the mutex
    };

    SpareWait() = default;
    ~SpareWait() { close(); }
    SpareWait(const SpareWait&) = delete;
    SpareWait& operator=(const SpareWait&) = delete;

    [[nodiscard]] Result<> open(Options options);
    void close() noexcept;
    // Readable: timer_rang() is to be called.
    [[nodiscard]] int fd() const noexcept { return fd_; }

    // This process leads, and nobody is there to take over these PEs; none: that is over.
    void awaits(const std::vector<PeId>& pes) noexcept SFT_EXCLUDES(mutex_);

    // Why, and for the sake of whom, the job ends.
    struct End {
        enum class Why : std::uint8_t { timeout, handler } why{};
        std::vector<PeId> pes;
    };
    [[nodiscard]] std::optional<End> timer_rang() noexcept SFT_EXCLUDES(mutex_);

    void set_handler(UnreplacedHandler handler, void* context) noexcept SFT_EXCLUDES(mutex_);
    // Asks it. True: the job is to end, as it is if the program has registered none.
    [[nodiscard]] bool handler_ends(int reason, const std::vector<PeId>& pes) noexcept SFT_EXCLUDES(mutex_);

private:
    void set_timer(std::int64_t at_ns) noexcept SFT_REQUIRES(mutex_);
    void wait_for_spares() noexcept SFT_REQUIRES(mutex_);

    Options options_;
    int fd_ = -1;
    Mutex mutex_{MutexRank::waiting};
    std::vector<PeId> pes_ SFT_GUARDED_BY(mutex_);
    std::int64_t give_up_ns_ SFT_GUARDED_BY(mutex_) = 0;
    bool is_handler_due_ SFT_GUARDED_BY(mutex_) = false;
    UnreplacedHandler handler_ SFT_GUARDED_BY(mutex_) = nullptr;
    void* context_ SFT_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace sft
