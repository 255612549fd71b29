// Stand behind a Coordinator whose decisions are of no interest to the test.
#pragma once

#include <vector>

#include "recovery/coordinator.hpp"

namespace sft {

class Nobody final : public JobObserver, public CheckpointActions {
public:
    void heard_of_death(const Death& /*death*/) override {}
    void decided(const JobState& /*before*/, const JobState& /*after*/) override {}
    void must_stop(const Stop& /*why*/) override {}
    void awaits_spares(const std::vector<PeId>& /*pes*/) override {}
    void replicate(Version /*version*/) override {}
    void update_local_copy(Version /*version*/) override {}
    Outcome restore(const JobState& /*state*/) override { return Outcome::ok; }
    Outcome protect(const JobState& /*state*/) override { return Outcome::ok; }
};

// A job of one process, whose agreement is with itself.
struct Alone {
    Mailbox mailbox;
    Nobody nobody;
    Coordinator coordinator{{.shape = {.n_pes = 1, .n_processes = 1},
                             .self = ProcId(0),
                             .mailbox = &mailbox,
                             .actions = &nobody,
                             .observer = &nobody}};
};

}  // namespace sft
