// Who may connect to UCX's listening sockets.
//
// UCX's TCP transport carries out what anybody asks for who has connected, the writing of any bytes to any address
// included, and no setting of UCX's stops that. So whoever does not run on a node of the job must not get a connection:
// the kernel drops the first packet of strangers, by a filter that is attached to the sockets. UCX does not tell which
// ones these are; they are found among the descriptors of the process.
//
// What this does not stop: programs that run on another node of the job (of another user, where nodes are shared), and
// who is able to send and receive packets with the address of such a node.
//
// An address is a sequence of bytes here, 4 or 16 as on the wire. Threads: one at a time.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "shmem_ft/transport/fabric.hpp"

namespace sft {

using HostAddress = std::vector<std::byte>;

// Of this machine's interfaces, the loopback left out; `own` (numeric, may be empty) first. At most kHostAddressesMax.
inline constexpr std::size_t kHostAddressesMax = 12;
[[nodiscard]] std::vector<HostAddress> host_addresses(const std::string& own);

// Behind one another, in front of what else there is; unpack() takes them off and drops what is no address.
[[nodiscard]] std::vector<std::byte> packed(const std::vector<HostAddress>& addresses);
[[nodiscard]] std::vector<HostAddress> unpack(Bytes& bytes);

// What the sockets do with a packet: it is good unless it asks for a connection and comes from somebody else. Of so
// many addresses that a filter cannot hold them, those between two neighbours are let in as well.
[[nodiscard]] std::vector<sock_filter> filter_for(std::vector<HostAddress> addresses);

class UcxDoors {
public:
    // Before UCX opens its sockets.
    UcxDoors();
    // The sockets of UCX are those that have come since, listen, and have a port that occurs in its address.
    void find(Bytes ucx_address);

    [[nodiscard]] bool empty() const noexcept { return sockets_.empty(); }
    // From now on these only. Connections that are there stay. False: the system refuses the filter.
    [[nodiscard]] bool admit(std::vector<HostAddress> addresses) noexcept;

private:
    std::vector<int> before_;   // that listened
    std::vector<int> sockets_;  // UCX's, which closes them
};

}  // namespace sft
