#include "base/idle_thread.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/assert.hpp"
#include "base/thread_start.hpp"

namespace sft {

bool IdleThread::start(std::function<void()> work) {
    SFT_ASSERT(!thread_.joinable() && work);
    {
        const Locked lock(mutex_);
        stop_ = false;
    }
    thread_ = start_without_signals([work = std::move(work)] {
        // Not SCHED_IDLE: on a busy machine such a thread might get no time at all while it holds a mutex.
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
        work();
    });
    return thread_.joinable();
}

void IdleThread::stop() noexcept {
    if (!thread_.joinable()) {
        return;
    }
    {
        const Locked lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void IdleThread::wake() noexcept {
    {
        const Locked lock(mutex_);
        is_woken_ = true;
    }
    wake_.notify_one();
}

bool IdleThread::nap(std::chrono::nanoseconds duration) {
    const Locked lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + duration;
    while (!stop_ && !is_woken_ && wake_.wait_until(mutex_, end)) {
    }
    is_woken_ = false;
    return !stop_;
}

}  // namespace sft
