#include "shmem_ft/process/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"
#include "recovery/membership/scheme.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/teams.hpp"
#include "shmem_ft/process/about.hpp"
#include "shmem_ft/start/member_mark.hpp"
#include "shmem_ft/start/mpi_beside.hpp"

namespace sft {
// ---- the start ----

Result<> Runtime::start(int generation) {
    if (Result<> read = read_settings(); !read) {
        return read;
    }
    if (Result<> said = rendezvous_.say_hello(); !said) {
        return said;
    }
    const bool joins = !config_.join.empty();
    if (generation == 0 && !joins) {
        rendezvous_.watch_start();
    }
    open_policies(generation);
    if (Result<> met = meet_others(generation); !met) {
        return met;
    }
    SFT_ASSERT(self().value() < control_.n_slots() && first_spare() >= 1 && first_spare() <= control_.n_processes());
    if (Result<> opened = open_storage(generation); !opened) {
        return opened;
    }
    const bool starts_as_spare = self().value() >= first_spare();
    if (Result<> created = create_owners(self() == ProcId(0) && generation == 0 && !joins); !created) {
        return created;
    }
    fault_hooks_.introduce_self();
    status_->publish(now_ns());
    fault_point(FaultPoint::init_ready);
    rendezvous_.enter(StartStep::taking_pe);
    if (!starts_as_spare) {
        if (storage_.begins_with() != kNoVersion) {
            me_.begin_with_stored();
        }
        if (Result<> taken = take_pe(PeId(self().value())); !taken) {
            return taken;
        }
    }
    if (Result<> started = start_service(); !started) {
        return started;
    }
    links_.tell_of_lost([this](const std::string& line) { job_exit_.ask_for_end(line); });
    if (joins) {
        ask_to_join();
    } else if (!bootstrap_.is_one_node()) {
        service_->listen_to_launcher(bootstrap_.name_space());
    }
    if (self() == ProcId(0) && generation == 0) {
        print_about(config_, bootstrap_, links_, memory_, coordinator_->shape());
    }
    rendezvous_.end_watch();
    // With the descriptor by which a spare can join.
    channel_.report({.kind = JobEventKind::initialized,
                     .pe = me_.value(),
                     .code = control_.fd(),
                     .begin_ns = now_ns(),
                     .value = node_word(node_of_copies())});
    if (starts_as_spare) {
        return become_substitute();
    }
    if (me_.begins_with_stored()) {
        return begin_with_stored();
    }
    program_start_.record();
    return start_idle_work();
}

NodeId Runtime::node_of_copies() const noexcept {
    // Who joins learns only later where it is.
    if (!node_memory_.is_used() || !config_.join.empty()) {
        return kNoNode;
    }
    return links_.nodes() == nullptr ? NodeId(0) : links_.nodes()->node_of(self());
}

Result<> Runtime::create_owners(bool asks_for_demands) {
    open_peers();  // before the service thread exists, which retires dead peers also while a substitute takes its PE
    create_coordinator();
    Result<> met = asks_for_demands ? meet_demands() : Result<>();
    if (!met) {
        return met;
    }
    create_service();
    open_actions();
    open_calls();
    open_exit();
    return service_->watch_processes();
}

Result<> Runtime::open_storage(int generation) {
    JobCard first;
    std::memcpy(&first, control_.header().card, sizeof first);
    return storage_.open({.config = &config_,
                          .memory = &memory_,
                          .protector = &protector_,
                          .engine = &engine_,
                          .me = &me_,
                          .n_pes = first_spare(),
                          .program = first.program_fingerprint,
                          .job = first.mail_name,
                          .may_checkpoint = may_checkpoint_,
                          .is_first = self() == ProcId(0),
                          .pes_before =
                              [this](std::uint32_t n) {
                                  return pes_of_node_before(coordinator_->shape(), coordinator_->state(), me_.get(),
                                                            static_cast<std::int32_t>(n));
                              },
                          .is_first_life = generation == 0});
}

Result<> Runtime::read_settings() {
    return may_be_member()
        .then([this] { return load_config(config_); })
        .then([this] { return storage_.read(config_); })
        .then([this] { return links_.read_topology(); })
        .then([this] { return check_mpi(config_.spares); })
        .then([this] { return start_fault_points(config_, ProcId(Bootstrap::rank_by_environment())); });
}

// A process that starts with the job, or a spare that joins it.
Result<> Runtime::meet_others(int generation) {
    const bool joins = !config_.join.empty();
    if (Result<> found = joins ? rendezvous_.attach() : rendezvous_.connect(); !found) {
        return found;
    }
    if (Result<> created = create_memory(); !created) {
        return created;
    }
    Result<> met = joins ? rendezvous_.join(own_for_others()) : rendezvous_.meet(generation, own_for_others());
    if (met) {
        met = use_node_memory();
    }
    if (met) {
        tell_if_not_tracked(track_changes());
    }
    return met;
}

// On several nodes it is in use since this process serves what it keeps (open_links).
Result<> Runtime::use_node_memory() {
    if (node_memory_.fd() < 0 || node_memory_.is_used()) {
        return {};
    }
    return node_memory_.use(self());
}

// In several memory domains of one node: before anybody has touched the copies.
void Runtime::place_copies(PeId pe) const noexcept {
    const DomainMap* const domains = rendezvous_.domains();
    if (domains == nullptr || !node_memory_.is_used()) {
        return;
    }
    const ProcId spare = first_spare() < control_.n_processes() ? ProcId(first_spare()) : kNoProc;
    const ProcId keeper =
        first_spare() == 1 ? spare : first_holder(targets_of(coordinator_->shape(), coordinator_->state(), pe));
    node_memory_.place_copies(pe, domains->domain_of(self()),
                              keeper == kNoProc ? kNoDomain : domains->domain_of(keeper));
}

// Not with one PE on several nodes.
bool Runtime::is_to_track() noexcept { return memory_.change_notes().is_set() && node_memory_.is_used(); }

Result<> Runtime::track_changes() {
    if (!is_to_track()) {
        return {};
    }
    if (has_mpi()) {
        return fails("the program uses MPI, which may write past the page tables");
    }
    if (links_.network() != nullptr && !links_.network()->writes_by_threads()) {
        return fails("the network writes past the page tables");
    }
    return protector_.track_changes(memory_.change_notes(), config_.tracking, control_.header().n_watching);
}

void Runtime::tell_if_not_tracked(const Result<>& tracks) const {
    if (!tracks && config_.tracking != Tracking::automatic && self() == ProcId(0)) {
        say("warning: SHMEM_FT_TRACKING: changes cannot be tracked here, everything is compared: %s",
            tracks.error().line.c_str());
    }
}

Result<> Runtime::create_memory() {
    find_raw_memory();
    protector_.store().keep_parity(config_.backup.parity);
    if (self() == ProcId(0)) {
        warn_of_locked_memory(config_);
    }
    const auto* library = reinterpret_cast<std::byte*>(&engine_.teams);
    const auto* library_end = reinterpret_cast<std::byte*>(&engine_.contexts + 1);
    SFT_ASSERT(library < library_end);  // what of the engine belongs to a version lies side by side
    may_checkpoint_ = keeps_copies() && ProgramStart::may_checkpoint();
    return memory_.create(
        {.globals = config_.globals,
         .heap_base = config_.heap_base_address,
         .heap_bytes = config_.symmetric_size_bytes,
         .record_bytes = may_checkpoint_ ? config_.startup_record_bytes : 0,
         .has_block_table = config_.check != CheckMode::off,
         .has_change_notes = may_checkpoint_ && config_.tracking != Tracking::off,
         .has_guard_words = may_checkpoint_ && config_.background == BackgroundMode::protect,
         .library = {reinterpret_cast<std::uintptr_t>(library), static_cast<std::size_t>(library_end - library)},
         .excluded = &engine_.excluded,
         .arrays = &engine_.arrays});
}

Rendezvous::Own Runtime::own_for_others() {
    return {.heap = memory_.live().heap,
            .globals = memory_.live().globals,
            .make_node_file = [this](std::int32_t n_pes) { return make_node_file(n_pes); },
            .open_node_file =
                [this](std::int32_t pid, std::uint64_t start_time, const Rendezvous::File& file) {
                    return node_memory_.open(pid, start_time, file.fd, file.bytes);
                },
            .make_store = [this](std::int32_t n_pes) { return make_store(n_pes); },
            .open_links = [this](const JobCard& first) { return open_links(first); }};
}

Result<Rendezvous::File> Runtime::make_node_file(std::int32_t n_pes) {
    if (!keeps_copies()) {
        return Rendezvous::File{};
    }
    if (Result<> made = node_memory_.make(n_pes, control_.n_slots()); !made) {
        return fails(made.error());
    }
    return Rendezvous::File{.fd = node_memory_.fd(), .bytes = node_memory_.bytes()};
}

Result<Rendezvous::Files> Runtime::make_store(std::int32_t n_pes) {
    SFT_ASSERT(n_pes == first_spare());
    if (Result<> created = protector_.create(config_.backup.mode, n_pes); !created) {
        return fails(created.error());
    }
    Result<NodeMemory::Places> places = NodeMemory::Places();
    if (node_memory_.fd() >= 0 && self().value() < n_pes) {
        places = node_memory_.place_memory(PeId(self().value()));
    }
    if (!places) {
        return fails(places.error());
    }
    const auto file_of = [](const Segment& segment) {
        return Rendezvous::File{segment.fd(), segment.bytes(), segment.offset()};
    };
    return Rendezvous::Files{.heap = file_of(memory_.heap_segment()),
                             .globals = file_of(memory_.globals_segment()),
                             .store = file_of(protector_.store().segment()),
                             .heap_in_node_file = places->heap,
                             .globals_in_node_file = places->globals,
                             .node_file = node_memory_.fd()};
}

Result<> Runtime::open_links(const JobCard& first) {
    Result<> opened = links_.open(first, {.heap = memory_.live().heap,
                                          .globals = memory_.live().globals,
                                          .gate = &engine_.gate,
                                          .marks = memory_.has_startup_record() ? memory_.write_marks() : WriteMarks(),
                                          .message_bytes_max = kMessageBytesMax});
    if (!opened || links_.network() == nullptr) {
        return opened;
    }
    Result<> used = node_memory_.fd() >= 0 ? node_memory_.use(self()) : Result<>();
    return used ? protector_.store().serve(*links_.network(), memory_.live()) : used;
}

// ---- the service thread ----

Result<> Runtime::open_spare_wait() {
    // The name of oshrun's socket has the pid of its guardian.
    int guardian = 0;
    const bool has_oshrun = std::sscanf(config_.job_socket.c_str(), "shmem-ft-%d-", &guardian) == 1;
    return spare_wait_.open({.asks_handler = config_.unreplaced == Unreplaced::handler,
                             .timeout_seconds = config_.wait_timeout_seconds,
                             .remedy = has_oshrun ? format("; oshrun --join %d adds one", guardian) : "",
                             // oshrun may be able to start one (oshrun --on-demand).
                             .ask_for_spare = [this](PeId pe) {
                                 channel_.report({.kind = JobEventKind::spare_wanted, .pe = pe.value()});
                             }});
}

Result<> Runtime::start_service() {
    Result<> had = open_spare_wait();
    if (had) {
        had = job_exit_.reserve_descriptors(spare_wait_.fd());
    }
    if (!had) {
        return fails(format("cannot have the descriptors of the service thread: %s", had.error().line.c_str()));
    }
    events_.watch_spare_wait();
    return service_->start();
}

Result<> Runtime::start_idle_work() {
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->state();
    const NodeId here = shape.node_of(state, self());
    std::int32_t pes_here = 0;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        pes_here += shape.node_of(state, shape.holder(state, PeId(pe))) == here ? 1 : 0;
    }
    return protector_.start_idle_work(config_, may_checkpoint_, pes_here);
}

