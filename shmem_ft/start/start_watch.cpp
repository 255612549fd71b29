#include "shmem_ft/start/start_watch.hpp"

#include <chrono>
#include <utility>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "base/thread_start.hpp"

namespace sft {

const char* describe(StartStep step) noexcept {
    switch (step) {
        case StartStep::connecting: return "connects to the launcher's PMIx server";
        case StartStep::making_memory: return "creates its symmetric memory";
        case StartStep::meeting: return "waits for the others in the launcher's first fence";
        case StartStep::opening_listeners: return "opens the ways by which others reach it";
        case StartStep::publishing: return "waits for the others in the launcher's second fence";
        case StartStep::gathering: return "asks the launcher's PMIx server how the others are reached";
        case StartStep::trying_ways: return "tries to reach the other nodes";
        case StartStep::learning_nodes: return "waits for the others in the launcher's third fence";
        case StartStep::admitting_nodes: return "waits for the others in the launcher's fourth fence";
        case StartStep::taking_pe: return "gets in touch with the PE that keeps its copy";
    }
    return "starts";
}

StartWatch::StartWatch(std::uint32_t bound_ms, std::function<void(StartStep)> late) {
    if (bound_ms == 0) {
        return;
    }
    SFT_ASSERT(late != nullptr);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(bound_ms);
    thread_ = start_without_signals([this, end, late = std::move(late)] {
        const Locked lock(mutex_);
        while (!is_over_) {
            if (!changed_.wait_until(mutex_, end) && !is_over_) {
                late(step_.load());
                return;
            }
        }
    });
    if (!thread_.joinable()) {
        say("warning: the system gives no thread for it: this start has no time limit");
    }
}

StartWatch::~StartWatch() {
    if (!thread_.joinable()) {
        return;
    }
    {
        const Locked lock(mutex_);
        is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

}  // namespace sft
