// Real-time priority for the threads that watch over a job: a machine full of work must not keep them from saying that
// they are alive, and from hearing others. They sleep nearly always, so nobody else misses the time.
#pragma once

#include <sched.h>

namespace sft {

// The calling thread, not what it starts. False: the system does not permit it (CAP_SYS_NICE, RLIMIT_RTPRIO), and
// nothing has changed. REQUIRES: the thread never waits by looking again and again; those it waits for would not run.
inline bool prefer_this_thread() noexcept {
    sched_param lowest{};
    lowest.sched_priority = ::sched_get_priority_min(SCHED_RR);
    return ::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) == 0;
}

}  // namespace sft
