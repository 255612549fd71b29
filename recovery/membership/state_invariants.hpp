// What holds of every decided value, and of every step from one value to the next, as assertions (docs/protocols.md).
//
// Only what follows from one value, or from two that follow each other, and from the shape of the job: never what
// another process knows. Called where a value is adopted; the loops run in builds for debugging and with sanitizers.
// check_invariants() (job_state.hpp) says which invariant of the lists is broken, for tests and for the simulator.
#pragma once

#include "recovery/membership/job_state.hpp"

namespace sft {

void assert_value(const JobShape& shape, const JobState& state) noexcept;
// REQUIRES: after.index == before.index + 1.
void assert_step(const JobShape& shape, const JobState& before, const JobState& after) noexcept;

}  // namespace sft
