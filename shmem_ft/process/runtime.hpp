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

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backup/scrubber.hpp"
#include "backup/store.hpp"
#include "base/config.hpp"
#include "base/job_channel.hpp"
#include "base/mutex.hpp"
#include "base/private_data.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/data_guard.hpp"
#include "recovery/detection/failure_events.hpp"
#include "recovery/explanations.hpp"
#include "recovery/fault_policy.hpp"
#include "recovery/membership/domain_map.hpp"
#include "recovery/membership/node_map.hpp"
#include "recovery/spare_wait.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/startup.hpp"
#include "shmem_ft/process/job_exit.hpp"
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

    int checkpoint() noexcept;
    void query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept;
    void restart(const int* pes, std::size_t numpes) noexcept;
    int algo_init() noexcept;
    int protected_losses() noexcept;
    void recover() noexcept;  // runtime_policy.cpp

    // runtime_startup.cpp
    void zero_symmetric(void* block, std::size_t bytes) noexcept { heap_.zero(block, bytes); }
    [[nodiscard]] AddressRange symmetric_object(const void* address) const noexcept;
    [[nodiscard]] void* pointer_before_joining(const void* address, PeId pe) noexcept;

    void* heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;

    // Offset + 1 of a block of the symmetric heap; ends the job if the address is no such block.
    [[nodiscard]] std::uint64_t heap_offset(const void* address, const char* routine) noexcept;

    [[nodiscard]] Engine& engine() noexcept { return engine_; }
    [[nodiscard]] JobExit& job_exit() noexcept { return job_exit_; }
    [[nodiscard]] FaultPolicy& fault_policy() noexcept { return fault_policy_; }
    [[nodiscard]] SpareWait& spare_wait() noexcept { return spare_wait_; }
    // What a nested initialisation has raised, or a rollback lowered: as on all PEs.
    void take_thread_level() noexcept;
    // In a child made by fork(): own copies of what the parent shares with its peers.
    void privatize_after_fork() noexcept;

    // Duties
    void ship(Version version) override;
    void fold(Version version) override;
    Done restore(const JobState& state) override;
    Done protect(const JobState& state) override;

private:
    // JobObserver: runtime_service.cpp
    void heard_of_death(const Death& death) override;
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
    void look_for_trouble() noexcept;
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
    [[nodiscard]] std::string node_name(NodeId node) const;
    [[nodiscard]] JobFacts facts(const JobState& state, std::span<const Death> dead) const;
    void tell_recovery() const;
    [[nodiscard]] std::uint32_t logical_init_calls() const noexcept;
    [[nodiscard]] bool lost_initialisation() const noexcept;
    [[nodiscard]] Done must_be_gone(ProcId process, const Error& error) noexcept;
    // The process that could not be reached, and why; the first one in the order of the PEs.
    [[nodiscard]] std::optional<std::pair<ProcId, Error>> show_holders(const JobState& state);
    [[nodiscard]] Done become_restored(const JobState& state);
    [[nodiscard]] bool prepare_as_substitute();

    // runtime_startup.cpp
    [[nodiscard]] bool may_checkpoint() const noexcept;
    [[nodiscard]] Startup::Memory startup_memory() noexcept;
    void record_startup();
    void repeat_startup();
    void close_startup() noexcept;
    void end_startup() noexcept;
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
    JobState recovered_from_;                           // as of the last protect(); the thread of restart() only
    std::atomic<Version> version_of_view_{kNoVersion};  // to which the last recovery went back

    // What only onlookers are told. The mutex keeps the two threads that publish apart; the coordinator may be asked
    // something while it is held, never the other way round.
    Mutex status_mutex_{MutexRank::status};
    std::atomic<std::int64_t> committed_ns_{0};
    std::atomic<std::uint64_t> stored_bytes_{0};
    std::atomic<std::uint32_t> incarnation_{0};
    std::atomic<std::int64_t> published_ns_{0};
    std::atomic<std::uint64_t> published_checked_{0};  // of the counters in there

    std::vector<int> pidfds_;  // by process; -1: self, ended or finalized
    std::size_t n_joined_watched_ = 0;
    std::atomic<bool> is_stopping_{false};
    std::vector<ProcId> early_;  // had ended before anybody could watch them
    FailureEvents failure_events_;
    Mutex told_mutex_{MutexRank::told};
    std::vector<ProcId> told_;  // failed, says the launcher; protected by told_mutex_
    int stop_fd_ = -1;
    std::int64_t watch_exit_ns_ = 0;       // when exit() is to be watched once more; 0: not begun
    std::int64_t unwatched_since_ns_ = 0;  // a spare that has joined cannot be watched; 0: all are
    int unwatched_error_ = 0;
    std::thread service_;
};

// Null outside init/finalize and in children made by fork().
extern Runtime* g_runtime;

}  // namespace sft
