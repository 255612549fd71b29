#include "tools/shmem-ft/plan_risk.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace sft::tools {

namespace {

// Without one of its units it is survived, whichever that is; so it is without more of them.
bool is_smallest(const UnitSet& set, const std::function<bool(const UnitSet&)>& is_fatal) {
    if (!is_fatal(set)) {
        return false;
    }
    for (std::size_t left_out = 0; left_out < set.size() && set.size() > 1; ++left_out) {
        UnitSet smaller = set;
        smaller.erase(smaller.begin() + static_cast<std::ptrdiff_t>(left_out));
        if (is_fatal(smaller)) {
            return false;
        }
    }
    return true;
}

}  // namespace

Estimate smallest_fatal_sets(std::int32_t n, std::int32_t k, const std::function<bool(const UnitSet&)>& is_fatal) {
    double n_sets = 0;
    double n_fatal = 0;
    const bool is_drawn = each_set(n, k, kSetsMax, [&](const UnitSet& set) {
        n_sets += 1;
        n_fatal += is_smallest(set, is_fatal) ? 1 : 0;
    });
    if (!is_drawn) {
        return {.value = n_fatal, .error = 0};
    }
    const auto all = static_cast<double>(choices(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(k)));
    const double share = n_fatal / n_sets;
    // Of none that was found, what one would be.
    const double error = n_fatal == 0 ? 1 / n_sets : std::sqrt(share * (1 - share) / n_sets);
    return {.value = share * all, .error = error * all};
}

double losses_a_day(double n_sets, std::int32_t k, double mtbf_days, double window_days) {
    const double rate = 1 / mtbf_days;
    return n_sets * k * rate * std::pow(rate * window_days, k - 1);
}

double probability_of_more(std::int32_t n, std::int32_t survived, double mtbf_days, double run_days) {
    const double lost = -std::expm1(-run_days / mtbf_days);  // one unit, in a run
    double more = 0;
    for (std::int32_t losses = survived + 1; losses <= n; ++losses) {
        more += std::exp(std::lgamma(n + 1.0) - std::lgamma(losses + 1.0) - std::lgamma(n - losses + 1.0) +
                         losses * std::log(lost) + (n - losses) * -run_days / mtbf_days);
    }
    return std::min(more, 1.0);
}

}  // namespace sft::tools
