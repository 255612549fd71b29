#include "storage/store_pace.hpp"

#include <algorithm>
#include <type_traits>

#include "base/assert.hpp"
#include "base/clock.hpp"

namespace sft {

using Kind = CheckpointInterval::Kind;

void StorePace::begin(const CheckpointInterval& interval, std::int64_t now_ns) noexcept {
    static_assert(std::is_trivially_copyable_v<Answer>);
    SFT_ASSERT(interval.kind == Kind::automatic || interval.amount > 0);
    interval_ = interval;
    asked_ns_ = now_ns;
}

bool StorePace::asks(Version version) noexcept {
    if (interval_.kind == Kind::calls) {
        return version.value() % interval_.amount == 0;
    }
    if (n_paused_ < pause_) {
        ++n_paused_;
        return false;
    }
    return true;
}

// The question costs a collective call: some ten times a second are enough.
StorePace::Answer StorePace::decide(bool can_all, std::int64_t now_ns) const noexcept {
    constexpr std::int64_t kBetweenNs = 100 * kNsPerMs;
    constexpr std::int64_t kMost = 1000;
    SFT_ASSERT(now_ns >= asked_ns_);
    const bool is_time = interval_.kind != Kind::time || !has_stored_ ||
                         now_ns - stored_ns_ >= static_cast<std::int64_t>(interval_.amount);
    const std::int64_t per_version = std::max<std::int64_t>(1, (now_ns - asked_ns_) / (n_paused_ + 1));
    // One version may take much longer than another: not more than twice as many as passed before.
    const std::int64_t most = std::min(kMost, 2 * (std::int64_t{pause_} + 1));
    return {.is_due = is_time && can_all ? 1U : 0U,
            .pause = static_cast<std::uint32_t>(std::min(most, kBetweenNs / per_version))};
}

void StorePace::hear(const Answer& answer, std::int64_t now_ns) noexcept {
    asked_ns_ = now_ns;
    pause_ = answer.pause;
    n_paused_ = 0;
    if (answer.is_due != 0) {
        has_stored_ = true;
        stored_ns_ = now_ns;
    }
}

void StorePace::resume() noexcept {
    pause_ = 0;
    n_paused_ = 0;
}

}  // namespace sft
