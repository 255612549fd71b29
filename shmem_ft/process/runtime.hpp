// The composition root: one object that owns everything a process of a job has, and the only code that knows all
// layers. The C interface reaches it through the functions of ops/job.hpp.
//
// Threads: the application's threads and one service thread, which sleeps in the kernel until a process
// of the job ends, a control message comes or the launcher's front end goes away. What both change belongs to owners
// with mutexes of their own. Of the application's threads one at a time is inside the collective calls of fault
// tolerance, which calls_mutex_ sees to: several may meet a fault at once and check the status. Everything else belongs
// to the thread that makes the collective call, while the others do what include/shmem_ft.h demands of them.
//
// Life: start() in shmem_init; a spare sleeps in there and returns as a substitute; finish() in the last
// shmem_finalize. After fork() the child has no runtime (runtime_job.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backup/protector.hpp"
#include "base/config.hpp"
#include "base/domain_map.hpp"
#include "base/job_channel.hpp"
#include "base/mutex.hpp"
#include "base/private_data.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/failure_service.hpp"
#include "recovery/explanations.hpp"
#include "recovery/fault_policy.hpp"
#include "recovery/spare_wait.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/startup.hpp"
#include "shmem_ft/process/job_exit.hpp"
#include "shmem_ft/process/status_publisher.hpp"
#include "shmem_ft/start/bootstrap.hpp"
#include "shmem_ft/start/node_links.hpp"
#include "shmem_ft/start/start_watch.hpp"
#include "symheap/peer_map.hpp"
#include "symheap/stray_words.hpp"
#include "symheap/symmetric_memory.hpp"
#include "transport/contact.hpp"
#include "transport/net/network.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class Runtime final : public CheckpointActions, private JobObserver, private ServiceHost {
public:
    Runtime() = default;
    ~Runtime() override;
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    // Everything shmem_init does. False: error is the line for the user. A spare comes back as a substitute, or not
    // at all (the process ends when the job does without having needed it).
    [[nodiscard]] bool start(int generation, std::string& error);
    // start() failed: tells why. The process ends or gives its caller an error; the others notice.
    void abandon(const std::string& line) noexcept;
    // Between start() and the first call of the application: what SHMEM_FT_CHECK asks for.
    void start_checks() noexcept;
    void look_for_stray_words() noexcept;
    // The last shmem_finalize.
    void finish() noexcept;

    int checkpoint() noexcept;
    void query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept;
    void restart(const int* pes, std::size_t numpes) noexcept;
    int algo_init() noexcept;
    int protected_losses() noexcept;
    void recover() noexcept;  // runtime_policy.cpp

    // runtime_startup.cpp
    [[nodiscard]] void* pointer_before_joining(const void* address, PeId pe) noexcept;

    void* heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;

    // Offset + 1 of a block of the symmetric heap; ends the job if the address is no such block.
    [[nodiscard]] std::uint64_t heap_offset(const void* address, const char* routine) noexcept;

    [[nodiscard]] Engine& engine() noexcept { return engine_; }
    [[nodiscard]] SymmetricMemory& memory() noexcept { return memory_; }
    [[nodiscard]] JobExit& job_exit() noexcept { return job_exit_; }
    [[nodiscard]] FaultPolicy& fault_policy() noexcept { return fault_policy_; }
    [[nodiscard]] SpareWait& spare_wait() noexcept { return spare_wait_; }
    // What a nested initialisation has raised, or a rollback lowered: as on all PEs.
    void take_thread_level() noexcept;

    // CheckpointActions
    void replicate(Version version) override;
    void update_local_copy(Version version) override;
    Outcome restore(const JobState& state) override;
    Outcome protect(const JobState& state) override;

