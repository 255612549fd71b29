// The service thread of a process: learns of deaths from the kernel and of everything else by control messages, gives
// both to the agreement, and ends the process when oshrun is gone.
//
// Every process watches every other one of its node through a pidfd, so whichever processes survive, somebody reports.
// The thread sleeps in poll; it costs nothing while nothing happens.
//
// Life: watch_processes(), start(), stop(); stop() may come at any time, and more than once.
// Threads: what is not said to be for any thread is for the owner's while the service thread does not run, and all that
// is private is the service thread's while it does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/job_channel.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/failure_events.hpp"
#include "recovery/detection/failure_reports.hpp"
#include "recovery/detection/lease.hpp"
#include "recovery/detection/process_watches.hpp"
#include "recovery/detection/service_host.hpp"

namespace sft {

class FailureService {
public:
    // A process that lives but cannot be opened or heard may be on its way out, on a machine that has little time for
    // it.
    static constexpr std::int64_t kUntilGoneNs = 5'000'000'000;

    struct Options {
        ControlSegment* control = nullptr;
        Coordinator* coordinator = nullptr;
        JobChannel* channel = nullptr;
        ServiceHost* host = nullptr;
        ProcId self = kNoProc;
        const NodeMap* nodes = nullptr;  // null: one node
        std::int64_t hang_bound_ns = 0;
        std::int64_t node_bound_ns = 0;
        std::int64_t stall_bound_ns = 0;
        bool has_real_nodes = false;  // with addresses of their own
        bool is_realtime = false;
        bool joins = false;  // the job runs already
        std::string interface = {};
    };
    explicit FailureService(Options options);
    ~FailureService() { stop(); }
    FailureService(const FailureService&) = delete;
    FailureService& operator=(const FailureService&) = delete;

    // Those that the job started with, as far as they are on this node.
    [[nodiscard]] Result<> watch_processes();
    // Calls `on_readable` in the service thread when that is so. The descriptor stays the caller's, until stop().
    void watch_descriptor(int fd, std::function<void()> on_readable);
    [[nodiscard]] Result<> start();
    // Also deaths that the launcher tells of. REQUIRES: connected to PMIx.
    void listen_to_launcher(const std::string& name_space);
    void stop() noexcept;

    // Any thread: there may be somebody new to be watched.
    void wake() noexcept;
    // Any thread: a refused port proves a death.
    [[nodiscard]] bool has_lease() const;
    // Any thread.
    [[nodiscard]] const FailureReports& reports() const noexcept { return reports_; }

private:
    struct Detectors;
    struct Polled;
    struct Descriptor {
        int fd = -1;
        std::function<void()> on_readable;
    };

    [[nodiscard]] bool is_here() const noexcept { return thread_.load() == std::this_thread::get_id(); }
    [[nodiscard]] std::string own_name() const;
    void serve() noexcept;
    void await_event(Polled& polled, int timeout_ms) const noexcept;
    void list(Polled& polled);
    void watch_joined();
    void process_ended(ProcId process);
    void handle_refused_peers();
    void look_at_reported() SFT_EXCLUDES(reported_mutex_);
    void lose(const std::vector<Death>& lost);
    void look_for_trouble(std::int64_t now_ns);
    void leave_with_node() noexcept;
    void told_of_failure(ProcId process) SFT_EXCLUDES(reported_mutex_);
    void pump_all();

    const Options options_;
    Lease lease_;
    FailureReports reports_;
    ProcessWatches watches_;
    std::vector<ProcId> early_;  // had ended before anybody could watch them
    std::size_t n_joined_watched_ = 0;
    std::int64_t unwatched_since_ns_ = 0;  // a spare that has joined cannot be watched; 0: all are
    int unwatched_error_ = 0;
    std::vector<Descriptor> descriptors_;

    int wake_fd_ = -1;
    std::atomic<bool> is_stopping_{false};
    FailureEvents failure_events_;
    Mutex reported_mutex_{MutexRank::told};
    std::vector<ProcId> reported_failures_ SFT_GUARDED_BY(reported_mutex_);  // by the launcher
    std::atomic<std::thread::id> thread_;
    std::thread service_;
};

}  // namespace sft
