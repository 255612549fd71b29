// What is known of a job, and what follows from it: must the guardian end it now, and with which exit status and line
// does it end. No input or output, no clock: facts and times come in as arguments, so every order of events can be
// tested.
//
// What may come in, in any order between processes (each has its own connection) but in order within one: reports of
// the library, ends of processes as the kernel tells them, the end of the launcher, signals to oshrun. Any of them may
// be missing: a process can die before its first report, and an old kernel does not tell how a process ended.
//
// Rules
//  1. The job is good only if the process that holds a PE in the end has reported `finalized` and ended with 0, for
//     every PE. A process whose PE somebody else has taken does not count, nor does a spare without a PE.
//  2. The first verdict (a reason to end the job) is final: what happens to processes after it is its consequence.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/job_channel.hpp"
#include "base/process_watch.hpp"
#include "tools/oshrun/process_key.hpp"

namespace sft::tools {

struct Outcome {
    int exit_code = 0;
    std::string line;  // without "oshrun: " in front; empty: nothing to say

    friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct JobShape {
    int pes = 0;
    int spares = 0;
    std::string program;  // as the user called it
    std::string launcher = "mpirun";
    std::vector<std::string> hosts;      // by rank: where the launcher shall start it; empty: it decides
    std::uint32_t start_timeout_ms = 0;  // SHMEM_FT_START_TIMEOUT; 0: the start may take any time
};

class JobLedger {
public:
    // Processes that have lost a PE before everybody was initialised, and sleepers after the last PE has ended, get
    // that long before the job is ended: reports of others may still be on their way.
    static constexpr std::int64_t kPatience_ns = 5'000'000'000;

    explicit JobLedger(JobShape shape);

    // A spare that comes while the job runs; it counts as launched. Its rank is the next one. Its pid may be said
    // later.
    void process_joined(ProcessKey key);
    void joiner_started(int rank, ProcessKey key);
    void joiner_failed(int rank, std::int64_t now_ns);
    // Facts. now_ns: any clock that only goes forward.
    void process_launched(int rank, ProcessKey key);
    void name_host(std::int32_t host, const std::string& name);
    void exec_failed(int rank, int error_number);
    // Spares for a PE that the job waits for cannot be had.
    void nobody_can_join(int pe, const std::string& why);
    void event(const JobEvent& event, std::int64_t now_ns, std::int32_t host = 0);
    void process_ended(ProcessKey key, FailureReason reason, std::int64_t now_ns);
    // The job has declared the process dead without having seen it die; it may live.
    void agreed_lost(int rank);
    // Of a host: everybody who is not known to have ended.
    [[nodiscard]] bool are_all_agreed_lost(std::int32_t host) const;
    // All that is not known to have ended there is lost.
    void host_lost(std::int32_t host, std::int64_t now_ns);
    void launcher_ended(FailureReason reason);
    // Though all processes have ended; what they have printed may be in it.
    void launcher_hangs() noexcept { is_output_whole_ = false; }
    void told_to_end(int signal);
    void front_lost();

    // REQUIRES: every fact so far has been entered. Set: the guardian must end the job now.
    [[nodiscard]] bool must_end(std::int64_t now_ns);
    // When must_end has to be asked again even if nothing happens; none: not before the next fact.
    [[nodiscard]] std::optional<std::int64_t> next_deadline_ns() const;

    [[nodiscard]] bool all_ended() const;
    [[nodiscard]] bool have_all_been_launched() const;
    // One that has joined has not ended: the launcher does not wait for it.
    [[nodiscard]] bool is_joiner_running() const;
    [[nodiscard]] int joiners() const { return static_cast<int>(processes_.size() - started().size()); }
    // The lowest rank that has not been counted in yet and lives, as far as is known: its turn.
    [[nodiscard]] std::optional<int> next_to_join() const;
    // The rank of a process that has joined but is not one of the job's spares yet: what it says of itself is not about
    // the job.
    [[nodiscard]] bool is_joining(int rank) const;
    [[nodiscard]] bool is_told_to_end() const noexcept { return is_told_to_end_; }
    // The job has not ended well, because processes or hosts were lost while it ran: another attempt may.
    [[nodiscard]] bool is_worth_retry() const;
    // The rank's number and PE for the log; -1: none.
    [[nodiscard]] int rank_of(ProcessKey key) const;
    [[nodiscard]] int pe_of(ProcessKey key) const;
    // By PE: the rank of the process that holds it.
    [[nodiscard]] const std::vector<int>& holders() const noexcept { return holder_; }
    // "PE 3", or for a process that holds none "spare 1" (the second of the spares).
    [[nodiscard]] std::string name(std::size_t rank) const;

