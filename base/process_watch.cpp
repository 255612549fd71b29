#include "base/process_watch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "base/instruments.hpp"
#include "base/thread_start.hpp"

namespace sft {
namespace {

// The kernel's interface of PIDFD_GET_INFO (Linux 6.13; the exit status from 6.15 on), which Debian 12's headers do not
// have yet. Only the first version of the structure is used: newer kernels accept it.
struct PidfdInfo {
    std::uint64_t mask;
    std::uint64_t cgroup_id;
    std::uint32_t pid;
    std::uint32_t tgid;
    std::uint32_t ppid;
    std::uint32_t user_ids[8];
    std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64 && offsetof(PidfdInfo, exit_code) == 60);
constexpr std::uint64_t kPidfdInfoExit = 1U << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

// Fields of /proc/PID/stat, numbered from 1 as in proc(5).
constexpr int kStateField = 3;
constexpr int kStartTimeField = 22;
constexpr int kExitCodeField = 52;

FailureReason from_wait_status(int status) noexcept {
    if (WIFSIGNALED(status)) {
        return {FailureKind::signal, static_cast<std::uint16_t>(WTERMSIG(status))};
    }
    return {FailureKind::exited, static_cast<std::uint16_t>(WEXITSTATUS(status))};
}

// The kernel keeps the status behind the pidfd once the process has been reaped, not before.
bool ask_pidfd(int pidfd, FailureReason& reason) noexcept {
    PidfdInfo info{};
    info.mask = kPidfdInfoExit;
    if (ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) {
        return false;
    }
    reason = from_wait_status(info.exit_code);
    return true;
}

// The text of /proc/PID/stat from field 3 on: the second field, the name, may itself contain spaces and brackets, so
// everything up to the last bracket is skipped.
class StatFields {
public:
    explicit StatFields(std::int32_t pid) noexcept {
        char path[32];
        std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            error_ = errno;
            return;
        }
        const ssize_t bytes = read(fd, text_.data(), text_.size() - 1);
        error_ = bytes < 0 ? errno : ESRCH;
        close(fd);
        if (bytes <= 0) {
            return;
        }
        text_[static_cast<std::size_t>(bytes)] = '\0';
        const char* bracket = std::strrchr(text_.data(), ')');
        if (bracket != nullptr && bracket[1] == ' ') {
            rest_ = bracket + 2;
        }
    }

    // Null when there is no such field.
    [[nodiscard]] const char* field(int number) const noexcept {
        SFT_ASSERT(number >= kStateField);
        const char* position = rest_;
        for (int i = kStateField; position != nullptr && i < number; ++i) {
            position = std::strchr(position, ' ');
            position = position == nullptr ? nullptr : position + 1;
        }
        return position;
    }

    // Why there are no fields.
    [[nodiscard]] int error() const noexcept { return error_; }

private:
    std::array<char, 2048> text_{};
    const char* rest_ = nullptr;
    int error_ = 0;
};

// A zombie's status is in its stat file. The file may by now belong to somebody else with the same pid: only when the
// pidfd still reaches our process afterwards was it the one that was read.
bool ask_stat(int pidfd, std::int32_t pid, FailureReason& reason) noexcept {
    const StatFields stat(pid);
    const char* state = stat.field(kStateField);
    const char* exit_code = stat.field(kExitCodeField);
    if (state == nullptr || exit_code == nullptr || (*state != 'Z' && *state != 'X')) {
        return false;
    }
    if (syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) != 0 && errno != EPERM) {
        return false;
    }
    reason = from_wait_status(static_cast<int>(std::strtol(exit_code, nullptr, 10)));
    return true;
}

}  // namespace

std::string describe(FailureReason reason) {
    char text[96];
    switch (reason.kind) {
        case FailureKind::none: return "alive";
        case FailureKind::signal: {
            // Not strsignal, which may use a static buffer.
            const char* name = sigdescr_np(reason.code);
            std::snprintf(text, sizeof text, "killed by signal %d (%s)", reason.code,
                          name != nullptr ? name : "no standard signal");
            return text;
        }
        case FailureKind::exited:
            std::snprintf(text, sizeof text, "exited with code %d without shmem_finalize", reason.code);
            return text;
        case FailureKind::hung: return "hung";
        case FailureKind::node_lost: return "lost with its node";
        case FailureKind::unreachable: return "unreachable";
        case FailureKind::restarted: return "begun again from a stored version";
        case FailureKind::died: return "died (the system did not tell how)";
    }
    return "unknown";
}