void Runtime::stop_service() noexcept {
    if (service_ != nullptr) {
        service_->stop();
    }
    job_exit_.release_descriptors();
    spare_wait_.close();
}

// ---- a PE, and a spare ----

Result<> Runtime::take_pe(PeId pe) {
    SFT_ASSERT(pe.value() >= 0 && pe.value() < first_spare());
    me_.take(pe);
    program_start_.enter();
    if (me_.is_substitute()) {
        control_.slot(self()).taken_pe.store(pe.value() + 1);
        status_->set_incarnation(control_.incarnation_of(pe));
        status_->publish(now_ns());
    }
    fault_hooks_.introduce_self();
    engine_links_.connect_peers();
    if (Result<> reserved = peers_.reserve(pe); !reserved) {
        return reserved;
    }
    // What a substitute writes before it joins would land in memory that is being rolled back; protect() shows the
    // others.
    if (!me_.repeats_start()) {
        if (Result<> shown = actions_.show_first_holders(); !shown) {
            return shown;
        }
    }
    if (!me_.is_substitute()) {
        place_copies(pe);
    }
    peers_.retire_dead();  // whose deaths came before their memory was mapped
    engine_links_.connect_channels();
    reset_handles(engine_);
    return me_.repeats_start() ? Result<>() : actions_.use_first_keepers();
}

