// shmem_checkpoint_all, shmem_query_fault, shmem_restart_pes, shmem_ft_algo_init: what this process does in the
// protocols of recovery/coordinator.hpp.

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "recovery/membership/scheme.hpp"
#include "shmem_ft/ops/teams.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {

// ---- checkpoint ----

int Runtime::checkpoint() noexcept {
    if (!joined_) {
        return 1;  // SHMEM_FT_FAILURE: a substitute goes on to shmem_query_fault and joins in shmem_restart_pes
    }
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(fault_policy_.watch(), "shmem_checkpoint_all");
    const std::int64_t begin = now_ns();
    fault_point(FaultPoint::checkpoint_enter);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    links_.quiet();  // what this PE has put elsewhere belongs to the version
    const Participant::Do outcome = coordinator_->checkpoint();
    fault_point(FaultPoint::checkpoint_leave);
    const JobState state = coordinator_->state();
    switch (outcome) {
        case Participant::Do::committed:
            report_span("checkpoint", begin, now_ns(), state.version.value());
            if (stray_words_ != nullptr) {
                look_for_stray_words();
            }
            return 0;
        case Participant::Do::fault:
            engine_.gate.pending.store(true);
            fault_policy_.set_failed(state.failed);
            report_span("agree", begin, now_ns(), state.version.value());
            return 1;
        default: job_exit_.leave_ended_job();
    }
}

void Runtime::replicate(Version version) {
    engine_.init_calls = logical_init_calls();
    close_startup();
    if (const Result<> replicated = protector_.replicate(version); !replicated) {
        // If it is dead, the shadow is gone in any case; if it has refused what it was sent, the job ends here.
        const JobState state = coordinator_->state();
        const ProcId keeper = sole_holder(targets_of(coordinator_->shape(), state, me_));
        static_cast<void>(must_be_gone(keeper, replicated.error()));
    }
}

void Runtime::update_local_copy(Version version) {
    protector_.update_local_copy(version);
    committed_init_calls_ = static_cast<std::uint32_t>(engine_.init_calls);
    end_startup(version);
}

// ---- query ----

void Runtime::query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept {
    fault_point(FaultPoint::query);
    if (!joined_) {
        // The survivors' list; if this PE failed after them, the list of the restart that runs now.
        const JobState state = coordinator_->state();
        std::vector<FailedPe> list = state.failed;
        if (std::none_of(list.begin(), list.end(), [&](const FailedPe& item) { return item.pe == me_; })) {
            list.insert(list.end(), state.further.begin(), state.further.end());
        }
        fault_policy_.set_failed(std::move(list));
    }
    const std::vector<FailedPe> list = fault_policy_.failed();
    *numpes = list.size();
    *pes = nullptr;
    *pes_status = nullptr;
    if (list.empty()) {
        return;
    }
    *pes = static_cast<int*>(std::malloc(list.size() * sizeof(int)));
    *pes_status = static_cast<int*>(std::malloc(list.size() * sizeof(int)));
    if (*pes == nullptr || *pes_status == nullptr) {
        die("shmem_query_fault: out of memory");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        (*pes)[i] = list[i].pe.value();
        (*pes_status)[i] = list[i].reason.status();
    }
}

// ---- restart ----

