// What the parts of this process have to do with its job running on several nodes (shmem_ft/start/node_links.hpp).

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"
#include "transport/reach.hpp"

namespace sft {

Rendezvous::Own Runtime::own_for_others() {
    return {.heap = memory_.live().heap,
            .globals = memory_.live().globals,
            .make_store = [this](std::int32_t n_pes) { return make_store(n_pes); },
            .open_links = [this](const JobCard& first) { return open_links(first); }};
}

Result<Rendezvous::Files> Runtime::make_store(std::int32_t n_pes) {
    if (Result<> created = protector_.create(config_.backup_mode, n_pes); !created) {
        return fails(created.error());
    }
    const auto file_of = [](const Segment& segment) { return Rendezvous::File{segment.fd(), segment.bytes()}; };
    return Rendezvous::Files{.heap = file_of(memory_.heap_segment()),
                             .globals = file_of(memory_.globals_segment()),
                             .store = file_of(protector_.store().segment())};
}

Result<> Runtime::open_links(const JobCard& first) {
    const NodeLinks::Own own{.heap = memory_.live().heap,
                             .globals = memory_.live().globals,
                             .gate = &engine_.gate,
                             .marks = memory_.has_startup_record() ? memory_.write_marks() : WriteMarks(),
                             .message_bytes_max = kMessageBytesMax};
    Result<> opened = links_.open(first, own);
    std::string error;
    if (opened && links_.network() != nullptr && !protector_.store().serve(*links_.network(), error)) {
        return fails(std::move(error));
    }
    return opened;
}

// Where the PEs are, for the operations.
void Runtime::connect_network() {
    if (links_.network() == nullptr) {
        return;
    }
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->state();
    std::vector<NodeId> nodes;
    for (std::int32_t pe = 0; pe < control_.n_pes(); ++pe) {
        nodes.push_back(shape.node_of(state, shape.holder(state, PeId(pe))));
    }
    links_.network()->set_self(me_);
    connect_nodes(engine_, *links_.network(), nodes);
}

// What they have sent may be on its way into memory still. The service thread does it too, when it comes to it.
void Runtime::retire_dead_peers() noexcept {
    if (links_.network() == nullptr) {
        return;
    }
    for (const Death& death : coordinator_->known_deaths()) {
        if (is_remote(death.process)) {
            links_.network()->retire_peer(death.process);
        }
    }
}

// The others must have heard of the end: of one that is gone without a word they would think that it has died.
void Runtime::say_goodbye(Stage how) noexcept {
    constexpr std::int64_t kPatienceNs = 2'000'000'000;
    if (links_.network() != nullptr) {
        coordinator_->leave(how, now_ns() + kPatienceNs);
    }
}

Protector::KeeperLocation Runtime::keeper_location(ProcId process) const {
    const ProcessSlot& slot = control_.slot(process);
    return {.pid = slot.pid,
            .start_time = slot.start_time,
            .store_fd = slot.store_fd,
            .process = process,
            .network = is_remote(process) ? links_.network() : nullptr};
}

}  // namespace sft