Result<> Runtime::become_substitute() {
    me_.become_spare();
    engine_.gate.pending.store(true);
    const PeId pe = sleep_as_spare();
    fault_point(FaultPoint::spare_woken);
    if (Result<> taken = take_pe(pe); !taken) {
        return taken;
    }
    // The records of handles and heap calls as of the version: what the program asks for again on its way to
    // shmem_restart_pes is answered from them.
    if (!actions_.fetch_front(memory_.front_bytes())) {
        job_exit_.leave_ended_job();
    }
    channel_.report({.kind = JobEventKind::pe_taken, .pe = pe.value(), .begin_ns = now_ns()});
    repeat_start();  // oshrun gives what PE 0 had read to who has taken it
    fault_point(FaultPoint::substitute_prepared);
    return {};
}

// The program's own calls count until the version's number comes with its memory.
void Runtime::repeat_start() {
    engine_.init_depth = 0;
    begin_replay(engine_);
    program_start_.repeat();
}

Result<> Runtime::begin_with_stored() {
    engine_.gate.pending.store(true);
    if (Result<> loaded = storage_.load_front(me_.get()); !loaded) {
        return loaded;
    }
    init_calls_.fetch(static_cast<std::uint32_t>(engine_.init_calls));
    repeat_start();
    return {};
}

