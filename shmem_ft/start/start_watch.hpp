// A bound on the time that a process spends in shmem_init, where it waits for others and for the launcher in calls that
// know no bound of their own (PMIx_Init, PMIx_Fence, PMIx_Get).
//
// Fault model: any other process may die or stand still at any time before it has come through shmem_init, the
// launcher's server may not answer, and the network may lose everything. Nobody watches anybody yet. So each process
// goes by its own clock; what it was waiting for is the best that it can tell, and whoever hears all of them (oshrun)
// can tell who is to blame: the one that has come least far.
//
// A thread of its own, because the one that starts is inside those calls. It sleeps all the time. Where the system
// gives none there is no bound, and a line says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/mutex.hpp"

namespace sft {

// What a process does in shmem_init, in this order; how far it has come is told to oshrun as a number.
enum class StartStep : std::int32_t {
    connecting = 1,
    making_memory,
    meeting,
    opening_listeners,
    publishing,
    gathering,
    trying_ways,
    learning_nodes,
    admitting_nodes,
    taking_pe,
};
// "waits for ...", "connects to ...": what follows the name of a process in an error line.
[[nodiscard]] const char* describe(StartStep step) noexcept;

class StartWatch {
public:
    // late: called once, by the watch's thread, when the bound is over before the destructor is called. It may end the
    // process.
    StartWatch(std::uint32_t bound_ms, std::function<void(StartStep)> late);
    ~StartWatch();
    StartWatch(const StartWatch&) = delete;
    StartWatch& operator=(const StartWatch&) = delete;

    void enter(StartStep step) noexcept { step_.store(step); }

private:
    std::atomic<StartStep> step_{StartStep::connecting};
    Mutex mutex_{MutexRank::start_watch};
    Condition changed_;
    bool is_over_ SFT_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace sft
