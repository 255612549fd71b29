// What `shmem-ft status` shows of this process. It is written when something has been decided or somebody has died, so
// not on any path that a program takes between two checkpoints.

#include <algorithm>

#include "base/clock.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {
namespace {

constexpr std::int64_t kRefreshNs = 100'000'000;

}  // namespace

void Runtime::publish_status() noexcept {
    const Locked lock(status_mutex_);
    const Coordinator::Knowledge known = coordinator_->knowledge();
    const JobShape& shape = coordinator_->shape();
    const BackupStore::Counters blocks = store_.counters();
    // Not me_, which belongs to the application's thread.
    const PeId pe = shape.held_by(known.state, self());
    ProcessStatus status;
    status.index = known.state.index;
    status.published_ns = now_ns();
    status.committed_ns = committed_ns_.load();
    status.stored_bytes = stored_bytes_.load();
    status.blocks_checked = blocks.checked;
    status.blocks_bad = blocks.bad;
    status.blocks_repaired = blocks.repaired;
    status.version = known.state.version.value();
    status.view = known.state.view;
    status.attempt = known.state.attempt;
    status.incarnation = incarnation_.load();
    status.pe = pe.value();
    if (pe != kNoPe && config_.backup_mode != BackupMode::none && known.state.version != kNoVersion) {
        const ProcId keeper = shape.keeper(known.state, pe);
        status.keeper = contains(known.deaths, keeper) ? kNoProc.value() : keeper.value();
    }
    status.protected_losses = known.protected_losses;
    status.idle_spares = static_cast<std::int32_t>(shape.idle_spares(known.state, known.deaths).size());
    status.n_deaths = static_cast<std::int32_t>(known.deaths.size());
    status.stage = static_cast<std::uint8_t>(known.state.stage);
    status.keeps_copies = config_.backup_mode != BackupMode::none ? 1 : 0;
    std::size_t n_failed = 0;
    for (const auto* list : {&known.state.failed, &known.state.further}) {
        for (const FailedPe& failed : *list) {
            if (n_failed < status.failed.size()) {
                status.failed[n_failed++] = failed.pe.value();
            }
        }
    }
    status.waits_for_spare = known.waits_for_spare ? 1 : 0;
    if (config_.unreplaced != Unreplaced::abort) {
        const auto n_joined = static_cast<std::int32_t>(known.state.joined.size());
        status.spares_on_demand = std::max(static_cast<std::int32_t>(config_.on_demand) - n_joined, 0);
    }
    const NodeLosses losses = coordinator_->node_losses(known, status.spares_on_demand);
    status.n_nodes = losses.n_nodes;
    status.n_node_losses = losses.n_survived;
    status.fatal_node = losses.fatal.value();
    status.node_loss = static_cast<std::uint8_t>(losses.why);
    status.startup_bytes = startup_bytes_.load();
    status.startup = static_cast<std::uint32_t>(startup_phase_.load());
    control_.slot(self()).status.write(status);
    published_ns_.store(status.published_ns);
    published_checked_.store(blocks.checked);
}

// Whenever the service thread wakes: scrubbing goes on while nothing is decided. It wakes at each heartbeat at least,
// so nobody is woken for this.
void Runtime::refresh_status() noexcept {
    if (store_.counters().checked != published_checked_.load() && now_ns() - published_ns_.load() > kRefreshNs) {
        publish_status();
    }
}

// Spares that were called for this PE, the one that holds it now among them.
std::uint32_t Runtime::incarnation_of(PeId pe) const noexcept {
    std::uint32_t count = 0;
    for (std::int32_t process = 0; pe != kNoPe && process < control_.n_slots(); ++process) {
        count += control_.slot(ProcId(process)).taken_pe.load() == pe.value() + 1 ? 1U : 0U;
    }
    return count;
}

}  // namespace sft
