#include "recovery/detection/failure_events.hpp"

#include <pmix.h>

#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "base/private_data.hpp"

namespace sft {
namespace {

// Who listens. PMIx keeps a handler for as long as it likes, so it must not know the object itself.
SFT_LIBRARY_STATE constinit Mutex g_mutex{MutexRank::events};
SFT_LIBRARY_STATE FailureEvents* g_listener SFT_GUARDED_BY(g_mutex) = nullptr;

}  // namespace

void FailureEvents::listen(const std::string& name_space, std::function<void(ProcId)> told) {
    name_space_ = name_space;
    told_ = std::move(told);
    {
        const Locked lock(g_mutex);
        SFT_ASSERT(told_ && (g_listener == nullptr || g_listener == this));
        g_listener = this;
    }
    pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED,      PMIX_ERR_PROC_REQUESTED_ABORT, PMIX_ERR_PROC_TERM_WO_SYNC,
                             PMIX_EVENT_PROC_TERMINATED, PMIX_ERR_PROC_KILLED_BY_CMD,   PMIX_ERR_PROC_ABORTED_BY_SIG,
                             PMIX_ERR_EXIT_NONZERO_TERM, PMIX_EVENT_NODE_DOWN,          PMIX_EVENT_NODE_OFFLINE};
    // A server that refuses these tells nothing, as most do.
    PMIx_Register_event_handler(codes, std::size(codes), nullptr, 0, &FailureEvents::handle, nullptr, nullptr);
}

void FailureEvents::stop() noexcept {
    const Locked lock(g_mutex);
    if (g_listener == this) {
        g_listener = nullptr;
    }
}

void FailureEvents::tell(const pmix_proc_t& process) const {
    constexpr pmix_rank_t kRanksMax = 1U << 30U;  // what is beyond stands for several processes
    if (name_space_ == process.nspace && process.rank < kRanksMax) {
        told_(ProcId(static_cast<std::int32_t>(process.rank)));
    }
}

void FailureEvents::handle(std::size_t /*handler*/, pmix_status_t /*status*/, const pmix_proc_t* /*source*/,
                           pmix_info_t infos[], std::size_t n_infos, pmix_info_t* /*results*/,
                           std::size_t /*n_results*/, pmix_event_notification_cbfunc_fn_t done, void* done_data) {
    {
        const Locked lock(g_mutex);
        for (std::size_t i = 0; i < n_infos && g_listener != nullptr; ++i) {
            const pmix_value_t& value = infos[i].value;
            if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_AFFECTED_PROC) && value.type == PMIX_PROC) {
                g_listener->tell(*value.data.proc);
            } else if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_AFFECTED_PROCS) && value.type == PMIX_DATA_ARRAY &&
                       value.data.darray->type == PMIX_PROC) {
                const auto* const processes = static_cast<const pmix_proc_t*>(value.data.darray->array);
                for (std::size_t j = 0; j < value.data.darray->size; ++j) {
                    g_listener->tell(processes[j]);
                }
            }
        }
    }
    if (done != nullptr) {
        done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, done_data);
    }
}

}  // namespace sft
