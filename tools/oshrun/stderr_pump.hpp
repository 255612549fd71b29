// Moves the launcher's stderr to ours through the filter, in a thread of its own: a reader that does not read (a pager)
// must not keep the guardian from its duties. Any other stream may be moved the same way, as it is.
//
// What cannot be written because nobody reads any more is not missed by anybody. Whatever else is lost (a full disk)
// is, and lost() tells.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "tools/common/fd.hpp"

namespace sft::tools {

class StderrPump {
public:
    // Starts at once. source is the read end of the launcher's stderr.
    explicit StderrPump(Fd source);
    // To another descriptor, and without the filter.
    StderrPump(Fd source, int sink);
    // Does not wait for a pump whose reader does not read; the process is about to end then.
    ~StderrPump();
    StderrPump(const StderrPump&) = delete;
    StderrPump& operator=(const StderrPump&) = delete;

    // Readable when everything has been moved and the other side has closed.
    [[nodiscard]] int done_fd() const noexcept { return done_->get(); }
    // The error number with which something could not be written; 0: nothing is missing.
    [[nodiscard]] int lost() const noexcept { return *lost_; }

private:
    using Lost = std::shared_ptr<std::atomic<int>>;

    // The thread's too: it may outlive this object.
    std::shared_ptr<const Fd> done_;
    Lost lost_;
    std::thread thread_;
};

}  // namespace sft::tools
