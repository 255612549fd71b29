// The calls of shmem_ft.h: what this process does before and after the protocols of recovery/coordinator.hpp, which
// decide, and the actions on its memory (recovery/memory_actions.hpp).
//
// Threads: of the application's threads one at a time is inside the collective calls, which calls_mutex_ sees to:
// several may meet a fault at once and check the status. Everything else belongs to the thread that makes the
// collective call, while the others do what include/shmem_ft.h demands of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "backup/checkpoint_pace.hpp"
#include "base/background_work.hpp"
#include "base/flag.hpp"
#include "base/job_channel.hpp"
#include "base/mutex.hpp"
#include "base/own_pe.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/fault_policy.hpp"
#include "recovery/init_calls.hpp"
#include "recovery/job_lines.hpp"
#include "recovery/memory_actions.hpp"
#include "recovery/spare_wait.hpp"
#include "shmem_ft/ops/call_checks.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/fault_calls.hpp"
#include "shmem_ft/process/included_memory.hpp"
#include "shmem_ft/process/job_exit.hpp"
#include "shmem_ft/process/program_start.hpp"
#include "shmem_ft/process/status_publisher.hpp"
#include "shmem_ft/process/storage.hpp"
#include "shmem_ft/process/version_handlers.hpp"
#include "shmem_ft/start/node_links.hpp"
#include "symheap/heap_guard.hpp"
#include "symheap/peer_map.hpp"
#include "symheap/symmetric_memory.hpp"

namespace sft {

class RecoveryCalls final : public FaultCalls {
public:
    struct Options {
        const Config* config = nullptr;
        std::function<void()> take_notes;           // EngineLinks
        std::function<Result<>()> start_idle_work;  // in a substitute, which is a PE from now on
        OwnPe* me = nullptr;
        JobChannel* channel = nullptr;
        Engine* engine = nullptr;
        NodeLinks* links = nullptr;
        PeerMap* peers = nullptr;
        Protector* protector = nullptr;
        HeapGuard* heap_guard = nullptr;
        const SymmetricMemory* memory = nullptr;
        Coordinator* coordinator = nullptr;
        MemoryActions* actions = nullptr;
        InitCalls* init_calls = nullptr;
        ProgramStart* program_start = nullptr;
        Storage* storage = nullptr;
        CallChecks* checks = nullptr;
        FaultPolicy* fault_policy = nullptr;
        SpareWait* spare_wait = nullptr;
        StatusPublisher* status = nullptr;
        JobLines* lines = nullptr;
        JobExit* job_exit = nullptr;
    };
    // Before the first call.
    void open(const Options& options) noexcept SFT_EXCLUDES(calls_mutex_);

    // FaultCalls
    [[nodiscard]] int checkpoint_all() noexcept override SFT_EXCLUDES(calls_mutex_);
    [[nodiscard]] int checkpoint_nb() noexcept override SFT_EXCLUDES(calls_mutex_);
    [[nodiscard]] int checkpoint_wait() noexcept override SFT_EXCLUDES(calls_mutex_);
    [[nodiscard]] int checkpoint_test() noexcept override SFT_EXCLUDES(calls_mutex_);
    void query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept override;
    void restart_pes(const int* pes, std::size_t numpes) noexcept override SFT_EXCLUDES(calls_mutex_);
    void recover() noexcept override;
    [[nodiscard]] int algo_init() noexcept override;
    [[nodiscard]] int protected_losses() noexcept override { return o_.coordinator->protected_losses(); }
    [[nodiscard]] bool on_fault(FaultAction action, FaultHandler handler, void* context) noexcept override {
        return o_.fault_policy->choose(action, handler, context);
    }
    void on_unreplaced(UnreplacedHandler handler, void* context) noexcept override {
        o_.spare_wait->set_handler(handler, context);
    }
    [[nodiscard]] bool on_version(VersionHandler handler, void* context) noexcept override {
        return handlers_.add(handler, context);
    }
    [[nodiscard]] bool may_include() noexcept override;
    [[nodiscard]] bool load_array(const char* name, void* to, const ArrayShape& shape) noexcept override {
        return o_.storage->load_array(name, to, shape);
    }
    [[nodiscard]] std::size_t stored_elements(const char* name) noexcept override {
        return o_.storage->stored_elements(name);
    }
    [[nodiscard]] bool include(void* memory, void* place, std::size_t bytes) noexcept override
        SFT_EXCLUDES(calls_mutex_);
    [[nodiscard]] jmp_buf* rollback_point() noexcept override { return o_.fault_policy->rollback_point(); }
    [[nodiscard]] bool must_recover() noexcept override { return o_.fault_policy->must_recover(); }
    [[nodiscard]] WayOut meet_fault(const char* routine) noexcept override SFT_EXCLUDES(calls_mutex_);

