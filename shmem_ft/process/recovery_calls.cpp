#include "shmem_ft/process/recovery_calls.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/memory_left.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/ask_first.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/copy_room.hpp"
#include "shmem_ft/ops/job.hpp"

namespace sft {

using Call = Coordinator::Call;

namespace {

std::string no_room_text(const RoomVerdict& verdict, std::int32_t own_node, const MemoryLeft& left,
                         const Config& config, Version version) {
    std::string bound = "of the memory of that node";
    if (config.memory_limit_bytes != 0) {
        bound = format("%s are in use, and SHMEM_FT_MEMORY_LIMIT is %s", memory_text(verdict.used).c_str(),
                       memory_text(config.memory_limit_bytes).c_str());
    } else if (verdict.node == own_node) {
        bound = format("of %s of %s", memory_text(left.limit).c_str(),
                       left.group.empty() ? "this node" : format("the control group %s", left.group.c_str()).c_str());
    }
    const std::string kept = version == kNoVersion
                                 ? "there is none to go back to"
                                 : format("version %llu stays", static_cast<unsigned long long>(version.value()));
    return format("no checkpoint: the copies of the %d PEs on node %d take %s more, and %s may be taken (%s); %s",
                  verdict.n_pes, verdict.node, memory_text(verdict.next).c_str(), memory_text(verdict.left).c_str(),
                  bound.c_str(), kept.c_str());
}

}  // namespace

void RecoveryCalls::open(const Options& options) noexcept {
    SFT_ASSERT(options.coordinator != nullptr && options.actions != nullptr && options.job_exit != nullptr);
    o_ = options;
    const Locked calls(calls_mutex_);
    pace_.begin(o_.config->interval, o_.config->mtbf_ns, now_ns());
}

// ---- checkpoint ----

int RecoveryCalls::checkpoint_all() noexcept {
    job::watch_exit_at_first_call();
    if (is_leaving_for_good() || !o_.me->has_joined()) {
        return kFailure;  // a substitute goes on to shmem_query_fault and joins in shmem_restart_pes
    }
    const Locked calls(calls_mutex_);
    const PendingWatch::Inside inside(o_.fault_policy->watch(), "shmem_checkpoint_all");
    if (settle() == kFailure) {
        return kFailure;
    }
    return is_due() ? make_version() : 0;
}

int RecoveryCalls::make_version() noexcept {
    const std::int64_t begin = now_ns();
    if (!prepare_version()) {
        return kOutOfMemory;
    }
    const Participant::Do outcome = o_.coordinator->carry_out({Call::Kind::checkpoint});
    return conclude(outcome, begin, now_ns() - begin);
}

// Nothing: there is no room for its copies, and everybody knows.
std::optional<Version> RecoveryCalls::prepare_version() noexcept {
    fault_point(FaultPoint::checkpoint_enter);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    o_.links->quiet();  // what this PE has put elsewhere belongs to the version
    if (!has_room_for_copies()) {
        return std::nullopt;  // still a barrier
    }
    const Version next = o_.coordinator->shape().version_after(o_.coordinator->state().version);
    o_.storage->choose(next);
    tell_program(VersionEvent::before_checkpoint, next);
    included_.save();  // behind the handlers, which may change it
    return next;
}

int RecoveryCalls::conclude(Participant::Do outcome, std::int64_t begin_ns, std::int64_t cost_ns) noexcept {
    fault_point(FaultPoint::checkpoint_leave);
    o_.take_notes();
    const JobState state = o_.coordinator->state();
    switch (outcome) {
        case Participant::Do::committed:
            SFT_ASSERT(state.version != kNoVersion);
            pace_.committed(begin_ns, begin_ns + cost_ns);
            o_.status->set_costs(pace_.costs(), best_interval(state.view));
            report_span("checkpoint", begin_ns, begin_ns + cost_ns, state.version.value());
            o_.checks->look_for_stray_words();
            tell_program(VersionEvent::after_checkpoint, state.version);
            return 0;
        case Participant::Do::fault:
            o_.engine->gate.pending.store(true);
            SFT_ASSERT(!state.failed.empty());
            o_.fault_policy->set_failed(state.failed);
            report_span("agree", begin_ns, now_ns(), state.version.value());
            return kFailure;
        default: o_.job_exit->leave_ended_job();
    }
}

void RecoveryCalls::tell_program(VersionEvent event, Version version) noexcept {
    if (handlers_.is_empty()) {
        return;
    }
    constexpr const char* kWhen[] = {"before", "after", "after going back to"};
    if (const int refused = handlers_.call(event, version); refused != 0) {
        o_.job_exit->fail_job(format("PE %d: a handler of shmem_ft_on_version returned %d %s version %llu",
                                     o_.me->value(), refused, kWhen[static_cast<std::size_t>(event) - 1],
                                     static_cast<unsigned long long>(version.value())));
    }
}

bool RecoveryCalls::may_include() noexcept {
    return !o_.me->has_joined() || o_.coordinator->state().version == kNoVersion;
}

bool RecoveryCalls::include(void* memory, void* place, std::size_t bytes) noexcept {
    const Locked calls(calls_mutex_);
    const bool is_added = included_.add(memory, place, bytes);
    o_.engine->included_pieces = included_.n_pieces();
    o_.engine->included_bytes = included_.n_bytes();
    return is_added;
}

// How many there were has come back with the version.
void RecoveryCalls::restore_included() noexcept {
    const Engine& e = *o_.engine;
    if (included_.n_pieces() != e.included_pieces || included_.n_bytes() != e.included_bytes) {
        o_.job_exit->fail_job(
            format("PE %d: %llu bytes of private memory in %llu pieces belong to the version, and this substitute has "
                   "included %zu in %zu: call shmem_ft_include outside of the block of shmem_ft_algo_init",
                   o_.me->value(), static_cast<unsigned long long>(e.included_bytes),
                   static_cast<unsigned long long>(e.included_pieces), included_.n_bytes(), included_.n_pieces()));
    }
    included_.restore();
}

// A call that makes no version is a barrier still, because programs rely on that. Where it meets a fault it is a
// checkpoint that is entered with one.
bool RecoveryCalls::is_due() noexcept {
    const CheckpointPace::Call call = pace_.next();
    if (o_.config->backup.mode == BackupMode::none) {
        return true;
    }
    switch (call) {
        case CheckpointPace::Call::is_due: return true;
        case CheckpointPace::Call::passes:
            return !barrier(*o_.engine, world(*o_.engine)) || has_list() || is_fault_known();
        case CheckpointPace::Call::asks: break;
    }
    o_.links->quiet();
    const std::uint32_t must = o_.init_calls->is_ahead() ? 1 : 0;
    const CheckpointPace::Answer own = pace_.decide(now_ns(), o_.coordinator->state().view);  // PE 0's counts
    const auto answer = ask_first<CheckpointPace::Answer>(
        *o_.engine, must, {.asked = FaultPoint::due_asked, .told = FaultPoint::due_told},
        [&](std::span<const std::uint32_t> all) {
            const bool is_due = own.is_due != 0 || std::find(all.begin(), all.end(), 1U) != all.end();
            return CheckpointPace::Answer{.is_due = is_due ? 1U : 0U, .pause = own.pause};
        });
    if (!answer) {
        return true;
    }
    pace_.hear(*answer);
    return answer->is_due != 0 || has_list() || is_fault_known();
}

std::int64_t RecoveryCalls::best_interval(std::uint32_t n_failures) const noexcept {
    return best_interval_ns(pace_.costs().typical_ns, pace_.mtbf_ns(now_ns(), n_failures));
}

// So many checkpoints may pass before the next question, at the pace of those since the last one.
std::uint32_t RecoveryCalls::pause_of_questions(std::int64_t now) const noexcept {
    constexpr std::int64_t kBetweenNs = 100'000'000;
    constexpr std::int64_t kMost = 1000;
    if (room_.asked_ns == 0) {
        return 0;
    }
    const std::int64_t per_checkpoint = std::max<std::int64_t>(1, (now - room_.asked_ns) / (room_.n_paused + 1));
    return static_cast<std::uint32_t>(std::min(kMost, kBetweenNs / per_checkpoint));
}

// All PEs ask in the same checkpoints: in the first one of a view, and again, some ten times a second at most, until
// there is room whatever they write. Where a fault has made their counts differ there is a new view.
bool RecoveryCalls::has_room_for_copies() noexcept {
    if (o_.config->backup.mode == BackupMode::none || room_.is_for_ever) {
        return true;
    }
    if (room_.n_paused < room_.pause) {
        ++room_.n_paused;
        return true;
    }
    const JobState state = o_.coordinator->state();
    const std::int64_t now = now_ns();
    const MemoryLeft left = memory_left();
    const BackupStore::Room room = o_.protector->room();
    const JobShape& shape = o_.coordinator->shape();
    const RoomWanted own{.node = shape.node_of(state, shape.holder(state, o_.me->get())).value(),
                         .used = room.used,
                         .next = room.next,
                         .most = room.most,
                         .left = left.may_be_taken(),
                         .pause = pause_of_questions(now)};
    const std::optional<RoomVerdict> verdict = agree_on_room(*o_.engine, own, o_.config->memory_limit_bytes);
    if (!verdict) {
        return true;  // a fault, which the checkpoint is going to tell
    }
    SFT_ASSERT(verdict->is_there || verdict->n_pes > 0);  // somebody's copies have no room
    o_.status->set_room(room.used + room.most, left.may_be_taken());
    room_ = {.is_for_ever = verdict->is_there_for_ever, .pause = verdict->pause, .asked_ns = now, .n_paused = 0};
    if (!verdict->is_there && !has_told_of_room_ && o_.me->get() == PeId(0)) {
        say("warning: %s", no_room_text(*verdict, own.node, left, *o_.config, state.version).c_str());
    }
    has_told_of_room_ = !verdict->is_there;
    return verdict->is_there;
}

// ---- who has failed ----

// Before the first commit there is nothing to go back to, and the job ends. No program gets to see what a call brings
// that has missed somebody there: it would end by an error of its own, in a race with the line that says what was
// wrong.
WayOut RecoveryCalls::meet_fault(const char* routine) noexcept {
    if (is_leaving()) {
        return {};
    }
    if (o_.me->has_joined() && o_.coordinator->state().version == kNoVersion) {
        await_end();
    }
    return o_.fault_policy->meet(routine);
}

void RecoveryCalls::await_end() noexcept {
    const Locked calls(calls_mutex_);
    if (o_.coordinator->state().version == kNoVersion &&
        o_.coordinator->carry_out({Call::Kind::checkpoint}) == Participant::Do::ended) {
        o_.job_exit->leave_ended_job();
    }
}

bool RecoveryCalls::is_fault_known() const {
    const JobState state = o_.coordinator->state();
    return sft::is_fault_known(o_.coordinator->shape(), state, o_.coordinator->known_deaths());
}

// A checkpoint that is entered while the death of a holder is known cannot be committed: the dead one would have to
// replicate after everybody has arrived.
bool RecoveryCalls::check_status() noexcept {
    if (!o_.me->has_joined() || has_list()) {
        return true;
    }
    if (!is_fault_known()) {
        return false;
    }
    // All threads that meet the fault come here; one of them does it, and the others find it done.
    const Locked calls(calls_mutex_);
    settle();
    if (has_list()) {
        return true;
    }
    if (!is_fault_known()) {
        return false;
    }
    const Participant::Do outcome = o_.coordinator->carry_out({Call::Kind::checkpoint});
    if (outcome == Participant::Do::ended) {
        o_.job_exit->leave_ended_job();
    }
    if (outcome != Participant::Do::fault) {
        return false;
    }
    o_.engine->gate.pending.store(true);
    o_.fault_policy->set_failed(o_.coordinator->state().failed);
    return true;
}

// A substitute has the survivors' list; if its PE failed after them, the list of the restart that runs now.
void RecoveryCalls::take_list() {
    if (o_.me->begins_with_stored()) {
        std::vector<FailedPe> all;
        for (std::int32_t pe = 0; pe < o_.coordinator->shape().n_pes; ++pe) {
            all.push_back({PeId(pe), {FailureKind::restarted, 0}});
        }
        o_.fault_policy->set_failed(std::move(all));
        return;
    }
    const JobState state = o_.coordinator->state();
    std::vector<FailedPe> list = state.failed;
    const PeId me = o_.me->get();
    if (std::none_of(list.begin(), list.end(), [&](const FailedPe& item) { return item.pe == me; })) {
        list.insert(list.end(), state.further.begin(), state.further.end());
    }
    o_.fault_policy->set_failed(std::move(list));
}

void RecoveryCalls::show_list(const std::vector<FailedPe>& list, int** pes, int** pes_status) const {
    *pes = static_cast<int*>(std::malloc(list.size() * sizeof(int)));
    *pes_status = static_cast<int*>(std::malloc(list.size() * sizeof(int)));
    if (*pes == nullptr || *pes_status == nullptr) {
        die("shmem_query_fault: out of memory");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        SFT_ASSERT(list[i].pe.value() >= 0 && list[i].pe.value() < o_.coordinator->shape().n_pes);
        (*pes)[i] = list[i].pe.value();
        (*pes_status)[i] = list[i].reason.status();
    }
}

void RecoveryCalls::query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept {
    fault_point(FaultPoint::query);
    if (!o_.me->has_joined()) {
        take_list();
    }
    const std::vector<FailedPe> list = o_.fault_policy->failed();
    *numpes = list.size();
    *pes = nullptr;
    *pes_status = nullptr;
    if (!list.empty()) {
        show_list(list, pes, pes_status);
    }
}

// ---- others ----

int RecoveryCalls::algo_init() noexcept {
    job::watch_exit_at_first_call();
    if (!o_.init_calls->enter(o_.me->repeats_start())) {
        return 0;
    }
    if (const Version version = o_.coordinator->state().version; version != kNoVersion) {
        // From here to the next commit a death cannot be repaired (InitCalls::is_ahead).
        const std::int64_t now = now_ns();
        report_span("initialise", now, now, version.value());
    }
    return 1;
}

void RecoveryCalls::give_advice() const noexcept {
    if (o_.me->get() == PeId(0) && !o_.config->quiet) {
        if (const auto line = pace_.advice(now_ns(), o_.coordinator->state().view)) {
            say("note: %s", line->c_str());
        }
    }
}

void RecoveryCalls::finish(const std::function<void()>& leave) noexcept {
    const Locked calls(calls_mutex_);
    settle();
    fault_point(FaultPoint::finalize_enter);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    o_.links->quiet();
    switch (o_.coordinator->carry_out({Call::Kind::finish})) {
        case Participant::Do::finished: give_advice(); break;
        case Participant::Do::fault: o_.job_exit->fail_job(o_.lines->past_the_end(), EndReason::past_the_end);
        default: o_.job_exit->leave_ended_job();
    }
    leave();
}

void RecoveryCalls::report_span(const char* name, std::int64_t begin_ns, std::int64_t end_ns,
                                std::uint64_t value) noexcept {
    if (o_.config->events) {
        JobEvent event{
            .kind = JobEventKind::span, .pe = o_.me->value(), .begin_ns = begin_ns, .end_ns = end_ns, .value = value};
        std::snprintf(event.text, sizeof event.text, "%s", name);
        o_.channel->report(event);
    }
    if (o_.config->debug) {
        say("PE %d: %s of version %llu took %.3f ms", o_.me->value(), name, static_cast<unsigned long long>(value),
            static_cast<double>(end_ns - begin_ns) / 1e6);
    }
}

}  // namespace sft
