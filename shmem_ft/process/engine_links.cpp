#include "shmem_ft/process/engine_links.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "shmem_ft/start/job_card.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

constexpr WaitStyle kAlone{4000, 0};  // a core per process: spins for about as long as a wake-up takes
constexpr WaitStyle kCrowded{20, 4};

// As process 0 has found it: barriers take another way in a crowd, so all must be of one opinion, also a process that
// takes over when the number of processors is another one.
WaitStyle style_of_job(const ControlSegment& control) {
    JobCard first;
    std::memcpy(&first, control.header().card, sizeof first);
    return first.is_crowded != 0 ? kCrowded : kAlone;
}

// Larger in every attempt of every restart: attempts are counted anew in each view. In one attempt channels may be
// reset several times, when a spare joins meanwhile (Participant protects under each value): nobody has used them in
// between, because a restart returns nowhere before all have protected under the last one.
std::uint32_t channel_epoch(const JobState& state) {
    constexpr std::uint32_t kAttemptsMax = 1U << 12;
    return (state.view + 1) * kAttemptsMax + state.attempt;
}

}  // namespace

void EngineLinks::connect_peers() {
    const PeId me = o_.me->get();
    SFT_ASSERT(me != kNoPe);
    PeerTable& table = o_.engine->peers;
    table.heap = o_.memory->live().heap;
    table.globals = o_.memory->live().globals;
    table.entries = o_.peers->entries();
    table.n_pes = o_.control->n_pes();
    table.me = me;
    table.own_notes = o_.notes_changes ? o_.memory->change_notes() : ChangeNotes();
    take_notes();
    o_.engine->waiter = Waiter(&o_.slot->doorbell, &o_.engine->gate, style_of_job(*o_.control));
    o_.engine->copy = Copier::for_this_processor();
}

// Whoever begins to watch in a checkpoint needs notes from the next one on (LiveTracker), so it is enough that all ask
// as they leave checkpoints and restarts: whoever has arrived before them has told.
void EngineLinks::take_notes() noexcept { o_.engine->peers.take_notes(o_.control->header().n_watching.load() != 0); }

void EngineLinks::connect_channels() {
    const JobShape& shape = o_.coordinator->shape();
    const JobState state = o_.coordinator->state();
    std::vector<Doorbell*> doorbells;
    for (std::int32_t pe = 0; pe < o_.control->n_pes(); ++pe) {
        doorbells.push_back(&o_.control->slot(shape.holder(state, PeId(pe))).doorbell);
    }
    o_.engine->channels.connect(o_.control->channels(), o_.me->get(), std::move(doorbells), &o_.engine->waiter);
    connect_network(state);
}

// Where the PEs are, for the operations.
void EngineLinks::connect_network(const JobState& state) {
    if (o_.network == nullptr) {
        return;
    }
    const JobShape& shape = o_.coordinator->shape();
    std::vector<NodeId> nodes;
    for (std::int32_t pe = 0; pe < o_.control->n_pes(); ++pe) {
        nodes.push_back(shape.node_of(state, shape.holder(state, PeId(pe))));
    }
    o_.network->set_self(o_.me->get());
    connect_nodes(*o_.engine, *o_.network, nodes);
}

void EngineLinks::reset_channels(const JobState& state) {
    o_.engine->channels.reset();
    if (o_.network != nullptr) {
        o_.network->reset_channels(channel_epoch(state));
    }
    connect_channels();
}

}  // namespace sft