std::uint64_t process_start_time(std::int32_t pid) noexcept {
    const StatFields stat(pid);
    const char* start = stat.field(kStartTimeField);
    return start == nullptr ? 0 : std::strtoull(start, nullptr, 10);
}

bool is_traced(std::int32_t pid) noexcept {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/status", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    std::array<char, 4096> text{};  // the line is among the first ten
    const ssize_t bytes = read(fd, text.data(), text.size() - 1);
    close(fd);
    constexpr const char* kLine = "\nTracerPid:";
    const char* line = bytes <= 0 ? nullptr : std::strstr(text.data(), kLine);
    return line != nullptr && std::strtol(line + std::strlen(kLine), nullptr, 10) != 0;
}

Opening look_at_process(std::int32_t pid, std::uint64_t start_time) noexcept {
    const StatFields stat(pid);
    const char* state = stat.field(kStateField);
    const char* start = stat.field(kStartTimeField);
    if (state != nullptr && start != nullptr) {
        const bool is_it = std::strtoull(start, nullptr, 10) == start_time && *state != 'Z' && *state != 'X';
        return {.reach = is_it ? Reach::opened : Reach::gone};
    }
    // That there is no file is no proof yet: a system may hide what a process is not to see.
    if (kill(pid, 0) != 0 && errno == ESRCH) {
        return {.reach = Reach::gone};
    }
    return {.reach = Reach::cannot_be_opened, .error = stat.error()};
}

namespace {

// Where there are no pidfds (valgrind of Debian 12): a descriptor that becomes readable when the process is gone,
// because a thread looks for it. Nothing tells how it ended, and no signal goes through it.
Opening watch_by_looking(std::int32_t pid, std::uint64_t start_time) noexcept {
    constexpr int kLook_ms = 20;
    if (const Opening look = look_at_process(pid, start_time); look.reach != Reach::opened) {
        return look;
    }
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    const int told = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int error = told < 0 ? errno : 0;
    if (error == 0) {
        std::thread looks = start_without_signals([told, pid, start_time] {
            while (look_at_process(pid, start_time).reach != Reach::gone) {
                ::poll(nullptr, 0, kLook_ms);
            }
            const std::uint64_t one = 1;
            [[maybe_unused]] const auto written = ::write(told, &one, sizeof one);
            ::close(told);
        });
        if (looks.joinable()) {
            looks.detach();
        } else {
            error = EAGAIN;
        }
    }
    if (error == 0) {
        return {.reach = Reach::opened, .fd = fd};
    }
    for (const int opened : {fd, told}) {
        if (opened >= 0) {
            ::close(opened);
        }
    }
    return {.reach = Reach::cannot_be_opened, .error = error};
}

constexpr decltype(statfs::f_type) kPidfsMagic = 0x50494446;  // a file system of its own: an inode for each process

bool has_number(int pidfd, std::uint64_t number) noexcept {
    struct stat found {};
    return number != 0 && ::fstat(pidfd, &found) == 0 && found.st_ino == number;
}

}  // namespace

std::uint64_t own_pidfd_number() noexcept {
    if (is_under_valgrind()) {
        return 0;
    }
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, ::getpid(), 0));
    if (pidfd < 0) {
        return 0;
    }
    struct statfs system {};
    struct stat own {};
    const bool is_numbered =
        ::fstatfs(pidfd, &system) == 0 && system.f_type == kPidfsMagic && ::fstat(pidfd, &own) == 0;
    close(pidfd);
    return is_numbered ? own.st_ino : 0;
}

Opening open_process(std::int32_t pid, std::uint64_t start_time, std::uint64_t number) noexcept {
    // Valgrind does not only refuse the calls, but says so at length.
    if (is_under_valgrind()) {
        return watch_by_looking(pid, start_time);
    }
    const int pidfd = fails(FaultPoint::call_open_process) ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0) {
        const int error = errno;
        // The pid may by now be that of somebody's thread, for which there is no pidfd.
        const bool is_gone = error == ESRCH || look_at_process(pid, start_time).reach == Reach::gone;
        return {.reach = is_gone ? Reach::gone : Reach::cannot_be_opened, .error = is_gone ? 0 : error};
    }
    if (has_number(pidfd, number)) {
        return {.reach = Reach::opened, .fd = pidfd};
    }
    // Compared after the opening: if the pid had been given to another process before, the times differ; if it is given
    // away from now on, the pidfd is not affected.
    const StatFields stat(pid);
    const char* start = stat.field(kStartTimeField);
    if (start != nullptr && std::strtoull(start, nullptr, 10) == start_time) {
        return {.reach = Reach::opened, .fd = pidfd};
    }
    const bool is_there = syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) == 0 || errno != ESRCH;
    close(pidfd);
    if (start != nullptr || !is_there) {
        return {.reach = Reach::gone};
    }
    return {.reach = Reach::cannot_be_opened, .error = stat.error()};
}

