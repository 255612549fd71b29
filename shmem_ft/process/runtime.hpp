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
// shmem_finalize. After fork() the child has no runtime (runtime_job.cpp).
#pragma once

#include <poll.h>
#include <setjmp.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backup/scrubber.hpp"
#include "backup/store.hpp"
#include "base/config.hpp"
#include "base/fault_action.hpp"
#include "base/job_channel.hpp"
#include "base/mutex.hpp"
#include "base/pending_watch.hpp"
#include "base/private_data.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/data_guard.hpp"
#include "recovery/detection/failure_events.hpp"
#include "recovery/membership/domain_map.hpp"
#include "recovery/membership/node_map.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/startup.hpp"
#include "shmem_ft/start/bootstrap.hpp"
#include "shmem_ft/start/start_watch.hpp"
#include "symheap/block_table.hpp"
#include "symheap/globals.hpp"
#include "symheap/heap.hpp"
#include "symheap/peer_map.hpp"
#include "symheap/segment.hpp"
#include "symheap/stray_words.hpp"
#include "transport/contact.hpp"
#include "transport/net/network.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class Runtime final : public Duties, private JobObserver {
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
    [[nodiscard]] bool on_fault(FaultAction action, FaultHandler handler, void* context) noexcept;
    [[nodiscard]] jmp_buf* rollback_point() noexcept;
    [[nodiscard]] bool must_recover() noexcept;
    void recover() noexcept;
    [[nodiscard]] WayOut meet_fault(const char* routine) noexcept;
    void on_unreplaced(UnreplacedHandler handler, void* context) noexcept;

    // runtime_startup.cpp
    void zero_symmetric(void* block, std::size_t bytes) noexcept { heap_.zero(block, bytes); }
    [[nodiscard]] AddressRange symmetric_object(const void* address) const noexcept;
    [[nodiscard]] void* pointer_before_joining(const void* address, PeId pe) noexcept;

    void* heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;

    // Offset + 1 of a block of the symmetric heap; ends the job if the address is no such block.
    [[nodiscard]] std::uint64_t heap_offset(const void* address, const char* routine) noexcept;

    [[nodiscard]] Engine& engine() noexcept { return engine_; }
    [[nodiscard]] bool is_finished() const noexcept { return finished_; }
    // What a nested initialisation has raised, or a rollback lowered: as on all PEs.
    void take_thread_level() noexcept;
    // exit() was called: tell the others how, for kernels that do not.
    void record_exit(int status) noexcept;
    // The library ends this process with exit(), whose handlers may call it.
    void wait_for_nobody(int status) noexcept;
    // In a child made by fork(): own copies of what the parent shares with its peers.
    void privatize_after_fork() noexcept;

    // Duties
    void ship(Version version) override;
    void fold(Version version) override;
    Done restore(const JobState& state) override;
    Done protect(const JobState& state) override;

