// What the program has chosen to happen when a call meets a fault, and what it has been told of the fault: the list of
// those that have failed, once for each fault and thread a way out of the call, and a line if nobody recovers for long.
//
// A rollback point lies in a frame of a thread's own stack, so nobody else can go there; and it goes when the thread
// goes. It belongs to one life: from a shmem_init to the last shmem_finalize.
//
// Thread safety: every function by any thread, but is_pending_for_long() and timeout_ms() by the service thread alone,
// and open() before there is a second one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fault_action.hpp"
#include "base/mutex.hpp"
#include "base/pending_watch.hpp"
#include "recovery/membership/job_state.hpp"

namespace sft {

class FaultPolicy {
public:
    struct Options {
        FaultAction action = FaultAction::jump;
        std::uint32_t life = 1;  // from 1
        std::function<PeId()> me = {};
        // A substitute has not, until it has come to the restart.
        std::function<bool()> has_joined = {};
        // Has the PEs agree on who has failed. True: they have, and failed() is the list.
        std::function<bool()> agree = {};
        std::function<void(const std::string& line)> end_job = {};  // does not return
    };

    void open(Options options) noexcept;

    // False: no such action, or one that needs a handler without one.
    [[nodiscard]] bool choose(FaultAction action, FaultHandler handler, void* context) noexcept SFT_EXCLUDES(mutex_);
    // For setjmp in the caller's own frame: where a jump goes, from this thread.
    [[nodiscard]] jmp_buf* rollback_point() noexcept;
    // A substitute that has not joined has passed its rollback point: as if it had jumped there.
    [[nodiscard]] bool must_recover() noexcept SFT_EXCLUDES(mutex_);
    // A call has met the fault: how it is left.
    [[nodiscard]] WayOut meet(const char* routine) noexcept SFT_EXCLUDES(mutex_);

    // Who everybody agrees has failed, until the restart is over.
    [[nodiscard]] std::vector<FailedPe> failed() const SFT_EXCLUDES(mutex_);
    void set_failed(std::vector<FailedPe> failed) SFT_EXCLUDES(mutex_);
    // A restart has been decided, whatever it has come to: the next fault is another one.
    void restart_decided() noexcept { restarts_.fetch_add(1); }

    // Calls that wait for all PEs although a fault is pending say so; the restart says that the fault is over.
    [[nodiscard]] PendingWatch& watch() noexcept { return watch_; }
    [[nodiscard]] bool is_pending_for_long(bool is_pending, std::int64_t now_ns) noexcept {
        return watch_.tick(is_pending, now_ns);
    }
    [[nodiscard]] int timeout_ms(std::int64_t now_ns) const noexcept { return watch_.timeout_ms(now_ns); }
    [[nodiscard]] std::string pending_line(std::optional<PeId> dead) const;

private:
    struct Choice {
        FaultAction action = FaultAction::go_on;
        FaultHandler handler = nullptr;
        void* context = nullptr;
    };
    [[nodiscard]] Choice choice() const SFT_EXCLUDES(mutex_);
    [[nodiscard]] bool may_leave(const char* routine) noexcept;
    [[nodiscard]] WayOut leave(const Choice& chosen, const char* routine) noexcept;
    void end_job(const char* routine) const;

    Options options_;
    mutable Mutex mutex_{MutexRank::list};
    std::vector<FailedPe> failed_ SFT_GUARDED_BY(mutex_);
    Choice choice_ SFT_GUARDED_BY(mutex_);
    std::atomic<bool> has_way_out_{false};  // some thread has passed a rollback point, or has chosen to throw
    std::atomic_flag told_no_way_out_ = ATOMIC_FLAG_INIT;
    PendingWatch watch_;
    std::atomic<std::uint32_t> restarts_{0};
};

// Of a job that runs: the lowest PE whose holder is known to be dead. dead: sorted by process.
[[nodiscard]] std::optional<PeId> first_dead_pe(const JobShape& shape, const JobState& state,
                                                std::span<const Death> dead);
// That a fault is pending here is not enough to wait for the decision: it may follow from old news.
[[nodiscard]] bool is_fault_known(const JobShape& shape, const JobState& state, std::span<const Death> dead);

}  // namespace sft
