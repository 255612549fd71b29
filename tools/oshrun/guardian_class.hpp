// The inside of the guardian: guardian.cpp hears what happens, guardian_ending.cpp ends what has to be ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/oshrun/ending.hpp"
#include "tools/oshrun/event_log.hpp"
#include "tools/oshrun/guardian.hpp"
#include "tools/oshrun/launcher.hpp"
#include "tools/oshrun/stand_still.hpp"
#include "tools/oshrun/stderr_pump.hpp"

namespace sft::tools {

// In the order in which a batch of news is handled: reports of a process come before its end.
enum class Source : std::uint32_t { front, listener, connection, process, child_signal };

inline constexpr std::int64_t kNsPerMs = 1'000'000;
// Between SIGTERM and SIGKILL to what nobody waits for any more.
inline constexpr std::int64_t kLeftoverPatience_ns = 2'000'000'000;

// What has been heard but not yet been judged: a report, or the end of a process.
struct Fact {
    int fd = -1;  // the connection of a report
    JobEvent event;
    std::int32_t ended_pid = -1;  // set: an end
    FailureReason reason;
};

class Guardian {
public:
    explicit Guardian(GuardianTask task)
        : task_(std::move(task)),
          ledger_(task_.shape),
          log_(std::move(task_.events_file)),
          stand_still_(task_.hang_timeout_ms * kNsPerMs) {}

    int run();

private:
    bool start(std::string& error_line);
    void watch(int fd, Source source, std::uint32_t id);
    void wait_for_news();
    void handle(Source source, std::uint32_t id);
    void hear_front();
    void accept_peers();
    [[nodiscard]] std::vector<int> connections_of(std::int32_t pid) const;
    void drain(int fd);
    void settle();
    void take(const Fact& fact);
    void watch_who_said_hello(const std::vector<Fact>& facts);
    [[nodiscard]] std::string take_join(int count);
    void start_joiner();
    void watch_process(std::int32_t pid);
    void process_ended(std::int32_t pid);
    void sweep_ended_processes();
    void reap_orphans();
    void act_on_ending();
    void end_orphans_of_ended_job();
    void end_who_stands_still();
    [[nodiscard]] bool has_anybody_left() const;
    void wait_for_pump();
    [[nodiscard]] int timeout_ms() const;

    GuardianTask task_;
    JobLedger ledger_;
    EventLog log_;
    StandStill stand_still_;
    Launcher launcher_;
    std::unique_ptr<StderrPump> pump_;
    Fd epoll_;
    Fd signals_;
    std::map<int, JobSocket::Peer> connections_;  // by descriptor
    std::map<std::int32_t, Fd> pidfds_;           // by pid, of processes that have not ended
    std::map<std::int32_t, int> control_fds_;     // by pid: as what it has the control segment open
    std::vector<Fact> facts_;                     // in the order in which they happened, as far as it is known
    std::optional<Ending> ending_;
    std::optional<std::int64_t> all_ended_ns_;
    int joiners_wanted_ = 0;
    bool is_front_there_ = true;
};

}  // namespace sft::tools
