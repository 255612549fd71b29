#include "shmem_ft/process/status_publisher.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "recovery/membership/memory_holder.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {

ProcessStatus make_status(const JobShape& shape, const Coordinator::Knowledge& known, const OwnStatus& own,
                          std::int64_t now_ns) {
    const PeId pe = shape.held_by(known.state, own.self);
    SFT_ASSERT(own.costs.n_versions <= own.costs.n_calls);
    ProcessStatus status;
    status.index = known.state.index;
    status.published_ns = now_ns;
    status.committed_ns = own.committed_ns;
    status.stored_bytes = own.stored_bytes;
    status.blocks_checked = own.blocks.checked;
    status.blocks_bad = own.blocks.bad;
    status.blocks_repaired = own.blocks.repaired;
    status.checkpoint_calls = own.costs.n_calls;
    status.checkpoints = own.costs.n_versions;
    status.checkpoints_ns = own.costs.total_ns;
    status.checkpoint_ns = own.costs.typical_ns;
    status.checkpoints_since_ns = own.costs.begin_ns;
    status.best_interval_ns = own.best_interval_ns;
    status.room_most = own.room_most;
    status.room_left = own.room_left;
    status.version = known.state.version.value();
    status.view = known.state.view;
    status.attempt = known.state.attempt;
    status.incarnation = own.incarnation;
    status.pe = pe.value();
    if (pe != kNoPe && own.keeps_copies && known.state.version != kNoVersion) {
        std::vector<Share> shares = sources_of(shape, known.state, pe);
        std::erase_if(shares, [&](const Share& share) {
            return contains(known.deaths, share.holder) && shape.memory->dies_with_process(Memory::kept_shadows);
        });
        status.keeper = first_holder(shares).value();
        if (has_parity(shape)) {
            status.group_parity = static_cast<std::uint16_t>(shape.groups->tolerated(shape.groups->group_of(pe)));
        }
        for (std::size_t i = 1; i < shares.size() && i <= status.further_keepers.size(); ++i) {
            status.further_keepers[i - 1] = shares[i].holder.value();
        }
    }
    const bool outlive = shape.is_one_node() && !shape.memory->dies_with_process(Memory::kept_shadows);
    status.copies_outlive_processes = outlive ? 1 : 0;
    status.protected_losses = known.protected_losses;
    status.idle_spares = static_cast<std::int32_t>(shape.idle_spares(known.state, known.deaths).size());
    status.n_deaths = static_cast<std::int32_t>(known.deaths.size());
    status.stage = static_cast<std::uint8_t>(known.state.stage);
    status.keeps_copies = own.keeps_copies ? 1 : 0;
    std::size_t n_failed = 0;
    for (const auto* list : {&known.state.failed, &known.state.further}) {
        for (const FailedPe& failed : *list) {
            if (n_failed < status.failed.size()) {
                status.failed[n_failed++] = failed.pe.value();
            }
        }
    }
    status.waits_for_spare = known.waits_for_spare ? 1 : 0;
    const auto n_joined = static_cast<std::int32_t>(known.state.joined.size());
    status.spares_on_demand = std::max(own.n_on_demand - n_joined, 0);
    status.startup_bytes = own.startup_bytes;
    status.startup = static_cast<std::uint32_t>(own.startup);
    return status;
}

void add_node_losses(ProcessStatus& status, const NodeLosses& losses) noexcept {
    status.n_nodes = losses.n_nodes;
    status.n_node_losses = losses.n_survived;
    status.fatal_node = losses.fatal.value();
    status.node_loss = static_cast<std::uint8_t>(losses.why);
}

void StatusPublisher::publish(std::int64_t now_ns) noexcept {
    const Locked lock(mutex_);
    const Coordinator::Knowledge known = options_.coordinator->knowledge();
    const OwnStatus own{.self = options_.self,
                        .keeps_copies = options_.keeps_copies,
                        .n_on_demand = options_.n_on_demand,
                        .committed_ns = committed_ns_.load(),
                        .stored_bytes = options_.protector->stored_bytes(),
                        .incarnation = incarnation_.load(),
                        .startup = startup_.load(),
                        .startup_bytes = startup_bytes_.load(),
                        .blocks = options_.protector->store().counters(),
                        .costs = costs_,
                        .best_interval_ns = best_interval_ns_,
                        .room_most = room_most_,
                        .room_left = room_left_};
    has_news_.store(false);
    ProcessStatus status = make_status(options_.coordinator->shape(), known, own, now_ns);
    add_node_losses(status, options_.coordinator->node_losses(known, status.spares_on_demand));
    options_.control->slot(options_.self).status.write(status);
    published_ns_.store(now_ns);
    published_checked_.store(own.blocks.checked);
}

void StatusPublisher::refresh(std::int64_t now_ns) noexcept {
    const bool has_checked = options_.protector->store().counters().checked != published_checked_.load();
    if ((has_checked || has_news_.load()) && now_ns - published_ns_.load() > kRefreshNs) {
        publish(now_ns);
    }
}

void StatusPublisher::set_costs(const CheckpointPace::Costs& costs, std::int64_t best_interval_ns) noexcept {
    const Locked lock(mutex_);
    costs_ = costs;
    best_interval_ns_ = best_interval_ns;
    has_news_.store(true);
}

void StatusPublisher::set_room(std::uint64_t most, std::uint64_t left) noexcept {
    const Locked lock(mutex_);
    room_most_ = most;
    room_left_ = left;
    has_news_.store(true);
}

void StatusPublisher::set_startup(StartupPhase phase, std::uint64_t record_bytes) noexcept {
    startup_bytes_.store(record_bytes);
    startup_.store(phase);
}

}  // namespace sft
