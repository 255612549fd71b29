// The inside of the guardian: guardian.cpp hears what happens, guardian_ending.cpp ends what has to be ended,
// guardian_joining.cpp starts spares while the job runs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/memory_left.hpp"
#include "base/result.hpp"
#include "tools/oshrun/agent_hub.hpp"
#include "tools/oshrun/demand.hpp"
#include "tools/oshrun/ending.hpp"
#include "tools/oshrun/event_log.hpp"
#include "tools/oshrun/guardian.hpp"
#include "tools/oshrun/join_placement.hpp"
#include "tools/oshrun/kept_input.hpp"
#include "tools/oshrun/launcher.hpp"
#include "tools/oshrun/local_processes.hpp"
#include "tools/oshrun/poller.hpp"
#include "tools/oshrun/process_key.hpp"
#include "tools/oshrun/stand_still.hpp"
#include "tools/oshrun/stderr_pump.hpp"

namespace sft::tools {

// Between SIGTERM and SIGKILL to what nobody waits for any more.
inline constexpr std::int64_t kLeftoverPatience_ns = 2'000'000'000;

class Guardian {
public:
    explicit Guardian(GuardianTask task);

    int run();

private:
    Result<> start();
    Result<> start_processes();
    void take_exec_failures();
    void let_meet();
    void wait_for_news();
    void handle(Source source);
    void hear_front();
    void settle();
    void take(const Fact& fact);
    void take_end(ProcessKey key, FailureReason reason);
    void tell_of_want_of_memory();
    void take_loss(const AgentHub::AgentEvent& news);
    void take_agreed_loss(std::uint64_t rank);
    void answer_launched(const Fact& fact);
    void give_input(const Fact& fact);
    void tell_of_excess_input();
    void signal_process(const JobLedger::Process& process, SignalScope scope);
    void kill_if_stopped(std::uint64_t rank);
    void kill_former_holder(const JobEvent& event);
    [[nodiscard]] const std::string& host_name(std::int32_t host) const;
    void take_join(const Fact& fact);
    [[nodiscard]] std::string problem_of_join(int count, const std::string& host) const;
    void take_started(const AgentHub::AgentEvent& news);
    void start_joiners();
    void let_in();
    [[nodiscard]] std::vector<HostLoad> host_loads(int pe) const;
    [[nodiscard]] std::int32_t keeper_host(int pe) const;
    void serve_wishes();
    void start_joiner_on(std::int32_t host, const JoinRequest& request, int rank);
    void note_joined(int rank);
    void note_failed_joiner(int rank, const std::string& why);
    void act_on_ending();
    void wait_for_srun();
    void end_orphans_of_ended_job();
    void end_who_stands_still();
    [[nodiscard]] bool may_launcher_wait_for_ever() const;
    [[nodiscard]] bool awaits_agents() const;
    void end_launcher_that_waits();
    [[nodiscard]] bool has_anybody_left() const;
    void end_launcher_that_starts_nobody();
    void wait_for_pumps();
    void wait_for_pump(int done_fd);
    [[nodiscard]] int lost_by_launcher(int descriptor) const;
    void tell_what_is_lost(Outcome& outcome) const;
    [[nodiscard]] int timeout_ms() const;

    GuardianTask task_;
    JobLedger ledger_;
    EventLog log_;
    StandStill stand_still_;
    Launcher launcher_;
    std::unique_ptr<StderrPump> output_;
    std::unique_ptr<StderrPump> pump_;
    Poller poller_;
    Fd signals_;
    LocalProcesses local_;
    AgentHub hub_;
    Demand demand_;
    KeptInput input_;
    std::map<ProcessKey, int> control_fds_;   // of living processes: as what each has its control segment open
    std::deque<JoinRequest> joins_wanted_;    // not started yet
    std::map<int, JoinRequest> joins_going_;  // by rank, not counted in yet
    std::map<int, Fact> joiners_waiting_;     // by rank: what each has said to be let in
    std::set<int> joiners_failed_;            // ranks that could not join, and why has been told
    std::string why_not_joined_;              // of the last of them
    std::map<int, Fact> meetings_;            // by rank: what each has said, in a job without a launcher
    std::optional<Ending> ending_;
    std::optional<std::int64_t> all_ended_ns_;
    std::optional<std::int64_t> launcher_ended_ns_;
    std::optional<std::int64_t> launcher_quiet_since_ns_;
    std::optional<std::int64_t> launcher_told_ns_;  // to end, because it does not know that the job is over
    std::uint64_t launcher_bytes_ = 0;
    std::uint64_t memory_kills_ = out_of_memory_kills();  // that have been told, or were there before the job
    bool are_agents_watching_ = false;
    bool has_named_limit_ = false;
    bool is_front_there_ = true;
};

}  // namespace sft::tools
