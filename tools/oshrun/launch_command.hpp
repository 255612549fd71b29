// The launcher's command line for a job: a pure function, so that it can be tested word by word.
#pragma once

#include <string>
#include <vector>

#include "tools/oshrun/agent_wire.hpp"
#include "tools/oshrun/options.hpp"

namespace sft::tools {

struct LaunchFacts {
    std::string launcher_path;
    std::string own_path;      // this program, which each process is first (see exec_pe.hpp)
    std::string program_path;  // where the program was found
    std::string temp_dir;
    std::string daemon_path;       // the launcher's own for other hosts (exec_daemon.hpp); empty: it starts that itself
    std::string door_address;      // where alone the launcher is to listen; empty: where it likes
    std::string rank_hosts_file;   // a host a line, by rank; empty: the launcher places the processes
    bool has_other_hosts = false;  // or may have
    bool is_inside_slurm = false;
    bool is_root = false;
    unsigned cores = 1;
    std::vector<std::string> environment_names;  // of all variables that are set
};

// The user has asked the launcher to distribute the standard input in some way of its own.
[[nodiscard]] bool launcher_reads_stdin(const Options& options);

// The user has asked the launcher to place the processes in some way of its own.
[[nodiscard]] bool launcher_places_processes(const Options& options);

// Whether the launcher can be kept to facts.door_address: it is Open MPI 4's, the user has not said which interfaces it
// is to use, and its daemons are started by oshrun.
[[nodiscard]] bool has_door(const Options& options, const LaunchFacts& facts);

// REQUIRES: options.pes, options.spares and options.launcher are settled.
[[nodiscard]] std::vector<std::string> launch_command(const Options& options, const LaunchFacts& facts);

// Its end: what each process is first.
[[nodiscard]] std::vector<std::string> exec_pe_command(const Options& options, const LaunchFacts& facts);

// A colon alone separates programs on mpirun's command line, so such an argument is written differently on its way
// through. decode_argument(encode_argument(x)) == x.
[[nodiscard]] std::string encode_argument(const std::string& argument);
[[nodiscard]] std::string decode_argument(const std::string& argument);

}  // namespace sft::tools
