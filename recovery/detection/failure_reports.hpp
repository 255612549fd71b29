// What oshrun hears from this process about the deaths of others: of one that somebody has seen at once, by whoever is
// first; of one that the job has agreed on without having seen it, by one process of each node, as some may not reach
// oshrun.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/job_channel.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/service_host.hpp"
#include "transport/shm/control.hpp"

namespace sft {

// The processes whose deaths are new in `after` and have been seen by nobody.
[[nodiscard]] std::vector<ProcId> unseen_losses(std::span<const Death> before, std::span<const Death> after);

class FailureReports {
public:
    struct Options {
        JobChannel* channel = nullptr;
        ControlSegment* control = nullptr;
        const Coordinator* coordinator = nullptr;
        ProcId self = kNoProc;
        bool is_one_node = true;
        const ServiceHost* host = nullptr;
    };
    explicit FailureReports(const Options& options) noexcept : options_(options) {}

    void death_seen(ProcId process, FailureReason reason, std::int64_t seen_ns) const;
    // A spare in no agreed value, where nobody looks for it; the leader's word is the job's.
    void spare_lost(const Death& death) const;
    void decided(const JobState& before, const JobState& after) const;

private:
    [[nodiscard]] bool speaks_for_node(const JobState& state) const;
    void agreed_lost(ProcId process) const;

    Options options_;
};

}  // namespace sft
