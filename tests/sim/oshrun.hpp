// oshrun beside a simulated job: the guardian on one host, an agent on each other one, and their own connections, over
// the job's links. They decide as the real ones do (tools/oshrun/host_judge.hpp, own_time.hpp); what is modelled here
// is who can reach whom, directly or through one other host, and that somebody stands still or dies.
//
// What has to hold: in a job in which nothing but one link is cut nobody gives up, or ends, what the job goes on with;
// and when the guardian has died, or stays cut off, nothing of the job is left after a bound.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "tests/sim/events.hpp"
#include "tests/sim/scenario.hpp"
#include "tools/oshrun/own_time.hpp"

namespace sft::sim {

class World;

class SimOshrun final : public Observer {
public:
    SimOshrun(World& world, Verdict& verdict);

    void start();
    // The guardian is no more.
    void die();

    // Observer
    void decided(ProcId process, const JobState& before, const JobState& after) override;
    void heard_of_death(ProcId process, const Death& death) override;

private:
    struct Host {
        NodeId node;
        Time guardian_heard = 0;  // it, by the guardian
        Time agent_heard = 0;     // the guardian, by its agent
        bool is_given_up = false;
        bool is_over = false;        // its agent has ended everything
        std::set<ProcId> reports{};  // that have not got to the guardian yet
    };
    void tick();
    void judge(Host& host);
    void end_host(Host& host, const char* why);
    void give_up(Host& host, const char* why);
    [[nodiscard]] bool is_there(NodeId node) const;
    [[nodiscard]] bool are_linked(NodeId a, NodeId b) const;
    [[nodiscard]] bool has_way(const Host& host) const;
    [[nodiscard]] bool is_standing_still() const;
    [[nodiscard]] bool may_go(NodeId node) const;

    World& world_;
    Verdict& verdict_;
    Time period_;
    std::vector<Host> hosts_;  // without the guardian's own
    std::set<ProcId> agreed_lost_;
    tools::OwnTime own_time_;
    bool is_dead_ = false;
    Time died_at_ = 0;
};

}  // namespace sft::sim
