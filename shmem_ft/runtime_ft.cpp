// shmem_checkpoint_all, shmem_query_fault, shmem_restart_pes, shmem_ft_algo_init: what this process does in the
// protocols of recovery/coordinator.hpp.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "shmem_ft/base/clock.hpp"
#include "shmem_ft/base/report.hpp"
#include "shmem_ft/runtime.hpp"

namespace sft {
namespace {

// Order matters: every caller passes on the list of shmem_query_fault.
std::uint64_t hash_list(const int* pes, std::size_t count) {
    std::uint64_t hash = 0xcbf29ce484222325U ^ count;
    for (std::size_t i = 0; i < count; ++i) {
        hash = (hash ^ static_cast<std::uint32_t>(pes[i])) * 0x100000001b3U;
    }
    return hash;
}

}  // namespace

// ---- checkpoint ----

int Runtime::checkpoint() noexcept {
    if (!joined_) {
        return 1;  // SHMEM_FT_FAILURE: a substitute goes on to shmem_query_fault and joins in shmem_restart_pes
    }
    const std::int64_t begin = now_ns();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const CheckpointOutcome outcome = coordinator_->checkpoint();
    const Agreed agreed = control_.agreed();
    switch (outcome) {
        case CheckpointOutcome::committed: report_span("checkpoint", begin, now_ns(), agreed.version.value()); return 0;
        case CheckpointOutcome::fault:
            engine_.gate.pending.store(true);
            list_failed(agreed.deaths);
            report_span("agree", begin, now_ns(), agreed.version.value());
            return 1;
        case CheckpointOutcome::ended: break;
    }
    leave_ended_job();
}

void Runtime::ship(Version version) {
    control_.slot(self()).init_calls[version.value() % 2].store(logical_init_calls());
    store_.ship(version, live_);
}

void Runtime::fold(Version version) { store_.fold(version, live_); }

// ---- query ----

void Runtime::list_failed(DeathCount deaths) { failed_ = coordinator_->failed_pes(control_.agreed(), deaths); }

void Runtime::query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept {
    if (!joined_) {
        // The survivors' list; if this PE failed after them, the list of the restart that runs now.
        const Agreed agreed = control_.agreed();
        list_failed(DeathCount(static_cast<std::uint16_t>(control_.header().fault_deaths.load())));
        const bool named =
            std::any_of(failed_.begin(), failed_.end(), [&](const auto& failed) { return failed.pe == me_; });
        if (!named) {
            list_failed(agreed.deaths);
        }
    }
    *numpes = failed_.size();
    *pes = nullptr;
    *pes_status = nullptr;
    if (failed_.empty()) {
        return;
    }
    *pes = static_cast<int*>(std::malloc(failed_.size() * sizeof(int)));
    *pes_status = static_cast<int*>(std::malloc(failed_.size() * sizeof(int)));
    if (*pes == nullptr || *pes_status == nullptr) {
        die("shmem_query_fault: out of memory");
    }
    for (std::size_t i = 0; i < failed_.size(); ++i) {
        (*pes)[i] = failed_[i].pe.value();
        (*pes_status)[i] = failed_[i].reason.status();
    }
}

// ---- restart ----

std::string Runtime::explain(const Plan& plan) const {
    const Agreed agreed = control_.agreed();
    std::string who;
    for (const Coordinator::Failed& failed : coordinator_->failed_pes(agreed, agreed.deaths)) {
        if (std::find(plan.affected.begin(), plan.affected.end(), failed.pe) != plan.affected.end()) {
            who += format("%sPE %d failed (%s)", who.empty() ? "" : ", ", failed.pe.value(),
                          describe(failed.reason).c_str());
        }
    }
    switch (plan.outcome) {
        case PlanOutcome::nothing_committed:
            return who + " before the first checkpoint was committed: there is nothing to go back to";
        case PlanOutcome::no_spare:
            return who + " and there is no spare left to take over: start the job with more spares (oshrun --spares)";
        case PlanOutcome::copies_lost:
            return who + ", and so has the process that kept the copy of the last checkpoint: the data is lost";
        case PlanOutcome::possible: break;
    }
    return store_.explanation() + ": the data is lost";
}

void Runtime::end_unrecoverable() noexcept {
    // The coordinator has ended the job; the process that was first tells why.
    if (const Plan* plan = coordinator_->reason_to_end()) {
        tell_end(explain(*plan));
    }
    leave_ended_job();
}

void Runtime::restart(const int* pes, std::size_t numpes) noexcept {
    const std::int64_t begin = now_ns();
    if (joined_ && lost_initialisation()) {
        fail_job(
            format("PE %d was initialised after the last checkpoint, which would be lost by going back: call "
                   "shmem_checkpoint_all right after initialisation",
                   me_.value()));
    }
    if (!joined_ && failed_.empty()) {
        int* list = nullptr;
        int* status = nullptr;
        std::size_t count = 0;
        query_fault(&list, &status, &count);  // a substitute that did not ask: its own view of the list
        std::free(list);
        std::free(status);
    }
    std::vector<int> expected;
    for (const Coordinator::Failed& failed : failed_) {
        expected.push_back(failed.pe.value());
    }
    Coordinator::RestartRequest request;
    request.list_hash = hash_list(pes, pes == nullptr ? 0 : numpes);
    request.expected_hash = hash_list(expected.data(), expected.size());
    request.joins = !joined_;
    const RestartOutcome outcome = coordinator_->restart(request);
    if (outcome == RestartOutcome::ended) {
        end_unrecoverable();
    }
    if (outcome == RestartOutcome::rejected) {
        if (request.list_hash != request.expected_hash) {
            say("error: PE %d: shmem_restart_pes was not given the list of shmem_query_fault; nothing was changed",
                me_.value());
        }
        return;
    }
    failed_.clear();
    joined_ = true;
    engine_.replay.active = false;
    engine_.gate.pending.store(false);
    refresh_view();  // somebody may have died since
    const Coordinator::Times& times = coordinator_->times();
    const std::uint64_t version = control_.agreed().version.value();
    report_span("restart", begin, now_ns(), version);
    report_span("restore", times.planned, times.restored, version);
    report_span("protect", times.restored, times.resumed, version);
}

Duties::Restored Runtime::become_restored(const Assignment& own, Version version) {
    if (joined_) {
        return store_.roll_back(version, live_) ? Restored::done : Restored::corrupt;
    }
    // The keeper may be this process itself: a shadow that it kept while it slept.
    const ProcessSlot& keeper = control_.slot(own.keeper);
    std::string why;
    switch (BackupStore::fetch({keeper.pid, keeper.store_fd}, me_, version, live_, &why)) {
        case BackupStore::Fetched::done: return Restored::done;
        case BackupStore::Fetched::keeper_gone: return Restored::source_gone;
        case BackupStore::Fetched::corrupt: break;
    }
    store_.explain(why);
    return Restored::corrupt;
}

Duties::Restored Runtime::restore(const Assignment& own, Version version) {
    const Restored result = become_restored(own, version);
    if (result != Restored::done) {
        return result;
    }
    if (!joined_) {
        store_.fold(version, live_);
        control_.slot(self()).init_calls[version.value() % 2].store(restored_init_calls_);
    }
    return Restored::done;
}

bool Runtime::protect(ProcId keeper, bool moved, Version version) {
    // The tables name the new holders now: show their memory where that of the dead ones was.
    const std::vector<Assignment> held = coordinator_->assignments(control_.agreed());
    {
        const std::lock_guard lock(view_mutex_);
        for (std::size_t i = 0; i < held.size(); ++i) {
            const PeId pe(static_cast<std::int32_t>(i));
            std::string gone;
            if (mapped_holder_[i] != held[i].holder && !map_peer(pe, held[i].holder, gone)) {
                return false;
            }
        }
    }
    if (config_.backup_mode != BackupMode::none && keeper != kNoProc) {
        const ProcessSlot& slot = control_.slot(keeper);
        std::string gone;
        const bool substitute_maps = !joined_;
        if ((moved || substitute_maps) && !store_.use_keeper({slot.pid, slot.store_fd}, me_, live_, gone)) {
            return false;
        }
        if (moved) {
            store_.ship(version, live_);
        }
    } else {
        store_.forget_keeper();
    }
    reset_channels();
    return true;
}

// ---- a substitute before it joins ----

bool Runtime::prepare_as_substitute() {
    // Teams, contexts and the record of heap calls as of the version: what the program asks for again on its way to
    // shmem_restart_pes is answered from them.
    engine_.replay = HandleReplay{};
    engine_.replay.active = true;
    for (;;) {
        const Agreed agreed = control_.agreed();
        if (agreed.stage == Stage::ended) {
            return false;
        }
        const Assignment base = coordinator_->assignments(agreed)[me_.index()];
        restored_init_calls_ = control_.slot(base.holder).init_calls[agreed.version.value() % 2].load();
        if (base.keeper != kNoProc) {
            const ProcessSlot& keeper = control_.slot(base.keeper);
            std::string why;
            switch (BackupStore::fetch_front({keeper.pid, keeper.store_fd}, me_, agreed.version, live_,
                                             Heap::journal_bytes(), &why)) {
                case BackupStore::Fetched::done: return true;
                case BackupStore::Fetched::keeper_gone: break;
                case BackupStore::Fetched::corrupt: fail_job(why + ": the data is lost");  // nobody else would notice
            }
        }
        // The keeper is gone; the survivors find out too and decide what becomes of the job.
        Waiter waiter(&control_.slot(self()).doorbell, &never_, 0);
        waiter.block_until([&] { return control_.agreed() != agreed; });
    }
}

// ---- initialisation blocks ----

std::uint32_t Runtime::logical_init_calls() const noexcept { return std::max(own_init_calls_, restored_init_calls_); }

bool Runtime::lost_initialisation() const noexcept {
    const Version version = control_.agreed().version;
    return version != kNoVersion && logical_init_calls() > control_.slot(self()).init_calls[version.value() % 2].load();
}

int Runtime::algo_init() noexcept {
    ++own_init_calls_;
    return is_substitute_ && own_init_calls_ <= restored_init_calls_ ? 0 : 1;
}

int Runtime::protected_losses() noexcept {
    const Agreed agreed = control_.agreed();
    const DeathCount deaths = control_.death_log().length();
    int copies = agreed.version == kNoVersion || config_.backup_mode == BackupMode::none ? 0 : 1;
    for (const Assignment& assignment : coordinator_->assignments(agreed)) {
        if (assignment.keeper == kNoProc || control_.death_log().contains(assignment.keeper, deaths)) {
            copies = 0;
        }
    }
    return std::min(copies, static_cast<int>(coordinator_->idle_spares(deaths).size()));
}

}  // namespace sft
