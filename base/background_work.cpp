#include "base/background_work.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/thread_start.hpp"

namespace sft {

bool BackgroundWork::start(std::function<void()> work) {
    SFT_ASSERT(!is_under_way() && work);
    is_done_.store(false);
    thread_ = start_without_signals([this, work = std::move(work)] {
        work();
        is_done_.store(true);
    });
    if (!thread_.joinable()) {
        is_done_.store(true);
    }
    return thread_.joinable();
}

void BackgroundWork::wait() noexcept {
    if (thread_.joinable()) {
        thread_.join();
    }
}

}  // namespace sft
