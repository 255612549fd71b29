#include "tools/oshrun/restarting.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>
#include <optional>

#include "tools/common/exit_codes.hpp"
#include "tools/common/fd.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/front.hpp"
#include "tools/oshrun/job_environment.hpp"

namespace sft::tools {
namespace {

std::string age_text(std::int64_t seconds) {
    if (seconds < 120) {
        return fmt::format("{} s", seconds);
    }
    return seconds < 7200 ? fmt::format("{} min", seconds / 60)
                          : fmt::format("{:.1f} h", static_cast<double>(seconds) / 3600);
}

// Standard input, if it is a file: the next attempt reads it from the same place.
class RereadInput {
public:
    RereadInput() {
        struct stat info {};
        if (fstat(STDIN_FILENO, &info) == 0 && S_ISREG(info.st_mode)) {
            offset_ = lseek(STDIN_FILENO, 0, SEEK_CUR);
        }
    }
    void rewind() const {
        if (offset_) {
            lseek(STDIN_FILENO, *offset_, SEEK_SET);
        }
    }

private:
    std::optional<off_t> offset_;
};

pid_t start_attempt(int number, RetryNote& note, const sigset_t& before,
                    const std::function<int(int attempt, RetryNote& note)>& attempt) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) {
            _exit(EXIT_FAILURE);
        }
        sigprocmask(SIG_SETMASK, &before, nullptr);
        const int status = attempt(number, note);
        std::fflush(nullptr);
        _exit(status);
    }
    return child;
}

// The wait status of the attempt. has_told: it was sent a signal to end.
int await_attempt(pid_t child, const Fd& signals, bool& has_told) {
    while (true) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child) {
            return status;
        }
        pollfd entry{signals.get(), POLLIN, 0};
        poll(&entry, 1, -1);
        signalfd_siginfo info{};
        if (read(signals.get(), &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD ||
            info.ssi_signo == SIGCONT) {
            continue;
        }
        has_told = true;
        if (info.ssi_code <= 0) {  // from a process; what the terminal sends comes to all of the group
            kill(child, static_cast<int>(info.ssi_signo));
        }
    }
}

// What an attempt that goes on from a version goes on from; empty: it begins.
std::string restart_folder() {
    const char* const folder = std::getenv("SHMEM_FT_RESTART");
    return folder == nullptr ? "" : without_last_slash(folder);
}

// All of its checksums are looked at, by the tool beside this one, which says what is wrong on stderr.
bool is_damaged(const std::string& folder, const sigset_t& before) {
    std::error_code ignored;
    const std::string tool =
        (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "shmem-ft").string();
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigprocmask(SIG_SETMASK, &before, nullptr);
        const Fd nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
        dup2(nothing.get(), STDOUT_FILENO);
        execl(tool.c_str(), tool.c_str(), "verify", folder.c_str(), nullptr);
        _exit(EXIT_SUCCESS);  // nobody can say
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == kExitFailed;
}

// So that the version before is the newest one. It is kept, for people.
bool put_aside(const std::string& folder) {
    std::string aside = folder + ".damaged";
    for (int n = 2; access(aside.c_str(), F_OK) == 0; ++n) {
        aside = fmt::format("{}.damaged-{}", folder, n);
    }
    if (rename(folder.c_str(), aside.c_str()) != 0) {
        print_line(fmt::format("oshrun: {} is damaged, and cannot be renamed: {}", folder, strerrordesc_np(errno)));
        return false;
    }
    print_line(fmt::format("oshrun: {} is damaged: it is {} from now on", folder, aside));
    return true;
}

