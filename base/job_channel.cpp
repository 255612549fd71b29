#include "base/job_channel.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace sft {
namespace {

// A guardian that does not read for that long is as good as gone; its report is lost, the caller goes on.
constexpr timeval kSendTimeout{.tv_sec = 2, .tv_usec = 0};

std::string problem(const std::string& socket_name, const char* what) {
    return "cannot reach oshrun on its socket " + socket_name + " (SHMEM_FT_JOB_SOCKET): " + what;
}

}  // namespace

JobChannel::~JobChannel() { close(); }

Result<> JobChannel::connect(const std::string& socket_name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // An abstract name: a zero byte, then the name without a terminator.
    if (socket_name.empty() || socket_name.size() + 1 > sizeof address.sun_path) {
        return fails(problem(socket_name, "not a name that a socket can have"));
    }
    std::memcpy(address.sun_path + 1, socket_name.data(), socket_name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socket_name.size());

    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fails(problem(socket_name, strerrordesc_np(errno)));
    }
    int result;
    do {
        result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), length);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        const int number = errno;
        ::close(fd);
        return fails(problem(socket_name, strerrordesc_np(number)), number);
    }
    // Abstract names are open to everybody on the machine: somebody else's process could have taken this one.
    ucred guardian{};
    socklen_t bytes = sizeof guardian;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &guardian, &bytes) != 0 || guardian.uid != geteuid()) {
        ::close(fd);
        return fails(problem(socket_name, "it belongs to another user"));
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
    close();
    fd_ = fd;
    return {};
}

void JobChannel::report(JobEvent event) noexcept {
    if (fd_ < 0) {
        return;
    }
    event.rank = rank_;
    event.pid = getpid();
    event.text[sizeof event.text - 1] = '\0';
    while (send(fd_, &event, sizeof event, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

bool JobChannel::await_answer() noexcept {
    char byte = 0;
    ssize_t bytes;
    do {
        bytes = recv(fd_, &byte, sizeof byte, 0);
    } while (bytes < 0 && errno == EINTR);
    return bytes > 0;
}

bool JobChannel::await_answer(int& descriptor) noexcept {
    descriptor = -1;
    char byte = 0;
    iovec content{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t bytes;
    do {
        bytes = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
    } while (bytes < 0 && errno == EINTR);
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (bytes == 1 && header != nullptr && header->cmsg_type == SCM_RIGHTS) {
        std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    }
    return bytes == 1;
}

bool JobChannel::exchange(JobEvent& event) noexcept {
    report(event);
    JobEvent answer;
    ssize_t bytes;
    do {
        bytes = recv(fd_, &answer, sizeof answer, 0);
    } while (bytes < 0 && errno == EINTR);
    if (bytes != sizeof answer || answer.kind != event.kind) {
        return false;
    }
    event = answer;
    return true;
}

void JobChannel::close() noexcept {
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

std::string file_identity(int descriptor) {
    struct stat info {};
    if (::fstat(descriptor, &info) != 0) {
        return {};
    }
    return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

}  // namespace sft
