// The guardian: the process behind oshrun that starts the launcher, watches every process of the job (on other hosts by
// agents, agent.hpp) and ends whatever is left when the job is over.
//
// Fault model: any process of the job, the launcher, or the front process (what the user started as oshrun) may end at
// any time in any way, and any other host may be lost. When the job is over or cannot go on, the guardian ends all
// others and removes the temporary folder. The launcher does not know when a job ends that has lost a host: the
// guardian derives that from what is left, and ends the launcher. The guardian itself may be killed too: the library in
// each process notices the end of its connection, the launcher gets a signal from the kernel, and the front process
// does the rest.
//
// It is a subreaper in a session of its own: processes that lose their parent become its children, and a signal to the
// process group of oshrun does not hit it before it has cleaned up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/fd.hpp"
#include "tools/oshrun/agent_hub.hpp"
#include "tools/oshrun/demand.hpp"
#include "tools/oshrun/job_ledger.hpp"
#include "tools/oshrun/job_socket.hpp"
#include "tools/oshrun/launcher_door.hpp"
#include "tools/oshrun/own_launch.hpp"
#include "tools/oshrun/retry_note.hpp"

namespace sft::tools {

struct GuardianTask {
    JobShape shape;
    std::vector<std::string> launch_command;
    std::optional<LauncherDoor> door;         // of the launcher
    std::optional<OwnLaunchTask> own_launch;  // instead of launch_command; its standard input is stdin_fd
    std::vector<std::string> joiner_command;  // of a spare that comes while the job runs
    std::string temp_dir;
    Fd front;                           // bytes: signals that the front process got; end of file: it is gone
    Fd events_file;                     // may be none
    int stdin_fd = 0;                   // for PE 0
    std::uint32_t hang_timeout_ms = 0;  // SHMEM_FT_HANG_TIMEOUT
    bool launcher_reads_stdin = false;  // the launcher is to distribute it instead
    std::uint32_t node_timeout_ms = 0;  // SHMEM_FT_NODE_TIMEOUT
    bool is_realtime = false;           // SHMEM_FT_REALTIME
    bool is_quiet = false;              // --quiet
    RetryNote* retry_note = nullptr;    // of who may start the job again
    OnDemand on_demand;
    bool withholds_kill = false;  // for tests: processes that the job has declared dead are left alone
    JobSocket socket;
    std::optional<AgentEntrance> entrance;  // none: all processes run on this host
};

// Runs the job to its end, says why if it did not go well, and returns the exit status.
[[nodiscard]] int run_guardian(GuardianTask task);

}  // namespace sft::tools
