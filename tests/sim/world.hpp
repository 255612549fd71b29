// Clock, network, deaths and their detection of a simulated job. One thread; everything that happens is an event in one
// queue, ordered by time and then by when it was put there, so a seed always gives the same run.
//
// The network delivers what one process sends to another once and in order, after random times; a death may take with
// it what is under way, from some message on. Nothing passes a partition until it is over. A process that is paused
// handles nothing until it goes on. What moves memory has connections of its own, which may break between processes
// that live: what is under way arrives when they have been made anew, once and in order.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <unordered_map>
#include <vector>

#include "recovery/membership/memory_holder.hpp"
#include "recovery/rules.hpp"
#include "tests/sim/events.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scenario.hpp"

namespace sft::sim {

class SimOshrun;
class SimProcess;

class World {
public:
    World(const Scenario& scenario, std::vector<Observer*> observers, Verdict& verdict, bool with_trace);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    void run();

    // For processes.
    [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }
    [[nodiscard]] Time now() const noexcept { return now_; }
    [[nodiscard]] Random& random() noexcept { return random_; }
    [[nodiscard]] const JobRules& rules() const noexcept { return rules_; }
    void later(ProcId process, Time delay, std::function<void()> what);
    void send(ProcId from, ProcId to, const Message& message, std::int32_t hops);
    // One-sided and acknowledged: `apply` runs at the target, then `acknowledged` at the origin.
    void put(ProcId from, ProcId to, std::function<void()> apply, std::function<void()> acknowledged);
    void leave(ProcId process, Gone how);
    void fence(ProcId by, ProcId suspect);
    // By somebody on its node.
    void end_for_certain(ProcId process);
    void end_by_agent(ProcId process);
    // A process of a node that is silent. If its host says so, it is certain.
    void call_lost(ProcId by, const Death& death);
    // Not one that has not come yet.
    [[nodiscard]] bool is_alive(ProcId process) const noexcept {
        return fates_[process.index()].has_come && !fates_[process.index()].is_gone;
    }
    // Whether there is memory of a process that lives or has died, whoever holds it.
    [[nodiscard]] bool has_memory_of(ProcId process, Memory what) const noexcept;
    // In memory of the node: a place for each PE, whoever keeps for it.
    [[nodiscard]] Shadow& shadow_of_node(NodeId node, PeId pe) { return shadows_of_node_[{node, pe}]; }
    [[nodiscard]] ParityOfPe& parity_of_node(NodeId node, PeId pe) { return parity_of_node_[{node, pe}]; }
    [[nodiscard]] Copy& local_of_node(NodeId node, PeId pe) { return locals_of_node_[{node, pe}]; }
    // What processes have decided last, for those that outlive them.
    void record(ProcId process, const JobState& value) { records_[process] = value; }
    [[nodiscard]] JobState decided_by(std::span<const Death> dead) const;
    // Words of readiness, which outlive processes.
    void write_ready_word(ProcId process, std::uint64_t word);
    [[nodiscard]] std::uint64_t ready_word_of(ProcId process) const noexcept { return words_[process.index()]; }
    // All that wait look, each at its time.
    void wake_for_words();
    [[nodiscard]] bool has_come(ProcId process) const noexcept { return fates_[process.index()].has_come; }
    // So many newcomers, if there are any left.
    void want_spares(std::size_t n);
    // By who has just heard that it has joined: it may be dead already.
    void watch(ProcId by, ProcId newcomer);
    [[nodiscard]] bool is_reachable(ProcId a, ProcId b) const noexcept;
    // By puts and copies, which have connections of their own.
    [[nodiscard]] bool is_data_reachable(ProcId a, ProcId b) const noexcept { return data_cut_until(a, b) == 0; }
    // The process can open nothing of others now.
    [[nodiscard]] bool cannot_open(ProcId process) const noexcept;
    [[nodiscard]] SimProcess& process(ProcId process) noexcept { return *processes_[process.index()]; }
    void note_progress() noexcept { progress_at_ = now_; }

    // Steps at which a death may have been planned. The caller may be dead afterwards.
    void at_decision(ProcId process, const JobState& state);
    void at_work(ProcId process, Participant::Do work);
    void at_still(ProcId process);

