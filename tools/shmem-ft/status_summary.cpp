#include "tools/shmem-ft/status_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/config.hpp"
#include "recovery/detection/node_loss.hpp"
#include "recovery/membership/job_state.hpp"

namespace sft::tools {
namespace {

// In words for people who have not read docs/protocols.md.
const char* name_for(std::uint8_t stage) noexcept {
    switch (static_cast<Stage>(stage)) {
        case Stage::running: return "running";
        case Stage::replicating:
        case Stage::updating: return "checkpoint";
        case Stage::faulted: return "fault";
        case Stage::planned: return "restoring";
        case Stage::restored: return "protecting";
        case Stage::finished: return "finished";
        case Stage::ended: return "ended";
    }
    return "starting";
}

// The process whose word counts: of those that live the one that has heard of the latest value, and of most deaths.
const ProcessStatus* best_informed(const SeenJob& job) {
    const ProcessStatus* best = nullptr;
    const auto rank = [](const ProcessStatus& status) {
        return std::tuple(status.index, status.n_deaths, status.published_ns);
    };
    for (const SeenProcess& item : job.processes) {
        if (item.is_alive && item.status && (best == nullptr || rank(*item.status) > rank(*best))) {
            best = &*item.status;
        }
    }
    return best;
}

// False: its process was here and has died, and the job does not know that yet.
bool may_be_elsewhere(const SeenJob& job, std::int32_t pe) {
    return job.n_nodes > 1 && std::none_of(job.processes.begin(), job.processes.end(), [pe](const SeenProcess& item) {
               return item.status && item.status->pe == pe && item.death.kind == FailureKind::none;
           });
}

SeenPe look_at_pe(const SeenJob& job, std::int32_t pe, const ProcessStatus& best) {
    SeenPe seen;
    seen.pe = pe;
    for (const SeenProcess& item : job.processes) {
        if (item.is_alive && item.status && item.status->pe == pe) {
            seen.holder = &item;
        }
    }
    if (seen.holder == nullptr) {
        const bool is_failed = std::find(best.failed.begin(), best.failed.end(), pe) != best.failed.end();
        seen.protection = is_failed || !may_be_elsewhere(job, pe) ? Protection::failed : Protection::elsewhere;
        return seen;
    }
    if (best.version == 0 || best.keeps_copies == 0) {
        return seen;
    }
    seen.keeper = seen.holder->status->keeper;
    seen.group_parity = seen.holder->status->group_parity;
    seen.protection = seen.keeper < 0 ? Protection::unprotected : Protection::is_safe;
    for (const std::int32_t further : seen.holder->status->further_keepers) {
        if (further >= 0) {
            seen.further_keepers.push_back(further);
        }
    }
    for (const SeenProcess& item : job.processes) {
        if (item.process == seen.keeper) {
            seen.keeper_node = item.node_name;
        }
        if (item.process == seen.keeper && item.status) {
            seen.keeper_pe = item.status->pe;
            seen.keeper_domain = item.memory_domain;
        }
    }
    return seen;
}

const char* reason_for(NodeLoss loss) noexcept {
    switch (loss) {
        case NodeLoss::survived: return "";
        case NodeLoss::nothing_committed: return "there is no checkpoint to go back to";
        case NodeLoss::unprotected_pe: return "a PE there has no second copy";
        case NodeLoss::copies_stay: return "copies are kept on the node of their PE (SHMEM_FT_BACKUP_MODE=single)";
        case NodeLoss::copy_beside: return "the copy of a PE that would be lost is there, too";
        case NodeLoss::majority: return "so many PEs are there that the rest cannot tell whether it is the one cut off";
        case NodeLoss::too_few_spares: return "more PEs would have to be replaced than there are spares elsewhere";
    }
    return "?";
}

void look_at_nodes(const SeenJob& job, const ProcessStatus& best, JobSummary& summary) {
    summary.n_nodes = best.n_nodes;
    summary.node_losses = best.n_node_losses;
    summary.fatal_why = reason_for(static_cast<NodeLoss>(best.node_loss));
    if (best.fatal_node >= 0) {
        const auto node = static_cast<std::size_t>(best.fatal_node);
        summary.fatal_node = node < job.node_names.size() && !job.node_names[node].empty()
                                 ? job.node_names[node]
                                 : fmt::format("node {}", best.fatal_node);
    }
}

// Of those that are known here.
std::string fewest_copies(const std::vector<SeenPe>& pes) {
    std::size_t fewest = kPartnersMax;
    std::int32_t parity = 0;
    for (const SeenPe& seen : pes) {
        if (seen.protection == Protection::is_safe) {
            fewest = std::min(fewest, 1 + seen.further_keepers.size());
            parity = parity == 0 ? seen.group_parity : std::min(parity, seen.group_parity);
        }
    }
    if (parity != 0) {
        return fmt::format("each group keeps parity, with which {} of its PEs may lose {} at once", parity,
                           parity == 1 ? "its node" : "their nodes");
    }
    return fewest == 1 ? "every PE has one copy besides its own"
                       : fmt::format("every PE has {} copies besides its own", fewest);
}

// The library says how many; this says it in words.
std::vector<std::string> limits_of(const JobSummary& summary, const ProcessStatus& best) {
    std::vector<std::string> limits;
    if (best.keeps_copies == 0) {
        return {"no copies are kept (SHMEM_FT_BACKUP_MODE=none)"};
    }
    if (summary.version == 0) {
        limits.emplace_back("nothing is committed yet");
    }
    for (const SeenPe& seen : summary.pes) {
        if (seen.protection == Protection::failed) {
            limits.push_back(fmt::format("PE {} has failed and is not replaced yet", seen.pe));
        } else if (seen.protection == Protection::unprotected) {
            limits.push_back(fmt::format("PE {} has no second copy", seen.pe));
        }
    }
    if (best.idle_spares == 0) {
        limits.emplace_back(best.spares_on_demand == 0 ? "no spare is left"
                                                       : "no spare is left, but oshrun starts one when it is needed");
    }
    if (best.protected_losses > 0) {
        limits.push_back(best.copies_outlive_processes != 0 ? "the node has the copies of every PE, whoever dies"
                                                            : fewest_copies(summary.pes));
        if (best.idle_spares == 1) {
            limits.emplace_back("one spare is left");
        }
    }
    if (limits.empty()) {
        limits.emplace_back("a death has just been noticed");
    }
    return limits;
}

void look_at_checkpoints(const ProcessStatus& status, std::int64_t now_ns, JobSummary& summary) {
    if (status.room_most != 0) {
        summary.room_left = summary.room_most == 0 ? status.room_left : std::min(summary.room_left, status.room_left);
        summary.room_most += status.room_most;
    }
    if (status.checkpoints == 0) {
        return;
    }
    if (summary.checkpoint_ns == 0 || status.checkpoint_ns < summary.checkpoint_ns) {
        summary.checkpoint_ns = status.checkpoint_ns;
        summary.best_interval_ns = status.best_interval_ns;
    }
    if (status.checkpoint_calls > summary.checkpoint_calls) {
        const std::int64_t elapsed = std::max<std::int64_t>(now_ns - status.checkpoints_since_ns, 1);
        summary.checkpoint_calls = status.checkpoint_calls;
        summary.checkpoints = status.checkpoints;
        summary.checkpoints_share = static_cast<double>(status.checkpoints_ns) / static_cast<double>(elapsed);
        summary.interval_ns =
            std::max<std::int64_t>(elapsed - status.checkpoints_ns, 0) / static_cast<std::int64_t>(status.checkpoints);
    }
}

void count_processes(const SeenJob& job, JobSummary& summary) {
    for (const SeenProcess& item : job.processes) {
        if (item.death.kind != FailureKind::none) {
            summary.dead.push_back(&item);
        }
        if (!item.status) {
            continue;
        }
        // Counters of the dead stay: what they found has been found.
        summary.blocks_checked += item.status->blocks_checked;
        summary.blocks_bad += item.status->blocks_bad;
        summary.blocks_repaired += item.status->blocks_repaired;
        if (!item.is_alive) {
            continue;
        }
        if (item.status->pe < 0) {
            summary.idle_spares.push_back(&item);
            continue;
        }
        summary.stored_bytes += item.status->stored_bytes;
        look_at_checkpoints(*item.status, job.seen_ns, summary);
        if (item.status->version == summary.version) {
            summary.committed_ns = std::max(summary.committed_ns, item.status->committed_ns);
        }
    }
    std::stable_sort(summary.dead.begin(), summary.dead.end(),
                     [](const auto* a, const auto* b) { return a->death_seen_ns < b->death_seen_ns; });
}

}  // namespace

const char* name_of(Protection protection) noexcept {
    switch (protection) {
        case Protection::none: return "none";
        case Protection::is_safe: return "protected";
        case Protection::unprotected: return "unprotected";
        case Protection::failed: return "failed";
        case Protection::elsewhere: return "elsewhere";
    }
    return "?";
}

JobSummary summarize(const SeenJob& job) {
    JobSummary summary;
    const ProcessStatus* best = best_informed(job);
    if (best == nullptr) {
        summary.stage = "starting";
        summary.limits.emplace_back("nothing is committed yet");
        return summary;
    }
    summary.stage = name_for(best->stage);
    summary.waits_for_spare = std::any_of(job.processes.begin(), job.processes.end(), [](const SeenProcess& item) {
        return item.is_alive && item.status && item.status->waits_for_spare != 0;
    });
    summary.version = best->version;
    summary.view = best->view;
    summary.attempt = best->attempt;
    summary.protected_losses = best->protected_losses;
    summary.spares_on_demand = best->spares_on_demand;
    look_at_nodes(job, *best, summary);
    count_processes(job, summary);
    for (std::int32_t pe = 0; pe < job.n_pes; ++pe) {
        summary.pes.push_back(look_at_pe(job, pe, *best));
    }
    // Each loss takes a spare, and after it everybody is protected again.
    const bool is_whole = std::all_of(summary.pes.begin(), summary.pes.end(), [](const SeenPe& seen) {
        return seen.protection == Protection::is_safe || seen.protection == Protection::elsewhere;
    });
    summary.losses_in_turn = is_whole ? best->idle_spares + best->spares_on_demand : 0;
    summary.limits = limits_of(summary, *best);
    return summary;
}

}  // namespace sft::tools
