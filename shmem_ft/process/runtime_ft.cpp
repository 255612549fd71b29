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
    quiet_network();  // what this PE has put elsewhere belongs to the version
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

void Runtime::ship(Version version) {
    engine_.init_calls = logical_init_calls();
    close_startup();
    const BackupStore::Shipped shipped = store_.ship(version, live_);
    stored_bytes_.store(shipped.bytes_stored);
    if (shipped.keeper_gone) {
        // If it is dead, the shadow is gone in any case; if it has refused what it was sent, the job ends here.
        keeper_in_use_ = kNoProc;
        const JobState state = coordinator_->state();
        static_cast<void>(must_be_gone(coordinator_->shape().keeper_to_be(state, me_),
                                       {Failure::refused, "it does not take the copy"}));
    }
}

void Runtime::fold(Version version) {
    store_.fold(version, live_);
    committed_init_calls_ = static_cast<std::uint32_t>(engine_.init_calls);
    end_startup();
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
    if (startup_ != nullptr) {
        startup_->end_replay(Startup::End::restart, {"shmem_restart_pes", nullptr});
    }
    if (!joined_ && fault_policy_.failed().empty()) {
        int* list = nullptr;
        int* status = nullptr;
        std::size_t count = 0;
        query_fault(&list, &status, &count);  // a substitute that did not ask: its own view of the list
        std::free(list);
        std::free(status);
    }
    quiet_network();  // nothing of this view may come to a PE that has rolled back
    forget_dead();
    const std::uint64_t given = JobRules::hash_of(std::span<const std::int32_t>(pes, pes == nullptr ? 0 : numpes));
    const std::uint64_t expected = JobRules::hash_of(fault_policy_.failed());
    const Participant::Do outcome = coordinator_->restart(given, !joined_);
    fault_policy_.restart_decided();
    if (outcome == Participant::Do::give_up) {
        job_exit_.fail_job(store_.explanation() + ": the data is lost");
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
    std::string no_thread;
    if (!joined_ && !start_scrubber(no_thread)) {
        say("warning: %s", no_thread.c_str());
    }
    joined_ = true;
    engine_.replay.active = false;
    end_startup();
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

Duties::Done Runtime::become_restored(const JobState& state) {
    if (joined_) {
        return store_.roll_back(state.version, live_) ? Done::ok : Done::corrupt;
    }
    // The keeper may be this process itself: a shadow that it kept while it slept.
    const ProcId keeper = coordinator_->shape().keeper(state, me_);
    if (keeper == kNoProc) {
        // It died before this process had the copy, and nobody else has one. The rules cannot know how far this process
        // had come, so it is the one that has to say so.
        store_.explain(lost_copy(state, me_));
        return Done::corrupt;
    }
    Trouble trouble;
    switch (BackupStore::fetch(door_of(keeper), me_, state.version, live_, &trouble)) {
        case BackupStore::Fetched::done: return Done::ok;
        case BackupStore::Fetched::keeper_gone:
            return must_be_gone(keeper, {Failure::gone, trouble.what, trouble.error});
        case BackupStore::Fetched::cannot_be_opened:
            return must_be_gone(keeper, {Failure::cannot_be_opened, trouble.what, trouble.error});
        case BackupStore::Fetched::corrupt: break;
    }
    store_.explain(trouble.what);
    return Done::corrupt;
}

Duties::Done Runtime::restore(const JobState& state) {
    fault_point(FaultPoint::restore_begin);
    forget_dead();
    const Done result = become_restored(state);
    if (result == Done::ok) {
        take_thread_level();
    }
    if (checker_ != nullptr) {
        checker_->forget_users();
    }
    fault_point(FaultPoint::restore_end);
    if (result == Done::ok && !joined_) {
        store_.fold(state.version, live_);
        committed_init_calls_ = restored_init_calls_;
    }
    return result;
}

Duties::Done Runtime::protect(const JobState& state) {
    // The new holders are known now: show their memory where that of the dead ones was.
    const JobShape& shape = coordinator_->shape();
    fault_point(FaultPoint::remap);
    if (const auto unreached = show_holders(state)) {
        return must_be_gone(unreached->first, unreached->second);
    }
    fault_point(FaultPoint::protect_begin);
    forget_dead();
    const ProcId keeper = shape.keeper_to_be(state, me_);
    const bool moved = shape.needs_new_shadow(state, me_);
    const Version version = state.version;
    if (config_.backup_mode != BackupMode::none && keeper != kNoProc) {
        // A shadow that has not moved is looked for again, too, if the one before in this recovery, which died, was to
        // get it.
        if (moved || keeper != keeper_in_use_) {
            keeper_in_use_ = kNoProc;
            Trouble trouble;
            const Reach reach = store_.use_keeper(door_of(keeper), me_, live_, trouble);
            if (reach != Reach::opened) {
                const Failure failure = reach == Reach::gone ? Failure::gone : Failure::cannot_be_opened;
                return must_be_gone(keeper, {failure, trouble.what, trouble.error});
            }
            keeper_in_use_ = keeper;
        }
        if (moved) {
            const BackupStore::Shipped shipped = store_.ship(version, live_);
            if (shipped.keeper_gone) {
                keeper_in_use_ = kNoProc;
                return must_be_gone(keeper, {Failure::refused, "it does not take the copy"});
            }
            stored_bytes_.store(shipped.bytes_stored);
        }
    } else {
        keeper_in_use_ = kNoProc;
        store_.forget_keeper();
    }
    reset_channels(state);
    recovered_from_ = state;
    fault_point(FaultPoint::protect_end);
    return Done::ok;
}

// ---- what a recovery leaves on the standard error ----

std::string Runtime::node_name(NodeId node) const {
    for (std::int32_t process = 0; process < control_.n_slots(); ++process) {
        const Contact* contact = control_.contact(ProcId(process));
        if (contact != nullptr && NodeId(contact->node) == node) {
            return contact->node_name;
        }
    }
    return format("node %d", node.value());
}

JobFacts Runtime::facts(const JobState& state, std::span<const Death> dead) const {
    return {.shape = coordinator_->shape(),
            .state = state,
            .dead = dead,
            .node_name = [this](NodeId node) { return node_name(node); },
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
        const std::int64_t seen_ns = control_.slot(holder_in(recovered_from_.settled, pe)).death_seen_ns.load();
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
        const ProcId keeper = coordinator_->shape().keeper(state, me_);
        Trouble trouble;
        if (keeper == kNoProc) {
            job_exit_.fail_job(lost_copy(state, me_) + ": the data is lost");
        }
        const auto fetched = BackupStore::fetch_front(door_of(keeper), me_, state.version, live_,
                                                      record_bytes_ + Heap::journal_bytes(), &trouble);
        if (fetched == BackupStore::Fetched::done) {
            restored_init_calls_ = static_cast<std::uint32_t>(engine_.init_calls);
            engine_.init_depth = 0;  // the program's own calls count until the version's number comes with its memory
            begin_replay(engine_);
            return true;
        }
        if (fetched == BackupStore::Fetched::corrupt) {
            job_exit_.fail_job(trouble.what + ": the data is lost");  // nobody else would notice
        }
        const bool is_gone = fetched == BackupStore::Fetched::keeper_gone;
        static_cast<void>(
            must_be_gone(keeper, {is_gone ? Failure::gone : Failure::cannot_be_opened, trouble.what, trouble.error}));
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
