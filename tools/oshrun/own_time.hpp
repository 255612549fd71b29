// Whether this process itself has run. Who judges others by their silence must have been there to hear them: a process
// that was stopped, swapped out or starved, or whose machine was suspended, finds old times everywhere when it wakes
// up, and they say nothing about anybody but itself. Pure: times come in.
#pragma once

#include <cstdint>

namespace sft::tools {

class OwnTime {
public:
    // period_ns: looks are due at least that often; 0: nobody looks at times.
    explicit OwnTime(std::int64_t period_ns) noexcept : period_ns_(period_ns) {}

    // To be called at every look. True: this process has missed looks since the last one, so what it has measured up to
    // now has to be measured anew.
    [[nodiscard]] bool was_away(std::int64_t now_ns) noexcept {
        const bool is_first = last_look_ns_ < 0;
        const std::int64_t gap_ns = now_ns - last_look_ns_;
        last_look_ns_ = now_ns;
        return !is_first && period_ns_ > 0 && gap_ns > 2 * period_ns_;
    }

private:
    std::int64_t period_ns_;
    std::int64_t last_look_ns_ = -1;
};

}  // namespace sft::tools
