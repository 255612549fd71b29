// shmem_checkpoint_all, shmem_query_fault, shmem_restart_pes, shmem_ft_algo_init: what this process does in the
// protocols of recovery/coordinator.hpp.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "recovery/lost_spares.hpp"
#include "shmem_ft/ops/teams.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {

// "PE 1 failed (killed by signal 9 (Killed)), PE 2 failed (...)", of those in `pes`. What follows on the line is the
// reason, which must not be cut off: so only the first ones are named.
std::string Runtime::name_failed(const JobState& state, const std::vector<PeId>& pes) {
    constexpr std::size_t kNamedMax = 4;
    std::vector<std::string> names;
    std::vector<PeId> listed;
    for (const std::vector<FailedPe>* list : {&state.failed, &state.further}) {
        for (const FailedPe& item : *list) {
            // A PE whose substitute has died as well is in both lists.
            if (std::find(pes.begin(), pes.end(), item.pe) != pes.end() &&
                std::find(listed.begin(), listed.end(), item.pe) == listed.end()) {
                names.push_back(format("PE %d failed (%s)", item.pe.value(), describe(item.reason).c_str()));
                listed.push_back(item.pe);
            }
        }
    }
    for (const PeId pe : pes) {
        if (std::find(listed.begin(), listed.end(), pe) == listed.end()) {
            names.push_back(format("PE %d failed", pe.value()));  // too late for any list
        }
    }
    std::string who;
    for (std::size_t i = 0; i < std::min(names.size(), kNamedMax); ++i) {
        who += (i == 0 ? "" : ", ") + names[i];
    }
    return names.size() <= kNamedMax ? who : who + format(", and %zu more failed", names.size() - kNamedMax);
}

// ---- checkpoint ----

int Runtime::checkpoint() noexcept {
    if (!joined_) {
        return 1;  // SHMEM_FT_FAILURE: a substitute goes on to shmem_query_fault and joins in shmem_restart_pes
    }
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(pending_watch_, "shmem_checkpoint_all");
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
            set_failed(state.failed);
            report_span("agree", begin, now_ns(), state.version.value());
            return 1;
        default: leave_ended_job();
    }
}

void Runtime::replicate(Version version) {
    engine_.init_calls = logical_init_calls();
    close_startup();
    if (const Result<> replicated = protector_.replicate(version); !replicated) {
        // If it is dead, the shadow is gone in any case; if it has refused what it was sent, the job ends here.
        const JobState state = coordinator_->state();
        static_cast<void>(must_be_gone(coordinator_->shape().keeper_to_be(state, me_), replicated.error()));
    }
}

void Runtime::update_local_copy(Version version) {
    protector_.update_local_copy(version);
    committed_init_calls_ = static_cast<std::uint32_t>(engine_.init_calls);
    end_startup();
}

// ---- query ----

std::vector<FailedPe> Runtime::failed() const {
    const Locked lock(list_mutex_);
    return failed_;
}

void Runtime::set_failed(std::vector<FailedPe> failed) {
    const Locked lock(list_mutex_);
    failed_ = std::move(failed);
}

