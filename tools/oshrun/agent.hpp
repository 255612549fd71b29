// The agent: what the guardian is for the processes of its own host, one on every other host of the job.
//
// It watches the processes there and tells the guardian what they report and how they end, hands PE 0 its standard
// input, sends signals, and starts spares that join while the job runs, whose output it hands on.
//
// Fault model: processes may end in any way; the guardian, its host or the network may be gone at any time. A
// connection that breaks or falls silent is made anew, by another agent if the guardian cannot be reached
// (agent_roads.hpp), and what has been said goes on (agent_session.hpp). When the guardian has certainly ended, or
// nothing has been heard of it by any way for so long that it must have given up this host (host_judge.hpp), the agent
// ends all processes of the job on its host, with what they have left behind, and the launcher's daemon, and then
// itself. A guardian that stands still is waited for, as its host still takes connections. If the agent itself is
// killed, the library in each process notices the end of its connection.
#pragma once

#include <cstdint>
#include <string>

#include "tools/oshrun/agent_wire.hpp"
#include "tools/oshrun/job_socket.hpp"

namespace sft::tools {

struct AgentTask {
    JobSocket socket;
    std::string socket_name;
    FrameStream guardian;  // that has welcomed us
    GuardianAddress address;
    HelloFrame hello;                  // for further connections
    Fd forward_listener;               // by which others get to the guardian
    std::int64_t clock_offset_ns = 0;  // from the clock of this host to the guardian's
    std::uint32_t silence_ms = 0;      // 0: silence means nothing
    bool is_realtime = false;          // SHMEM_FT_REALTIME
};

// Returns the exit status of the process when nothing is left to do.
[[nodiscard]] int run_agent(AgentTask task);

}  // namespace sft::tools
