#include "base/pending_watch.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/report.hpp"

namespace sft {

bool PendingWatch::tick(bool is_pending, std::int64_t now_ns) noexcept {
    if (is_over_.exchange(false) || !is_pending) {
        since_ns_ = 0;
        is_told_ = false;
    }
    if (!is_pending) {
        return false;
    }
    if (since_ns_ == 0) {
        since_ns_ = now_ns;
    }
    if (is_told_ || now_ns - since_ns_ < kPendingToldNs) {
        return false;
    }
    SFT_ASSERT(since_ns_ <= now_ns);
    is_told_ = true;
    return true;
}

int PendingWatch::timeout_ms(std::int64_t now_ns) const noexcept {
    if (since_ns_ == 0 || is_told_) {
        return -1;
    }
    return static_cast<int>(std::max<std::int64_t>(since_ns_ + kPendingToldNs - now_ns, 0) / kNsPerMs) + 1;
}

std::string PendingWatch::where() const {
    if (const char* const routine = inside_.load(); routine != nullptr) {
        return format("it waits for the others in %s", routine);
    }
    const char* const routine = last_met_.load();
    if (routine == nullptr) {
        return "it is in its own code and has made no call since that meets the fault";
    }
    const auto count = static_cast<unsigned long long>(n_met_.load());
    return format("it is in its own code; %llu call%s met the fault since, the last one in %s", count,
                  count == 1 ? " has" : "s have", routine);
}

}  // namespace sft
