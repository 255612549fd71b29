// Connections whose every packet is signed with a key of the job (TCP-MD5, RFC 2385, which the kernel does).
//
// A filter on addresses (listeners.hpp) lets in everybody who runs on a node of the job, other users' programs
// included, and a library like UCX, or libfabric, does not know whom it talks to. So the listening sockets of the
// library get a key: the kernel drops every packet without a right signature, the very first one too, and copies of
// recorded ones, since addresses, ports and sequence numbers are signed as well. Nothing of a stranger ever reaches the
// library, and nothing of it binds memory or descriptors.
//
// Who connects must have told the kernel the key before it does. The libraries have no way to be told so, and a program
// may use the same library for other things. So their calls of connect() are led through this file (their table of
// imported functions is changed), which gives the key to sockets that are about to connect to a listener of the job and
// leaves all others alone.
//
// What it costs: all data goes through MD5 on both sides, and cannot be cut into packets by the network card. A process
// whose port is closed cannot refuse a signed connection (its kernel has no key to sign that with), so attempts end
// with a time-out. Translated addresses do not work.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/net/listeners.hpp"

namespace sft {

// Of a socket that listens or will, or that is about to connect. False, and errno: the kernel cannot do it.
[[nodiscard]] bool sign_listener(int fd, std::uint64_t key) noexcept;
// Whether this kernel can.
[[nodiscard]] bool can_sign() noexcept;

// From now on, connections of these libraries (the beginnings of their file names) to listeners that have been made
// known are signed. False: none of them is loaded, or none calls connect(). Again: nothing happens.
[[nodiscard]] bool sign_connections_of(std::span<const char* const> libraries, std::uint64_t key) noexcept;
void sign_ways_to(const std::vector<HostAddress>& hosts, const std::vector<std::uint16_t>& ports);

}  // namespace sft