private:
    // JobObserver: runtime_observer.cpp
    void heard_of_death(const Death& death) override;
    void end_with_mpi(const Death& death);
    void decided(const JobState& before, const JobState& after) override;
    void must_stop(const Stop& why) override;
    void awaits_spares(const std::vector<PeId>& pes) override;  // runtime_policy.cpp

    // ServiceHost
    [[nodiscard]] bool is_remote(ProcId process) const noexcept override { return links_.is_remote(process); }
    [[nodiscard]] PeId own_pe() const noexcept override { return me_.load(); }
    void service_woken(std::int64_t now_ns) noexcept override;
    [[nodiscard]] int service_timeout_ms(std::int64_t now_ns) const noexcept override;
    void end_by_service(const std::string& line) noexcept override { job_exit_.end_by_service(line); }
    void before_kill() noexcept override { JobExit::flush_output(); }

    // runtime.cpp
    [[nodiscard]] bool create_memory(std::string& error);
    [[nodiscard]] bool start_with_others(int generation, std::string& error);
    // Instead of start_with_others(), for a spare that comes while the job runs (runtime_join.cpp).
    [[nodiscard]] bool join_running_job(std::string& error);
    [[nodiscard]] bool await_turn(std::string& error);
    void ask_to_join();
    [[nodiscard]] bool take_pe(PeId pe, std::string& error);
    [[nodiscard]] bool show_first_holders(std::string& error);
    [[nodiscard]] bool become_substitute(std::string& error);
    void create_coordinator();
    void connect_channels();
    void reset_channels(const JobState& state);
    void print_about() const;
    void tell_fault_points();

    // runtime_rendezvous.cpp
    [[nodiscard]] bool prepare_cards(JobCard& card, SegmentCard& segment, std::string& error);
    [[nodiscard]] bool rendezvous(int generation, std::string& error);
    [[nodiscard]] bool publish_slot(std::string& error);
    [[nodiscard]] bool say_hello(std::string& error);
    void watch_start();
    void enter(StartStep step) noexcept;
    [[nodiscard]] DomainId find_domain() const;
    void read_domains();

    // runtime_nodes.cpp
    [[nodiscard]] bool open_links(const JobCard& first, std::string& error);
    void end_without(ProcId process) noexcept;
    void end_if_cut_off() noexcept;
    void connect_network();
    void retire_dead_peers() noexcept;
    void say_goodbye(Stage how) noexcept;
    [[nodiscard]] Protector::KeeperLocation keeper_location(ProcId process) const;

    // runtime_observer.cpp
    [[nodiscard]] bool start_service(std::string& error);
    void stop_service() noexcept;
    void watch_exit_later() noexcept;
    PeId sleep_as_spare() noexcept;

    // runtime_ft.cpp
    [[nodiscard]] JobFacts facts(const JobState& state, std::span<const Death> dead) const;
    void tell_recovery() const;
    [[nodiscard]] std::uint32_t logical_init_calls() const noexcept;
    [[nodiscard]] bool lost_initialisation() const noexcept;
    [[nodiscard]] Outcome must_be_gone(ProcId process, const Error& error) noexcept;
    // The process that could not be reached, and why; the first one in the order of the PEs.
    [[nodiscard]] std::optional<std::pair<ProcId, Error>> show_holders(const JobState& state);
    [[nodiscard]] Outcome become_restored(const JobState& state);
    [[nodiscard]] bool prepare_as_substitute();

    // runtime_startup.cpp
    [[nodiscard]] bool may_checkpoint() const noexcept;
    [[nodiscard]] Startup::Memory startup_memory() noexcept;
    void record_startup();
    void repeat_startup();
    void close_startup() noexcept;
    void end_repetition() noexcept;
    void end_startup(Version version) noexcept;
    void show_startup() noexcept;
    [[nodiscard]] ProgramPhase program_phase() const noexcept;
    void take_input() noexcept;

    // runtime_policy.cpp
    void open_policies(int generation);
    void open_exit();
    [[nodiscard]] Result<> open_spare_wait();
    [[nodiscard]] bool check_status() noexcept;
    [[nodiscard]] bool is_fault_known() const;
    void tell_pending_fault() noexcept;
    void wait_is_due() noexcept;

    // runtime_heap.cpp
    void* replay_heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;

    void report(JobEventKind kind, std::int32_t code, std::uint64_t value, const char* text, std::int64_t begin_ns,
                std::int64_t end_ns) noexcept;
    void report_span(const char* name, std::int64_t begin_ns, std::int64_t end_ns, std::uint64_t value) noexcept;

    [[nodiscard]] ProcId self() const noexcept { return bootstrap_.self(); }
    [[nodiscard]] std::int32_t first_spare() const noexcept {
        return bootstrap_.n_processes() - static_cast<std::int32_t>(config_.spares);
    }

    Config config_;
    JobChannel channel_;
    Bootstrap bootstrap_;
    ControlSegment control_;
    SymmetricMemory memory_;
    std::unique_ptr<Startup> startup_;   // before the first commit, and in a substitute that has not joined
    std::int64_t startup_begin_ns_ = 0;  // of the start-up or its repetition; 0: it is over. By the thread of calls
    std::unique_ptr<Checker> checker_;
    std::unique_ptr<StrayWords> stray_words_;  // if calls are checked
    Protector protector_{memory_.live()};
    Mailbox mailbox_;
    DomainMap domains_;  // in a job on one node
    NodeLinks links_{{.config = &config_, .bootstrap = &bootstrap_, .control = &control_, .mailbox = &mailbox_}};
    std::atomic<ProcId> lost_connection_{kNoProc};  // nobody has been told yet
    std::atomic<bool> can_ask_for_end_{false};      // there are a coordinator and a service thread
    std::unique_ptr<Coordinator> coordinator_;
    std::unique_ptr<StatusPublisher> status_;  // as long as the coordinator
    std::unique_ptr<FailureService> service_;  // as long as the coordinator
    std::unique_ptr<StartWatch> start_watch_;  // while this process is in shmem_init for the first time

    Engine engine_;
    PeerMap peers_;

    std::atomic<PeId> me_{kNoPe};     // the service thread of a substitute names it, too
    bool is_substitute_ = false;      // started as a spare
    std::atomic<bool> joined_{true};  // a substitute that has not joined yet: false
    std::uint32_t own_init_calls_ = 0;
    std::uint32_t restored_init_calls_ = 0;
    std::uint32_t committed_init_calls_ = 0;
    std::uint64_t replayed_heap_calls_ = 0;
    bool has_told_pointer_ = false;
    Mutex calls_mutex_{MutexRank::calls};  // held during checkpoint(), restart(), finish() and a status check
    std::uint32_t life_ = 0;               // from 1: which runtime of this process it is
    FaultPolicy fault_policy_;
    SpareWait spare_wait_;
    JobExit job_exit_{channel_, me_};
    std::string why_lost_;                              // what restore() found missing; the thread of restart() only
    JobState recovered_from_;                           // as of the last protect(); the thread of restart() only
    std::atomic<Version> version_of_view_{kNoVersion};  // to which the last recovery went back

    std::int64_t watch_exit_ns_ = 0;  // when exit() is to be watched once more; 0: not begun
};

// Null outside init/finalize and in children made by fork().
extern Runtime* g_runtime;

}  // namespace sft
