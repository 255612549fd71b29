#include "recovery/job_lines.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"

namespace sft {

void JobLines::open(Options options) {
    SFT_ASSERT(options.coordinator != nullptr && options.control != nullptr);
    o_ = std::move(options);
}

JobFacts JobLines::facts(const JobState& state, std::span<const Death> dead) const {
    return {.shape = o_.coordinator->shape(),
            .state = state,
            .dead = dead,
            .node_name = o_.node_name,
            .version_of_view = version_of_view_.load(),
            .keeps_copies = o_.keeps_copies};
}

std::string JobLines::end(const JobState& state) const {
    const std::vector<Death> dead = o_.coordinator->known_deaths();
    return explain_end(facts(state, dead));
}

std::string JobLines::unreplaced(const SpareWait::End& end) const {
    const JobState state = o_.coordinator->state();
    const std::vector<Death> dead = o_.coordinator->known_deaths();
    return name_failed(state, end.pes) +
           (end.why == SpareWait::End::Why::handler
                ? lack_of_spares(facts(state, dead))
                : format(" and no spare has come within %u s (SHMEM_FT_WAIT_TIMEOUT)", o_.wait_timeout_seconds));
}

std::string JobLines::past_the_end() const {
    std::string who = "a PE failed";
    const JobState state = o_.coordinator->state();
    if (!state.failed.empty()) {
        who =
            format("PE %d failed (%s)", state.failed.front().pe.value(), describe(state.failed.front().reason).c_str());
    }
    return who + " after the last shmem_checkpoint_all: the others are in shmem_finalize and cannot go back";
}

std::optional<std::string> JobLines::recovery(const JobState& recovered_from, PeId me) const {
    const std::vector<PeId> pes = failed_pes(recovered_from);
    if (pes.empty() || pes.front() != me) {
        return std::nullopt;
    }
    std::int64_t begin_ns = now_ns();
    for (const PeId pe : pes) {
        // Whoever held it when all was well. Seen on this node; of another node's process a little later than there.
        const std::int64_t seen_ns =
            o_.control->slot(holder_in(recovered_from.protected_layout, pe)).death_seen_ns.load();
        begin_ns = seen_ns != 0 ? std::min(begin_ns, seen_ns) : begin_ns;
    }
    const Coordinator::Knowledge known = o_.coordinator->knowledge();
    const Recovery recovery{.lasted_ms = (now_ns() - begin_ns) / kNsPerMs,
                            .losses_at_once = known.protected_losses,
                            .n_spares = o_.coordinator->shape().idle_spares(known.state, known.deaths).size()};
    return recovery_line(facts(recovered_from, known.deaths), recovery);
}

}  // namespace sft
