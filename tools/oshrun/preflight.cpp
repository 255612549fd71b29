#include "tools/oshrun/preflight.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "tools/common/fd.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/options.hpp"

namespace sft::tools {
namespace {

// Threads of one process of a job: its own, the library's and the two of the PMIx client.
constexpr std::uint64_t kThreadsPerProcess = 4;
// Files that the guardian and the launcher each keep open for one process.
constexpr std::uint64_t kFilesPerProcess = 6;
// Every process of the library watches every other one of its host through a descriptor, and shows two parts of its
// memory; besides, it has so many files open and so many maps of its own (measured: 27 and 116).
constexpr std::uint64_t kOwnFiles = 32;
constexpr std::uint64_t kMapsPerProcess = 2;
// What that takes of the machine's memory before the program has asked for any (measured: 2.0 to 2.3 MiB each, and
// 1.6 KiB that the kernel keeps for each pair).
constexpr std::uint64_t kMemoryPerProcess = 2'300'000;
constexpr std::uint64_t kMemoryPerPair = 1'600;
// What the machine is assumed to need besides.
constexpr std::uint64_t kReserve = 256;

enum class FileKind { missing, unreachable, directory, not_executable, executable };

// The kernel applies some limits to everybody but those; root need not be one of them, in a container.
bool may_exceed_limits() {
    constexpr unsigned kCapSysAdmin = 21;
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("CapEff:")) {
            return ((std::strtoull(line.c_str() + std::strlen("CapEff:"), nullptr, 16) >> kCapSysAdmin) & 1) != 0;
        }
    }
    return false;
}

// In bytes; none: the kernel does not say.
std::optional<std::uint64_t> available_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("MemAvailable:")) {
            return std::strtoull(line.c_str() + std::strlen("MemAvailable:"), nullptr, 10) << 10;
        }
    }
    return std::nullopt;
}

FileKind classify(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
        return errno == EACCES ? FileKind::unreachable : FileKind::missing;
    }
    if (S_ISDIR(status.st_mode)) {
        return FileKind::directory;
    }
    return access(path.c_str(), X_OK) == 0 ? FileKind::executable : FileKind::not_executable;
}

}  // namespace

std::string search_path(const std::string& name) {
    const char* variable = std::getenv("PATH");
    std::string_view rest = variable == nullptr ? kPathWithoutPath : variable;
    while (true) {
        const std::size_t colon = rest.find(':');
        const std::string_view folder = rest.substr(0, colon);
        const std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
        if (classify(candidate) == FileKind::executable) {
            return candidate;
        }
        if (colon == std::string_view::npos) {
            return {};
        }
        rest.remove_prefix(colon + 1);
    }
}

std::optional<Refusal> find_program(const std::string& name, std::string& path) {
    const std::string shown = shell_quoted(name);
    if (name.find('/') == std::string::npos) {
        path = search_path(name);
        if (!path.empty()) {
            return std::nullopt;
        }
        const bool is_here = classify(name) == FileKind::executable;
        return Refusal{kExitNotFound, is_here ? fmt::format("{}: not found in PATH; did you mean ./{}?", shown, name)
                                              : fmt::format("{}: no such program in PATH or in this folder", shown)};
    }
    switch (classify(name)) {
        case FileKind::executable: path = name; return std::nullopt;
        case FileKind::missing: return Refusal{kExitNotFound, fmt::format("{}: no such file", shown)};
        case FileKind::unreachable:
            return Refusal{kExitCannotRun, fmt::format("{}: a folder on the way to it cannot be entered: {}", shown,
                                                       strerrordesc_np(EACCES))};
        case FileKind::directory:
            return Refusal{kExitCannotRun, fmt::format("{}: is a directory, not a program", shown)};
        case FileKind::not_executable: break;
    }
    return Refusal{kExitCannotRun, fmt::format("{}: not executable (chmod +x makes it so)", shown)};
}