void Runtime::restart(const int* pes, std::size_t numpes) noexcept {
    const std::int64_t begin = now_ns();
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(fault_policy_.watch(), "shmem_restart_pes");
    fault_point(joined_ ? FaultPoint::restart_enter : FaultPoint::substitute_joins);
    if (joined_ && lost_initialisation()) {
        job_exit_.fail_job(
            format("PE %d was initialised after the last checkpoint, which would be lost by going back: call "
                   "shmem_checkpoint_all right after initialisation",
                   me_.load().value()));
    }
    if (!joined_) {
        end_repetition();
    }
    if (!joined_ && fault_policy_.failed().empty()) {
        int* list = nullptr;
        int* status = nullptr;
        std::size_t count = 0;
        query_fault(&list, &status, &count);  // a substitute that did not ask: its own view of the list
        std::free(list);
        std::free(status);
    }
    links_.quiet();  // nothing of this view may come to a PE that has rolled back
    retire_dead_peers();
    const std::uint64_t given = JobRules::hash_of(std::span<const std::int32_t>(pes, pes == nullptr ? 0 : numpes));
    const std::uint64_t expected = JobRules::hash_of(fault_policy_.failed());
    const Participant::Do outcome = coordinator_->restart(given, !joined_);
    fault_policy_.restart_decided();
    if (outcome == Participant::Do::give_up) {
        job_exit_.fail_job(why_lost_ + ": the data is lost");
    }
    if (outcome == Participant::Do::ended) {
        job_exit_.leave_ended_job();
    }
    if (outcome == Participant::Do::rejected) {
        if (given != expected) {
            say("error: PE %d: shmem_restart_pes was not given the list of shmem_query_fault; nothing was changed",
                me_.load().value());
        }
        return;
    }
    fault_policy_.set_failed({});
    if (!joined_) {
        if (const Result<> started = protector_.start_scrubber(config_); !started) {
            say("warning: %s", started.error().line.c_str());
        }
    }
    joined_ = true;
    engine_.replay.active = false;
    end_startup(coordinator_->state().version);
    peers_.end_fault();
    fault_policy_.watch().clear();
    const Coordinator::Times times = coordinator_->times();
    const std::uint64_t version = coordinator_->state().version.value();
    report_span("restart", begin, now_ns(), version);
    report_span("restore", times.planned, times.restored, version);
    report_span("protect", times.restored, times.resumed, version);
    if (!config_.quiet) {
        tell_recovery();
    }
    fault_point(FaultPoint::restart_leave);
}

CheckpointActions::Outcome Runtime::become_restored(const JobState& state) {
    // The keeper may be this process itself: a shadow that it kept while it slept.
    const ProcId keeper = joined_ ? kNoProc : sole_holder(sources_of(coordinator_->shape(), state, me_));
    if (!joined_ && keeper == kNoProc) {
        // It died before this process had the copy, and nobody else has one. The rules cannot know how far this process
        // had come, so it is the one that has to say so.
        why_lost_ = lost_copy(state, me_);
        return Outcome::corrupt;
    }
    const Result<> restored =
        joined_ ? protector_.roll_back(state.version) : protector_.fetch(keeper_location(keeper), me_, state.version);
    if (restored) {
        return Outcome::ok;
    }
    if (restored.error().failure != Failure::failed) {
        return must_be_gone(keeper, restored.error());
    }
    why_lost_ = restored.error().line;
    return Outcome::corrupt;
}

CheckpointActions::Outcome Runtime::restore(const JobState& state) {
    fault_point(FaultPoint::restore_begin);
    retire_dead_peers();
    const Outcome result = become_restored(state);
    if (result == Outcome::ok) {
        take_thread_level();
    }
    if (checker_ != nullptr) {
        checker_->forget_users();
    }
    fault_point(FaultPoint::restore_end);
    if (result == Outcome::ok && !joined_) {
        protector_.update_local_copy(state.version);
        committed_init_calls_ = restored_init_calls_;
    }
    return result;
}

CheckpointActions::Outcome Runtime::protect(const JobState& state) {
    // The new holders are known now: show their memory where that of the dead ones was.
    const JobShape& shape = coordinator_->shape();
    fault_point(FaultPoint::remap);
    if (const auto unreached = show_holders(state)) {
        return must_be_gone(unreached->first, unreached->second);
    }
    fault_point(FaultPoint::protect_begin);
    retire_dead_peers();
    const ProcId keeper = sole_holder(targets_of(shape, state, me_));
    if (keeper == kNoProc) {
        protector_.protect_by_nobody();
    } else {
        const Protector::Shadow shadow{
            .keeper = keeper_location(keeper), .pe = me_, .is_there = missing_shares(shape, state, me_).empty()};
        if (const Result<> is_protected = protector_.protect(shadow, state.version); !is_protected) {
            return must_be_gone(keeper, is_protected.error());
        }
    }
    reset_channels(state);
    recovered_from_ = state;
    fault_point(FaultPoint::protect_end);
    return Outcome::ok;
}

