// When a host of the job counts as lost for the guardian. Pure: times and what is known come in.
//
// The job itself is the judge of its hosts (docs/protocols.md, "oshrun and the hosts"): its processes agree on who is
// lost, and the guardian goes by that. A host that the guardian cannot hear, not even through another one, stays as
// long as the job has not called all its processes lost: it may do its part in the job. Only when the silence has
// lasted so long that the job must have judged does the guardian decide alone: nobody is left who could, or would, tell
// it.
#pragma once

#include <cstdint>

namespace sft::tools {

// Times the bound of silence (SHMEM_FT_NODE_TIMEOUT): the job takes one and a fifth to miss a host, or two and a fifth
// if the host has to give way by itself.
inline constexpr std::int64_t kBoundsUntilAlone = 3;
// An agent waits a little longer for its guardian than that one for it, so what is still to be said arrives.
inline constexpr std::int64_t kAgentGrace_ns = 1'000'000'000;
// Without a bound only the end of a connection counts, if it does not come back for so long.
inline constexpr std::int64_t kBoundOfNone_ns = 2'000'000'000;

enum class HostVerdict : std::uint8_t { stays, lost_by_agreement, lost_by_silence };

struct HostEvidence {
    std::int64_t silence_ns = 0;  // since anything has been heard from it, by whatever way
    bool is_connected = true;     // there is a connection, though it may be silent
    bool is_agreed_lost = false;  // the job has declared all its processes dead
};

// bound_ns 0: silence means nothing while there is a connection.
[[nodiscard]] constexpr HostVerdict judge_host(const HostEvidence& host, std::int64_t bound_ns) noexcept {
    const std::int64_t counted_ns = bound_ns != 0 ? bound_ns : kBoundOfNone_ns;
    if (bound_ns == 0 && host.is_connected) {
        return HostVerdict::stays;
    }
    if (host.is_agreed_lost && host.silence_ns > counted_ns) {
        return HostVerdict::lost_by_agreement;
    }
    return host.silence_ns > kBoundsUntilAlone * counted_ns ? HostVerdict::lost_by_silence : HostVerdict::stays;
}

// For the other end: nobody has heard the guardian for so long, by whatever way, that the host is on its own.
[[nodiscard]] constexpr bool is_guardian_lost(std::int64_t silence_ns, bool is_connected, std::int64_t bound_ns,
                                              std::int64_t grace_ns = kAgentGrace_ns) noexcept {
    const std::int64_t counted_ns = bound_ns != 0 ? bound_ns : kBoundOfNone_ns;
    return (bound_ns != 0 || !is_connected) && silence_ns > kBoundsUntilAlone * counted_ns + grace_ns;
}

}  // namespace sft::tools