// What the next attempt begins with is in the environment then. The failure says why there is none.
Result<std::string> choose_restart_point() {
    const char* store = std::getenv("SHMEM_FT_STORE");
    if (store == nullptr || *store == '\0') {
        return "from the beginning: no version is stored without SHMEM_FT_STORE";
    }
    const Result<StoredVersion> newest = newest_complete(without_last_slash(store));
    const Result<RestartPoint> point =
        newest && !newest->folder.empty() ? find_restart_point(newest->folder) : Result<RestartPoint>(RestartPoint());
    if (!newest || !point) {
        return fails((newest ? point.error() : newest.error()).line);
    }
    if (point->folder.empty()) {
        if (!restart_folder().empty()) {
            set_for_job("SHMEM_FT_RESTART", "");
        }
        return "from the beginning: no version was stored";
    }
    set_restart_point(*point);
    return fmt::format("from version {}, stored {} ago", point->manifest.version.value(),
                       age_text(std::max<std::int64_t>(0, std::time(nullptr) - point->manifest.stored)));
}

}  // namespace

Result<RestartPoint> find_restart_point(const std::string& path) {
    RestartPoint point;
    point.folder = std::filesystem::absolute(without_last_slash(path)).lexically_normal().string();
    if (version_of_folder(std::filesystem::path(point.folder).filename().string()) == kNoVersion) {
        if (access(point.folder.c_str(), F_OK) != 0) {
            return fails(fmt::format("{}: {}", path, strerrordesc_np(errno)));
        }
        const Result<StoredVersion> newest = newest_complete(point.folder);
        if (!newest) {
            return fails(newest.error());
        }
        if (newest->folder.empty()) {
            return fails(fmt::format("{}: no complete version is in there", path));
        }
        point.folder = newest->folder;
    }
    const Result<Manifest> manifest = read_manifest(point.folder);
    if (!manifest) {
        return fails(manifest.error());
    }
    point.manifest = *manifest;
    return point;
}

void set_restart_point(const RestartPoint& point) {
    set_for_job("SHMEM_FT_RESTART", point.folder);
    for (const auto& [name, value] : point.manifest.settings) {
        if (std::getenv(name.c_str()) == nullptr) {
            set_for_job(name, value);
        }
    }
    if (std::getenv("SHMEM_FT_STORE") == nullptr) {
        set_for_job("SHMEM_FT_STORE", std::filesystem::path(point.folder).parent_path().string());
    }
}

Result<> settle_load() {
    const char* const folder = std::getenv("SHMEM_FT_LOAD");
    if (folder == nullptr || *folder == '\0') {
        return {};
    }
    const Result<RestartPoint> point = find_restart_point(folder);
    if (!point) {
        return fails("SHMEM_FT_LOAD: " + point.error().line);
    }
    set_for_job("SHMEM_FT_LOAD", point->folder);
    return {};
}

int run_with_retries(int retries, const std::function<int(int attempt, RetryNote& note)>& attempt) {
    void* const shared = mmap(nullptr, sizeof(RetryNote), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        print_line(fmt::format("oshrun: --retries: {}", strerrordesc_np(errno)));
        return EXIT_FAILURE;
    }
    RetryNote& note = *new (shared) RetryNote;
    const sigset_t mask = signals_to_hear();
    sigset_t before;
    sigprocmask(SIG_BLOCK, &mask, &before);
    const Fd signals(signalfd(-1, &mask, SFD_CLOEXEC));
    const RereadInput input;
    bool has_told = false;
    for (int number = 0;; ++number) {
        note.is_worth_retry.store(false);
        const pid_t child = start_attempt(number, note, before, attempt);
        if (child < 0) {
            print_line(fmt::format("oshrun: cannot start a process: {}", strerrordesc_np(errno)));
            return EXIT_FAILURE;
        }
        const int status = await_attempt(child, signals, has_told);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code == 0 || has_told) {
            return code;
        }
        if (!note.is_worth_retry.load()) {
            const std::string from = restart_folder();
            if (from.empty() || !is_damaged(from, before) || !put_aside(from)) {
                return code;
            }
        }
        if (number == retries) {
            print_line(
                fmt::format("oshrun: the job was lost {} times: --retries {} allows no more", number + 1, retries));
            return code;
        }
        const Result<std::string> from = choose_restart_point();
        if (!from) {
            print_line("oshrun: does not start the job again: " + from.error().line);
            return code;
        }
        print_line(fmt::format("oshrun: starts the job again ({} of {}), {}", number + 1, retries, *from));
        input.rewind();
    }
}

}  // namespace sft::tools
