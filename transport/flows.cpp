#include "transport/flows.hpp"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <optional>

namespace sft {
namespace {

static_assert(offsetof(sockaddr_in, sin_port) == sizeof(sa_family_t) &&
              offsetof(sockaddr_in6, sin6_port) == sizeof(sa_family_t));

// At the same place for both versions of the protocol.
std::uint16_t port_of(const sockaddr_storage& any) {
    std::uint16_t port = 0;
    std::memcpy(&port, reinterpret_cast<const char*>(&any) + sizeof(sa_family_t), sizeof port);
    return port;
}

std::optional<TcpFlow> flow_of(int fd) {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    sockaddr_storage own{};
    sockaddr_storage other{};
    socklen_t own_bytes = sizeof own;
    socklen_t other_bytes = sizeof other;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        ::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_bytes) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0) {
        return std::nullopt;
    }
    TcpFlow flow;
    flow.peer = mail_address_of(reinterpret_cast<const sockaddr*>(&other));
    flow.ports = (static_cast<std::uint64_t>(port_of(own)) << 16) | port_of(other);
    flow.acked_bytes = info.tcpi_bytes_acked;
    flow.n_unacked = info.tcpi_unacked;
    flow.n_repeated = info.tcpi_retransmits;
    flow.segment_bytes = info.tcpi_snd_mss;
    flow.sent_bytes = info.tcpi_bytes_sent;
    flow.repeated_bytes = info.tcpi_bytes_retrans;
    return flow;
}

}  // namespace

std::vector<TcpFlow> own_tcp_flows() {
    std::vector<TcpFlow> flows;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
    while (folder != nullptr) {
        const dirent* entry = ::readdir(folder.get());
        if (entry == nullptr) {
            break;
        }
        if (entry->d_name[0] == '.') {
            continue;
        }
        const auto flow = flow_of(static_cast<int>(std::strtol(entry->d_name, nullptr, 10)));
        if (flow && flow->peer.is_set()) {
            flows.push_back(*flow);
        }
    }
    return flows;
}

}  // namespace sft
