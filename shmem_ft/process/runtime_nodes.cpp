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

bool Runtime::open_links(const JobCard& first, std::string& error) {
    const NodeLinks::Own own{.heap = memory_.live().heap,
                             .globals = memory_.live().globals,
                             .gate = &engine_.gate,
                             .marks = memory_.has_startup_record() ? memory_.write_marks() : WriteMarks(),
                             .message_bytes_max = kMessageBytesMax,
                             .connection_lost = [this](ProcId process) { end_without(process); }};
    if (Result<> opened = links_.open(first, own); !opened) {
        error = opened.error().line;
        return false;
    }
    return links_.network() == nullptr || protector_.store().serve(*links_.network(), error);
}

// By the network's own thread. Processes that have started earlier may send something to this one before it can ask for
// the end: start() does it then. Whichever of the two threads comes second sees what the other one has stored.
void Runtime::end_without(ProcId process) noexcept {
    lost_connection_.store(process);
    if (can_ask_for_end_.load()) {
        end_if_cut_off();
    }
}

// Nobody says that it is dead, so nobody will ever forget it; and without it this process waits for ever. Must not wait
// until the job has ended.
void Runtime::end_if_cut_off() noexcept {
    const ProcId process = lost_connection_.exchange(kNoProc);
    if (process == kNoProc) {
        return;
    }
    const Contact* const contact = control_.contact(process);
    job_exit_.ask_for_end(format(
        "process %d has no data connection to process %d on %s any more, and cannot make a new one, though control "
        "messages say that it lives: something between the two refuses connections to its ports (a firewall?)",
        self().value(), process.value(), contact == nullptr ? "another node" : contact->node_name));
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
