// By which a host that cannot reach the guardian itself gets there all the same: every agent listens, and whoever shows
// the secret is connected on to the guardian. What goes through is not looked at.
//
// Fault model: anybody may connect, and either side may vanish or take nothing; then both are let go. One way has one
// agent in between: whoever is connected on is connected to the guardian itself.
//
// Threads: one of its own, which shares nothing with others.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "tools/common/fd.hpp"
#include "tools/oshrun/agent_wire.hpp"

namespace sft::tools {

class AgentForward {
public:
    // REQUIRES: listener listens. Ends with the process, or when this goes.
    AgentForward(Fd listener, GuardianAddress guardian);
    ~AgentForward();
    AgentForward(const AgentForward&) = delete;
    AgentForward& operator=(const AgentForward&) = delete;

private:
    void run();

    Fd listener_;
    Fd stop_;
    GuardianAddress guardian_;
    std::thread thread_;
};

}  // namespace sft::tools