PeId Runtime::sleep_as_spare() noexcept {
    SFT_ASSERT(self().value() >= first_spare());
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->wait_until(
        [&](const JobState& now) { return shape.held_by(now, self()) != kNoPe || is_over(now); });
    if (state.stage == Stage::ended) {
        job_exit_.leave_ended_job();
    }
    const PeId pe = shape.held_by(state, self());
    if (pe == kNoPe) {
        // The job is over and did not need this process. It never ran the application, so nothing of the
        // application's may run at its exit.
        control_.slot(self()).state.store(ProcessState::finalized);
        leave_job();
        links_.close();
        bootstrap_.disconnect();
        ::_exit(0);
    }
    return pe;
}

void Runtime::ask_to_join() {
    SFT_ASSERT(self().value() >= control_.n_processes());
    coordinator_->request_join(rendezvous_.everybody_else(), NodeId(control_.header().node));
    // oshrun lets the next one in when this one is counted in.
    coordinator_->wait_until([this](const JobState& now) { return has_joined(now, self()) || is_over(now); });
}

void Runtime::enter_program() {
    checks_.begin(engine_, config_.check, memory_);
    attach_engine(&engine_);
}

// ---- the end ----

void Runtime::finish() noexcept {
    SFT_ASSERT(me_.get() != kNoPe && service_ != nullptr);
    // Scrubbing waits for answers of those who have the copies. All are there until everybody has come to the end.
    protector_.stop_idle_work();
    storage_.close();
    calls_.finish([this] {
        if (me_.get() == PeId(0)) {
            storage_.tidy_up();
        }
        control_.slot(self()).state.store(ProcessState::finalized);
        job_exit_.note_finished();
        Bootstrap::forget_launcher();
        leave_job();
        mailbox_.close();
        links_.close();  // by which others have reached what is in the store
        protector_.release();
    });
}

// It is over for everybody, and this process has done its part.
void Runtime::leave_job() noexcept {
    channel_.report({.kind = JobEventKind::finalized, .pe = me_.value(), .begin_ns = now_ns()});
    stop_service();
    say_goodbye(Stage::finished);
}

// The others must have heard of the end: of one that is gone without a word they would think that it has died.
void Runtime::say_goodbye(Stage how) noexcept {
    constexpr std::int64_t kPatienceNs = 2'000 * kNsPerMs;
    if (links_.network() != nullptr) {
        coordinator_->leave(how, now_ns() + kPatienceNs);
    }
}

// The service thread polls the channel, and may already run.
void Runtime::abandon(const std::string& line) noexcept {
    rendezvous_.end_watch();
    job_exit_.tell(line);
    stop_service();
    links_.close();
    mailbox_.close();
    channel_.close();
}

Runtime::~Runtime() {
    stop_service();
    links_.close();
    memory_.unshare_globals();
}

}  // namespace sft