    // Has the PEs agree on who has failed, if a failure is known here. ENSURES, if true: the list of the fault policy
    // is what everybody agrees on.
    [[nodiscard]] bool check_status() noexcept SFT_EXCLUDES(calls_mutex_);
    // The last shmem_finalize. leave: when all are there, still inside the call.
    void finish(const std::function<void()>& leave) noexcept SFT_EXCLUDES(calls_mutex_);
    // To onlookers (EventLog), and with SHMEM_DEBUG to people.
    void report_span(const char* name, std::int64_t begin_ns, std::int64_t end_ns, std::uint64_t value) noexcept;

private:
    [[nodiscard]] bool is_fault_known() const;
    void await_end() noexcept SFT_EXCLUDES(calls_mutex_);
    [[nodiscard]] bool is_due() noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] int make_version() noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] std::optional<Version> prepare_version() noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] int conclude(Participant::Do outcome, std::int64_t begin_ns, std::int64_t cost_ns) noexcept
        SFT_REQUIRES(calls_mutex_);
    // Waits for the version that is being made in the background, and says what has become of it; there is none: 0.
    int settle() noexcept SFT_REQUIRES(calls_mutex_);
    int settled() noexcept SFT_REQUIRES(calls_mutex_);
    // What all PEs can do, in this view.
    enum class Still : std::uint32_t { none, copied, in_shadow, held };
    [[nodiscard]] Still agree_on_still() noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] Still prepare_still() noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] Result<> prepare_to_hold() SFT_REQUIRES(calls_mutex_);
    void refuse_without_signal() noexcept SFT_REQUIRES(calls_mutex_);
    int go_on_when_copied(Version version) noexcept SFT_REQUIRES(calls_mutex_);
    int go_on_when_saved(Version version) noexcept SFT_REQUIRES(calls_mutex_);
    void make_in_background() noexcept;
    [[nodiscard]] std::int64_t best_interval(std::uint32_t n_failures) const noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] bool has_room_for_copies() noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] std::uint32_t pause_of_questions(std::int64_t now) const noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] bool has_list() const { return !o_.fault_policy->failed().empty(); }
    void take_list();
    void show_list(const std::vector<FailedPe>& list, int** pes, int** pes_status) const;
    void give_advice() const noexcept SFT_REQUIRES(calls_mutex_);
    void tell_program(VersionEvent event, Version version) noexcept;
    void prepare_restart() noexcept;
    void begin_with_stored() noexcept SFT_REQUIRES(calls_mutex_);
    void commit_loaded() noexcept;
    void tell_of_refused_list() const noexcept;
    void after_restart() noexcept SFT_REQUIRES(calls_mutex_);
    [[nodiscard]] bool has_resumed(Participant::Do outcome, bool is_list_right) noexcept;
    void resume() noexcept SFT_REQUIRES(calls_mutex_);
    void restore_included() noexcept SFT_REQUIRES(calls_mutex_);

    Options o_;
    VersionHandlers handlers_;
    Mutex calls_mutex_{MutexRank::calls};
    IncludedMemory included_ SFT_GUARDED_BY(calls_mutex_);
    // The last answer to whether there is room for copies, in this view.
    struct Room {
        bool is_for_ever = false;  // while this view lasts
        std::uint32_t pause = 0;   // checkpoints before the next question
        std::int64_t asked_ns = 0;
        std::uint32_t n_paused = 0;
    };
    // A version that is made in the background (recovery_calls_nb.cpp).
    struct Background {
        bool is_agreed = false;     // in this view
        Still still = Still::none;  // on that
        std::int64_t begin_ns = 0;
        std::int64_t stall_ns = 0;  // of the program
        BackgroundWork work;
    };
    Background background_ SFT_GUARDED_BY(calls_mutex_);
    Participant::Do background_outcome_{};  // of the work, which writes it
    // Between the thread of the call and that in the background.
    Flag has_saved_;  // what is not held
    Flag may_go_on_;  // with what is
    CheckpointPace pace_ SFT_GUARDED_BY(calls_mutex_);
    Room room_ SFT_GUARDED_BY(calls_mutex_);
    bool has_told_of_room_ SFT_GUARDED_BY(calls_mutex_) = false;
    bool has_told_of_nodes_ SFT_GUARDED_BY(calls_mutex_) = false;
};

}  // namespace sft
