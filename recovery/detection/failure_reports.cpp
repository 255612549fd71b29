#include "recovery/detection/failure_reports.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sft {

std::vector<ProcId> unseen_losses(std::span<const Death> before, std::span<const Death> after) {
    std::vector<ProcId> lost;
    for (const Death& death : after) {
        const bool is_new = std::none_of(before.begin(), before.end(),
                                         [&](const Death& known) { return known.process == death.process; });
        if (is_new && !death.is_certain) {
            lost.push_back(death.process);
        }
    }
    return lost;
}

void FailureReports::death_seen(ProcId process, FailureReason reason, std::int64_t seen_ns) const {
    SFT_ASSERT(reason.kind != FailureKind::none && seen_ns > 0 && process != options_.self);
    const JobState state = options_.coordinator->state();
    if (is_over(state) || !options_.channel->is_connected() ||
        options_.control->slot(process).is_death_noted.exchange(1) != 0) {
        return;
    }
    JobEvent event;
    event.kind = JobEventKind::failure_seen;
    event.pe = options_.coordinator->shape().held_by(state, process).value();
    event.value = static_cast<std::uint64_t>(process.value());
    event.code = reason.status();
    event.begin_ns = seen_ns;
    options_.channel->report(event);
}

void FailureReports::spare_lost(const Death& death) const {
    if (!death.is_certain && options_.coordinator->leads() &&
        options_.coordinator->shape().held_by(options_.coordinator->state(), death.process) == kNoPe) {
        agreed_lost(death.process);
    }
}

void FailureReports::decided(const JobState& before, const JobState& after) const {
    SFT_ASSERT(after.deaths.size() >= before.deaths.size());  // none is taken back
    if (after.deaths.size() == before.deaths.size() || options_.is_one_node || !speaks_for_node(after)) {
        return;
    }
    for (const ProcId process : unseen_losses(before.deaths, after.deaths)) {
        agreed_lost(process);
    }
}

// The lowest living holder of the node does.
bool FailureReports::speaks_for_node(const JobState& state) const {
    const JobShape& shape = options_.coordinator->shape();
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const ProcId holder = shape.holder(state, PeId(pe));
        if (holder < options_.self && !options_.host->is_remote(holder) && !options_.coordinator->is_dead(holder)) {
            return false;
        }
    }
    return shape.held_by(state, options_.self) != kNoPe;
}

void FailureReports::agreed_lost(ProcId process) const {
    JobEvent event;
    event.kind = JobEventKind::agreed_lost;
    event.pe = options_.host->own_pe().value();
    event.value = static_cast<std::uint64_t>(process.value());
    options_.channel->report(event);
}

}  // namespace sft
