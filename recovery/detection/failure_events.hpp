// What the launcher says of processes that have failed: PMIx events, from servers that deliver them. Debian's mpirun
// delivers none (docs/launchers.md).
//
// Fault model: an event may be false, late, told twice, or never come. So it proves nothing, and nobody is dead because
// of one: it is the occasion to look at the process, which the owner does. That finds a death of which there is no
// other sign, of a process on another node to which nobody has a connection.
//
// Threads: events come on a thread of PMIx; no call to `told` is under way when stop() has returned.
#pragma once

#include <pmix_common.h>

#include <functional>
#include <string>

#include "base/ids.hpp"

namespace sft {

class FailureEvents {
public:
    FailureEvents() = default;
    ~FailureEvents() { stop(); }
    FailureEvents(const FailureEvents&) = delete;
    FailureEvents& operator=(const FailureEvents&) = delete;

    // Of the processes in name_space. REQUIRES: connected to PMIx; no other object of this class listens.
    void listen(const std::string& name_space, std::function<void(ProcId)> told);
    void stop() noexcept;

private:
    static void handle(std::size_t handler, pmix_status_t status, const pmix_proc_t* source, pmix_info_t infos[],
                       std::size_t n_infos, pmix_info_t* results, std::size_t n_results,
                       pmix_event_notification_cbfunc_fn_t done, void* done_data);
    void tell(const pmix_proc_t& process) const;

    std::string name_space_;
    std::function<void(ProcId)> told_;
};

}  // namespace sft
