// Moves what several processes print to one descriptor, in whole lines: those of different processes do not mix. A line
// that is not complete waits for its end, but not for long: it may be a question. In a thread of its own: a reader that
// does not read must not keep the guardian from its duties.
//
// What cannot be written because nobody reads any more is not missed by anybody. Whatever else is lost (a full disk)
// is, and lost() tells.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tools/common/fd.hpp"

namespace sft::tools {

class LinePump {
public:
    // Starts at once. sources: read ends, non-blocking.
    LinePump(std::vector<Fd> sources, int sink);
    // Does not wait for a pump whose reader does not read; the process is about to end then.
    ~LinePump();
    LinePump(const LinePump&) = delete;
    LinePump& operator=(const LinePump&) = delete;

    // Readable when everything has been moved and all other sides have closed.
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
