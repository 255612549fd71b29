// A thread for what is done when nobody needs the processor: at the lowest priority, without signals, until it is told
// to stop.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.hpp"

namespace sft {

class IdleThread {
public:
    // rank: of the mutex that wake() takes.
    explicit IdleThread(MutexRank rank = MutexRank::idle) noexcept : mutex_(rank) {}
    ~IdleThread() { stop(); }
    IdleThread(const IdleThread&) = delete;
    IdleThread& operator=(const IdleThread&) = delete;

    // `work` returns soon after nap() has returned false. False: the system gives no thread.
    [[nodiscard]] bool start(std::function<void()> work);
    // A nap that goes on ends, or the next one that is made.
    void wake() noexcept;
    // Waits for the end of `work`. Nothing happens if it was not started.
    void stop() noexcept;
    // By the thread itself. False: it is time to stop.
    [[nodiscard]] bool nap(std::chrono::nanoseconds duration);

private:
    std::thread thread_;
    Mutex mutex_;
    Condition wake_;
    bool stop_ SFT_GUARDED_BY(mutex_) = false;
    bool is_woken_ SFT_GUARDED_BY(mutex_) = false;
};

}  // namespace sft
