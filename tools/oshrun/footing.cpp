#include "tools/oshrun/footing.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tools/oshrun/options.hpp"

namespace sft::tools {

void settle_inherited_state() {
    std::signal(SIGCHLD, SIG_DFL);
    // What is too long is then an error of the call that writes it, which can be told.
    std::signal(SIGXFSZ, SIG_IGN);
    // The launcher looks for its own helpers there.
    if (std::getenv("PATH") == nullptr) {
        setenv("PATH", kPathWithoutPath, 1);
    }
    // Open MPI's crashes if there is neither this nor an entry for the user.
    if (std::getenv("HOME") == nullptr && getpwuid(geteuid()) == nullptr) {
        setenv("HOME", "/", 1);
    }
}

std::optional<Refusal> check_footing() {
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) == nullptr) {
        return Refusal{kExitCannotRun, fmt::format("the current folder cannot be named: {}: change to another one",
                                                   errno == ENOENT ? "it has been deleted" : strerrordesc_np(errno))};
    }
    // The launcher changes to it for every process, and is silent for ever if it cannot.
    if (access(folder, X_OK) != 0) {
        return Refusal{kExitCannotRun,
                       fmt::format("the current folder, {}, cannot be entered: {}: change to another one", folder,
                                   strerrordesc_np(errno))};
    }
    char self[PATH_MAX];
    if (readlink("/proc/self/exe", self, sizeof self) < 0) {
        return Refusal{kExitCannotRun, fmt::format("/proc/self/exe: {}: is /proc mounted? Jobs cannot run without it",
                                                   strerrordesc_np(errno))};
    }
    return std::nullopt;
}

std::optional<Refusal> check_sizes(std::uint64_t heap_bytes) {
    rlimit limit{};
    // The launcher, and the libraries and stacks of a process beside its heap: less has never been enough.
    constexpr std::uint64_t kSpaceBesides = 256U << 20;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (limit.rlim_cur < kSpaceBesides || limit.rlim_cur - kSpaceBesides < heap_bytes)) {
        return Refusal{kExitUsage,
                       fmt::format("a process may have {} bytes of memory here (ulimit -v), and the symmetric "
                                   "heap alone takes {} (SHMEM_SYMMETRIC_SIZE): raise the limit",
                                   static_cast<std::uint64_t>(limit.rlim_cur), heap_bytes)};
    }
    const std::uint64_t needed = std::max(heap_bytes, kLauncherBytes);
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) {
        return std::nullopt;
    }
    return Refusal{
        kExitUsage,
        fmt::format("the largest file allowed here (ulimit -f) has {} bytes, and the symmetric heap alone is a "
                    "memory file of {} (SHMEM_SYMMETRIC_SIZE): raise the limit",
                    static_cast<std::uint64_t>(limit.rlim_cur), needed)};
}

void raise_low_file_limit(int processes) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        const rlim_t needed = files_needed(static_cast<std::uint64_t>(processes));
        if (limit.rlim_cur < needed) {
            limit.rlim_cur = std::min(needed, limit.rlim_max);
            setrlimit(RLIMIT_NOFILE, &limit);
        }
    }
}

}  // namespace sft::tools
