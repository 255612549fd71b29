// What `shmem-ft status` shows of this process. It is written when something has been decided or somebody has died, so
// not on any path that a program takes between two checkpoints. Nothing is decided by it.
//
// Threads: any. The mutex keeps those that publish apart; the coordinator may be asked something while it is held,
// never the other way round.
#pragma once

#include <atomic>
#include <cstdint>

#include "backup/checkpoint_pace.hpp"
#include "backup/protector.hpp"
#include "base/mutex.hpp"
#include "recovery/coordinator.hpp"
#include "transport/shm/control.hpp"

namespace sft {

// What the process itself adds to what the job agrees on.
struct OwnStatus {
    ProcId self = kNoProc;
    bool keeps_copies = false;
    std::int32_t n_on_demand = 0;   // spares that the job could have started, had none joined so far
    std::int64_t committed_ns = 0;  // 0: this process was not there
    std::uint64_t stored_bytes = 0;
    std::uint32_t incarnation = 0;
    StartupPhase startup = StartupPhase::none;
    std::uint64_t startup_bytes = 0;
    BackupStore::Counters blocks = {};
    CheckpointPace::Costs costs = {};
    std::int64_t best_interval_ns = 0;
    std::uint64_t room_most = 0;
    std::uint64_t room_left = 0;
};
[[nodiscard]] ProcessStatus make_status(const JobShape& shape, const Coordinator::Knowledge& known,
                                        const OwnStatus& own, std::int64_t now_ns);
void add_node_losses(ProcessStatus& status, const NodeLosses& losses) noexcept;

class StatusPublisher {
public:
    struct Options {
        ControlSegment* control = nullptr;
        const Coordinator* coordinator = nullptr;
        const Protector* protector = nullptr;
        ProcId self = kNoProc;
        bool keeps_copies = false;
        std::int32_t n_on_demand = 0;
    };
    explicit StatusPublisher(const Options& options) noexcept : options_(options) {}
    StatusPublisher(const StatusPublisher&) = delete;
    StatusPublisher& operator=(const StatusPublisher&) = delete;

    void publish(std::int64_t now_ns) noexcept SFT_EXCLUDES(mutex_);
    // For whoever wakes now and then: scrubbing goes on while nothing is decided. Publishes if it has got on, and not
    // too often.
    void refresh(std::int64_t now_ns) noexcept SFT_EXCLUDES(mutex_);

    // These are shown from the next publish() on.
    void set_costs(const CheckpointPace::Costs& costs, std::int64_t best_interval_ns) noexcept SFT_EXCLUDES(mutex_);
    void set_room(std::uint64_t most, std::uint64_t left) noexcept SFT_EXCLUDES(mutex_);
    void set_committed(std::int64_t committed_ns) noexcept { committed_ns_.store(committed_ns); }
    void set_incarnation(std::uint32_t incarnation) noexcept { incarnation_.store(incarnation); }
    void set_startup(StartupPhase phase, std::uint64_t record_bytes) noexcept;

private:
    static constexpr std::int64_t kRefreshNs = 100'000'000;

    const Options options_;
    std::atomic<std::int64_t> committed_ns_{0};
    std::atomic<std::uint32_t> incarnation_{0};
    std::atomic<StartupPhase> startup_{StartupPhase::none};
    std::atomic<std::uint64_t> startup_bytes_{0};

    Mutex mutex_{MutexRank::status};
    std::atomic<std::int64_t> published_ns_{0};
    std::atomic<std::uint64_t> published_checked_{0};  // blocks, in what has been published
    CheckpointPace::Costs costs_ SFT_GUARDED_BY(mutex_);
    std::int64_t best_interval_ns_ SFT_GUARDED_BY(mutex_) = 0;
    std::uint64_t room_most_ SFT_GUARDED_BY(mutex_) = 0;
    std::uint64_t room_left_ SFT_GUARDED_BY(mutex_) = 0;
    std::atomic<bool> has_news_ = false;  // to be shown with the next refresh()
};

}  // namespace sft