void Runtime::query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept {
    fault_point(FaultPoint::query);
    if (!joined_) {
        // The survivors' list; if this PE failed after them, the list of the restart that runs now.
        const JobState state = coordinator_->state();
        std::vector<FailedPe> list = state.failed;
        if (std::none_of(list.begin(), list.end(), [&](const FailedPe& item) { return item.pe == me_; })) {
            list.insert(list.end(), state.further.begin(), state.further.end());
        }
        set_failed(std::move(list));
    }
    const std::vector<FailedPe> list = failed();
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

// Who has had spares, and lost them with a node, is not helped by more of them in the same place.
std::string Runtime::lack_of_spares(const JobState& state) const {
    if (are_spares_in_vain(state)) {
        return " as its own substitute, right after it had taken over, and there is no spare left to take over; more "
               "of them would hardly "
               "help: most likely it needs what a substitute does not find, as private arrays, pointers to memory of "
               "malloc, open files or a loop that is left early (docs/faults.md, shmem-ft globals)";
    }
    const LostSpares lost = lost_spares(coordinator_->shape(), state, coordinator_->known_deaths());
    std::string text = " and there is no spare left to take over: ";
    const auto number = [](std::int32_t count) { return format("%d %s", count, count == 1 ? "was" : "were"); };
    if (lost.n_alone == 0 && lost.with_node.empty()) {
        return text + "start the job with more spares (oshrun --spares)";
    }
    text += format("of %d spare%s ", lost.n_spares, lost.n_spares == 1 ? "" : "s");
    for (const auto& [node, count] : lost.with_node) {
        text += number(count) + " lost with " + links_.name_of(node) + ", ";
    }
    if (lost.n_alone != 0) {
        text += format("%d %s died, ", lost.n_alone, lost.n_alone == 1 ? "has" : "have");
    }
    text.replace(text.size() - 2, 2, ": ");
    return text + (lost.with_node.empty()
                       ? "start the job with more spares (oshrun --spares)"
                       : "start more of them, or on hosts of their own (oshrun --spares, --spare-nodes)");
}

std::string Runtime::explain(const JobState& state) const {
    const std::string who = name_failed(state, state.lost);
    switch (state.end_reason) {
        case EndReason::nothing_committed:
            return (who.empty() ? std::string("shmem_restart_pes was called") : who) +
                   " before the first checkpoint was committed: there is nothing to go back to";
        case EndReason::no_spare: return who + lack_of_spares(state);
        case EndReason::copies_lost:
            if (config_.backup_mode == BackupMode::none) {
                return who + " and no copies are kept to go back to: set SHMEM_FT_BACKUP_MODE to single or double";
            }
            return who + ", and so has the process that kept the copy of the last checkpoint: the data is lost";
        case EndReason::all_died: return who + ": no process is left that holds a PE, and the data is lost";
        case EndReason::mismatched_calls:
            return "some PEs are in shmem_checkpoint_all and others in shmem_finalize: every PE must make the same "
                   "collective calls in the same order";
        default: return {};
    }
}

void Runtime::restart(const int* pes, std::size_t numpes) noexcept {
    const std::int64_t begin = now_ns();
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(pending_watch_, "shmem_restart_pes");
    fault_point(joined_ ? FaultPoint::restart_enter : FaultPoint::substitute_joins);
    if (joined_ && lost_initialisation()) {
        fail_job(
            format("PE %d was initialised after the last checkpoint, which would be lost by going back: call "
                   "shmem_checkpoint_all right after initialisation",
                   me_.load().value()));
    }
    if (startup_ != nullptr) {
        startup_->end_replay(Startup::End::restart, {"shmem_restart_pes", nullptr});
    }
    if (!joined_ && failed().empty()) {
        int* list = nullptr;
        int* status = nullptr;
        std::size_t count = 0;
        query_fault(&list, &status, &count);  // a substitute that did not ask: its own view of the list
        std::free(list);
        std::free(status);
    }
    links_.quiet();  // nothing of this view may come to a PE that has rolled back
    forget_dead();
    const std::uint64_t given = JobRules::hash_of(std::span<const std::int32_t>(pes, pes == nullptr ? 0 : numpes));
    const std::uint64_t expected = JobRules::hash_of(failed());
    const Participant::Do outcome = coordinator_->restart(given, !joined_);
    restarts_.fetch_add(1);
    if (outcome == Participant::Do::give_up) {
        fail_job(why_lost_ + ": the data is lost");
    }
    if (outcome == Participant::Do::ended) {
        leave_ended_job();
    }
    if (outcome == Participant::Do::rejected) {
        if (given != expected) {
            say("error: PE %d: shmem_restart_pes was not given the list of shmem_query_fault; nothing was changed",
                me_.load().value());
        }
        return;
    }
    set_failed({});
    if (!joined_) {
        if (const Result<> started = protector_.start_scrubber(config_); !started) {
            say("warning: %s", started.error().line.c_str());
        }
    }
    joined_ = true;
    engine_.replay.active = false;
    end_startup();
    peers_.end_fault();
    pending_watch_.clear();
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

std::string Runtime::lost_copy(const JobState& state) const {
    return name_failed(state, {me_}) + ", and so has the process that kept the copy of the last checkpoint";
}

CheckpointActions::Outcome Runtime::become_restored(const JobState& state) {
    // The keeper may be this process itself: a shadow that it kept while it slept.
    const ProcId keeper = joined_ ? kNoProc : coordinator_->shape().keeper(state, me_);
    if (!joined_ && keeper == kNoProc) {
        // It died before this process had the copy, and nobody else has one. The rules cannot know how far this process
        // had come, so it is the one that has to say so.
        why_lost_ = lost_copy(state);
        return Outcome::corrupt;
    }
    const Result<> restored =
        joined_ ? protector_.roll_back(state.version) : protector_.fetch(door_of(keeper), me_, state.version);
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
    forget_dead();
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
    forget_dead();
    const ProcId keeper = shape.keeper_to_be(state, me_);
    if (config_.backup_mode == BackupMode::none || keeper == kNoProc) {
        protector_.protect_by_nobody();
    } else {
        const Protector::Shadow shadow{
            .keeper = door_of(keeper), .pe = me_, .is_there = !shape.needs_new_shadow(state, me_)};
        if (const Result<> is_protected = protector_.protect(shadow, state.version); !is_protected) {
            return must_be_gone(keeper, is_protected.error());
        }
    }
    reset_channels(state);
    recovered_from_ = state;
    fault_point(FaultPoint::protect_end);
    return Outcome::ok;
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
        const ProcId keeper = coordinator_->shape().keeper(state, me_);
        if (keeper == kNoProc) {
            fail_job(lost_copy(state) + ": the data is lost");
        }
        const Result<> fetched = protector_.fetch_front(door_of(keeper), me_, state.version, memory_.front_bytes());
        if (fetched) {
            restored_init_calls_ = static_cast<std::uint32_t>(engine_.init_calls);
            engine_.init_depth = 0;  // the program's own calls count until the version's number comes with its memory
            begin_replay(engine_);
            return true;
        }
        if (fetched.error().failure == Failure::failed) {
            fail_job(fetched.error().line + ": the data is lost");  // nobody else would notice
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
