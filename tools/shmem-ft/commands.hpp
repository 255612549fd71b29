// The subcommands of shmem-ft. Each prints to stdout and returns the exit status.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sft::tools {

struct ConfigCommand {
    bool as_markdown = false;  // the text of docs/config.md, which does not depend on the environment
};
[[nodiscard]] int run_config(const ConfigCommand& command);

struct GlobalsCommand {
    std::string program;
    bool show_all = false;
};
[[nodiscard]] int run_globals(const GlobalsCommand& command);

struct InfoCommand {
    bool as_json = false;
};
[[nodiscard]] int run_info(const InfoCommand& command);

struct PlanCommand {
    std::string job;       // that runs: a pid of its processes or of its oshrun, or its program; empty: none
    std::string hosts;     // "node[1-4]:2,login"
    std::string topology;  // file; empty: by SHMEM_FT_TOPOLOGY
    std::string backup;    // empty: by SHMEM_FT_BACKUP_MODE
    int pes = 0;           // 0: one for each slot that no spare takes
    int spares = -1;       // below 0: by SHMEM_FT_SPARES
    int spare_nodes = 0;
    bool is_by_node = false;
    bool as_json = false;
    std::vector<std::string> mtbf;  // "1000", "rack=20000": days
    std::uint64_t state_bytes = 0;  // of a PE; 0: nothing is said of memory in bytes
    double window_s = 60;
    double run_days = 0;
    std::vector<std::string> lost;  // hosts, or "rack=r1"
    std::string svg;                // file for a drawing; "-": stdout; empty: none
};
[[nodiscard]] int run_plan(const PlanCommand& command);

struct PointsCommand {
    bool as_markdown = false;  // the table of docs/fault-lab.md
};
[[nodiscard]] int run_points(const PointsCommand& command);

struct StatusCommand {
    std::vector<std::string> words;  // which jobs; none: all
    bool as_json = false;
    bool of_all_users = false;
    double watch_seconds = 0;  // 0: once
};
[[nodiscard]] int run_status(const StatusCommand& command);

// list, show, verify, remove, extract.
struct StoredCommand {
    std::string path;     // a folder of versions, or of one
    int pe = -1;          // extract: of this one, 0 if nothing is said, or, of an array, of all
    std::string global;   // its name, or
    std::string array;    // of one that was declared, or
    std::string range;    // "ADDRESS:BYTES"
    std::string program;  // empty: as the manifest says
    std::string type;     // of NumPy; empty: raw bytes
    std::string output;
};
[[nodiscard]] int run_stored(std::string_view word, const StoredCommand& command);

// The words after `lab`, which has options like a program of its own.
[[nodiscard]] int run_lab(const std::vector<std::string>& words);

}  // namespace sft::tools
