#include "tools/oshrun/launcher_watch.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

namespace sft::tools {
namespace {

constexpr const char* kListens = "0A";  // its queue counts connections, not bytes

std::set<std::string> sockets_of(const std::string& folder) {
    constexpr std::string_view kPrefix = "socket:[";
    std::set<std::string> inodes;
    std::error_code problem;
    for (std::filesystem::directory_iterator item(folder + "/fd", problem), end; !problem && item != end;
         item.increment(problem)) {
        std::error_code is_closed;
        const std::string target = std::filesystem::read_symlink(item->path(), is_closed).string();
        if (target.starts_with(kPrefix)) {
            inodes.insert(target.substr(kPrefix.size(), target.size() - kPrefix.size() - 1));
        }
    }
    return inodes;
}

// A line of /proc/PID/net/tcp: number, local, remote, state, queues ("sent:received"), three more, then the inode.
bool is_waiting(const std::string& line, const std::set<std::string>& inodes) {
    std::istringstream words(line);
    std::array<std::string, 10> fields;
    for (std::string& field : fields) {
        words >> field;
    }
    const std::size_t colon = fields[4].find(':');
    return fields[3] != kListens && colon != std::string::npos && inodes.contains(fields[9]) &&
           std::strtoul(fields[4].c_str() + colon + 1, nullptr, 16) != 0;
}

}  // namespace

bool has_unread_input(pid_t launcher) {
    const std::string folder = "/proc/" + std::to_string(launcher);
    const std::set<std::string> inodes = sockets_of(folder);
    for (const char* table : {"/net/tcp", "/net/tcp6"}) {
        std::ifstream file(folder + table);
        std::string line;
        while (std::getline(file, line)) {
            if (is_waiting(line, inodes)) {
                return true;
            }
        }
    }
    return false;
}

bool are_outputs_open() {
    std::array<pollfd, 2> entries = {{{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0},
                                      {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0}}};
    poll(entries.data(), entries.size(), 0);
    // Errors, too: what cannot be written is thrown away.
    return std::all_of(entries.begin(), entries.end(), [](const pollfd& entry) { return entry.revents != 0; });
}

}  // namespace sft::tools
