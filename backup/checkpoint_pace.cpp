#include "backup/checkpoint_pace.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

using Kind = CheckpointInterval::Kind;

// "12 s", "3.1 ms"
std::string duration_text(double ns) {
    constexpr struct {
        const char* name;
        double ns;
    } kUnits[] = {
        {"h", 3600 * kNsPerSecond}, {"min", 60 * kNsPerSecond}, {"s", kNsPerSecond}, {"ms", 1e6}, {"us", 1e3}};
    for (const auto& unit : kUnits) {
        if (ns >= unit.ns) {
            return format("%.2g %s", ns / unit.ns, unit.name);
        }
    }
    return format("%.0f ns", ns);
}

}  // namespace

// Daly's equation 37, without the time of the checkpoint itself, which is added between two of them.
std::int64_t best_interval_ns(std::int64_t checkpoint_ns, std::int64_t mtbf_ns) noexcept {
    SFT_ASSERT(checkpoint_ns >= 0 && mtbf_ns > 0);
    const auto cost = static_cast<double>(checkpoint_ns);
    const auto mtbf = static_cast<double>(mtbf_ns);
    if (cost >= 2 * mtbf) {
        return mtbf_ns;
    }
    const double root = std::sqrt(cost / (2 * mtbf));
    const double best = std::sqrt(2 * cost * mtbf) * (1 + root / 3 + root * root / 9) - cost;
    return static_cast<std::int64_t>(std::max(best, 0.0));
}

void CheckpointPace::begin(const CheckpointInterval& interval, std::int64_t mtbf_ns, std::int64_t now_ns) noexcept {
    SFT_ASSERT(mtbf_ns > 0 && (interval.kind == Kind::automatic || interval.amount > 0));
    interval_ = interval;
    given_mtbf_ns_ = mtbf_ns;
    begin_ns_ = now_ns;
    since_ns_ = now_ns;
}

CheckpointPace::Call CheckpointPace::next() noexcept {
    ++n_calls_;
    ++n_since_;
    if (!has_version_) {
        return Call::is_due;
    }
    if (interval_.kind == Kind::calls) {
        return n_since_ < interval_.amount ? Call::passes : Call::is_due;
    }
    if (pause_.passed < pause_.calls) {
        ++pause_.passed;
        return Call::passes;
    }
    return Call::asks;
}

std::int64_t CheckpointPace::mtbf_ns(std::int64_t now_ns, std::uint32_t n_failures) const noexcept {
    return std::max<std::int64_t>(1, (given_mtbf_ns_ + (now_ns - begin_ns_)) / (std::int64_t{n_failures} + 1));
}

double CheckpointPace::wanted_ns(std::int64_t now_ns, std::uint32_t n_failures) const noexcept {
    if (interval_.kind == Kind::time) {
        return static_cast<double>(interval_.amount);
    }
    // In a substitute that has not made one yet nothing is known: now.
    return static_cast<double>(best_interval_ns(typical_ns(), mtbf_ns(now_ns, n_failures)));
}

CheckpointPace::Answer CheckpointPace::decide(std::int64_t now_ns, std::uint32_t n_failures) const noexcept {
    constexpr double kAsksPerInterval = 8;
    constexpr double kLeastNs = 1e6;
    SFT_ASSERT(interval_.kind != Kind::calls && n_since_ > 0 && now_ns >= since_ns_);
    const double wanted = wanted_ns(now_ns, n_failures);
    const auto since = static_cast<double>(now_ns - since_ns_);
    const double per_call = since / static_cast<double>(n_since_);
    const bool is_due = since + per_call / 2 >= wanted;
    const double next = std::min(is_due ? wanted : wanted - since, std::max(wanted / kAsksPerInterval, kLeastNs));
    // One call more than is known of may be another kind of step: not more than twice as many as passed before.
    constexpr double kMostCalls = 1e9;
    const double most = std::min(kMostCalls, 2.0 * (pause_.calls + 1.0));
    const double calls = per_call > 0 ? std::clamp(std::round(next / per_call), 1.0, most) : 1.0;
    return {.is_due = is_due ? 1U : 0U, .pause = static_cast<std::uint32_t>(calls) - 1};
}

void CheckpointPace::committed(std::int64_t begin_ns, std::int64_t end_ns) noexcept {
    SFT_ASSERT(begin_ns <= end_ns && n_since_ > 0);
    last_ns_[n_versions_ % kLast] = end_ns - begin_ns;
    ++n_versions_;
    total_ns_ += end_ns - begin_ns;
    has_version_ = true;
    since_ns_ = end_ns;
    n_since_ = 0;
}

void CheckpointPace::resume(std::int64_t now_ns) noexcept {
    has_version_ = true;
    since_ns_ = now_ns;
    n_since_ = 0;
    pause_ = {};
}

// The lower one of the two in the middle: the first checkpoint touches its memory for the first time.
std::int64_t CheckpointPace::typical_ns() const noexcept {
    const auto n = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(n_versions_, kLast));
    if (n == 0) {
        return 0;
    }
    std::array<std::int64_t, kLast> sorted = last_ns_;
    const auto middle = sorted.begin() + (n - 1) / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + n);
    return *middle;
}

CheckpointPace::Costs CheckpointPace::costs() const noexcept {
    return {.n_calls = n_calls_,
            .n_versions = n_versions_,
            .total_ns = total_ns_,
            .typical_ns = typical_ns(),
            .begin_ns = begin_ns_};
}

std::optional<std::string> CheckpointPace::advice(std::int64_t now_ns, std::uint32_t n_failures) const {
    constexpr double kLeastRunNs = 60 * kNsPerSecond;
    constexpr double kLeastShare = 0.05;
    constexpr std::uint64_t kLeastVersions = 10;
    const auto run = static_cast<double>(now_ns - begin_ns_);
    const double share = static_cast<double>(total_ns_) / std::max(run, 1.0);
    if (interval_.kind == Kind::automatic || n_versions_ < kLeastVersions || run < kLeastRunNs || share < kLeastShare) {
        return std::nullopt;
    }
    const double between = (run - static_cast<double>(total_ns_)) / static_cast<double>(n_versions_);
    const std::int64_t mtbf = mtbf_ns(now_ns, n_failures);
    const auto best = static_cast<double>(best_interval_ns(typical_ns(), mtbf));
    if (best < 2 * between) {
        return std::nullopt;
    }
    return format(
        "checkpoints took %.0f %% of the time, every %s one of %s: with a failure every %s the best interval is "
        "%s, which SHMEM_FT_INTERVAL=auto keeps",
        100 * share, duration_text(between).c_str(), duration_text(static_cast<double>(typical_ns())).c_str(),
        duration_text(static_cast<double>(mtbf)).c_str(), duration_text(best).c_str());
}

}  // namespace sft
