// One piece of work at a time on a thread of its own, without signals, while its owner does something else.
//
// Threads: the owner's, one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace sft {

class BackgroundWork {
public:
    BackgroundWork() = default;
    ~BackgroundWork() { wait(); }
    BackgroundWork(const BackgroundWork&) = delete;
    BackgroundWork& operator=(const BackgroundWork&) = delete;

    // False: the system gives no thread, and nothing is done. REQUIRES: none is under way.
    [[nodiscard]] bool start(std::function<void()> work);
    // From start() to wait().
    [[nodiscard]] bool is_under_way() const noexcept { return thread_.joinable(); }
    // wait() would return at once.
    [[nodiscard]] bool is_done() const noexcept { return is_done_.load(); }
    // Until the work is done; what it has written is seen then. Nothing happens if none is under way.
    void wait() noexcept;

private:
    std::thread thread_;
    std::atomic<bool> is_done_{true};
};

}  // namespace sft
