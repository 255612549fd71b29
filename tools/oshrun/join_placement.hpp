// On which host a spare is started that comes while the job runs. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace sft::tools {

// One spare that shall be started.
struct JoinRequest {
    std::string host;          // by name; empty: wherever it fits
    int pe = -1;               // the job waits for somebody to take it over; -1: a user has asked
    std::int64_t wish_ns = 0;  // since when
};

struct HostLoad {
    std::string name;
    bool is_usable = false;  // it is there, and has a living process of the job that a newcomer can learn from
    int processes = 0;       // of the job, that live there
    int places = 0;          // that many it had at the start, which tells how large it is beside others
    bool was_home = false;   // the PE that is waited for has been there
    bool is_keeper = false;  // it keeps that PE's copy: with both on one host, one loss would take both
};

// Where somebody has left a place empty, back home before all: everything is then as it was before. Else where there
// is least to do for the size of the host, so that of several spares that come at once no host gets more than its share
// and none becomes one whose loss the job does not survive. Of equals the keeper comes last.
[[nodiscard]] inline std::optional<std::int32_t> choose_host(const std::vector<HostLoad>& hosts,
                                                             const std::string& wanted) {
    std::optional<std::int32_t> best;
    const auto cost = [&](std::int32_t index) {
        const HostLoad& host = hosts[static_cast<std::size_t>(index)];
        const double load = static_cast<double>(host.processes + 1) / std::max(host.places, 1);
        return std::tuple(std::max(load, 1.0), host.was_home ? 0 : host.is_keeper ? 2 : 1, host.processes);
    };
    for (std::int32_t index = 0; index < static_cast<std::int32_t>(hosts.size()); ++index) {
        const HostLoad& host = hosts[static_cast<std::size_t>(index)];
        if (!host.is_usable || (!wanted.empty() && host.name != wanted)) {
            continue;
        }
        if (!best || cost(index) < cost(*best)) {
            best = index;
        }
    }
    return best;
}

}  // namespace sft::tools
