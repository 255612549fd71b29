// A process that speaks to a mailbox without being one: sockets and frames by hand, so that they can be wrong.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/report.hpp"
#include "transport/mail/mailbox.hpp"

namespace sft {

struct RawFrame {
    std::uint32_t magic = 0x5346544d;
    std::uint32_t layout = 1;
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::uint64_t secret = 0;

    [[nodiscard]] std::vector<std::byte> bytes() const {
        std::vector<std::byte> all(sizeof *this);
        std::memcpy(all.data(), this, sizeof *this);
        return all;
    }
};

inline std::string raw_name(const MailToken& token, std::int32_t process) {
    return format("shmem-ft-mail-%016llx-%d", static_cast<unsigned long long>(token.name), process);
}

class RawPeer {
public:
    explicit RawPeer(const std::string& name) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0) << strerrordesc_np(errno);
        const int room = 1 << 20;
        setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    }
    ~RawPeer() { close(fd_); }
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;

    void send(const std::vector<std::byte>& frame) const {
        EXPECT_EQ(::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
    }
    [[nodiscard]] bool is_closed() const {
        char byte;
        const ssize_t bytes = recv(fd_, &byte, 1, MSG_DONTWAIT);
        return bytes == 0 || (bytes < 0 && errno == ECONNRESET);
    }

private:
    int fd_;
};

}  // namespace sft
