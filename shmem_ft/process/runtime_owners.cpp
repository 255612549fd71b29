// Runtime: how its owners are made and told of each other, in the order of what they need.
#include "base/assert.hpp"
#include "base/clock.hpp"
#include "recovery/loss_demands.hpp"
#include "recovery/membership/memory_holder.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/scheme.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {
void Runtime::open_policies(int generation) {
    SFT_ASSERT(generation >= 0);
    life_ = static_cast<std::uint32_t>(generation) + 1;
    job_exit_.hear_of_defects();
    fault_policy_.open({.action = config_.on_fault,
                        .life = life_,
                        .me = [this] { return me_.get(); },
                        .has_joined = [this] { return me_.has_joined(); },
                        .agree = [this] { return calls_.check_status(); },
                        .end_job = [this](const std::string& line) { job_exit_.fail_job(line); }});
}

void Runtime::open_peers() {
    peers_.open({.control = &control_,
                 .n_pes = control_.n_pes(),
                 .heap = memory_.live().heap,
                 .heap_window_bytes = memory_.heap_segment().bytes(),
                 .globals = memory_.live().globals,
                 .node_file = node_memory_.fd(),
                 .node_heaps = node_memory_.heaps(),
                 .node_globals = node_memory_.globals(),
                 .gate = &engine_.gate,
                 .network = links_.network(),
                 .is_dead = [this](ProcId process) { return coordinator_->is_dead(process); },
                 .is_remote = [this](ProcId process) { return links_.is_remote(process); }});
}

// With what shows to onlookers what it knows.
void Runtime::create_coordinator() {
    const bool aborts = config_.unreplaced == Unreplaced::abort;
    SFT_ASSERT(coordinator_ == nullptr && first_spare() <= bootstrap_.n_processes());
    if (links_.nodes() == nullptr && first_spare() > 1) {
        words_.emplace(control_, self(), engine_.waiter);
    }
    JobShape shape{.n_pes = first_spare(),
                   .n_processes = bootstrap_.n_processes(),
                   .nodes = links_.nodes(),
                   .domains = rendezvous_.domains(),
                   .areas = links_.areas(),
                   .keeps_near = config_.backup.mode == BackupMode::single_copy,
                   .memory = node_memory_.is_used() ? &node_memory() : &process_memory(),
                   .first_version = storage_.begins_with() == kNoVersion ? Version(1) : storage_.begins_with()};
    groups_ = groups_for(shape, config_.backup);
    shape.groups = groups_ ? &*groups_ : nullptr;
    shape.scheme = &scheme_of(shape, config_.backup);
    coordinator_ = std::make_unique<Coordinator>(
        Coordinator::Options{.shape = shape,
                             .self = self(),
                             .policy = aborts ? UnreplacedPolicy::abort : UnreplacedPolicy::wait,
                             .mailbox = &mailbox_,
                             .actions = &actions_,
                             .observer = &events_,
                             .has_lease = [this] { return service_->has_lease(); },
                             .records = node_memory_.records(),
                             .words = words_ ? &*words_ : nullptr});
    status_ = std::make_unique<StatusPublisher>(
        StatusPublisher::Options{.control = &control_,
                                 .coordinator = coordinator_.get(),
                                 .protector = &protector_,
                                 .self = self(),
                                 .keeps_copies = keeps_copies(),
                                 .n_on_demand = aborts ? 0 : static_cast<std::int32_t>(config_.on_demand)});
    lines_.open({.coordinator = coordinator_.get(),
                 .control = &control_,
                 .node_name = [this](NodeId node) { return links_.name_of(node); },
                 .keeps_copies = keeps_copies(),
                 .wait_timeout_seconds = config_.wait_timeout_seconds});
}

Result<> Runtime::meet_demands() const {
    if (!links_.topology()) {
        return {};
    }
    const JobShape& shape = coordinator_->shape();
    std::vector<std::string> names;
    for (std::int32_t node = 0; node < (shape.nodes == nullptr ? 1 : shape.nodes->n_nodes()); ++node) {
        names.push_back(links_.name_of(NodeId(node)));
    }
    const std::string unmet = unmet_demand({.topology = *links_.topology(), .shape = shape, .names = names});
    return unmet.empty() ? Result<>() : Result<>(fails("SHMEM_FT_TOPOLOGY: " + config_.topology + ": " + unmet));
}

