// What can be found out before anything is started: is there such a program, is there a launcher, does the system
// allow that many processes. Each finding is one line (without "oshrun: " and newline) and an exit status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sft::tools {

struct Refusal {
    int exit_code = 0;
    std::string line;
};

// The file that the name stands for, as execvp would find it. ENSURES: path is set or the refusal returned.
[[nodiscard]] std::optional<Refusal> find_program(const std::string& name, std::string& path);

// Where programs are looked for if there is no PATH.
inline constexpr const char* kPathWithoutPath = "/usr/local/bin:/usr/bin:/bin";
// The executable of that name in PATH; empty: there is none.
[[nodiscard]] std::string search_path(const std::string& name);

struct SystemLimits {
    std::uint64_t pid_max = 0;                    // kernel.pid_max
    std::optional<std::uint64_t> user_processes;  // RLIMIT_NPROC, which counts threads; none: unlimited or root
    std::uint64_t open_files = 0;                 // the hard limit of RLIMIT_NOFILE
    // What the whole system may still open (fs.file-max); none: no limit for this process.
    std::optional<std::uint64_t> files_of_all = std::nullopt;
    std::uint64_t maps = 65530;                          // vm.max_map_count
    std::optional<std::uint64_t> memory = std::nullopt;  // bytes that can be had; none: not known
};

[[nodiscard]] SystemLimits read_system_limits();

struct Demands {
    int pes = 0;
    int spares = 0;
    int here = 0;  // so many of the processes run on this host
};
[[nodiscard]] std::optional<Refusal> check_limits(const Demands& demands, const SystemLimits& limits);

// What the launcher writes into its folder, at any number of processes that a host has.
inline constexpr std::uint64_t kLauncherBytes = 16U << 20;
// 0, or the error number with which that many bytes cannot be written into the folder.
[[nodiscard]] int problem_of_room(const std::string& folder, std::uint64_t bytes);

// That the guardian and the launcher each open for so many processes, and what else they need.
[[nodiscard]] std::uint64_t files_needed(std::uint64_t processes);
// The launcher and the guardian keep several files open for each process; many systems allow 1024 unless asked.
void raise_file_limit();

// The processors this process may use.
[[nodiscard]] unsigned usable_cores();

}  // namespace sft::tools
