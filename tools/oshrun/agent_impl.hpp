// The inside of the agent: agent.cpp hears what happens, agent_ending.cpp ends what has to be ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "tools/oshrun/agent.hpp"
#include "tools/oshrun/agent_forward.hpp"
#include "tools/oshrun/agent_roads.hpp"
#include "tools/oshrun/agent_session.hpp"
#include "tools/oshrun/local_processes.hpp"
#include "tools/oshrun/own_time.hpp"
#include "tools/oshrun/poller.hpp"
#include "tools/oshrun/process_tree.hpp"
#include "tools/oshrun/stand_still.hpp"

namespace sft::tools {

class Agent {
public:
    explicit Agent(AgentTask task);

    int run();

private:
    bool start();
    void handle(const Poller::Event& news);
    void hear_guardian();
    void hear_of_roads();
    void look_for_road(std::int64_t now_ns);
    void obey(const Frame& frame);
    void tell_facts();
    void remember_daemon(std::int32_t pid);
    void answer(const AnswerFrame& order);
    void take_signal(const SignalFrame& order);
    void start_spare(const Frame& frame);
    void take_input(const std::string& bytes);
    void write_input();
    void close_input();
    void read_output(int fd);
    void attend_to_outputs();
    void tell_last_words();
    void keep_in_touch();
    void end_who_stands_still();
    void end_everything();
    void end_launcher_daemons();
    [[nodiscard]] std::set<ProcessName> marked_processes() const;
    [[nodiscard]] int timeout_ms() const;

    AgentTask task_;
    Session session_;
    std::unique_ptr<AgentRoads> roads_;
    std::unique_ptr<AgentForward> forward_;
    LocalProcesses processes_;
    Poller poller_;
    Fd signals_;
    std::set<ProcessName> daemons_;         // of the launcher: the parents of the processes
    std::map<int, std::uint32_t> outputs_;  // by descriptor: as what the guardian shall write it
    Fd input_;                              // to PE 0, if it is here
    std::string input_bytes_;               // not written yet
    std::size_t output_untaken_bytes_ = 0;  // of what we have sent
    bool is_input_complete_ = false;
    bool are_outputs_paused_ = false;
    std::optional<StandStill> stand_still_;
    OwnTime own_time_;
    std::int64_t heard_ns_ = 0;  // from the guardian
    std::int64_t told_ns_ = 0;
    bool is_over_ = false;           // nothing more is to be done here
    bool is_connected_on_ = false;   // by another agent: the launcher's daemon cannot reach its launcher either
    bool is_guardian_lost_ = false;  // and not because the job is over
};

}  // namespace sft::tools