namespace {

// A process that ends gives up its descriptors before anything else shows its end. One of a job that lives has some.
bool has_descriptors(std::int32_t pid) noexcept {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR* const folder = opendir(path);
    if (folder == nullptr) {
        return errno != ENOENT;
    }
    bool has_some = false;
    for (const dirent* entry = readdir(folder); entry != nullptr && !has_some; entry = readdir(folder)) {
        has_some = entry->d_name[0] != '.';
    }
    closedir(folder);
    return has_some;
}

}  // namespace

Opening open_descriptor_of(std::int32_t pid, std::uint64_t start_time, int fd) noexcept {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    const int opened = fails(FaultPoint::call_open_memory) ? -1 : open(path, O_RDWR | O_CLOEXEC);
    const int error = errno;
    // After the opening, as above: who has the pid now and began when our process did had it before, too.
    const Opening look = look_at_process(pid, start_time);
    if (opened >= 0 && look.reach == Reach::opened) {
        return {.reach = Reach::opened, .fd = opened};
    }
    if (opened >= 0) {
        close(opened);
        return look;
    }
    if (look.reach == Reach::gone) {
        return look;
    }
    if (error == ENOENT && !has_descriptors(pid)) {
        return {.reach = Reach::gone};
    }
    return {.reach = Reach::cannot_be_opened, .error = error};
}

bool is_lack(int error) noexcept {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == ENOSPC;
}

std::string describe_error(int error) {
    const char* name = strerrordesc_np(error);
    const std::string text = name != nullptr ? name : "unknown error";
    rlimit limit{};
    switch (error) {
        case EMFILE:
            if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                return text + ": all " + std::to_string(limit.rlim_cur) +
                       " descriptors of this process are in use: raise the limit (ulimit -n)";
            }
            return text;
        case ENFILE: return text + ": raise the limit fs.file-max";
        case ENOMEM: return text + ": there is no memory, or too many mappings (vm.max_map_count)";
        case EACCES:
        case EPERM:
            return text +
                   ": the processes of a job must be able to open each other's /proc/PID/fd (one user, and no "
                   "prctl(PR_SET_DUMPABLE, 0))";
        default: return text;
    }
}

void kill_process(int pidfd, std::int32_t pid, std::uint64_t start_time) noexcept {
    SFT_ASSERT(pidfd >= 0 && pid > 0);  // 0 and -1 would be groups of processes
    if (!is_under_valgrind()) {
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
    } else if (look_at_process(pid, start_time).reach == Reach::opened) {
        kill(pid, SIGKILL);
    }
}

bool end_process(std::int32_t pid, std::uint64_t start_time, int bound_ms) noexcept {
    const Opening opening = open_process(pid, start_time);
    if (opening.reach != Reach::opened) {
        return opening.reach == Reach::gone;
    }
    kill_process(opening.fd, pid, start_time);
    pollfd end{.fd = opening.fd, .events = POLLIN, .revents = 0};
    int polled = 0;
    do {
        polled = ::poll(&end, 1, bound_ms);
    } while (polled < 0 && errno == EINTR);
    ::close(opening.fd);
    return polled > 0;
}

FailureReason reason_of_end(int pidfd, std::int32_t pid) noexcept {
    SFT_ASSERT(pidfd >= 0 && pid > 0);
    FailureReason reason{FailureKind::died, 0};
    if (is_under_valgrind()) {
        return reason;  // what was opened is no pidfd
    }
    // The process may be reaped between the first two questions, and then the first one has an answer.
    if (ask_pidfd(pidfd, reason) || ask_stat(pidfd, pid, reason) || ask_pidfd(pidfd, reason)) {
        return reason;
    }
    return reason;
}

}  // namespace sft
