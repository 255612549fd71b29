#include "tools/oshrun/tcp.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace sft::tools {
namespace {

struct InterfaceAddress {
    std::string interface;
    std::string address;
    bool is_loopback = false;
    bool is_v4 = false;
};

std::string digits_of(const sockaddr* address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
    } else if (address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text.data(), text.size());
    }
    return text.data();
}

// Without link-local ones, which mean something only together with an interface.
bool is_usable(const sockaddr* address) {
    return address->sa_family == AF_INET ||
           (address->sa_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr));
}

std::vector<InterfaceAddress> all_addresses() {
    ifaddrs* list = nullptr;
    std::vector<InterfaceAddress> found;
    if (getifaddrs(&list) != 0) {
        return found;
    }
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
    for (const bool wants_v4 : {true, false}) {
        for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
            if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0 || !is_usable(item->ifa_addr) ||
                (item->ifa_addr->sa_family == AF_INET) != wants_v4) {
                continue;
            }
            found.push_back(
                {item->ifa_name, digits_of(item->ifa_addr), (item->ifa_flags & IFF_LOOPBACK) != 0, wants_v4});
        }
    }
    return found;
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList look_up(const std::string& name, const char* port, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo* list = nullptr;
    if (getaddrinfo(name.c_str(), port, &hints, &list) != 0) {
        list = nullptr;
    }
    return {list, freeaddrinfo};
}

// The name by which the host with that address is known, if that name leads back to it. A launcher takes an address and
// a name of one host for two hosts, and its daemon tells the name.
std::optional<std::string> name_of_address(const addrinfo& digits, const std::string& address) {
    std::array<char, NI_MAXHOST> name{};
    if (getnameinfo(digits.ai_addr, digits.ai_addrlen, name.data(), name.size(), nullptr, 0, NI_NAMEREQD) != 0) {
        return std::nullopt;
    }
    const AddressList there = look_up(name.data(), nullptr, 0);
    for (const addrinfo* item = there.get(); item != nullptr; item = item->ai_next) {
        if (digits_of(item->ai_addr) == address) {
            return name.data();
        }
    }
    return std::nullopt;
}

void set_up(const Fd& fd) {
    const int one = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

}  // namespace

std::string own_host_name() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

std::string settled_host_name(const std::string& name) {
    const auto is_like = [&](const std::string& other) { return strcasecmp(name.c_str(), other.c_str()) == 0; };
    const std::string own = own_host_name();
    if (is_like(own) || is_like(own.substr(0, own.find('.'))) || is_like("localhost")) {
        return own;
    }
    if (const AddressList digits = look_up(name, nullptr, AI_NUMERICHOST)) {
        const std::string address = digits_of(digits->ai_addr);
        const std::vector<InterfaceAddress> addresses = all_addresses();
        const bool is_own =
            address.starts_with("127.") ||
            std::any_of(addresses.begin(), addresses.end(), [&](const auto& item) { return item.address == address; });
        return is_own ? own : name_of_address(*digits, address).value_or(name);
    }
    const bool has_capitals =
        std::any_of(name.begin(), name.end(), [](char letter) { return letter >= 'A' && letter <= 'Z'; });
    if (has_capitals) {
        const AddressList known = look_up(name, nullptr, AI_CANONNAME);
        // An alias of another name stays what the user has called it.
        if (known && known->ai_canonname != nullptr && is_like(known->ai_canonname)) {
            return known->ai_canonname;
        }
    }
    return name;
}

std::string boot_id() {
    std::string text;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    return text;
}

