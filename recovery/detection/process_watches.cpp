#include "recovery/detection/process_watches.hpp"

#include <unistd.h>

#include <utility>

#include "base/assert.hpp"

namespace sft {

ProcessWatches::Outcome ProcessWatches::watch(ProcId process) {
    SFT_ASSERT(!is_watched(process));
    const ProcessSlot& slot = control_.slot(process);
    const Opening opening = open_process(slot.pid, slot.start_time);
    SFT_ASSERT((opening.reach == Reach::opened) == (opening.fd >= 0));
    pidfds_[process.index()] = opening.fd;
    return {opening.reach, opening.error};
}

void ProcessWatches::list(std::vector<pollfd>& polled, std::vector<ProcId>& processes) const {
    for (std::size_t i = 0; i < pidfds_.size(); ++i) {
        if (pidfds_[i] >= 0) {
            polled.push_back({pidfds_[i], POLLIN, 0});
            processes.push_back(ProcId(static_cast<std::int32_t>(i)));
        }
    }
    SFT_ASSERT(polled.size() >= processes.size());
}

FailureReason ProcessWatches::take_end(ProcId process) noexcept {
    SFT_ASSERT(is_watched(process));
    const int pidfd = std::exchange(pidfds_[process.index()], -1);
    const FailureReason reason = reason_of_end(pidfd, control_.slot(process).pid);
    ::close(pidfd);
    return reason;
}

void ProcessWatches::kill(ProcId process) const noexcept {
    if (is_watched(process)) {
        const ProcessSlot& slot = control_.slot(process);
        kill_process(pidfds_[process.index()], slot.pid, slot.start_time);
    }
}

void ProcessWatches::kill_all() const noexcept {
    for (std::size_t i = 0; i < pidfds_.size(); ++i) {
        kill(ProcId(static_cast<std::int32_t>(i)));
    }
}

void ProcessWatches::clear() noexcept {
    for (int& pidfd : pidfds_) {
        if (pidfd >= 0) {
            ::close(std::exchange(pidfd, -1));
        }
    }
}

}  // namespace sft
