// How death is seen where connections are signed.
//
// A kernel that refuses a connection to a port that nobody listens on has no key to sign the refusal with, so whoever
// asked with a signature does not hear it. So beside each attempt goes a knock, without a signature: a port that is
// open leaves it unanswered, one that is closed refuses it. Should anybody else have the port by now, he lets the knock
// in: a process of the job would not.

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/assert.hpp"
#include "transport/mail/remote_mail.hpp"
#include "transport/mail/remote_mail_wire.hpp"
#include "transport/net/signed_ways.hpp"

namespace sft {

// Before bind or connect. Nothing is left of a socket that cannot be signed.
int RemoteMail::make_socket(std::uint16_t family) const noexcept {
    const int fd = make_tcp_socket(family);
    if (fd < 0 || !options_.is_signed || sign_listener(fd, options_.secret)) {
        return fd;
    }
    const int error_number = errno;
    ::close(fd);
    errno = error_number;
    return -1;
}

// True: refused at once.
bool RemoteMail::knock(ProcId process, Peer& peer, const MailAddress& address) {
    stop_knocking(peer);
    const int fd = options_.is_signed ? make_tcp_socket(address.family) : -1;
    if (fd < 0) {
        return false;  // the next attempt knocks again
    }
    const SocketAddress to(address);
    if (::connect(fd, to.get(), to.bytes) != 0 && errno != EINPROGRESS) {
        const bool is_refused = errno == ECONNREFUSED;
        ::close(fd);
        return is_refused;
    }
    SFT_ASSERT(peer.knock_fd < 0);
    peer.knock_fd = fd;
    watch(EPOLL_CTL_ADD, fd, EPOLLOUT, Source::knock, static_cast<std::uint32_t>(process.value()));
    return false;
}

void RemoteMail::take_knock(ProcId process, Peer& peer) {
    SFT_ASSERT(options_.is_signed && peer.knock_fd >= 0);
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(peer.knock_fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    stop_knocking(peer);
    if (error == 0 || error == ECONNREFUSED) {
        found_gone(process, peer);
    }
}

void RemoteMail::stop_knocking(Peer& peer) noexcept {
    if (peer.knock_fd >= 0) {
        epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, peer.knock_fd, nullptr);
        close_abruptly(peer.knock_fd);
        peer.knock_fd = -1;
    }
}

}  // namespace sft