SystemLimits read_system_limits() {
    SystemLimits limits;
    limits.pid_max = 32768;
    std::ifstream("/proc/sys/kernel/pid_max") >> limits.pid_max;
    rlimit limit{};
    // The kernel does not apply the limit to root.
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        limits.user_processes = limit.rlim_cur;
    }
    limits.open_files = 1024;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limits.open_files = limit.rlim_max;
    }
    std::ifstream("/proc/sys/vm/max_map_count") >> limits.maps;
    std::uint64_t used = 0;
    std::uint64_t unused = 0;
    std::uint64_t highest = 0;
    if (!may_exceed_limits() && std::ifstream("/proc/sys/fs/file-nr") >> used >> unused >> highest) {
        limits.files_of_all = highest > used ? highest - used : 0;
    }
    limits.memory = available_memory();
    return limits;
}

std::optional<Refusal> check_limits(const Demands& demands, const SystemLimits& limits) {
    const auto processes = static_cast<std::uint64_t>(demands.pes) + static_cast<std::uint64_t>(demands.spares);
    const auto here = static_cast<std::uint64_t>(demands.here);
    const std::string asked = demands.spares == 0 ? fmt::format("-n {}", demands.pes)
                                                  : fmt::format("-n {} --spares {}", demands.pes, demands.spares);
    if (processes > kProcessesMax) {
        return Refusal{kExitUsage, fmt::format("{}: {} processes are more than the {} a job can have", asked, processes,
                                               kProcessesMax)};
    }
    const auto exceeds = [&](std::uint64_t per_process, std::uint64_t allowed, const char* what) {
        return processes * per_process + kReserve > allowed
                   ? std::optional(
                         Refusal{kExitUsage, fmt::format("{}: too many processes for this system's limit of {} {}",
                                                         asked, allowed, what)})
                   : std::nullopt;
    };
    if (auto refusal = exceeds(kThreadsPerProcess, limits.pid_max, "process ids (kernel.pid_max)")) {
        return refusal;
    }
    if (limits.user_processes) {
        if (auto refusal = exceeds(kThreadsPerProcess, *limits.user_processes, "processes per user (ulimit -u)")) {
            return refusal;
        }
    }
    if (auto refusal = exceeds(kFilesPerProcess, limits.open_files, "open files (ulimit -Hn)")) {
        return refusal;
    }
    const auto exceeds_here = [&](std::uint64_t needed, std::uint64_t allowed, const char* what) {
        return needed > allowed
                   ? std::optional(Refusal{
                         kExitUsage, fmt::format("{}: {} processes on one host need {} {}, of which this one has {}: "
                                                 "raise the limit with sysctl, or use more hosts",
                                                 asked, here, needed, what, allowed)})
                   : std::nullopt;
    };
    if (limits.files_of_all) {
        // Both sides of the watching count: the square is what matters.
        if (auto refusal = exceeds_here(here * (here + kOwnFiles), *limits.files_of_all, "open files (fs.file-max)")) {
            return refusal;
        }
    }
    if (auto refusal =
            exceeds_here(kMapsPerProcess * here + kReserve, limits.maps, "memory maps each (vm.max_map_count)")) {
        return refusal;
    }
    const std::uint64_t memory = here * (kMemoryPerProcess + here * kMemoryPerPair);
    if (limits.memory && memory > *limits.memory) {
        return Refusal{kExitUsage,
                       fmt::format("{}: {} processes on one host need {} MB of memory before the program needs "
                                   "any, of which this one has {} left: use more hosts",
                                   asked, here, memory / 1'000'000, *limits.memory / 1'000'000)};
    }
    return std::nullopt;
}

int problem_of_room(const std::string& folder, std::uint64_t bytes) {
    std::string path = folder + "/room-XXXXXX";
    const Fd file(mkostemp(path.data(), O_CLOEXEC));
    if (!file) {
        return errno;
    }
    const int problem = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
    unlink(path.c_str());
    return problem;
}

std::uint64_t files_needed(std::uint64_t processes) { return processes * kFilesPerProcess + kReserve; }

void raise_file_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

unsigned usable_cores() {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
        return static_cast<unsigned>(CPU_COUNT(&cores));
    }
    return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace sft::tools
