// The composition root: one object that owns everything a process of a job has, and the only code that knows all
// layers. The C interface reaches it through the functions of ops/job.hpp.
//
// Threads: the application's threads and one service thread, which sleeps in the kernel until a process
// of the job ends, a control message comes or the launcher's front end goes away. view_mutex_ protects what both
// change: whose memory is mapped and whether a fault is pending; it may be held while the coordinator is asked
// something, never the other way round. Of the application's threads one at a time is inside the collective calls of
// fault tolerance, which calls_mutex_ sees to: several may meet a fault at once and check the status. list_mutex_
// protects what any of them may ask or choose meanwhile. Everything else belongs to the thread that makes the
// collective call, while the others do what include/shmem_ft.h demands of them.
//
// Life: start() in shmem_init; a spare sleeps in there and returns as a substitute; finish() in the last
// shmem_finalize. After fork() the child has no runtime (runtime_process.cpp).
#pragma once

#include <setjmp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backup/protector.hpp"
#include "base/config.hpp"
#include "base/domain_map.hpp"
#include "base/fault_action.hpp"
#include "base/job_channel.hpp"
#include "base/mutex.hpp"
#include "base/node_map.hpp"
#include "base/pending_watch.hpp"
#include "base/private_data.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/failure_service.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/startup.hpp"
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

    // Ends the job on all PEs with one line.
    [[noreturn]] void fail_job(const std::string& line, EndReason reason = EndReason::requested) noexcept
        SFT_EXCLUDES(view_mutex_);
    [[noreturn]] void global_exit(int status) noexcept;
    // This process has learnt that the job has been ended by another one.
    [[noreturn]] void leave_ended_job() noexcept SFT_EXCLUDES(view_mutex_);
    static void flush_output() noexcept;

    int checkpoint() noexcept;
    void query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept;
    void restart(const int* pes, std::size_t numpes) noexcept;
    int algo_init() noexcept;
    int protected_losses() noexcept;
    // runtime_policy.cpp
    [[nodiscard]] bool on_fault(FaultAction action, job::FaultHandler handler, void* context) noexcept;
    [[nodiscard]] jmp_buf* rollback_point() noexcept;
    [[nodiscard]] bool must_recover() noexcept;
    void recover() noexcept;
    [[nodiscard]] job::WayOut meet_fault(const char* routine) noexcept;
    void on_unreplaced(job::UnreplacedHandler handler, void* context) noexcept;

    // runtime_startup.cpp
    [[nodiscard]] void* pointer_before_joining(const void* address, PeId pe) noexcept;

    void* heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;

    // Offset + 1 of a block of the symmetric heap; ends the job if the address is no such block.
    [[nodiscard]] std::uint64_t heap_offset(const void* address, const char* routine) noexcept;

    [[nodiscard]] Engine& engine() noexcept { return engine_; }
    [[nodiscard]] SymmetricMemory& memory() noexcept { return memory_; }
    [[nodiscard]] bool is_finished() const noexcept { return finished_; }
    // What a nested initialisation has raised, or a rollback lowered: as on all PEs.
    void take_thread_level() noexcept;
    // exit() was called: tell the others how, for kernels that do not.
    void record_exit(int status) noexcept;
    // The library ends this process with exit(), whose handlers may call it.
    void wait_for_nobody(int status) noexcept;

    // CheckpointActions
    void replicate(Version version) override;
    void update_local_copy(Version version) override;
    Outcome restore(const JobState& state) override;
    Outcome protect(const JobState& state) override;

