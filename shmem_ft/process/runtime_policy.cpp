// What the user has chosen for the cases in which something is lost (recovery/fault_policy.hpp, spare_wait.hpp), and
// how the job ends then (job_exit.hpp): what these owners need of everything else.

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"
#include "shmem_ft/start/mpi_beside.hpp"

namespace sft {

void Runtime::open_policies(int generation) {
    life_ = static_cast<std::uint32_t>(generation) + 1;
    job_exit_.hear_of_defects();
    fault_policy_.open({.action = config_.on_fault,
                        .life = life_,
                        .me = [this] { return me_.load(); },
                        .has_joined = [this] { return joined_.load(); },
                        .agree = [this] { return check_status(); },
                        .end_job = [this](const std::string& line) { job_exit_.fail_job(line); }});
}

void Runtime::open_exit() {
    job_exit_.open({.self = self(),
                    .slot = &control_.slot(self()),
                    .gate = &engine_.gate,
                    .coordinator = coordinator_.get(),
                    .explain =
                        [this](const JobState& state) {
                            const std::vector<Death> dead = coordinator_->known_deaths();
                            return explain_end(facts(state, dead));
                        },
                    .tell_data_lost =
                        [this](const std::vector<PeId>& pes) {
                            if (config_.unreplaced == Unreplaced::handler) {
                                static_cast<void>(spare_wait_.handler_ends(kDataLost, pes));
                            }
                        },
                    .say_goodbye = [this](Stage how) { say_goodbye(how); }});
}

Result<> Runtime::open_spare_wait() {
    // The name of oshrun's socket has the pid of its guardian.
    int guardian = 0;
    const bool has_oshrun = std::sscanf(config_.job_socket.c_str(), "shmem-ft-%d-", &guardian) == 1;
    return spare_wait_.open({.asks_handler = config_.unreplaced == Unreplaced::handler,
                             .timeout_seconds = config_.wait_timeout_seconds,
                             .remedy = has_oshrun ? format("; oshrun --join %d adds one", guardian) : "",
                             // oshrun may be able to start one (oshrun --on-demand).
                             .ask_for_spare = [this](PeId pe) {
                                 JobEvent event;
                                 event.kind = JobEventKind::spare_wanted;
                                 event.pe = pe.value();
                                 channel_.report(event);
                             }});
}

void Runtime::recover() noexcept {
    int* pes = nullptr;
    int* status = nullptr;
    std::size_t numpes = 0;
    query_fault(&pes, &status, &numpes);
    if (numpes == 0) {
        job_exit_.fail_job(
            format("PE %d: shmem_ft_recover was called although no PE has failed: what else a checkpoint may "
                   "return, it cannot mend",
                   me_.load().value()));
    }
    restart(pes, numpes);
    std::free(pes);
    std::free(status);
}

bool Runtime::is_fault_known() const {
    const JobState state = coordinator_->state();
    return sft::is_fault_known(coordinator_->shape(), state, coordinator_->known_deaths());
}

// ENSURES, if true: the list is what everybody agrees has failed. A checkpoint that is entered while the death of a
// holder is known cannot be committed: the dead one would have to ship after everybody has arrived.
bool Runtime::check_status() noexcept {
    if (!joined_ || !fault_policy_.failed().empty()) {
        return true;
    }
    if (!is_fault_known()) {
        return false;
    }
    // All threads that meet the fault come here; one of them does it, and the others find it done.
    const Locked calls(calls_mutex_);
    if (!fault_policy_.failed().empty()) {
        return true;
    }
    if (!is_fault_known()) {
        return false;
    }
    const Participant::Do outcome = coordinator_->checkpoint();
    if (outcome == Participant::Do::ended) {
        job_exit_.leave_ended_job();
    }
    if (outcome != Participant::Do::fault) {
        return false;
    }
    engine_.gate.pending.store(true);
    fault_policy_.set_failed(coordinator_->state().failed);
    return true;
}

// By the service thread.
void Runtime::tell_pending_fault() noexcept {
    const bool is_pending = engine_.gate.is_pending() && me_.load() != kNoPe && !job_exit_.is_finished();
    if (fault_policy_.is_pending_for_long(is_pending, now_ns())) {
        const JobState state = coordinator_->state();
        const auto dead = first_dead_pe(coordinator_->shape(), state, coordinator_->known_deaths());
        say("warning: %s", fault_policy_.pending_line(dead).c_str());
    }
}

void Runtime::awaits_spares(const std::vector<PeId>& pes) { spare_wait_.awaits(pes); }

// By the service thread.
void Runtime::wait_is_due() noexcept {
    const auto end = spare_wait_.timer_rang();
    if (!end) {
        return;
    }
    const JobState state = coordinator_->state();
    const std::vector<Death> dead = coordinator_->known_deaths();
    job_exit_.end_by_service(
        name_failed(state, end->pes) +
        (end->why == SpareWait::End::Why::handler
             ? lack_of_spares(facts(state, dead))
             : format(" and no spare has come within %u s (SHMEM_FT_WAIT_TIMEOUT)", config_.wait_timeout_seconds)));
}

// Whoever waits inside MPI for the dead PE would never come back to us. decided() ends the process, wherever it is.
void Runtime::end_with_mpi(const Death& death) {
    const JobState state = coordinator_->state();
    const PeId pe = coordinator_->shape().held_by(state, death.process);
    if (pe == kNoPe || is_over(state) || !is_inside_mpi()) {
        return;
    }
    job_exit_.ask_for_end(format("PE %d failed (%s), and the program uses MPI, which does not go on after that",
                                 pe.value(), describe(death.reason).c_str()));
}

}  // namespace sft
