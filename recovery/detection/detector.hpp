// Suspicion by silence, without I/O: who is watched by whom, and when silence has lasted too long.
//
// Every process watches the next living processes round the ring of all processes of the job (so each is watched by
// `fan` others, and nobody watches more than that), and besides whomever its progress depends on. It shows that it
// lives by heartbeats that the owner of this object sends or publishes; the owner says what it has heard.
//
// Fault model: a process may be silent for any time without being dead (stopped, starved, cut off). Silence therefore
// never makes a death: it makes a suspect, which the owner must kill, or fence off, before it is declared dead.
//
// Time: nanoseconds of any clock that only goes forward. Nothing is measured between different clocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "recovery/membership/job_state.hpp"

namespace sft {

class Detector {
public:
    struct Options {
        ProcId self = kNoProc;
        std::int32_t n_processes = 0;
        std::int64_t period_ns = 0;  // between heartbeats
        std::int64_t bound_ns = 0;   // silence that makes a suspect; 0: nobody is suspected
        std::int32_t fan = 2;
    };
    explicit Detector(const Options& options) : options_(options) {
        SFT_ASSERT(options.n_processes > 0 && options.fan > 0 && options.bound_ns >= 0);
    }

    // Who is watched now: changes with the deaths and with `depends_on` (kNoProc: nobody).
    void update(std::span<const Death> dead, ProcId depends_on, std::int64_t now_ns);
    void heard(ProcId from, std::int64_t now_ns);
    // Whose silence has lasted too long; each is named once per silence.
    [[nodiscard]] std::vector<ProcId> suspects(std::int64_t now_ns);
    // Suspicion starts afresh: this process itself has not run for a while, so it could not have heard anybody.
    void forgive(std::int64_t now_ns);

    [[nodiscard]] std::vector<ProcId> watched() const;
    // Whom this process has to send heartbeats to: those that watch it.
    [[nodiscard]] std::vector<ProcId> watchers(std::span<const Death> dead) const;

private:
    struct Watch {
        ProcId process;
        std::int64_t last_heard_ns = 0;
        bool is_suspected = false;
    };

    Options options_;
    std::vector<Watch> watches_;
};

}  // namespace sft
