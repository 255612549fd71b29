// Processes that are stopped (SIGSTOP) when others have left the finished job already: the library's own watch
// (recovery/detection/hang_watch.hpp) has ended with those, so the guardian is the only one left to notice. Pure: what
// /proc says and times come in, who is to be ended comes out.
//
// Only stopped processes count. One that works on after shmem_finalize may take as long as it likes. Whoever looks must
// have looked all the time: a whole job that is stopped and continued begins anew.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tools/oshrun/own_time.hpp"

namespace sft::tools {

class StandStill {
public:
    // bound_ns 0: nobody is ended.
    explicit StandStill(std::int64_t bound_ns) noexcept : bound_ns_(bound_ns), own_time_(bound_ns / kLooksPerBound) {}

    [[nodiscard]] bool is_on() const noexcept { return bound_ns_ > 0; }
    // How long to wait between two looks.
    [[nodiscard]] std::int64_t period_ns() const noexcept { return bound_ns_ / kLooksPerBound; }

    // Those that have been found stopped at every look for the whole bound.
    [[nodiscard]] std::vector<std::int32_t> due(const std::set<std::int32_t>& stopped, std::int64_t now_ns) {
        if (own_time_.was_away(now_ns)) {
            since_ns_.clear();
        }
        std::erase_if(since_ns_, [&](const auto& item) { return !stopped.contains(item.first); });
        std::vector<std::int32_t> found;
        for (const std::int32_t pid : stopped) {
            if (now_ns - since_ns_.try_emplace(pid, now_ns).first->second >= bound_ns_) {
                found.push_back(pid);
            }
        }
        return found;
    }

private:
    static constexpr std::int64_t kLooksPerBound = 5;

    std::int64_t bound_ns_;
    OwnTime own_time_;
    std::map<std::int32_t, std::int64_t> since_ns_;  // by pid: the first look that found it stopped
};

}  // namespace sft::tools
