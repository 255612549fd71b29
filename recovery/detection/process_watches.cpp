#include "recovery/detection/process_watches.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"

namespace sft {

ProcessWatches::Outcome ProcessWatches::watch(ProcId process) {
    SFT_ASSERT(!is_watched(process));
    if (set_ < 0) {
        set_ = ::epoll_create1(EPOLL_CLOEXEC);
    }
    if (set_ < 0) {
        return {Reach::cannot_be_opened, errno};
    }
    const ProcessSlot& slot = control_.slot(process);
    const Opening opening = open_process(slot.pid, slot.start_time, slot.pidfd_number);
    SFT_ASSERT((opening.reach == Reach::opened) == (opening.fd >= 0));
    if (opening.reach != Reach::opened) {
        return {opening.reach, opening.error};
    }
    epoll_event event{.events = EPOLLIN, .data = {.u64 = process.index()}};
    if (::epoll_ctl(set_, EPOLL_CTL_ADD, opening.fd, &event) != 0) {
        const int error = errno;
        ::close(opening.fd);
        return {Reach::cannot_be_opened, error};
    }
    pidfds_[process.index()] = opening.fd;
    return {Reach::opened, 0};
}

std::vector<ProcId> ProcessWatches::ended() const {
    std::array<epoll_event, 64> events;
    const int n_events = set_ < 0 ? 0 : ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), 0);
    std::vector<ProcId> processes;
    for (int i = 0; i < n_events; ++i) {
        processes.push_back(ProcId(static_cast<std::int32_t>(events[static_cast<std::size_t>(i)].data.u64)));
        SFT_ASSERT(is_watched(processes.back()));
    }
    std::sort(processes.begin(), processes.end());
    return processes;
}

// A child of this process may have the same descriptor still open, which keeps it in the set.
int ProcessWatches::forget(std::size_t index) noexcept {
    const int pidfd = std::exchange(pidfds_[index], -1);
    ::epoll_ctl(set_, EPOLL_CTL_DEL, pidfd, nullptr);
    return pidfd;
}

FailureReason ProcessWatches::take_end(ProcId process) noexcept {
    SFT_ASSERT(is_watched(process));
    const int pidfd = forget(process.index());
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
    if (set_ >= 0) {
        ::close(std::exchange(set_, -1));
    }
}

}  // namespace sft