// ---- what a recovery leaves on the standard error ----

JobFacts Runtime::facts(const JobState& state, std::span<const Death> dead) const {
    return {.shape = coordinator_->shape(),
            .state = state,
            .dead = dead,
            .node_name = [this](NodeId node) { return links_.name_of(node); },
            .version_of_view = version_of_view_.load(),
            .keeps_copies = config_.backup_mode != BackupMode::none};
}

// One line, by the substitute of the lowest PE that had failed. If that dies before, there is none, or the next
// recovery's, which is about the same PE.
void Runtime::tell_recovery() const {
    const std::vector<PeId> pes = failed_pes(recovered_from_);
    if (pes.empty() || pes.front() != me_.load()) {
        return;
    }
    std::int64_t begin_ns = now_ns();
    for (const PeId pe : pes) {
        // Whoever held it when all was well. Seen on this node; of another node's process a little later than there.
        const std::int64_t seen_ns =
            control_.slot(holder_in(recovered_from_.protected_layout, pe)).death_seen_ns.load();
        begin_ns = seen_ns != 0 ? std::min(begin_ns, seen_ns) : begin_ns;
    }
    const Coordinator::Knowledge known = coordinator_->knowledge();
    const Recovery recovery{.lasted_ms = (now_ns() - begin_ns) / 1'000'000,
                            .losses_at_once = known.protected_losses,
                            .n_spares = coordinator_->shape().idle_spares(known.state, known.deaths).size()};
    say("warning: %s", recovery_line(facts(recovered_from_, known.deaths), recovery).c_str());
}

// ---- a substitute before it joins ----

bool Runtime::prepare_as_substitute() {
    // The records of handles and heap calls as of the version: what the program asks for again on its way to
    // shmem_restart_pes is answered from them.
    for (;;) {
        const JobState state = coordinator_->state();
        if (state.stage == Stage::ended) {
            return false;
        }
        const ProcId keeper = sole_holder(sources_of(coordinator_->shape(), state, me_));
        if (keeper == kNoProc) {
            job_exit_.fail_job(lost_copy(state, me_) + ": the data is lost");
        }
        const Result<> fetched =
            protector_.fetch_front(keeper_location(keeper), me_, state.version, memory_.front_bytes());
        if (fetched) {
            restored_init_calls_ = static_cast<std::uint32_t>(engine_.init_calls);
            engine_.init_depth = 0;  // the program's own calls count until the version's number comes with its memory
            begin_replay(engine_);
            return true;
        }
        if (fetched.error().failure == Failure::failed) {
            job_exit_.fail_job(fetched.error().line + ": the data is lost");  // nobody else would notice
        }
        static_cast<void>(must_be_gone(keeper, fetched.error()));
        // The keeper has died, and its death will be decided about.
        coordinator_->wait_until([&](const JobState& now) { return now.index != state.index; });
    }
}

// ---- initialisation blocks ----

std::uint32_t Runtime::logical_init_calls() const noexcept { return std::max(own_init_calls_, restored_init_calls_); }

bool Runtime::lost_initialisation() const noexcept {
    return coordinator_->state().version != kNoVersion && logical_init_calls() > committed_init_calls_;
}

int Runtime::algo_init() noexcept {
    ++own_init_calls_;
    if (is_substitute_ && own_init_calls_ <= restored_init_calls_) {
        return 0;
    }
    if (const Version version = coordinator_->state().version; version != kNoVersion) {
        // From here to the next commit a death cannot be repaired (lost_initialisation).
        const std::int64_t now = now_ns();
        report_span("initialise", now, now, version.value());
    }
    return 1;
}

int Runtime::protected_losses() noexcept { return coordinator_->protected_losses(); }

}  // namespace sft
