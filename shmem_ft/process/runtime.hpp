// The composition root: one object that owns everything a process of a job has, and the only code that knows all
// layers. Each fact belongs to one of the owners below (ARCHITECTURE.md, "Owners"); here is only what puts them
// together, in the order of a life: start() in shmem_init, in which a spare sleeps and comes back as a substitute, and
// finish() in the last shmem_finalize. After fork() the child has no runtime (job.cpp).
//
// Threads: the application's, and one service thread, which sleeps in the kernel until a process of the job ends, a
// control message comes or the launcher's front end goes away. What both change belongs to owners with mutexes of
// their own. The functions of this class are for the thread that is in shmem_init or shmem_finalize.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backup/protector.hpp"
#include "base/config.hpp"
#include "base/job_channel.hpp"
#include "base/own_pe.hpp"
#include "base/result.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/detection/failure_service.hpp"
#include "recovery/fault_policy.hpp"
#include "recovery/init_calls.hpp"
#include "recovery/job_lines.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "recovery/memory_actions.hpp"
#include "recovery/spare_wait.hpp"
#include "shmem_ft/ops/call_checks.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/heap_calls.hpp"
#include "shmem_ft/process/engine_links.hpp"
#include "shmem_ft/process/fault_hooks.hpp"
#include "shmem_ft/process/job_exit.hpp"
#include "shmem_ft/process/node_memory.hpp"
#include "shmem_ft/process/process_events.hpp"
#include "shmem_ft/process/program_start.hpp"
#include "shmem_ft/process/recovery_calls.hpp"
#include "shmem_ft/process/status_publisher.hpp"
#include "shmem_ft/process/storage.hpp"
#include "shmem_ft/start/bootstrap.hpp"
#include "shmem_ft/start/node_links.hpp"
#include "shmem_ft/start/rendezvous.hpp"
#include "symheap/peer_map.hpp"
#include "symheap/symmetric_memory.hpp"
#include "transport/net/network.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class Runtime final {
public:
    Runtime() = default;
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    // Everything shmem_init does; generation: how often it has been done before. The failure is the line for the user.
    // A spare comes back as a substitute, or not at all (the process ends when the job does without having needed it).
    [[nodiscard]] Result<> start(int generation);
    // start() failed: tells why. The process ends or gives its caller an error; the others notice.
    void abandon(const std::string& line) noexcept;
    // Between start() and the first call of the application, which finds the engine from here on.
    void enter_program();
    // The last shmem_finalize.
    void finish() noexcept;

    [[nodiscard]] SymmetricMemory& memory() noexcept { return memory_; }
    [[nodiscard]] CallChecks& checks() noexcept { return checks_; }
    [[nodiscard]] JobExit& job_exit() noexcept { return job_exit_; }

private:
    [[nodiscard]] Result<> read_settings();
    [[nodiscard]] Result<> meet_others(int generation);
    [[nodiscard]] Result<> create_memory();
    [[nodiscard]] Rendezvous::Own own_for_others();
    [[nodiscard]] Result<Rendezvous::Files> make_store(std::int32_t n_pes);
    [[nodiscard]] Result<> open_links(const JobCard& first);
    [[nodiscard]] Result<Rendezvous::File> make_node_file(std::int32_t n_pes);
    [[nodiscard]] Result<> use_node_memory();
    void place_copies(PeId pe) const noexcept;
    [[nodiscard]] bool is_to_track() noexcept;
    [[nodiscard]] Result<> create_owners(bool asks_for_demands);
    // Whether the job survives what its topology wants.
    [[nodiscard]] Result<> meet_demands() const;
    // In whose memory copies are kept; kNoNode: in that of processes, or not known here.
    [[nodiscard]] NodeId node_of_copies() const noexcept;
    [[nodiscard]] Result<> track_changes();
    void tell_if_not_tracked(const Result<>& tracks) const;

    // Owners are made, and opened, in the order of what they need of each other.
    void open_policies(int generation);
    void open_peers();
    void create_coordinator();
    void create_service();
    void open_actions();
    void open_calls();
    void open_exit();
    [[nodiscard]] Result<> start_service();
    [[nodiscard]] Result<> start_idle_work();
    [[nodiscard]] Result<> open_spare_wait();
    void stop_service() noexcept;

    [[nodiscard]] Result<> take_pe(PeId pe);
    [[nodiscard]] Result<> become_substitute();
    [[nodiscard]] Result<> begin_with_stored();
    void repeat_start();
    [[nodiscard]] Result<> open_storage(int generation);
    [[nodiscard]] PeId sleep_as_spare() noexcept;
    void ask_to_join();
    void say_goodbye(Stage how) noexcept;
    void leave_job() noexcept;

    [[nodiscard]] ProcId self() const noexcept { return bootstrap_.self(); }
    [[nodiscard]] std::int32_t first_spare() const noexcept {
        return bootstrap_.n_processes() - static_cast<std::int32_t>(config_.spares);
    }
    [[nodiscard]] bool keeps_copies() const noexcept { return config_.backup.mode != BackupMode::none; }

    Config config_;
    OwnPe me_;
    bool may_checkpoint_ = false;  // copies are kept, and the program can make them
    std::uint32_t life_ = 0;       // from 1: which runtime of this process it is

    // Who is there, and what goes between.
    JobChannel channel_;
    Bootstrap bootstrap_;
    ControlSegment control_;
    Mailbox mailbox_;
    NodeLinks links_{{.config = &config_, .bootstrap = &bootstrap_, .control = &control_, .mailbox = &mailbox_}};
    Rendezvous rendezvous_{{.config = &config_,
                            .channel = &channel_,
                            .bootstrap = &bootstrap_,
                            .control = &control_,
                            .links = &links_,
                            .mailbox = &mailbox_}};

    // Memory, and what operations go by.
    SymmetricMemory memory_;
    Protector protector_{memory_.live()};
    NodeMemory node_memory_{memory_, protector_, control_};
    Engine engine_;
    PeerMap peers_;
    HeapGuard heap_guard_;
    HeapCalls heap_calls_{engine_, memory_, me_};
    CallChecks checks_;
    ProgramStart program_start_;
    Storage storage_;
    EngineLinks engine_links_;

    // What is agreed on, and what follows from it.
    InitCalls init_calls_;
    MemoryActions actions_;
    ProcessEvents events_;
    std::optional<ReadyWords> words_;
    std::optional<ParityGroups> groups_;  // of the shape of the job
    std::unique_ptr<Coordinator> coordinator_;
    std::unique_ptr<StatusPublisher> status_;  // as long as the coordinator
    std::unique_ptr<FailureService> service_;  // as long as the coordinator
    FaultPolicy fault_policy_;
    SpareWait spare_wait_;
    JobLines lines_;
    JobExit job_exit_{channel_, me_};
    RecoveryCalls calls_;
    FaultHooks fault_hooks_;
};

}  // namespace sft
