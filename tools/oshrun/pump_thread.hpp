// A thread that moves what others print. Of its own: a reader that does not read (a pager) must not keep the guardian
// from its duties.
//
// What cannot be written because nobody reads any more is not missed by anybody. Whatever else is lost (a full disk)
// is, and lost() tells.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "tools/common/fd.hpp"

namespace sft::tools {

class PumpThread {
public:
    // Starts at once. move: returns when everything has been moved and all other sides have closed.
    explicit PumpThread(std::function<void(std::atomic<int>& lost)> move);
    // Does not wait for one whose reader does not read; the process is about to end then.
    ~PumpThread();
    PumpThread(const PumpThread&) = delete;
    PumpThread& operator=(const PumpThread&) = delete;

    // Readable when it has returned.
    [[nodiscard]] int done_fd() const noexcept { return done_->get(); }
    // The error number with which something could not be written; 0: nothing is missing.
    [[nodiscard]] int lost() const noexcept { return *lost_; }

private:
    // The thread's too: it may outlive this object.
    std::shared_ptr<const Fd> done_;
    std::shared_ptr<std::atomic<int>> lost_;
    std::thread thread_;
};

}  // namespace sft::tools
