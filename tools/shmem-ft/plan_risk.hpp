// From how often hosts are lost to how often a job is. Pure arithmetic over sets of units: hosts, or domains of a
// level.
//
// Units are lost independently, each once in `mtbf` on the average, and not given back. Losses within a window count as
// one: that is how long the job takes to be protected again. A set of losses is fatal if the job does not survive it as
// one; every set that contains a fatal one is. So only the smallest ones are counted. What k of them do in a day, to
// first order in window / mtbf: one of the k begins, the others follow within the window.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "recovery/losses.hpp"

namespace sft::tools {

inline constexpr std::uint64_t kSetsMax = 200'000;  // more are drawn at random, the same in every run

// How many of all sets, with the standard error of that if they were drawn.
struct Estimate {
    double value = 0;
    double error = 0;
};
// Fatal sets of k of n units that contain no smaller fatal one. is_fatal: of any set.
[[nodiscard]] Estimate smallest_fatal_sets(std::int32_t n, std::int32_t k,
                                           const std::function<bool(const UnitSet&)>& is_fatal);

// How often in a day one of n_sets sets of k units is lost within a window.
[[nodiscard]] double losses_a_day(double n_sets, std::int32_t k, double mtbf_days, double window_days);
// Of n units that are lost one after another, more than `survived` in a run of that many days.
[[nodiscard]] double probability_of_more(std::int32_t n, std::int32_t survived, double mtbf_days, double run_days);

}  // namespace sft::tools
