#include "shmem_ft/process/runtime.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/build_info.hpp"
#include "base/clock.hpp"
#include "base/docs.hpp"
#include "base/faults/fault_points.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"
#include "recovery/membership/scheme.hpp"
#include "shmem_ft/ops/teams.hpp"
#include "shmem_ft/start/member_mark.hpp"
#include "shmem_ft/start/mpi_beside.hpp"

namespace sft {
namespace {

constexpr WaitStyle kAlone{4000, 0};  // a core per process: spins for about as long as a wake-up takes
constexpr WaitStyle kCrowded{20, 4};

// Whoever would wait for this job's result is gone.
void launcher_lost() { ::_exit(kExitError); }

// As process 0 has found it: barriers take another way in a crowd, so all must be of one opinion, also a process that
// takes over when the number of processors is another one.
WaitStyle style_of_job(const ControlSegment& control) {
    JobCard first;
    std::memcpy(&first, control.header().card, sizeof first);
    return first.is_crowded != 0 ? kCrowded : kAlone;
}

// Larger at every reset: attempts of a restart are counted anew in each view.
std::uint32_t channel_epoch(const JobState& state) {
    constexpr std::uint32_t kAttemptsMax = 1U << 12;
    return (state.view + 1) * kAttemptsMax + state.attempt;
}

// What is mapped from now on is put into memory at once, whether it will be used or not: mlockall(MCL_FUTURE).
bool are_new_pages_locked() {
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    unsigned char state = 0;
    const bool is_there = ::mincore(page, bytes, &state) == 0 && (state & 1U) != 0;
    ::munmap(page, bytes);
    return is_there;
}

}  // namespace

// The service thread polls the channel, and may already run.
void Runtime::abandon(const std::string& line) noexcept {
    start_watch_.reset();
    job_exit_.tell(line);
    stop_service();
    links_.close();
    mailbox_.close();
    channel_.close();
}

Runtime::~Runtime() {
    stop_service();
    links_.close();
    forget_fault_self();  // it points into this object
    memory_.unshare_globals();
}

bool Runtime::create_memory(std::string& error) {
    find_raw_memory();
    if (self() == ProcId(0) && are_new_pages_locked()) {
        say("warning: the program has called mlockall(MCL_FUTURE): the whole symmetric heap of every PE (%llu MiB, and "
            "as "
            "much for copies) is put into memory before shmem_init returns, which may take long: call it behind "
            "shmem_init, or set SHMEM_SYMMETRIC_SIZE to what is needed",
            static_cast<unsigned long long>(config_.symmetric_size_bytes >> 20U));
    }
    auto* library = reinterpret_cast<std::byte*>(&engine_.teams);
    auto* library_end = reinterpret_cast<std::byte*>(&engine_.contexts + 1);
    return holds(memory_.create({.globals = config_.globals,
                                 .heap_base = config_.heap_base_address,
                                 .heap_bytes = config_.symmetric_size_bytes,
                                 .record_bytes = may_checkpoint() ? config_.startup_record_bytes : 0,
                                 .has_block_table = config_.check != CheckMode::off,
                                 .library = {reinterpret_cast<std::uintptr_t>(library),
                                             static_cast<std::size_t>(library_end - library)}}),
                 error);
}

void Runtime::connect_channels() {
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->state();
    std::vector<Doorbell*> doorbells;
    for (std::int32_t pe = 0; pe < control_.n_pes(); ++pe) {
        doorbells.push_back(&control_.slot(shape.holder(state, PeId(pe))).doorbell);
    }
    engine_.channels.connect(control_.channels(), me_, std::move(doorbells), &engine_.waiter);
    connect_network();
}

void Runtime::reset_channels(const JobState& state) {
    engine_.channels.reset();
    if (links_.network() != nullptr) {
        links_.network()->reset_channels(channel_epoch(state));
    }
    connect_channels();
}

bool Runtime::take_pe(PeId pe, std::string& error) {
    me_ = pe;
    startup_begin_ns_ = now_ns();
    if (is_substitute_) {
        control_.slot(self()).taken_pe.store(pe.value() + 1);
        status_->set_incarnation(control_.incarnation_of(pe));
        status_->publish(now_ns());
    }
    tell_fault_points();
    engine_.peers.heap = memory_.live().heap;
    engine_.peers.globals = memory_.live().globals;
    engine_.peers.entries = peers_.entries();
    engine_.peers.n_pes = control_.n_pes();
    engine_.peers.me = pe;
    Doorbell* doorbell = &control_.slot(self()).doorbell;
    engine_.waiter = Waiter(doorbell, &engine_.gate, style_of_job(control_));
    engine_.copy = Copier::for_this_processor();
    if (Result<> reserved = peers_.reserve(pe); !reserved) {
        error = reserved.error().line;
        return false;
    }
    // What a substitute writes before it joins would land in memory that is being rolled back; protect() shows the
    // others.
    if (!is_substitute_ && !show_first_holders(error)) {
        return false;
    }
    peers_.retire_dead();  // whose deaths came before their memory was mapped
    connect_channels();
    reset_handles(engine_);
    if (is_substitute_) {
        return true;
    }
    const ProcId keeper = sole_holder(sources_of(coordinator_->shape(), coordinator_->state(), me_));
    if (keeper != kNoProc) {
        // If it is gone there is no shadow, and its death will be known before anything is replicated.
        const Result<> used = protector_.use_keeper(keeper_location(keeper), me_);
        if (!used && used.error().failure != Failure::gone) {
            error = used.error().line;
            return false;
        }
    }
    return true;
}

// What SHMEM_VERSION, SHMEM_INFO and SHMEM_DEBUG ask for, and what a user of this launcher must know.
void Runtime::print_about() const {
    if (bootstrap_.is_slurm_step() && config_.backup_mode != BackupMode::none) {
        say("warning: srun ends all processes as soon as one dies, so nothing can be recovered: allocate nodes with "
            "salloc or sbatch --no-kill, and run oshrun inside %s",
            with_doc_paths("(docs/launchers.md)").c_str());
    }
    if (config_.spares != 0 && has_mpi()) {
        say("warning: this program is linked with MPI: its MPI_Init would wait for the spares, so start it without "
            "them if it uses MPI %s",
            with_doc_paths("(docs/launchers.md)").c_str());
    }
    if (config_.version || config_.info || config_.debug) {
        say("version %s, OpenSHMEM %s, built with %s", build_info().version, build_info().specification,
            build_info().compiler);
    }
    if (config_.info) {
        for (const SettingInfo& setting : settings()) {
            if (!setting.is_internal) {
                const char* origin = setting_origin(setting);
                const bool has_old_name = origin != nullptr && std::strcmp(origin, setting.name) != 0;
                say("%s=%s (%s): %s Accepted: %s%s%s.", setting.name, setting_value(setting, config_).c_str(),
                    origin == nullptr ? "default" : (has_old_name ? origin : "environment"), setting.help,
                    setting.range, *setting.alias == '\0' ? "" : ". Older name: ", setting.alias);
            }
        }
    }
    if (config_.debug) {
        const LiveState& live = memory_.live();
        say("%d PEs, %u spares, symmetric heap of %zu bytes at %#llx", control_.n_pes(), config_.spares,
            memory_.heap().bytes, static_cast<unsigned long long>(live.heap.begin));
        if (links_.network() != nullptr) {
            say("%d nodes; between them %s by interface %s (%s)", links_.nodes()->n_nodes(),
                links_.network()->describe().c_str(), links_.interface().name.c_str(),
                to_string(links_.interface().address).c_str());
        }
        say("globals at %#llx, %zu bytes%s; %zu bytes of library state in every version",
            static_cast<unsigned long long>(live.globals.begin), live.globals.bytes,
            live.globals.bytes == 0 ? " (SHMEM_FT_GLOBALS)" : "", live.library.bytes);
    }
}

// Who this process is, for the victims of a fault schedule.
void Runtime::tell_fault_points() {
    FaultSelf self;
    self.process = this->self();
    self.pe = me_;
    self.n_pes = control_.n_pes();
    self.n_processes = control_.n_processes();
    self.fired = &control_.header().faults_fired;
    self.context = this;
    self.leads = [](void* context) { return static_cast<Runtime*>(context)->coordinator_->leads(); };
    self.keeper = [](void* context, PeId pe) {
        const Runtime& runtime = *static_cast<Runtime*>(context);
        return sole_holder(sources_of(runtime.coordinator_->shape(), runtime.coordinator_->state(), pe));
    };
    self.incarnation = control_.incarnation_of(me_);
    self.phase = program_phase();
    set_fault_self(self);
    FaultHook hook;
    hook.context = this;
    hook.flip = [](void* context, FaultCopy copy, std::uint64_t seed) {
        Runtime& runtime = *static_cast<Runtime*>(context);
        const auto which = copy == FaultCopy::local ? BackupStore::Copy::local : BackupStore::Copy::shadow;
        return !runtime.protector_.store().flip_bit(which, seed, runtime.memory_.live()).empty();
    };
    hook.cut = [](void* context, std::int64_t duration_ms) {
        Runtime& runtime = *static_cast<Runtime*>(context);
        constexpr std::int64_t kNsPerMs = 1'000'000;
        const bool is_possible = runtime.links_.network() != nullptr;
        if (is_possible) {
            runtime.coordinator_->cut_until(duration_ms == kForEver ? INT64_MAX : now_ns() + duration_ms * kNsPerMs);
        }
        return is_possible;
    };
    set_fault_hook(hook);
}

// Before PMIx: if a process dies while it connects, the launcher's server may leave the others waiting for ever, and
// then only oshrun, which has heard of all of them, can end the job.
bool Runtime::say_hello(std::string& error) {
    if (config_.job_socket.empty()) {
        return true;  // nobody to say it to
    }
    channel_.set_rank(Bootstrap::rank_by_environment());
    if (!channel_.connect(config_.job_socket, error)) {
        return false;
    }
    report(JobEventKind::hello, 0, 0, "", now_ns(), 0);
    return true;
}

bool Runtime::start_with_others(int generation, std::string& error) {
    if (!bootstrap_.connect(channel_, config_.pretend_nodes, error)) {
        return false;
    }
    bootstrap_.watch_launcher(&launcher_lost);
    enter(StartStep::making_memory);
    return create_memory(error) && rendezvous(generation, error);
}

// With what shows to onlookers what it knows, and what tells it of deaths.
void Runtime::create_coordinator() {
    const auto policy = config_.unreplaced == Unreplaced::abort ? UnreplacedPolicy::abort : UnreplacedPolicy::wait;
    coordinator_ = std::make_unique<Coordinator>(Coordinator::Options{
        .shape = {.n_pes = first_spare(),
                  .n_processes = bootstrap_.n_processes(),
                  .nodes = links_.nodes(),
                  .domains = domains_.has_several() ? &domains_ : nullptr,
                  .keeps_near = config_.backup_mode == BackupMode::single_copy,
                  .scheme = config_.backup_mode == BackupMode::none ? &no_copies() : &one_partner()},
        .self = self(),
        .policy = policy,
        .mailbox = &mailbox_,
        .actions = this,
        .observer = this,
        .has_lease = [this] { return service_->has_lease(); }});
    status_ = std::make_unique<StatusPublisher>(StatusPublisher::Options{
        .control = &control_,
        .coordinator = coordinator_.get(),
        .protector = &protector_,
        .self = self(),
        .keeps_copies = config_.backup_mode != BackupMode::none,
        .n_on_demand = config_.unreplaced == Unreplaced::abort ? 0 : static_cast<std::int32_t>(config_.on_demand)});
    constexpr std::int64_t kNsPerMs = 1'000'000;
    service_ =
        std::make_unique<FailureService>(FailureService::Options{.control = &control_,
                                                                 .coordinator = coordinator_.get(),
                                                                 .channel = &channel_,
                                                                 .host = this,
                                                                 .self = self(),
                                                                 .nodes = links_.nodes(),
                                                                 .hang_bound_ns = config_.hang_timeout_ms * kNsPerMs,
                                                                 .node_bound_ns = config_.node_timeout_ms * kNsPerMs,
                                                                 .stall_bound_ns = config_.stall_timeout_ms * kNsPerMs,
                                                                 .has_real_nodes = config_.pretend_nodes == 0,
                                                                 .is_realtime = config_.realtime,
                                                                 .joins = !config_.join.empty(),
                                                                 .interface = links_.interface().name});
}

bool Runtime::start(int generation, std::string& error) {
    if (!may_be_member(error) || !load_config(config_, error) || !check_mpi(config_.spares, error) ||
        !start_fault_points(config_, ProcId(Bootstrap::rank_by_environment()), error) || !say_hello(error)) {
        return false;
    }
    if (generation == 0 && config_.join.empty()) {
        watch_start();
    }
    open_policies(generation);
    if (!(config_.join.empty() ? start_with_others(generation, error) : join_running_job(error))) {
        return false;
    }
    // Before the service thread exists, which retires dead peers also while a substitute takes its PE.
    peers_.open({.control = &control_,
                 .n_pes = control_.n_pes(),
                 .heap = memory_.live().heap,
                 .heap_window_bytes = memory_.heap_segment().bytes(),
                 .globals = memory_.live().globals,
                 .gate = &engine_.gate,
                 .network = links_.network(),
                 .is_dead = [this](ProcId process) { return coordinator_->is_dead(process); },
                 .is_remote = [this](ProcId process) { return is_remote(process); }});
    const bool starts_as_spare = self().value() >= first_spare();
    create_coordinator();
    open_exit();
    if (const Result<> watched = service_->watch_processes(); !watched) {
        error = watched.error().line;
        return false;
    }
    tell_fault_points();
    status_->publish(now_ns());
    fault_point(FaultPoint::init_ready);
    enter(StartStep::taking_pe);
    if ((!starts_as_spare && !take_pe(PeId(self().value()), error)) || !start_service(error)) {
        return false;
    }
    can_ask_for_end_.store(true);
    end_if_cut_off();
    if (!config_.join.empty()) {
        ask_to_join();
    } else if (!bootstrap_.is_one_node()) {
        service_->listen_to_launcher(bootstrap_.name_space());
    }
    if (self() == ProcId(0) && generation == 0) {
        print_about();  // once in a job
    }
    start_watch_.reset();
    // With the descriptor by which a spare can join.
    report(JobEventKind::initialized, control_.fd(), 0, "", now_ns(), 0);
    if (starts_as_spare) {
        return become_substitute(error);
    }
    record_startup();
    return holds(protector_.start_scrubber(config_), error);
}

bool Runtime::become_substitute(std::string& error) {
    is_substitute_ = true;
    joined_ = false;
    engine_.gate.pending.store(true);
    const PeId pe = sleep_as_spare();
    fault_point(FaultPoint::spare_woken);
    if (!take_pe(pe, error)) {
        return false;
    }
    if (!prepare_as_substitute()) {
        job_exit_.leave_ended_job();
    }
    report(JobEventKind::pe_taken, 0, 0, "", now_ns(), 0);
    repeat_startup();  // oshrun gives what PE 0 had read to who has taken it
    fault_point(FaultPoint::substitute_prepared);
    return true;
}

void Runtime::report(JobEventKind kind, std::int32_t code, std::uint64_t value, const char* text, std::int64_t begin_ns,
                     std::int64_t end_ns) noexcept {
    if (!channel_.is_connected()) {
        return;
    }
    JobEvent event;
    event.kind = kind;
    event.pe = me_.load().value();
    event.code = code;
    event.value = value;
    event.begin_ns = begin_ns;
    event.end_ns = end_ns;
    std::snprintf(event.text, sizeof event.text, "%s", text);
    channel_.report(event);
}

void Runtime::report_span(const char* name, std::int64_t begin_ns, std::int64_t end_ns, std::uint64_t value) noexcept {
    if (config_.events) {
        report(JobEventKind::span, 0, value, name, begin_ns, end_ns);
    }
    if (config_.debug) {
        say("PE %d: %s of version %llu took %.3f ms", me_.load().value(), name, static_cast<unsigned long long>(value),
            static_cast<double>(end_ns - begin_ns) / 1e6);
    }
}

}  // namespace sft
