// What the launcher starts on another host instead of its daemon: oshrun once more, which gives that daemon a folder of
// its own and removes it in the end. By itself the daemon would take $TMPDIR/ompi.HOST.UID, whose name everybody knows:
// a link that another user has laid there would be followed, and a file would stop the job.
//
// Fault model: may be killed at any time. Then its daemon is told to end, and the folder stays, which nobody else can
// enter.
#pragma once

namespace sft::tools {

// Settings for the launcher that its daemons get on their command lines as well: this program, and the daemon itself.
inline constexpr const char* kLaunchAgentSetting = "orte_launch_agent";
inline constexpr const char* kDaemonSetting = "oshrun_daemon";

// Whether the words are those of a daemon.
[[nodiscard]] bool is_for_daemon(int argc, char** argv);

// Runs the daemon to its end and returns its exit status.
int exec_daemon(int argc, char** argv);

}  // namespace sft::tools
