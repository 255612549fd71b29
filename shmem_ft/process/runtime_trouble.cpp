// What a process does when a system call fails on it while everybody lives: a process of the job cannot be opened,
// there are no descriptors, a connection is lost.
//
// Fault model: any open, map, connect, send or receive may fail at any time, for this process alone, once or for ever.
// What fails says nothing about the process at the other end (base/process_watch.hpp): only the kernel's word about
// that one does, by its pidfd, its port, or its start time. So there are three ends: it works when tried again; the
// other one turns out to be dead, and the death is decided about; or, within a bound, the job ends with a line that
// names what failed. To end it takes messages, which may be what fails: then this process leaves alone, and its end
// tells the others.

#include <algorithm>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kUntilHeardNs = 60'000 * kNsPerMs;  // of one that is gone for certain

}  // namespace

// What could not be opened at `process`. If that has died, its death will be decided about. If it has not, nobody would
// decide anything, so this process has to say what is wrong.
CheckpointActions::Outcome Runtime::must_be_gone(ProcId process, const Error& error) noexcept {
    const bool is_own_lack = error.failure == Failure::cannot_be_opened && is_lack(error.number);
    const std::int64_t patience_ns = error.failure == Failure::gone ? kUntilHeardNs : FailureService::kUntilGoneNs;
    if (is_own_lack || !coordinator_->await_death(process, now_ns() + patience_ns)) {
        const bool is_far = is_remote(process);
        job_exit_.fail_job(format("PE %d cannot reach the memory of process %d%s, which lives: %s", me_.load().value(),
                                  process.value(), is_far ? " on another node" : "", error.line.c_str()));
    }
    return Outcome::source_gone;
}

// ---- the memory of peers ----

std::optional<std::pair<ProcId, Error>> Runtime::show_holders(const JobState& state) {
    const JobShape& shape = coordinator_->shape();
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const ProcId holder = shape.holder(state, PeId(pe));
        if (Result<> shown = peers_.show(PeId(pe), holder); !shown) {
            return std::pair{holder, shown.error()};
        }
    }
    return std::nullopt;
}

// At the start. Of a peer that is gone the service thread will know in a moment.
bool Runtime::show_first_holders(std::string& error) {
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->state();
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        const Result<> shown = peers_.show(PeId(pe), shape.holder(state, PeId(pe)));
        if (!shown && shown.error().failure != Failure::gone) {
            error =
                format("PE %d cannot map the memory of PE %d: %s", me_.load().value(), pe, shown.error().line.c_str());
            return false;
        }
    }
    return true;
}

}  // namespace sft
