#include "tools/oshrun/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>

#include "base/clock.hpp"
#include "base/process_watch.hpp"
#include "tools/common/fd.hpp"

namespace sft::tools {
namespace {

struct Entry {
    ProcessName name;
    std::int32_t parent = 0;
    char state = '?';

    [[nodiscard]] bool is_zombie() const { return state == 'Z' || state == 'X'; }
};

// Fields 3 (state), 4 (parent) and 22 (start time) of /proc/PID/stat; the name before them may contain anything.
bool read_entry(std::int32_t pid, Entry& entry) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
    std::array<char, 2048> text{};
    if (!fd || read(fd.get(), text.data(), text.size() - 1) <= 0) {
        return false;
    }
    const char* bracket = std::strrchr(text.data(), ')');
    if (bracket == nullptr) {
        return false;
    }
    char state = '?';
    int parent = 0;
    unsigned long long start_time = 0;
    const int fields =
        std::sscanf(bracket + 1, " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                    &state, &parent, &start_time);
    if (fields != 3) {
        return false;
    }
    entry = {{pid, start_time}, parent, state};
    return true;
}

// Not /proc/PID/task/TID/children: many kernels are built without it.
std::multimap<std::int32_t, Entry> children_of_all() {
    std::multimap<std::int32_t, Entry> children;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
    if (!folder) {
        return children;
    }
    while (const dirent* item = readdir(folder.get())) {
        const std::string_view name = item->d_name;
        std::int32_t pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        Entry entry;
        if (error == std::errc{} && end == name.data() + name.size() && read_entry(pid, entry)) {
            children.emplace(entry.parent, entry);
        }
    }
    return children;
}

void reap(const std::set<ProcessName>& spared) {
    // Not waitpid(-1): the spared ones are somebody else's to wait for.
    for (const auto& [parent, entry] : children_of_all()) {
        if (parent == getpid() && entry.is_zombie() && !spared.contains(entry.name)) {
            waitpid(entry.name.pid, nullptr, WNOHANG);
        }
    }
}

void nap() {
    constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 10'000'000};
    nanosleep(&kNap, nullptr);
}

}  // namespace

std::vector<ProcessName> descendants_of(std::int32_t root, const std::set<ProcessName>& spared) {
    const auto children = children_of_all();
    std::vector<ProcessName> found;
    std::vector<std::int32_t> parents = {root};
    for (std::size_t i = 0; i < parents.size(); ++i) {
        const auto [begin, end] = children.equal_range(parents[i]);
        for (auto item = begin; item != end; ++item) {
            const Entry& entry = item->second;
            if (spared.contains(entry.name)) {
                continue;
            }
            parents.push_back(entry.name.pid);
            if (!entry.is_zombie()) {
                found.push_back(entry.name);
            }
        }
    }
    return found;
}

std::set<ProcessName> processes_with_variable(const std::string& variable) {
    std::set<ProcessName> found;
    const std::string framed = std::string(1, '\0') + variable + '\0';
    for (const auto& [parent, entry] : children_of_all()) {
        if (entry.is_zombie() || entry.name.pid == getpid()) {
            continue;
        }
        std::ifstream file("/proc/" + std::to_string(entry.name.pid) + "/environ", std::ios::binary);
        std::string environment(1, '\0');
        environment.append(std::istreambuf_iterator<char>(file), {});
        if (environment.find(framed) != std::string::npos) {
            found.insert(entry.name);
        }
    }
    return found;
}

ProcessName parent_of(std::int32_t pid) {
    Entry entry;
    Entry parent;
    return read_entry(pid, entry) && read_entry(entry.parent, parent) ? parent.name : ProcessName{};
}

std::string command_name(std::int32_t pid) {
    std::string name;
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::getline(file, name);
    return name;
}

std::uint64_t bytes_moved_by(std::int32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/io");
    std::string name;
    std::uint64_t value = 0;
    std::uint64_t sum = 0;
    while (file >> name >> value) {
        sum += name == "rchar:" || name == "wchar:" ? value : 0;
    }
    return sum;
}

bool is_stopped(std::int32_t pid) {
    Entry entry;
    return read_entry(pid, entry) && (entry.state == 'T' || entry.state == 't');
}

bool send_signal(const ProcessName& process, int signal) {
    const Fd pidfd(open_process(process.pid, process.start_time).fd);
    return pidfd && syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

void wait_for_any_end(const std::set<ProcessName>& processes, int timeout_ms) {
    constexpr int kUnwatchedMs = 50;  // until the next look, if one of them cannot be watched
    std::vector<Fd> pidfds;
    std::vector<pollfd> entries;
    for (const ProcessName& process : processes) {
        const Opening opening = open_process(process.pid, process.start_time);
        if (opening.reach == Reach::gone) {
            return;
        }
        if (opening.reach == Reach::cannot_be_opened) {
            timeout_ms = std::min(timeout_ms, kUnwatchedMs);
            continue;
        }
        pidfds.emplace_back(opening.fd);
        entries.push_back({.fd = pidfds.back().get(), .events = POLLIN, .revents = 0});
    }
    poll(entries.data(), entries.size(), timeout_ms);
}

void end_descendants(const EndTreeOptions& options) {
    // A process that the kernel does not let go (a broken file system) must not keep us for ever.
    constexpr std::int64_t kStuckAfter_ns = 5'000'000'000;
    const std::int64_t start_ns = now_ns();
    std::set<ProcessName> asked;
    while (true) {
        reap(options.spared);
        const std::vector<ProcessName> living = descendants_of(getpid(), options.spared);
        const std::int64_t waited_ns = now_ns() - start_ns;
        if (living.empty() || waited_ns > options.patience_ns + kStuckAfter_ns) {
            reap(options.spared);
            return;
        }
        // New ones may appear between two looks, so each look signals all that are there.
        for (const ProcessName& process : living) {
            if (waited_ns >= options.patience_ns) {
                send_signal(process, SIGKILL);
            } else if (asked.insert(process).second) {
                send_signal(process, SIGTERM);
                send_signal(process, SIGCONT);  // a stopped process would not see the other one
            }
        }
        nap();
    }
}

}  // namespace sft::tools
