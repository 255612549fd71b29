// The command line of oshrun: from words to checked options, without side effects.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "tools/common/exit_codes.hpp"

namespace sft::tools {

// What the library's tables and the process ids of a launch are sized for.
inline constexpr long kProcessesMax = 4094;

// -x NAME: pass it on as it is; -x NAME=VALUE: set it.
struct ExportedVariable {
    std::string name;
    std::string value;
    bool has_value = false;
};

enum class LauncherKind { automatic, mpirun, prterun, srun, own };
enum class OnDemandPolicy { never, automatic, always };

struct Options {
    int pes = 0;      // 0: not given, one per core
    int spares = -1;  // -1: not given, as SHMEM_FT_SPARES says
    std::vector<ExportedVariable> exports;
    std::vector<std::string> launcher_args;
    std::string events_path;
    std::string host_list;  // --host
    std::string hostfile;
    bool maps_by_node = false;
    int spare_nodes = 0;
    LauncherKind launcher = LauncherKind::automatic;
    OnDemandPolicy on_demand = OnDemandPolicy::automatic;
    int on_demand_limit = 8;
    std::string restart;  // --restart: a folder of versions, or of one
    int retries = 0;
    std::string join;  // the job that gets `pes` more spares; empty: starts a job
    bool is_verbose = false;
    bool is_quiet = false;
    bool wants_help = false;
    bool wants_version = false;
    std::vector<std::string> command;  // the program and its arguments
};

// REQUIRES: words without the name of oshrun itself.
// Returns false and sets one line, without "oshrun: " in front and without newline, that names the culprit.
[[nodiscard]] Result<> parse_options(const std::vector<std::string>& words, Options& options);

// All names that options have, for whoever goes through them.
struct KnownOption {
    std::string name;
    bool takes_value = false;
};
[[nodiscard]] std::vector<KnownOption> known_options();

[[nodiscard]] const char* help_text() noexcept;
[[nodiscard]] const char* launcher_name(LauncherKind kind) noexcept;

}  // namespace sft::tools