    // REQUIRES: the launcher has ended or must_end has returned true.
    [[nodiscard]] Outcome outcome() const;

    struct Process {
        int pid = -1;  // of the process that called shmem_init, else of the one that was launched
        int launched_pid = -1;
        std::int32_t host = 0;
        int pe = -1;
        bool has_said_hello = false;
        bool is_initialized = false;
        bool is_finalized = false;
        std::optional<int> late_step;  // how far it had come in shmem_init when the time was over
        std::string late_in;           // and what it did there
        bool is_agreed_lost = false;
        std::optional<int> announced_code;
        std::optional<FailureReason> end;
        std::optional<FailureReason> seen_dead;  // by others of the job; its end may not have been heard
        std::int64_t end_ns = 0;
        int end_order = 0;  // 1 is the first
    };
    [[nodiscard]] const std::vector<Process>& processes() const noexcept { return processes_; }

private:
    struct Failure {
        int pe = -1;
        int rank = -1;
        int end_order = 0;
        Outcome outcome;
    };

    [[nodiscard]] Process* process(int rank);
    [[nodiscard]] std::optional<std::size_t> index_of(ProcessKey key) const;
    // Without those that have joined.
    [[nodiscard]] std::span<const Process> started() const;
    [[nodiscard]] bool is_everybody_initialized() const;
    [[nodiscard]] bool has_anybody_said_hello() const;
    [[nodiscard]] bool have_all_pes_ended() const;
    [[nodiscard]] std::optional<Outcome> failure_of(std::size_t rank) const;
    [[nodiscard]] std::optional<Outcome> first_failure() const;
    [[nodiscard]] Outcome outcome_without_init() const;
    [[nodiscard]] std::optional<Outcome> launcher_failure() const;
    [[nodiscard]] Outcome unrecoverable(const JobEvent& event) const;
    [[nodiscard]] Outcome outcome_of_processes() const;
    void enter_end(Process& item, FailureReason reason, std::int64_t now_ns);
    void check_start(std::int64_t now_ns);  // job_ledger_start.cpp
    void check_time_of_start(std::int64_t now_ns);
    [[nodiscard]] std::optional<std::int64_t> start_deadline_ns() const;
    [[nodiscard]] std::string late_for_launcher() const;
    [[nodiscard]] std::string late_in_init() const;
    [[nodiscard]] std::string host_of(std::size_t rank) const;
    // " on node1" in a job on several hosts, else nothing.
    [[nodiscard]] std::string on_host(std::size_t rank) const;
    [[nodiscard]] std::string names(const std::vector<std::size_t>& ranks) const;
    [[nodiscard]] std::vector<std::size_t> started_ranks(const std::function<bool(const Process&)>& is_meant) const;
    void decide(Outcome outcome);

    JobShape shape_;
    std::vector<Process> processes_;      // by rank
    std::vector<int> holder_;             // by PE: rank
    std::vector<std::int64_t> taken_ns_;  // by PE: when the holder took it, by its own word
    std::optional<Outcome> verdict_;
    std::optional<FailureReason> launcher_end_;
    bool is_told_to_end_ = false;
    bool has_exited_globally_ = false;  // by shmem_global_exit
    bool is_output_whole_ = true;
    int ends_ = 0;
    int ends_before_complete_ = 0;  // how many had ended when everybody was initialised
    std::int64_t last_fact_ns_ = 0;
    std::vector<std::string> host_names_;  // by host
    bool has_started_ = false;             // all have come through shmem_init once
    int start_news_ = 0;                   // processes that have been launched, have called shmem_init, come through it
    int start_news_seen_ = 0;
    std::optional<std::int64_t> start_news_ns_;  // when must_end was asked first, or after the last of these
};

// "killed by signal 9 (Killed)", "exited with code 3": as a process's parent would say it.
[[nodiscard]] std::string describe_end(FailureReason reason);
// The exit status that a shell would show for it.
[[nodiscard]] int exit_code_of(FailureReason reason);

}  // namespace sft::tools
