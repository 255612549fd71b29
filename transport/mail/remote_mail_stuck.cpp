// What does not get through: connections that the other side's kernel does not answer any more.

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/assert.hpp"
#include "transport/mail/remote_mail.hpp"

namespace sft {
namespace {

// Repetitions without an answer of the other side's kernel, after which the link must have been away.
constexpr int kRepetitionsMax = 2;

}  // namespace

std::size_t RemoteMail::n_waiting() const noexcept {
    std::size_t n = 0;
    for (const auto& [process, peer] : peers_) {
        n += peer.is_given_up ? 0 : peer.waiting.size();
    }
    return n;
}

void RemoteMail::note_moved(Peer& peer) noexcept {
    ++peer.n_moved;
    peer.n_failed = 0;
}

// The other side's kernel has not answered for a while.
bool RemoteMail::is_cut_off(Peer& peer) noexcept {
    SFT_ASSERT(peer.stream.fd() >= 0);
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (getsockopt(peer.stream.fd(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        info.tcpi_retransmits < kRepetitionsMax) {
        return false;
    }
    if (info.tcpi_bytes_acked > peer.hello_bytes + 1) {  // the beginning of a connection counts as one
        note_moved(peer);
    } else {
        ++peer.n_failed;
    }
    return true;
}

std::vector<RemoteMail::Stuck> RemoteMail::stuck() const {
    std::vector<Stuck> found;
    for (const auto& [number, peer] : peers_) {
        if (peer.n_failed != 0 && !peer.waiting.empty() && !peer.is_given_up && peer.state != PeerState::gone) {
            found.push_back({ProcId(number), peer.n_moved, peer.n_failed});
        }
    }
    return found;
}

}  // namespace sft
