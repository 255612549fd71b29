// Breaks the connections of this process, as a firewall, a driver or a reset from outside would.
#pragma once

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>

namespace sft {

// Of all connections over TCP, each if `is_chosen()` says so. How many.
template <class Choice>
int cut_connections(Choice&& is_chosen) {
    int n = 0;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
    while (const dirent* entry = folder == nullptr ? nullptr : ::readdir(folder.get())) {
        const int fd = static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
        sockaddr_storage other{};
        socklen_t bytes = sizeof other;
        if (entry->d_name[0] != '.' && ::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &bytes) == 0 &&
            (other.ss_family == AF_INET || other.ss_family == AF_INET6) && is_chosen() &&
            ::shutdown(fd, SHUT_RDWR) == 0) {
            ++n;
        }
    }
    return n;
}

}  // namespace sft