private:
    // JobObserver: runtime_service.cpp
    void heard_of_death(const Death& death) override SFT_EXCLUDES(view_mutex_);
    void end_with_mpi(const Death& death);
    void decided(const JobState& before, const JobState& after) override;
    void must_stop(const Stop& why) override;
    void awaits_spares(const std::vector<PeId>& pes) override;  // runtime_policy.cpp

    // ServiceHost
    [[nodiscard]] bool is_remote(ProcId process) const noexcept override { return links_.is_remote(process); }
    [[nodiscard]] PeId own_pe() const noexcept override { return me_.load(); }
    void service_woken(std::int64_t now_ns) noexcept override;
    [[nodiscard]] int service_timeout_ms(std::int64_t now_ns) const noexcept override;
    void end_by_service(const std::string& line) noexcept override SFT_EXCLUDES(view_mutex_);  // runtime_trouble.cpp
    void before_kill() noexcept override { flush_output(); }

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

    // runtime_meet.cpp
    [[nodiscard]] bool prepare_cards(JobCard& card, SegmentCard& segment, std::string& error);
    [[nodiscard]] bool meet_the_others(int generation, std::string& error);
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
    void forget_dead() noexcept;
    void say_goodbye(Stage how) noexcept;
    [[nodiscard]] Protector::Door door_of(ProcId process) const;

    // runtime_service.cpp
    [[nodiscard]] bool start_service(std::string& error);
    void stop_service() noexcept;
    void watch_exit_later() noexcept;
    PeId sleep_as_spare() noexcept;

    // runtime_ft.cpp
    [[nodiscard]] std::string explain(const JobState& state) const;
    [[nodiscard]] std::string lack_of_spares(const JobState& state) const;
    [[nodiscard]] static std::string name_failed(const JobState& state, const std::vector<PeId>& pes);
    [[nodiscard]] std::uint32_t logical_init_calls() const noexcept;
    [[nodiscard]] bool lost_initialisation() const noexcept;
    [[nodiscard]] Outcome must_be_gone(ProcId process, const Error& error) noexcept SFT_EXCLUDES(view_mutex_);
    // The process that could not be reached, and why; the first one in the order of the PEs.
    [[nodiscard]] std::optional<std::pair<ProcId, Error>> show_holders(const JobState& state);
    [[nodiscard]] std::string lost_copy(const JobState& state) const;
    [[nodiscard]] Outcome become_restored(const JobState& state);
    void tell_end(const std::string& line) noexcept;
    void note_last_line(const std::string& line) noexcept SFT_EXCLUDES(view_mutex_);
    [[noreturn]] void leave_alone() noexcept;
    [[nodiscard]] bool prepare_as_substitute();

    // runtime_startup.cpp
    [[nodiscard]] bool may_checkpoint() const noexcept;
    [[nodiscard]] Startup::Memory startup_memory() noexcept;
    void record_startup();
    void repeat_startup();
    void close_startup() noexcept;
    void end_startup() noexcept;
    void take_input() noexcept;

    // runtime_news.cpp
    void tell_recovery() const;
    [[nodiscard]] bool are_spares_in_vain(const JobState& state) const;

    // runtime_policy.cpp
    [[nodiscard]] bool check_status() noexcept;
    [[nodiscard]] std::vector<FailedPe> failed() const SFT_EXCLUDES(list_mutex_);
    void set_failed(std::vector<FailedPe> failed) SFT_EXCLUDES(list_mutex_);
    [[nodiscard]] bool is_fault_known() const;
    [[nodiscard]] bool may_leave(const char* routine) noexcept;
    void tell_pending_fault() noexcept;
    void wait_is_due() noexcept;
    void ask_for_spares(const std::vector<PeId>& pes) noexcept;
    void set_wait_timer(std::int64_t at_ns) noexcept;
    [[nodiscard]] bool handler_ends(int reason, const std::vector<PeId>& pes) noexcept;
    void end_wait(const std::string& why) noexcept SFT_EXCLUDES(view_mutex_);

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
    std::unique_ptr<Startup> startup_;  // before the first commit, and in a substitute that has not joined
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

    std::atomic<PeId> me_{kNoPe};        // the service thread of a substitute names it, too
    bool is_substitute_ = false;         // started as a spare
    std::atomic<bool> joined_{true};     // a substitute that has not joined yet: false
    std::atomic<bool> finished_{false};  // past the last finalize, or on the way out by shmem_global_exit
    std::uint32_t own_init_calls_ = 0;
    std::uint32_t restored_init_calls_ = 0;
    std::uint32_t committed_init_calls_ = 0;
    std::uint64_t replayed_heap_calls_ = 0;
    bool has_told_pointer_ = false;
    Mutex calls_mutex_{MutexRank::calls};  // held during checkpoint(), restart(), finish() and a status check
    mutable Mutex list_mutex_{MutexRank::list};
    std::vector<FailedPe> failed_;  // since the last status check; protected by list_mutex_
    struct OnFault {
        FaultAction action = FaultAction::go_on;
        job::FaultHandler handler = nullptr;
        void* context = nullptr;
    };
    OnFault on_fault_;                      // protected by list_mutex_
    std::uint32_t life_ = 0;                // from 1: which runtime of this process it is
    std::atomic<bool> has_way_out_{false};  // some thread has passed a rollback point, or has chosen to throw
    std::atomic_flag told_no_way_out_ = ATOMIC_FLAG_INIT;
    PendingWatch pending_watch_;
    std::atomic<std::uint32_t> restarts_{0};            // calls of restart() that have been decided
    std::string why_lost_;                              // what restore() found missing; the thread of restart() only
    JobState recovered_from_;                           // as of the last protect(); the thread of restart() only
    std::atomic<Version> version_of_view_{kNoVersion};  // to which the last recovery went back
    std::atomic_flag is_leaving_ = ATOMIC_FLAG_INIT;
    std::atomic<pid_t> exiting_thread_{0};  // the one that called shmem_global_exit first

    Mutex view_mutex_{MutexRank::view};
    std::string last_line_ SFT_GUARDED_BY(view_mutex_);  // why this process ends the job, said by either thread
    std::int64_t leave_by_ns_ = 0;    // the service thread has asked for the end of the job; 0: it has not
    std::int64_t watch_exit_ns_ = 0;  // when exit() is to be watched once more; 0: not begun
    // While a spare is awaited; protected by view_mutex_.
    struct Unreplaceable {
        std::vector<PeId> pes;
        std::int64_t give_up_ns = 0;
        bool is_handler_due = false;
        job::UnreplacedHandler handler = nullptr;
        void* context = nullptr;
    };
    Unreplaceable unreplaceable_;
    int wait_timer_fd_ = -1;
};

// Null outside init/finalize and in children made by fork().
extern Runtime* g_runtime;

}  // namespace sft
