// Of a scheme with one share of a PE: who has it, and who is to have it.
#pragma once

#include "recovery/membership/scheme.hpp"

namespace sft {

[[nodiscard]] inline ProcId keeper_of(const JobShape& shape, const JobState& state, PeId pe) {
    return first_holder(sources_of(shape, state, pe));
}
[[nodiscard]] inline ProcId keeper_to_be(const JobShape& shape, const JobState& state, PeId pe) {
    return first_holder(targets_of(shape, state, pe));
}
[[nodiscard]] inline std::vector<PeId> kept_by(const JobShape& shape, const JobState& state, ProcId process) {
    return shape.scheme->place(shape, state, state.replacements)->kept_by(process);
}
[[nodiscard]] inline bool needs_new_shadow(const JobShape& shape, const JobState& state, PeId pe) {
    return !missing_shares(shape, state, pe).empty();
}

}  // namespace sft
