// What this process does when something happens outside of its calls: when the agreement tells something, and when its
// service thread wakes up.
//
// Thread safety: the observer's functions by any thread, one call at a time; the service's by the service thread, but
// is_remote() and own_pe() by any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/own_pe.hpp"
#include "base/result.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/failure_service.hpp"
#include "recovery/detection/service_host.hpp"
#include "recovery/fault_policy.hpp"
#include "recovery/job_lines.hpp"
#include "recovery/spare_wait.hpp"
#include "shmem_ft/process/fault_hooks.hpp"
#include "shmem_ft/process/job_exit.hpp"
#include "shmem_ft/process/status_publisher.hpp"
#include "shmem_ft/start/node_links.hpp"
#include "symheap/peer_map.hpp"
#include "transport/shm/control.hpp"
#include "transport/shm/wait.hpp"

namespace sft {

class ProcessEvents final : public JobObserver, public ServiceHost {
public:
    struct Options {
        const ControlSegment* control = nullptr;
        ProcId self = kNoProc;
        const OwnPe* me = nullptr;
        const NodeLinks* links = nullptr;
        PeerMap* peers = nullptr;
        FaultGate* gate = nullptr;
        Coordinator* coordinator = nullptr;
        FailureService* service = nullptr;
        StatusPublisher* status = nullptr;
        FaultPolicy* fault_policy = nullptr;
        SpareWait* spare_wait = nullptr;
        JobLines* lines = nullptr;
        JobExit* job_exit = nullptr;
        FaultHooks* fault_hooks = nullptr;
    };
    // Before anything can happen.
    void open(const Options& options) noexcept;
    // Before the service thread is started.
    void watch_spare_wait();

    // JobObserver
    void heard_of_death(const Death& death) override;
    void decided(const JobState& before, const JobState& after) override;
    void must_stop(const Stop& why) override;
    void awaits_spares(const std::vector<PeId>& pes) override;

    // ServiceHost
    [[nodiscard]] bool is_remote(ProcId process) const noexcept override { return o_.links->is_remote(process); }
    [[nodiscard]] PeId own_pe() const noexcept override { return o_.me->get(); }
    void service_woken(std::int64_t now_ns) noexcept override;
    [[nodiscard]] int service_timeout_ms(std::int64_t now_ns) const noexcept override;
    void end_by_service(const std::string& line) noexcept override { o_.job_exit->end_by_service(line); }
    void before_kill() noexcept override { JobExit::flush_output(); }

private:
    void ring() noexcept { o_.control->slot(o_.self).doorbell.ring(); }
    void end_with_mpi(const Death& death);
    void tell_pending_fault() noexcept;
    void watch_exit_later() noexcept;

    Options o_;
    std::int64_t watch_exit_ns_ = 0;  // when exit() is to be watched once more; 0: not begun
};

}  // namespace sft