    template <class... Args, class... Given>
    void tell(void (Observer::*event)(Args...), Given&&... args) {
        for (Observer* observer : observers_) {
            (observer->*event)(args...);
        }
    }
    [[nodiscard]] bool has_trace() const noexcept { return with_trace_; }
    void trace(ProcId process, const std::string& text) const;

    struct Statistics {
        std::uint64_t events = 0;
        Time end = 0;
    };
    [[nodiscard]] Statistics statistics() const noexcept { return {n_events_, now_}; }

private:
    struct Event {
        Time time = 0;
        std::uint64_t order = 0;
        ProcId process = kNoProc;  // none: of the world itself
        std::function<void()> what;
    };
    struct IsLater {
        bool operator()(const Event& a, const Event& b) const noexcept {
            return a.time != b.time ? a.time > b.time : a.order > b.order;
        }
    };
    struct Parcel {
        Message message;
        std::int32_t hops = 0;
    };
    struct Store {
        std::function<void()> apply;
        std::function<void()> acknowledged;
    };
    struct Fate {
        bool has_come = true;
        bool is_gone = false;
        Gone how{};
        Time paused_until = 0;
    };
    struct PlannedKill {
        Kill kill;
        std::int32_t left = 0;
    };

    void look_later(ProcId process);
    void at(Time time, ProcId process, std::function<void()> what);
    void start();
    void plan_troubles();
    void plan_kills();
    void plan_joins();
    void come(ProcId newcomer);
    void deliver(ProcId from, ProcId to);
    void pass(ProcId from, ProcId to, std::function<void()> what);
    [[nodiscard]] Time message_delay() noexcept;
    [[nodiscard]] Time cut_until(ProcId a, ProcId b) const noexcept;
    [[nodiscard]] Time data_cut_until(ProcId a, ProcId b) const noexcept;
    void pass_data(ProcId from, ProcId to, std::function<void()> what);
    void kill(ProcId process, FailureReason reason);
    void strike(const Kill& kill, ProcId victim);
    [[nodiscard]] bool has_talked(ProcId a, ProcId b) const;
    void break_connection(ProcId dead, ProcId other);
    void lose_messages_of(ProcId process);
    void spread_news(ProcId process);
    void tell_fate(ProcId to, ProcId of, bool is_certain);
    void tell_of_port(ProcId to, ProcId of);
    void trigger(PlannedKill& planned, ProcId actor, ProcId counterpart);
    [[nodiscard]] ProcId victim_of(const Kill& kill, ProcId actor, ProcId counterpart);
    void corrupt(const Corruption& corruption);
    [[nodiscard]] bool is_stuck() const noexcept;
    [[nodiscard]] bool is_anybody_left() const;
    [[nodiscard]] bool is_anybody_alive_on(NodeId node) const noexcept;

    Scenario scenario_;
    std::vector<Observer*> observers_;
    Verdict& verdict_;
    bool with_trace_;
    Random random_;
    JobRules rules_;
    Time now_ = 0;
    Time progress_at_ = 0;
    Time disturbed_until_ = 0;
    std::uint64_t n_events_ = 0;
    std::uint64_t order_ = 0;
    std::int32_t n_alive_ = 0;
    std::int32_t next_newcomer_ = 0;  // of those that come on demand
    std::uint32_t version_reached_ = 0;
    std::uint32_t view_reached_ = 0;
    std::priority_queue<Event, std::vector<Event>, IsLater> queue_;
    std::vector<std::unique_ptr<SimProcess>> processes_;
    std::map<std::pair<NodeId, PeId>, Shadow> shadows_of_node_;
    std::map<std::pair<NodeId, PeId>, ParityOfPe> parity_of_node_;
    std::map<std::pair<NodeId, PeId>, Copy> locals_of_node_;
    std::map<ProcId, JobState> records_;
    std::vector<std::uint64_t> words_;
    std::vector<Fate> fates_;
    std::vector<FailureReason> reasons_;
    std::vector<std::unordered_map<std::int32_t, std::deque<Parcel>>> channels_;  // by sender, then receiver
    std::vector<std::unordered_map<std::int32_t, std::deque<Store>>> puts_;
    std::vector<PlannedKill> kills_;
    std::unique_ptr<SimOshrun> oshrun_;
};

}  // namespace sft::sim