std::optional<std::string> own_address(const std::string& interface, Reach reach, std::string& error_line) {
    const bool may_be_loopback = reach == Reach::perhaps_this_host_only;
    const std::vector<InterfaceAddress> addresses = all_addresses();
    if (!interface.empty()) {
        for (const InterfaceAddress& item : addresses) {
            if (item.interface == interface && item.is_loopback && !may_be_loopback) {
                error_line = fmt::format(
                    "SHMEM_FT_INTERFACE={}: the loopback interface leads to no other host, and the job is on several: "
                    "name one that does",
                    interface);
                return std::nullopt;
            }
            if (item.interface == interface) {
                return item.address;
            }
        }
        error_line =
            fmt::format("SHMEM_FT_INTERFACE={}: no such network interface here, or it has no address", interface);
        return std::nullopt;
    }
    const AddressList named = look_up(own_host_name(), nullptr, 0);
    for (const addrinfo* entry = named.get(); entry != nullptr; entry = entry->ai_next) {
        const std::string digits = digits_of(entry->ai_addr);
        for (const InterfaceAddress& item : addresses) {
            if (item.address == digits && !item.is_loopback) {
                return digits;
            }
        }
    }
    for (const bool wants_loopback : {false, true}) {
        for (const InterfaceAddress& item : addresses) {
            if (item.is_loopback == wants_loopback) {
                return item.address;
            }
        }
    }
    error_line = "this host has no network address (the loopback interface is not up either)";
    return std::nullopt;
}

std::string local_address_of(int fd) {
    sockaddr_storage own{};
    socklen_t bytes = sizeof own;
    getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes);
    return digits_of(reinterpret_cast<const sockaddr*>(&own));
}

std::string local_address_towards(const std::string& address) {
    const AddressList list = look_up(address, "9", AI_NUMERICHOST | AI_NUMERICSERV);
    if (!list) {
        return {};
    }
    const Fd fd(socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const bool is_connected = fd && connect(fd.get(), list->ai_addr, list->ai_addrlen) == 0;
    return is_connected ? local_address_of(fd.get()) : "";
}

std::optional<Listening> listen_on(const std::string& address, std::string& error_line) {
    const AddressList list = look_up(address, "0", AI_NUMERICHOST | AI_PASSIVE);
    if (list) {
        Listening result;
        result.fd = Fd(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        sockaddr_storage own{};
        socklen_t bytes = sizeof own;
        if (result.fd && bind(result.fd.get(), list->ai_addr, list->ai_addrlen) == 0 &&
            listen(result.fd.get(), SOMAXCONN) == 0 &&
            getsockname(result.fd.get(), reinterpret_cast<sockaddr*>(&own), &bytes) == 0) {
            const auto port = own.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&own)->sin_port
                                                       : reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port;
            result.port = ntohs(port);
            return result;
        }
    }
    error_line = fmt::format("cannot listen on {}: {}", address, strerrordesc_np(errno));
    return std::nullopt;
}

Fd accept_from(const Fd& fd, std::string& from) {
    while (true) {
        sockaddr_storage peer{};
        socklen_t bytes = sizeof peer;
        Fd connection(accept4(fd.get(), reinterpret_cast<sockaddr*>(&peer), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (connection || (errno != EINTR && errno != ECONNABORTED)) {
            if (connection) {
                from = digits_of(reinterpret_cast<const sockaddr*>(&peer));
                set_up(connection);
            }
            return connection;
        }
    }
}

Fd connect_to(const std::string& address, std::uint16_t port, int timeout_ms, std::string& error_line) {
    const AddressList list = look_up(address, std::to_string(port).c_str(), AI_NUMERICHOST);
    int error_number = EINVAL;
    if (list) {
        Fd fd(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        error_number = fd && connect(fd.get(), list->ai_addr, list->ai_addrlen) == 0 ? 0 : errno;
        if (error_number == EINPROGRESS) {
            pollfd entry{.fd = fd.get(), .events = POLLOUT, .revents = 0};
            socklen_t bytes = sizeof error_number;
            error_number = ETIMEDOUT;
            if (poll(&entry, 1, timeout_ms) == 1) {
                getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &bytes);
            }
        }
        if (error_number == 0) {
            set_up(fd);
            return fd;
        }
    }
    error_line = fmt::format("{} port {}: {}", address, port, strerrordesc_np(error_number));
    errno = error_number;
    return Fd();
}

}  // namespace sft::tools
