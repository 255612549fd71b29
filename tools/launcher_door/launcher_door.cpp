// Open MPI's launcher and its daemons listen at all interfaces of their hosts, whatever they are told; where a stranger
// connects and keeps silent, the output of a job is lost. oshrun has the dynamic linker load this into them
// (LD_PRELOAD): a TCP socket for all addresses is bound to the one address by which the hosts of the job reach this one
// (launcher_door.hpp).
//
// No program of the job is touched: the variables are as they were before anything else of the process runs.
#include "tools/oshrun/launcher_door.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

// At most one of them; none: nothing is changed.
struct Door {
    bool is_v4 = false;
    bool is_v6 = false;
    in_addr v4{};
    in6_addr v6{};
};
Door door;

__attribute__((constructor)) void read_environment() {
    if (const char* address = std::getenv(sft::tools::kDoorVariable)) {
        door.is_v4 = inet_pton(AF_INET, address, &door.v4) == 1;
        door.is_v6 = !door.is_v4 && inet_pton(AF_INET6, address, &door.v6) == 1;
    }
    const char* before = std::getenv(sft::tools::kPreloadBeforeVariable);
    if (before != nullptr) {
        setenv("LD_PRELOAD", before, 1);
    } else {
        unsetenv("LD_PRELOAD");
    }
    unsetenv(sft::tools::kDoorVariable);
    unsetenv(sft::tools::kPreloadBeforeVariable);
}

bool is_stream(int fd) {
    int type = 0;
    socklen_t bytes = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

bool is_for_all(const sockaddr_in& address) { return address.sin_addr.s_addr == htonl(INADDR_ANY); }
bool is_for_all(const sockaddr_in6& address) { return IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr); }

// Of the other protocol version nobody needs a door: the loopback is as good as none.
void narrow(sockaddr_in& address) { address.sin_addr.s_addr = door.is_v4 ? door.v4.s_addr : htonl(INADDR_LOOPBACK); }
void narrow(sockaddr_in6& address) { address.sin6_addr = door.is_v6 ? door.v6 : in6addr_loopback; }

using Bind = int (*)(int, const sockaddr*, socklen_t);

template <typename Address>
int bind_narrowed(Bind bind, int fd, const sockaddr* any, socklen_t bytes) {
    if (bytes < sizeof(Address)) {
        return bind(fd, any, bytes);
    }
    Address address{};
    std::memcpy(&address, any, sizeof address);
    if (is_for_all(address)) {
        narrow(address);
    }
    return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int bind(int fd, const sockaddr* any, socklen_t bytes) noexcept {
    static const auto real = reinterpret_cast<Bind>(dlsym(RTLD_NEXT, "bind"));
    if (real == nullptr) {
        errno = ENOSYS;
        return -1;
    }
    if ((!door.is_v4 && !door.is_v6) || any == nullptr || bytes < sizeof(sa_family_t) || !is_stream(fd)) {
        return real(fd, any, bytes);
    }
    switch (any->sa_family) {
        case AF_INET: return bind_narrowed<sockaddr_in>(real, fd, any, bytes);
        case AF_INET6: return bind_narrowed<sockaddr_in6>(real, fd, any, bytes);
        default: return real(fd, any, bytes);
    }
}
