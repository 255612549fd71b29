#include "tools/oshrun/job_socket.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace sft::tools {

Result<std::uint64_t> JobSocket::draw_number() {
    std::uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) {
        return fails(fmt::format("no random numbers: {}", strerrordesc_np(errno)));
    }
    return number;
}

std::string JobSocket::name_of(std::int32_t guardian, std::uint64_t number) {
    return fmt::format("shmem-ft-{}-{:016x}", guardian, number);
}

Result<> JobSocket::open_as(const std::string& name) {
    name_ = name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    fd_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_ || bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        listen(fd_.get(), SOMAXCONN) != 0) {
        const int number = errno;
        fd_.reset();
        return fails(fmt::format("cannot listen on a socket: {}", strerrordesc_np(number)), number);
    }
    return {};
}

std::optional<JobSocket::Peer> JobSocket::accept() {
    while (true) {
        Fd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            return std::nullopt;
        }
        ucred credentials{};
        socklen_t bytes = sizeof credentials;
        if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 && credentials.uid == geteuid()) {
            return Peer{std::move(fd), credentials.pid};
        }
    }
}

JobSocket::Received JobSocket::receive(const Peer& peer, JobEvent& event) {
    JobEvent received;
    ssize_t bytes;
    do {
        bytes = recv(peer.fd.get(), &received, sizeof received, MSG_DONTWAIT | MSG_TRUNC);
    } while (bytes < 0 && errno == EINTR);
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return Received::nothing;
    }
    if (bytes <= 0) {
        return Received::closed;
    }
    const JobEvent expected;
    if (bytes != sizeof received || received.magic != expected.magic || received.layout != expected.layout) {
        return Received::foreign;
    }
    received.pid = peer.pid;
    event = received;
    return Received::event;
}

void JobSocket::answer(const Peer& peer, int descriptor) {
    char byte = 1;
    iovec content{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    // A peer that is gone needs no answer.
    [[maybe_unused]] const ssize_t sent = sendmsg(peer.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

JobEvent version_complaint(const std::string& program, std::int32_t pid) {
    JobEvent complaint;
    complaint.kind = JobEventKind::unrecoverable;
    complaint.rank = 0;
    complaint.pid = pid;
    fmt::format_to_n(complaint.text, sizeof complaint.text - 1,
                     "{} is linked with a library of another version than this oshrun: link it again", program);
    return complaint;
}

}  // namespace sft::tools
