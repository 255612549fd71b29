// What both sides of remote_mail.hpp need: greetings and sockets.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "transport/contact.hpp"

namespace sft {

// Of a hello and a welcome. Both are of one build: the layout of memory is the form on the wire.
struct Greeting {
    std::uint32_t magic = 0x53465452;  // "SFTR"
    std::uint32_t layout = 1;
    std::int32_t from = -1;
    std::int32_t to = -1;
    std::uint64_t secret = 0;
};
static_assert(sizeof(Greeting) == 24 && std::is_trivially_copyable_v<Greeting>);
static_assert(std::has_unique_object_representations_v<Greeting>);
static_assert(offsetof(Greeting, from) == 8 && offsetof(Greeting, secret) == 16);

// Nothing: it is not of this job. The secret is one word, so comparing it takes one time whatever it is.
[[nodiscard]] inline std::optional<Greeting> read_greeting(std::span<const std::byte> bytes,
                                                           std::uint64_t secret) noexcept {
    Greeting greeting;
    if (bytes.size() != sizeof greeting) {
        return std::nullopt;
    }
    std::memcpy(&greeting, bytes.data(), sizeof greeting);
    const bool is_ours = greeting.magic == Greeting{}.magic && greeting.layout == Greeting{}.layout &&
                         (greeting.secret ^ secret) == 0 && greeting.from >= 0;
    return is_ours ? std::optional(greeting) : std::nullopt;
}

struct SocketAddress {
    sockaddr_storage any{};
    socklen_t bytes = 0;

    explicit SocketAddress(const MailAddress& address) noexcept;
    [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&any); }
};

[[nodiscard]] int make_tcp_socket(std::uint16_t family) noexcept;
[[nodiscard]] int make_datagram_socket(std::uint16_t family) noexcept;
void set_no_delay(int fd) noexcept;
// The other side's kernel is told that the connection is broken.
void close_abruptly(int fd) noexcept;
[[nodiscard]] bool is_connected_to_itself(int fd) noexcept;

}  // namespace sft