// What tells the coordinator of deaths, and what hears of them.
void Runtime::create_service() {
    SFT_ASSERT(service_ == nullptr && coordinator_ != nullptr && status_ != nullptr);
    service_ =
        std::make_unique<FailureService>(FailureService::Options{.control = &control_,
                                                                 .coordinator = coordinator_.get(),
                                                                 .channel = &channel_,
                                                                 .host = &events_,
                                                                 .self = self(),
                                                                 .nodes = links_.nodes(),
                                                                 .hang_bound_ns = config_.hang_timeout_ms * kNsPerMs,
                                                                 .node_bound_ns = config_.node_timeout_ms * kNsPerMs,
                                                                 .stall_bound_ns = config_.stall_timeout_ms * kNsPerMs,
                                                                 .has_real_nodes = config_.pretend_nodes == 0,
                                                                 .is_realtime = config_.realtime,
                                                                 .joins = !config_.join.empty(),
                                                                 .interface = links_.interface().name});
    events_.open({.control = &control_,
                  .self = self(),
                  .me = &me_,
                  .links = &links_,
                  .peers = &peers_,
                  .gate = &engine_.gate,
                  .coordinator = coordinator_.get(),
                  .service = service_.get(),
                  .status = status_.get(),
                  .fault_policy = &fault_policy_,
                  .spare_wait = &spare_wait_,
                  .lines = &lines_,
                  .job_exit = &job_exit_,
                  .fault_hooks = &fault_hooks_});
    fault_hooks_.open({.control = &control_,
                       .coordinator = coordinator_.get(),
                       .protector = &protector_,
                       .memory = &memory_,
                       .self = self(),
                       .me = &me_,
                       .phase = [this] { return program_start_.phase(); },
                       .wake_service = [this] { service_->wake(); },
                       .has_network = links_.network() != nullptr});
}

void Runtime::open_actions() {
    SFT_ASSERT(coordinator_ != nullptr && status_ != nullptr && life_ != 0);
    engine_links_.open({.engine = &engine_,
                        .control = &control_,
                        .coordinator = coordinator_.get(),
                        .memory = &memory_,
                        .peers = &peers_,
                        .network = links_.network(),
                        .notes_changes = is_to_track(),
                        .slot = &control_.slot(self()),
                        .me = &me_});
    program_start_.open(
        {.engine = &engine_,
         .memory = &memory_,
         .peers = &peers_,
         .control = &control_,
         .network = links_.network(),
         .status = status_.get(),
         .channel = &channel_,
         .job_socket = config_.job_socket,
         .self = self(),
         .me = &me_,
         .life = life_,
         .phase_changed = [this] { fault_hooks_.introduce_self(); },
         .report_span = [this](const char* name, std::int64_t begin_ns,
                               std::uint64_t version) { calls_.report_span(name, begin_ns, now_ns(), version); }});
    actions_.open({.coordinator = coordinator_.get(),
                   .protector = &protector_,
                   .peers = &peers_,
                   .init_calls = &init_calls_,
                   .control = &control_,
                   .network = links_.network(),
                   .me = &me_,
                   .saved_init_calls = &engine_.init_calls,
                   .is_remote = [this](ProcId process) { return links_.is_remote(process); },
                   .before_replicating = [this] { program_start_.close(); },
                   .take_heap_over = [this](PeId pe) { return node_memory_.take_heap_over(self(), pe); },
                   .drop_unreadable_of =
                       [this](PeId pe, Version version) { return node_memory_.drop_unreadable_of(pe, version); },
                   .free_memory_of = [this](PeId pe) { node_memory_.free_memory_of(pe); },
                   .free_shadow_of = [this](PeId pe) { node_memory_.free_shadow_of(pe); },
                   .committed = [this](Version version) { program_start_.end(version); },
                   .restored = [] { job::take_thread_level(); },
                   .after_restoring =
                       [this] {
                           checks_.forget_users();
                           checks_.follow_heap(memory_);
                       },
                   .reset_channels = [this](const JobState& state) { engine_links_.reset_channels(state); },
                   .end_job = [this](const std::string& line) { job_exit_.fail_job(line); }});
}

void Runtime::open_calls() {
    SFT_ASSERT(coordinator_ != nullptr && status_ != nullptr && engine_.fault_calls == nullptr);
    calls_.open({.config = &config_,
                 .take_notes = [this] { engine_links_.take_notes(); },
                 .start_idle_work = [this] { return start_idle_work(); },
                 .me = &me_,
                 .channel = &channel_,
                 .engine = &engine_,
                 .links = &links_,
                 .peers = &peers_,
                 .protector = &protector_,
                 .heap_guard = &heap_guard_,
                 .memory = &memory_,
                 .coordinator = coordinator_.get(),
                 .actions = &actions_,
                 .init_calls = &init_calls_,
                 .program_start = &program_start_,
                 .storage = &storage_,
                 .checks = &checks_,
                 .fault_policy = &fault_policy_,
                 .spare_wait = &spare_wait_,
                 .status = status_.get(),
                 .lines = &lines_,
                 .job_exit = &job_exit_});
    engine_.heap = &heap_calls_;
    engine_.fault_calls = &calls_;
}

void Runtime::open_exit() {
    SFT_ASSERT(coordinator_ != nullptr && service_ != nullptr);
    job_exit_.open({.self = self(),
                    .slot = &control_.slot(self()),
                    .gate = &engine_.gate,
                    .coordinator = coordinator_.get(),
                    .explain = [this](const JobState& state) { return lines_.end(state); },
                    .tell_data_lost =
                        [this](const std::vector<PeId>& pes) {
                            if (config_.unreplaced == Unreplaced::handler) {
                                static_cast<void>(spare_wait_.handler_ends(kDataLost, pes));
                            }
                        },
                    .say_goodbye = [this](Stage how) { say_goodbye(how); }});
}

}  // namespace sft
