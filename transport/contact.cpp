#include "transport/contact.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/report.hpp"

namespace sft {

MailAddress mail_address_of(const sockaddr* any) noexcept {
    MailAddress address;
    if (any->sa_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, any, sizeof four);
        address.family = AF_INET;
        std::memcpy(address.bytes.data(), &four.sin_addr, sizeof four.sin_addr);
    } else if (any->sa_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, any, sizeof six);
        address.family = AF_INET6;
        address.scope = six.sin6_scope_id;
        std::memcpy(address.bytes.data(), &six.sin6_addr, sizeof six.sin6_addr);
    }
    return address;
}

namespace {

// Without a name for the interface an address of one link means nothing on another node.
bool is_usable(const ifaddrs& item) noexcept {
    if (item.ifa_addr == nullptr || (item.ifa_flags & IFF_UP) == 0) {
        return false;
    }
    const MailAddress address = mail_address_of(item.ifa_addr);
    return address.is_set() && address.scope == 0;
}

bool is_loopback(const ifaddrs& item) noexcept { return (item.ifa_flags & IFF_LOOPBACK) != 0; }

// What the node's own name stands for, in the order of the resolver.
std::vector<MailAddress> addresses_of_this_host() {
    char name[256] = {};
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    std::vector<MailAddress> addresses;
    if (gethostname(name, sizeof name - 1) != 0 || getaddrinfo(name, nullptr, &hints, &found) != 0) {
        return addresses;
    }
    for (const addrinfo* item = found; item != nullptr; item = item->ai_next) {
        addresses.push_back(mail_address_of(item->ai_addr));
    }
    freeaddrinfo(found);
    return addresses;
}

// The first that `fits`, of the fourth version of the protocol if there is one.
template <class Fits>
const ifaddrs* first_of(const ifaddrs* all, Fits fits) {
    const ifaddrs* second_best = nullptr;
    for (const ifaddrs* item = all; item != nullptr; item = item->ifa_next) {
        if (is_usable(*item) && fits(*item)) {
            if (item->ifa_addr->sa_family == AF_INET) {
                return item;
            }
            second_best = second_best == nullptr ? item : second_best;
        }
    }
    return second_best;
}

const ifaddrs* choose(const ifaddrs* all, const std::string& wanted, bool is_pretending) {
    if (!wanted.empty()) {
        return first_of(all, [&](const ifaddrs& item) { return wanted == item.ifa_name; });
    }
    if (is_pretending) {
        return first_of(all, is_loopback);
    }
    for (const MailAddress& address : addresses_of_this_host()) {
        const ifaddrs* item = first_of(all, [&](const ifaddrs& other) {
            return !is_loopback(other) && mail_address_of(other.ifa_addr) == address;
        });
        if (item != nullptr) {
            return item;
        }
    }
    return first_of(all, [](const ifaddrs& item) { return !is_loopback(item); });
}

}  // namespace

std::string to_string(const MailAddress& address) {
    char text[INET6_ADDRSTRLEN] = "no address";
    if (address.is_set()) {
        static_cast<void>(inet_ntop(address.family, address.bytes.data(), text, sizeof text));
    }
    return text;
}

Result<> find_interface(const std::string& wanted, bool is_pretending, NodeInterface& found) {
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) {
        return fails(format("cannot list the network interfaces: %s", strerrordesc_np(errno)));
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
    const ifaddrs* item = choose(all, wanted, is_pretending);
    if (item == nullptr) {
        return fails(wanted.empty() ? std::string("this node has no network interface with an address by which others "
                                                  "could reach it (SHMEM_FT_INTERFACE)")
                                    : format("SHMEM_FT_INTERFACE=%s: this node has no such network interface that is "
                                             "up and has an address",
                                             wanted.c_str()));
    }
    if (is_loopback(*item) && !is_pretending) {
        return fails(
            format("SHMEM_FT_INTERFACE=%s: the loopback interface leads to no other node, and the job is on several: "
                   "name one that does",
                   item->ifa_name));
    }
    found.name = item->ifa_name;
    found.address = mail_address_of(item->ifa_addr);
    return {};
}

}  // namespace sft
