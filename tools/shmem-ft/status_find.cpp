#include "tools/shmem-ft/status_find.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "tools/common/text.hpp"
#include "transport/shm/control.hpp"

namespace sft::tools {
namespace {

namespace fs = std::filesystem;

// A job that has just begun to make its segment has done so after this.
constexpr int kCreationMs = 50;

std::string link_target(const std::string& path) {
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    return length < 0 ? std::string() : std::string(target, static_cast<std::size_t>(length));
}

// What /proc/PID/stat has of interest; zombies count as gone.
struct ProcStat {
    bool exists = false;
    std::string name;
    std::int32_t parent = 0;
};

ProcStat stat_of(std::int32_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text);
    const std::size_t open = text.find('(');
    const std::size_t close = text.rfind(')');  // the name may have brackets and blanks itself
    if (open == std::string::npos || close == std::string::npos || close + 4 > text.size()) {
        return {};
    }
    const char state = text[close + 2];
    const std::size_t parent_begin = close + 4;
    const std::string_view parent =
        std::string_view(text).substr(parent_begin, text.find(' ', parent_begin) - parent_begin);
    return {.exists = state != 'Z' && state != 'X',
            .name = text.substr(open + 1, close - open - 1),
            .parent = static_cast<std::int32_t>(parse_number(parent, 0, INT_MAX).value_or(0))};
}

// Nothing: it is gone, or runs with the rights of several. Who owns the folder in /proc says little: that of a process
// which must not be looked into is root's, and a process can make itself one.
std::optional<uid_t> user_of(std::int32_t pid) {
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    std::string word;
    while (file >> word) {
        if (word == "Uid:") {
            std::array<uid_t, 4> ids{};
            for (uid_t& id : ids) {
                file >> id;
            }
            return file && std::count(ids.begin(), ids.end(), ids[0]) == 4 ? std::optional(ids[0]) : std::nullopt;
        }
        file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    return std::nullopt;
}

std::vector<std::int32_t> processes_of(WhoseJobs whose) {
    std::vector<std::int32_t> pids;
    std::error_code ignored;
    for (fs::directory_iterator at("/proc", ignored), end; at != end; at.increment(ignored)) {
        const auto pid = parse_number(at->path().filename().string(), 1, INT_MAX);
        if (pid && (whose == WhoseJobs::all_users || user_of(static_cast<std::int32_t>(*pid)) == ::geteuid())) {
            pids.push_back(static_cast<std::int32_t>(*pid));
        }
    }
    std::sort(pids.begin(), pids.end());
    return pids;
}

// The descriptors of a process that lead to a file with the name of control segments. None if it is gone.
std::vector<int> control_descriptors(std::int32_t pid) {
    const std::string name = fmt::format("/memfd:{}", kControlName);
    std::vector<int> found;
    std::error_code ignored;
    for (fs::directory_iterator at(fmt::format("/proc/{}/fd", pid), ignored), end; at != end; at.increment(ignored)) {
        const std::string target = link_target(at->path().string());
        if (target == name || target == name + " (deleted)") {
            found.push_back(static_cast<int>(parse_number(at->path().filename().string(), 0, INT_MAX).value_or(0)));
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

struct SeenNode {
    std::int32_t node = 0;
    std::string name;
};

// The node that the process is on; nothing: the job is on one. A copy, as whatever is read from the segment: it may be
// another one the next time, and need not have an end.
std::optional<SeenNode> node_of(const ControlSegment& control, std::int32_t process) {
    const Contact* contact = control.shape().n_nodes > 1 ? control.contact(ProcId(process)) : nullptr;
    if (contact == nullptr) {
        return std::nullopt;
    }
    std::array<char, sizeof contact->node_name> name{};
    std::memcpy(name.data(), contact->node_name, name.size());
    return SeenNode{contact->node, std::string(name.data(), strnlen(name.data(), name.size()))};
}

SeenProcess process_of(const ControlSegment& control, std::int32_t process, uid_t user) {
    ProcessSlot& slot = control.slot(ProcId(process));
    SeenProcess seen;
    seen.process = process;
    if (const auto node = node_of(control, process); node && node->node != control.shape().node) {
        seen.node_name = node->name.empty() ? "?" : node->name;
        return seen;
    }
    const ProcessState state = slot.state.load(std::memory_order_acquire);
    if (state == ProcessState::starting) {
        return seen;
    }
    seen.pid = std::atomic_ref(slot.pid).load(std::memory_order_relaxed);
    seen.memory_domain = slot.memory_domain - 1;
    // The pid alone may be another process's by now.
    seen.is_alive = state == ProcessState::ready && process_start_time(seen.pid) == slot.start_time &&
                    stat_of(seen.pid).exists && user_of(seen.pid) == user;
    ProcessStatus status;
    if (slot.status.read(status)) {
        seen.status = status;
    }
    seen.death = FailureReason::from_status(static_cast<std::int32_t>(slot.death.load()));
    seen.death_seen_ns = slot.death_seen_ns.load();
    return seen;
}

// Who started `pid`, up to the oshrun that the user sees.
void find_launcher(std::int32_t pid, SeenJob& job) {
    std::vector<std::int32_t> above;
    std::set<std::int32_t> passed;
    bool is_in_oshrun = false;
    for (ProcStat stat = stat_of(pid); stat.parent > 1 && passed.insert(stat.parent).second;) {
        const std::int32_t parent = stat.parent;
        stat = stat_of(parent);
        const bool is_oshrun = stat.name == "oshrun";  // a guardian, and a front above it
        if (is_in_oshrun && !is_oshrun) {
            break;
        }
        is_in_oshrun = is_oshrun;
        above.push_back(parent);
    }
    if (is_in_oshrun) {
        job.oshrun_pid = above.back();
        job.launcher_pids = above;
    }
}

// Nothing if no process of the job lives any more; what has the segment open then is a child of one.
std::optional<SeenJob> job_of(const ControlSegment& control, std::int32_t pid_that_has_it, uid_t user) {
    SeenJob job;
    job.user = user;
    job.n_pes = control.n_pes();
    job.n_processes = control.n_processes();
    job.n_slots = control.n_slots();
    job.records_begin = control.header().records_begin.load();
    job.n_nodes = std::max(control.shape().n_nodes, 1);
    job.node_names.resize(static_cast<std::size_t>(job.n_nodes));
    for (std::int32_t process = 0; process < control.n_slots(); ++process) {
        SeenProcess seen = process_of(control, process, user);
        // Behind those that the job started with are places of spares that may join.
        if (process < control.n_processes() || seen.pid != 0 || !seen.node_name.empty()) {
            job.processes.push_back(std::move(seen));
        }
        const auto node = node_of(control, process);
        if (!node) {
            continue;
        }
        if (node->node == control.shape().node) {
            job.node_name = node->name;
        }
        if (node->node >= 0 && node->node < job.n_nodes) {
            job.node_names[static_cast<std::size_t>(node->node)] = node->name;
        }
    }
    job.seen_ns = now_ns();
    const auto& all = job.processes;
    const auto living = std::find_if(all.begin(), all.end(), [](const SeenProcess& item) { return item.is_alive; });
    if (living == all.end() && std::any_of(all.begin(), all.end(), [](const auto& item) { return item.pid != 0; })) {
        return std::nullopt;
    }
    if (living != all.end()) {
        job.living_pid = living->pid;
        job.node_file_fd = control.slot(ProcId(living->process)).node_file_fd;
    }
    const std::int32_t pid = living == all.end() ? pid_that_has_it : living->pid;
    job.program = link_target(fmt::format("/proc/{}/exe", pid));
    find_launcher(pid, job);
    return job;
}

}  // namespace

bool is_meant(const SeenJob& job, const std::string& word) {
    if (const auto pid = parse_number(word, 1, INT_MAX)) {
        return std::find(job.launcher_pids.begin(), job.launcher_pids.end(), *pid) != job.launcher_pids.end() ||
               std::any_of(job.processes.begin(), job.processes.end(),
                           [&](const SeenProcess& item) { return item.pid == *pid; });
    }
    return word == job.program || word == fs::path(job.program).filename().string();
}

std::string no_job_line(const std::string& word) {
    return fmt::format(
        "'{}' is no running job of this user on this node: give a pid of its processes or of its oshrun, or the name "
        "of its program",
        word);
}

Sighting find_jobs(WhoseJobs whose) {
    using File = std::pair<dev_t, ino_t>;
    Sighting sighting;
    std::set<File> done;
    for (const std::int32_t pid : processes_of(whose)) {
        for (const int fd : control_descriptors(pid)) {
            struct stat info {};
            if (::stat(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), &info) != 0 ||
                done.contains({info.st_dev, info.st_ino}) || !S_ISREG(info.st_mode) || user_of(pid) != info.st_uid) {
                continue;  // of others: a process may have been given it
            }
            ControlSegment control;
            Result<> read = control.look(pid, fd);
            if (!read && read.error().failure != Failure::gone) {
                ::poll(nullptr, 0, kCreationMs);
                control.detach();
                read = control.look(pid, fd);
            }
            if (!read && read.error().failure == Failure::gone) {
                continue;  // another one may have it
            }
            done.insert({info.st_dev, info.st_ino});
            if (!read) {
                sighting.unreadable.push_back(
                    {pid, fmt::format("the memory file '{}' of process {} {}", kControlName, pid, read.error().line)});
            } else if (auto job = job_of(control, pid, info.st_uid)) {
                sighting.jobs.push_back(std::move(*job));
            }
        }
    }
    return sighting;
}

}  // namespace sft::tools
