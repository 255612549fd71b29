// Who may connect to the listening sockets of a communication library.
//
// UCX's TCP transport carries out what anybody asks for who has connected, the writing of any bytes to any address
// included; libfabric's keeps descriptors and memory for everybody who has connected, for as long as he likes. No
// setting of theirs stops that. So whoever does not run on a node of the job must not get a connection: the kernel
// drops the first packet of strangers, by a filter that is attached to the sockets. The libraries do not tell which
// ones these are; they are found among the descriptors of the process. The port for control messages (mail/) has the
// filter, too.
//
// What this does not stop: programs that run on another node of the job (of another user, where nodes are shared), and
// who is able to send and receive packets with the address of such a node. Signatures do (signed_ways.hpp).
//
// An address is a sequence of bytes here, 4 or 16 as on the wire. Threads: one at a time.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/fabric.hpp"

namespace sft {

using HostAddress = std::vector<std::byte>;

// Of this machine's interfaces, the loopback left out; `own` (numeric, may be empty) first. At most kHostAddressesMax.
inline constexpr std::size_t kHostAddressesMax = 12;
[[nodiscard]] std::vector<HostAddress> host_addresses(const std::string& own);

// What a fabric puts in front of its address: from where its process connects to others, and where it listens.
struct Entrance {
    std::vector<HostAddress> hosts;
    std::vector<std::uint16_t> ports;  // host byte order
    friend bool operator==(const Entrance&, const Entrance&) = default;
};
// unpack() takes it off and drops what is no address.
[[nodiscard]] std::vector<std::byte> packed(const Entrance& entrance);
[[nodiscard]] Entrance unpack(Bytes& bytes);

// What a socket drops that comes from somebody else. Of TCP only the packet that asks for a connection: what is
// connected stays so.
enum class Filtered { connections, packets };
// Of so many addresses that a filter cannot hold them, those between two neighbours are let in as well.
[[nodiscard]] std::vector<sock_filter> filter_for(std::vector<HostAddress> addresses,
                                                  Filtered what = Filtered::connections);

// False: the system refuses the filter.
[[nodiscard]] bool attach_filter(int fd, const std::vector<sock_filter>& program) noexcept;

class Listeners {
public:
    // Before the library opens its sockets.
    Listeners();
    // Its sockets are those that have come since, listen, and have a port that occurs in its address.
    void find(Bytes address);

    [[nodiscard]] bool empty() const noexcept { return sockets_.empty(); }
    // From now on these only. Connections that are there stay. False: the system refuses the filter.
    [[nodiscard]] bool admit(std::vector<HostAddress> addresses) noexcept;
    // From now on only who signs with this key. False: there is no listener, or the kernel cannot do it.
    [[nodiscard]] bool sign(std::uint64_t key) noexcept;
    [[nodiscard]] std::vector<std::uint16_t> ports() const;

private:
    std::vector<int> before_;   // that listened
    std::vector<int> sockets_;  // the library's, which closes them
};

}  // namespace sft
