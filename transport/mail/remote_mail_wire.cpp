#include "transport/mail/remote_mail_wire.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/assert.hpp"

namespace sft {

static_assert(sizeof(in_addr) <= sizeof(MailAddress::bytes) && sizeof(in6_addr) == sizeof(MailAddress::bytes));

SocketAddress::SocketAddress(const MailAddress& address) noexcept {
    SFT_ASSERT(address.family == AF_INET || address.family == AF_INET6);
    if (address.family == AF_INET) {
        sockaddr_in four{};
        four.sin_family = AF_INET;
        four.sin_port = htons(address.port);
        std::memcpy(&four.sin_addr, address.bytes.data(), sizeof four.sin_addr);
        std::memcpy(&any, &four, sizeof four);
        bytes = sizeof four;
    } else {
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(address.port);
        six.sin6_scope_id = address.scope;
        std::memcpy(&six.sin6_addr, address.bytes.data(), sizeof six.sin6_addr);
        std::memcpy(&any, &six, sizeof six);
        bytes = sizeof six;
    }
}

int make_tcp_socket(std::uint16_t family) noexcept {
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd >= 0) {
        set_no_delay(fd);
    }
    return fd;
}

int make_datagram_socket(std::uint16_t family) noexcept {
    return socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
}

void set_no_delay(int fd) noexcept {
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

void close_abruptly(int fd) noexcept {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(fd);
}

bool is_connected_to_itself(int fd) noexcept {
    sockaddr_storage own{};
    sockaddr_storage other{};
    socklen_t own_bytes = sizeof own;
    socklen_t other_bytes = sizeof other;
    return getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
           getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_bytes) == 0 && own_bytes == other_bytes &&
           std::memcmp(&own, &other, own_bytes) == 0;
}

}  // namespace sft