private:
    // JobObserver: runtime_service.cpp
    void heard_of_death(const Death& death) override SFT_EXCLUDES(view_mutex_);
    void end_with_mpi(const Death& death);
    void decided(const JobState& before, const JobState& after) override;
    void must_stop(const Stop& why) override;
    void awaits_spares(const std::vector<PeId>& pes) override;  // runtime_policy.cpp

    // runtime.cpp
    [[nodiscard]] bool create_memory(std::string& error);
    // Instead of the two above, for a spare that comes while the job runs (runtime_join.cpp).
    [[nodiscard]] bool join_running_job(std::string& error);
    [[nodiscard]] bool await_turn(std::string& error);
    void ask_to_join();
    void watch_joined() noexcept;
    void end_by_service(const std::string& line) noexcept SFT_EXCLUDES(view_mutex_);
    void look_for_trouble() noexcept;
    void release_reserve() noexcept;
    [[nodiscard]] bool take_pe(PeId pe, std::string& error);
    [[nodiscard]] bool show_first_holders(std::string& error);
    [[nodiscard]] bool become_substitute(std::string& error);
    [[nodiscard]] bool start_scrubber(std::string& error);
    void connect_channels();
    void reset_channels(const JobState& state);
    void print_about() const;
    void tell_fault_points();

    // runtime_meet.cpp
    [[nodiscard]] bool check_sizes(std::string& error) const;
    [[nodiscard]] bool prepare_cards(BootCard& card, SegmentCard& segment, std::string& error);
    [[nodiscard]] bool meet_the_others(int generation, std::string& error);
    [[nodiscard]] BootCard own_card() const;
    [[nodiscard]] bool compare_cards(const BootCard& mine, const BootCard& first, std::string& error) const;
    [[nodiscard]] bool publish_slot(std::string& error);
    [[nodiscard]] bool say_hello(std::string& error);
    void watch_start();
    void enter(StartStep step) noexcept;
    [[nodiscard]] DomainId find_domain() const;
    void read_domains();

    // runtime_nodes.cpp
    [[nodiscard]] bool is_remote(ProcId process) const noexcept;
    [[nodiscard]] bool open_doors(const BootCard& first, std::string& error);
    [[nodiscard]] bool open_network(const BootCard& first, std::string& error);
    void end_without(ProcId process) noexcept;
    void end_if_cut_off() noexcept;
    void connect_network();
    void close_network() noexcept;
    [[nodiscard]] Contact own_contact() const;
    [[nodiscard]] bool learn_nodes(int generation, std::string& error);
    [[nodiscard]] bool read_node_map(std::string& error);
    [[nodiscard]] bool gather_contacts(int generation, std::string& error);
    [[nodiscard]] bool can_reach_nodes(std::string& error);
    void admit_nodes();
    void quiet_network() noexcept;
    void forget_dead() noexcept;
    void say_goodbye(Stage how) noexcept;
    [[nodiscard]] BackupStore::Door door_of(ProcId process) const;

    // runtime_service.cpp
    [[nodiscard]] bool watch_processes(std::string& error);
    [[nodiscard]] bool start_service(std::string& error);
    void stop_service() noexcept;
    [[nodiscard]] DataGuard::Options data_guard_options();
    void list_polled(std::vector<pollfd>& polled, std::vector<ProcId>& watched);
    void serve() noexcept;
    void watch_exit_later() noexcept;
    void process_ended(ProcId process) noexcept;
    void look_for_gone() noexcept;
    void told_of_failure(ProcId process);
    void look_at_told();
    [[nodiscard]] bool is_present() const noexcept;
    void lose_nodes(const std::vector<Death>& lost) noexcept;
    void tell_agreed_losses(const JobState& before, const JobState& after) noexcept;
    void tell_agreed_loss(ProcId process) noexcept;
    void leave_with_node() noexcept;
    void note_death(ProcId process, FailureReason reason, std::int64_t seen_ns) noexcept;
    PeId sleep_as_spare() noexcept;

    // runtime_status.cpp
    void publish_status() noexcept;
    void refresh_status() noexcept;
    [[nodiscard]] std::uint32_t incarnation_of(PeId pe) const noexcept;

    // runtime_ft.cpp
    [[nodiscard]] std::string explain(const JobState& state) const;
    [[nodiscard]] std::string lack_of_spares(const JobState& state) const;
    [[nodiscard]] std::string node_name(NodeId node) const;
    [[nodiscard]] static std::string name_failed(const JobState& state, const std::vector<PeId>& pes);
    [[nodiscard]] std::uint32_t logical_init_calls() const noexcept;
    [[nodiscard]] bool lost_initialisation() const noexcept;
    [[nodiscard]] Done must_be_gone(ProcId process, const Error& error) noexcept SFT_EXCLUDES(view_mutex_);
    // The process that could not be reached, and why; the first one in the order of the PEs.
    [[nodiscard]] std::optional<std::pair<ProcId, Error>> show_holders(const JobState& state);
    [[nodiscard]] std::string lost_copy(const JobState& state) const;
    [[nodiscard]] Done become_restored(const JobState& state);
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
    void note_block(const HeapRecord& record) noexcept;
    void* do_heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;

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
    Globals globals_;
    Segment heap_segment_;
    Heap heap_;
    BlockTable blocks_;             // behind the heap, if calls are checked
    std::size_t record_bytes_ = 0;  // in front of the heap: the record of the start-up
    std::atomic<StartupPhase> startup_phase_{StartupPhase::none};
    std::atomic<std::uint64_t> startup_bytes_{0};
    std::unique_ptr<Startup> startup_;  // before the first commit, and in a substitute that has not joined
    std::unique_ptr<Checker> checker_;
    std::unique_ptr<StrayWords> stray_words_;  // if calls are checked
    LiveState live_;
    BackupStore store_;
    Scrubber scrubber_;
    Mailbox mailbox_;
    DomainMap domains_;  // in a job on one node
    // In a job on several nodes.
    NodeMap node_map_;
    NodeInterface interface_;
    std::unique_ptr<Network> network_;
    std::atomic<ProcId> lost_connection_{kNoProc};  // nobody has been told yet
    std::atomic<bool> can_ask_for_end_{false};      // there are a coordinator and a service thread
    std::unique_ptr<Coordinator> coordinator_;
    std::unique_ptr<StartWatch> start_watch_;  // while this process is in shmem_init for the first time

    Engine engine_;
    PeerMap peers_;
    ProcId keeper_in_use_ = kNoProc;  // where store_ ships to

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
        FaultHandler handler = nullptr;
        void* context = nullptr;
    };
    OnFault on_fault_;                      // protected by list_mutex_
    std::uint32_t life_ = 0;                // from 1: which runtime of this process it is
    std::atomic<bool> has_way_out_{false};  // some thread has passed a rollback point, or has chosen to throw
    std::atomic_flag told_no_way_out_ = ATOMIC_FLAG_INIT;
    PendingWatch pending_watch_;
    std::atomic<std::uint32_t> restarts_{0};            // calls of restart() that have been decided
    JobState recovered_from_;                           // as of the last protect(); the thread of restart() only
    std::atomic<Version> version_of_view_{kNoVersion};  // to which the last recovery went back
    std::atomic_flag is_leaving_ = ATOMIC_FLAG_INIT;
    std::atomic<pid_t> exiting_thread_{0};  // the one that called shmem_global_exit first

    // What only onlookers are told. The mutex keeps the two threads that publish apart; the coordinator may be asked
    // something while it is held, never the other way round.
    Mutex status_mutex_{MutexRank::status};
    std::atomic<std::int64_t> committed_ns_{0};
    std::atomic<std::uint64_t> stored_bytes_{0};
    std::atomic<std::uint32_t> incarnation_{0};
    std::atomic<std::int64_t> published_ns_{0};
    std::atomic<std::uint64_t> published_checked_{0};  // of the counters in there

    Mutex view_mutex_{MutexRank::view};
    std::string last_line_ SFT_GUARDED_BY(view_mutex_);  // why this process ends the job, said by either thread
    std::vector<int> pidfds_;                            // by process; -1: self, ended or finalized
    std::size_t n_joined_watched_ = 0;
    std::atomic<bool> is_stopping_{false};
    std::vector<ProcId> early_;  // had ended before anybody could watch them
    FailureEvents failure_events_;
    Mutex told_mutex_{MutexRank::told};
    std::vector<ProcId> told_;  // failed, says the launcher; protected by told_mutex_
    int stop_fd_ = -1;
    std::array<int, 8> reserve_ = {-1, -1, -1, -1, -1, -1, -1, -1};  // descriptors to be had for the end of the job
    std::int64_t leave_by_ns_ = 0;         // the service thread has asked for the end of the job; 0: it has not
    std::int64_t watch_exit_ns_ = 0;       // when exit() is to be watched once more; 0: not begun
    std::int64_t unwatched_since_ns_ = 0;  // a spare that has joined cannot be watched; 0: all are
    int unwatched_error_ = 0;
    // While a spare is awaited; protected by view_mutex_.
    struct Unreplaceable {
        std::vector<PeId> pes;
        std::int64_t give_up_ns = 0;
        bool is_handler_due = false;
        UnreplacedHandler handler = nullptr;
        void* context = nullptr;
    };
    Unreplaceable unreplaceable_;
    int wait_timer_fd_ = -1;
    std::thread service_;
};

// Null outside init/finalize and in children made by fork().
extern Runtime* g_runtime;

}  // namespace sft
