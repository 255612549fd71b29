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
// A process that cannot be opened may be on its way out, on a machine that has little time for it.
constexpr std::int64_t kUntilGoneNs = 5'000 * kNsPerMs;
constexpr std::int64_t kUntilHeardNs = 60'000 * kNsPerMs;  // of one that is gone for certain
// How long the service thread goes on trying what fails for lack of descriptors or memory.
constexpr std::int64_t kLackNs = 5'000 * kNsPerMs;

}  // namespace

// What could not be opened at `process`. If that has died, its death will be decided about. If it has not, nobody would
// decide anything, so this process has to say what is wrong.
Duties::Done Runtime::must_be_gone(ProcId process, const Error& error) noexcept {
    const bool is_own_lack = error.failure == Failure::cannot_be_opened && is_lack(error.number);
    const std::int64_t patience_ns = error.failure == Failure::gone ? kUntilHeardNs : kUntilGoneNs;
    if (is_own_lack || !coordinator_->await_death(process, now_ns() + patience_ns)) {
        const bool is_far = is_remote(process);
        job_exit_.fail_job(format("PE %d cannot reach the memory of process %d%s, which lives: %s", me_.load().value(),
                                  process.value(), is_far ? " on another node" : "", error.line.c_str()));
    }
    return Done::source_gone;
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

// ---- what lasts ----

// What the service thread has tried in vain for too long.
void Runtime::look_for_trouble() noexcept {
    const std::int64_t now = now_ns();
    if (job_exit_.is_ending()) {
        job_exit_.leave_if_unheard(now);
        return;
    }
    const std::string who =
        me_.load() == kNoPe ? format("process %d", self().value()) : format("PE %d", me_.load().value());
    if (const std::optional<Trouble> lack = coordinator_->lasting_trouble(now - kLackNs)) {
        job_exit_.end_by_service(
            format("%s cannot %s: %s", who.c_str(), lack->what.c_str(), describe_error(lack->error).c_str()));
    } else if (unwatched_since_ns_ != 0 && now - unwatched_since_ns_ > kLackNs) {
        job_exit_.end_by_service(format("%s cannot watch a process that has joined the job: %s", who.c_str(),
                                        describe_error(unwatched_error_).c_str()));
    }
    const auto has_left = [this](ProcId process) {
        const ProcessState state = control_.slot(process).state.load();
        return state == ProcessState::finalized || state == ProcessState::ended;
    };
    for (const Mailbox::Lost& lost : coordinator_->lost_connections()) {
        if (has_left(lost.process) || coordinator_->is_dead(lost.process)) {
            coordinator_->settle_lost(lost.process);
        } else if (now - lost.since_ns > kUntilGoneNs) {
            job_exit_.end_by_service(format("%s has lost its connection to process %d, which lives: %s", who.c_str(),
                                            lost.process.value(), describe_error(lost.error).c_str()));
        }
    }
}

}  // namespace sft
