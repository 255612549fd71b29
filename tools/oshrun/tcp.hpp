// TCP between the guardian and the agents of other hosts: which address to listen on, listening, connecting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/common/fd.hpp"

namespace sft::tools {

// This host's address, in digits, by which others reach it. interface: the name of the network interface to use; empty:
// that of the address which the host's name stands for, else the first one that is not the loopback, else the loopback.
// Nothing: error_line says why; also because the interface is the loopback, if others are to reach this host.
enum class Reach { other_hosts, perhaps_this_host_only };
[[nodiscard]] std::optional<std::string> own_address(const std::string& interface, Reach reach,
                                                     std::string& error_line);

[[nodiscard]] std::string own_host_name();
// The name by which the launcher knows that host: this one's own for whatever means this host (localhost, one of its
// addresses, another case), else as the system's tables of hosts spell it. Only an address or a name with capitals is
// looked up.
[[nodiscard]] std::string settled_host_name(const std::string& name);
// One per start of a kernel; empty when it does not tell.
[[nodiscard]] std::string boot_id();

// Listens on that address only, on a port that the system chooses. Nothing: error_line says why.
struct Listening {
    Fd fd;
    std::uint16_t port = 0;
};
[[nodiscard]] std::optional<Listening> listen_on(const std::string& address, std::string& error_line);

// REQUIRES: fd is listening. None: nobody waits. from: the peer's address.
[[nodiscard]] Fd accept_from(const Fd& fd, std::string& from);

// Of this end of a connection.
[[nodiscard]] std::string local_address_of(int fd);

// This host's, from which connections to that one (in digits) come; nothing is sent. Empty: there is no way.
[[nodiscard]] std::string local_address_towards(const std::string& address);

// Blocks for at most timeout_ms; the result does not block. None: error_line says why, and errno.
[[nodiscard]] Fd connect_to(const std::string& address, std::uint16_t port, int timeout_ms, std::string& error_line);

}  // namespace sft::tools
