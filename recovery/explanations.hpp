// The lines that say what became of a job: who has failed, why it cannot go on, what a recovery has brought. Pure: they
// follow from the agreed value and from what is known besides, so every process would say the same.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

// What a line is about. `dead` is sorted by process.
struct JobFacts {
    const JobShape& shape;
    const JobState& state;
    std::span<const Death> dead = {};
    std::function<std::string(NodeId)> node_name = {};  // asked in a job on several nodes only
    Version version_of_view = kNoVersion;               // to which the last recovery went back
    bool keeps_copies = true;
};

// "PE 1 failed (killed by signal 9 (Killed)), PE 2 failed (...)", of those in `pes`.
[[nodiscard]] std::string name_failed(const JobState& state, std::span<const PeId> pes);
// Those in both lists of the state, ascending, each once.
[[nodiscard]] std::vector<PeId> failed_pes(const JobState& state);
// A PE and all other copies of its state are gone. What follows from it ends the line.
[[nodiscard]] std::string lost_copy(const JobShape& shape, const JobState& state, PeId pe);

// Whether each of those that nobody can take over has died as a substitute, by its own doing, right after it had taken
// over: the next one would as well.
[[nodiscard]] bool are_spares_in_vain(const JobFacts& facts);
// Goes on from name_failed().
[[nodiscard]] std::string lack_of_spares(const JobFacts& facts);
// Of a job that has ended: the line. Empty: whoever has ended it says why.
[[nodiscard]] std::string explain_end(const JobFacts& facts);

struct Recovery {
    std::int64_t lasted_ms = 0;
    std::int32_t losses_at_once = 0;  // JobRules::protected_losses()
    std::size_t n_spares = 0;         // that are left
};
// After a restart; facts.state: the value that everybody was protected with.
[[nodiscard]] std::string recovery_line(const JobFacts& facts, const Recovery& recovery);

}  // namespace sft
