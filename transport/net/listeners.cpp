#include "transport/net/listeners.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "transport/net/signed_ways.hpp"

namespace sft {
namespace {

constexpr std::size_t kFourBytes = 4;
constexpr std::size_t kSixBytes = 16;
// A filter has room for 4096 instructions (BPF_MAXINSNS): three for a range, nine for a prefix.
constexpr std::size_t kRangesMax = 400;
constexpr std::size_t kPrefixesMax = 300;
constexpr std::size_t kOthersMax = 16;
static_assert(3 * kRangesMax + 9 * kPrefixesMax + kOthersMax <= BPF_MAXINSNS);

constexpr std::uint32_t kTake = UINT32_MAX;  // so many bytes of the packet: all
constexpr std::uint32_t kDrop = 0;

// ---- sockets ----

bool is_listening(int fd) noexcept {
    int value = 0;
    socklen_t bytes = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &bytes) == 0 && value != 0;
}

std::vector<int> listening_sockets() {
    std::vector<int> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
    while (folder != nullptr) {
        const dirent* entry = ::readdir(folder.get());
        if (entry == nullptr) {
            break;
        }
        const int fd = static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
        if (entry->d_name[0] != '.' && is_listening(fd)) {
            found.push_back(fd);
        }
    }
    return found;
}

// As on the wire; empty: no socket of the internet protocol.
std::vector<std::byte> port_of(int fd) {
    sockaddr_storage any{};
    socklen_t bytes = sizeof any;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&any), &bytes) != 0) {
        return {};
    }
    in_port_t port = 0;
    if (any.ss_family == AF_INET) {
        port = reinterpret_cast<const sockaddr_in&>(any).sin_port;
    } else if (any.ss_family == AF_INET6) {
        port = reinterpret_cast<const sockaddr_in6&>(any).sin6_port;
    } else {
        return {};
    }
    const auto* begin = reinterpret_cast<const std::byte*>(&port);
    return {begin, begin + sizeof port};
}

// ---- addresses ----

HostAddress address_in(const sockaddr* any) {
    const void* begin = nullptr;
    std::size_t bytes = 0;
    if (any->sa_family == AF_INET) {
        begin = &reinterpret_cast<const sockaddr_in*>(any)->sin_addr;
        bytes = kFourBytes;
    } else if (any->sa_family == AF_INET6) {
        begin = &reinterpret_cast<const sockaddr_in6*>(any)->sin6_addr;
        bytes = kSixBytes;
    }
    const auto* const first = static_cast<const HostAddress::value_type*>(begin);
    return HostAddress(first, first + bytes);
}

HostAddress address_named(const std::string& text) {
    HostAddress address(kSixBytes);
    if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) {
        return address;
    }
    address.resize(kFourBytes);
    return ::inet_pton(AF_INET, text.c_str(), address.data()) == 1 ? address : HostAddress();
}

std::uint32_t word_at(const HostAddress& address, std::size_t offset) {
    std::uint32_t word = 0;
    SFT_ASSERT(offset + sizeof word <= address.size());
    std::memcpy(&word, address.data() + offset, sizeof word);
    return ntohl(word);
}

using Range = std::pair<std::uint32_t, std::uint32_t>;  // first and last

// Closes the smallest gaps, until a filter holds what is left.
void join_neighbours(std::vector<Range>& ranges) {
    if (ranges.size() <= kRangesMax) {
        return;
    }
    std::vector<std::uint32_t> gaps;
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        gaps.push_back(ranges[i].first - ranges[i - 1].second);
    }
    const auto last_kept = gaps.begin() + (kRangesMax - 2);
    std::nth_element(gaps.begin(), last_kept, gaps.end(), std::greater<>());
    const std::uint32_t limit = *last_kept;
    std::vector<Range> joined{ranges.front()};
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].first - joined.back().second > limit) {
            joined.push_back(ranges[i]);
        } else {
            joined.back().second = ranges[i].second;
        }
    }
    SFT_ASSERT(joined.size() <= kRangesMax && joined.back().second == ranges.back().second);
    ranges = std::move(joined);
}

// Rising.
std::vector<Range> ranges_of(const std::vector<HostAddress>& addresses) {
    std::vector<Range> ranges;
    for (const HostAddress& address : addresses) {
        if (address.size() == kFourBytes) {
            const std::uint32_t number = word_at(address, 0);
            if (!ranges.empty() && number - ranges.back().second == 1) {
                ranges.back().second = number;
            } else {
                ranges.emplace_back(number, number);
            }
        }
    }
    join_neighbours(ranges);
    return ranges;
}

// Rising. Whole addresses, or their networks if there are many.
std::vector<HostAddress> prefixes_of(const std::vector<HostAddress>& addresses) {
    std::vector<HostAddress> prefixes;
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(prefixes),
                 [](const HostAddress& address) { return address.size() == kSixBytes; });
    for (std::size_t bytes = kSixBytes; prefixes.size() > kPrefixesMax; bytes /= 2) {
        for (HostAddress& prefix : prefixes) {
            prefix.resize(bytes / sizeof(std::uint32_t) * sizeof(std::uint32_t));
        }
        prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    }
    return prefixes;
}

// ---- the filter's instructions ----

// Offsets from here on count from the beginning of the packet's header of the internet protocol; what is below counts
// from that of TCP.
constexpr std::uint32_t kInternetHeader = static_cast<std::uint32_t>(SKF_NET_OFF);
constexpr std::uint32_t kFlagsOfTcp = 13;
constexpr std::uint32_t kAsksForConnection = 0x02;
constexpr std::uint32_t kSourceOfFour = 12;
constexpr std::uint32_t kSourceOfSix = 8;

sock_filter load(std::uint16_t width, std::uint32_t offset) {
    return BPF_STMT(static_cast<std::uint16_t>(BPF_LD | BPF_ABS | width), offset);
}
sock_filter end(std::uint32_t verdict) { return BPF_STMT(BPF_RET | BPF_K, verdict); }
// Goes on with the next instruction if it is true, else skips so many.
sock_filter unless(std::uint16_t comparison, std::uint32_t value, std::uint8_t skipped) {
    return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | comparison), value, 0, skipped);
}

}  // namespace

std::vector<HostAddress> host_addresses(const std::string& own) {
    std::vector<HostAddress> found;
    const auto add = [&](HostAddress address) {
        if (!address.empty() && found.size() < kHostAddressesMax &&
            std::find(found.begin(), found.end(), address) == found.end()) {
            found.push_back(std::move(address));
        }
    };
    add(address_named(own));
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) {
        return found;
    }
    for (const ifaddrs* item = all; item != nullptr; item = item->ifa_next) {
        if (item->ifa_addr != nullptr && (item->ifa_flags & IFF_UP) != 0 && (item->ifa_flags & IFF_LOOPBACK) == 0) {
            add(address_in(item->ifa_addr));
        }
    }
    ::freeifaddrs(all);
    return found;
}

std::vector<sock_filter> filter_for(std::vector<HostAddress> addresses, Filtered what) {
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    std::vector<sock_filter> program;
    if (what == Filtered::connections) {
        program.push_back(load(BPF_B, kFlagsOfTcp));
        program.push_back(BPF_JUMP(BPF_JMP | BPF_K | BPF_JSET, kAsksForConnection, 1, 0));
        program.push_back(end(kTake));
    }
    program.push_back(load(BPF_B, kInternetHeader));
    program.push_back(BPF_STMT(BPF_ALU | BPF_K | BPF_RSH, 4));  // the version
    program.push_back(BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, 4, 1, 0));
    program.push_back(BPF_STMT(BPF_JMP | BPF_JA, 0));  // over the fourth's part: below
    const std::size_t jump = program.size() - 1;
    program.push_back(load(BPF_W, kInternetHeader + kSourceOfFour));
    for (const auto& [first, last] : ranges_of(addresses)) {
        program.push_back(unless(BPF_JGE, first, 2));
        program.push_back(BPF_JUMP(BPF_JMP | BPF_K | BPF_JGT, last, 1, 0));
        program.push_back(end(kTake));
    }
    program.push_back(end(kDrop));
    program[jump].k = static_cast<std::uint32_t>(program.size() - jump - 1);
    for (const HostAddress& prefix : prefixes_of(addresses)) {
        const std::size_t words = prefix.size() / sizeof(std::uint32_t);
        for (std::size_t i = 0; i < words; ++i) {
            const auto offset = static_cast<std::uint32_t>(i * sizeof(std::uint32_t));
            program.push_back(load(BPF_W, kInternetHeader + kSourceOfSix + offset));
            program.push_back(unless(BPF_JEQ, word_at(prefix, offset), static_cast<std::uint8_t>(2 * (words - i) - 1)));
        }
        program.push_back(end(kTake));
    }
    program.push_back(end(kDrop));
    return program;
}

std::vector<std::byte> packed(const Entrance& entrance) {
    SFT_ASSERT(entrance.hosts.size() <= UINT8_MAX && entrance.ports.size() <= UINT8_MAX);
    std::vector<std::byte> bytes{static_cast<std::byte>(entrance.hosts.size())};
    for (const HostAddress& address : entrance.hosts) {
        bytes.push_back(static_cast<std::byte>(address.size()));
        bytes.insert(bytes.end(), address.begin(), address.end());
    }
    bytes.push_back(static_cast<std::byte>(entrance.ports.size()));
    for (const std::uint16_t port : entrance.ports) {
        bytes.push_back(static_cast<std::byte>(port >> 8));
        bytes.push_back(static_cast<std::byte>(port & 0xff));
    }
    return bytes;
}

Entrance unpack(Bytes& bytes) {
    Entrance entrance;
    const auto take = [&](std::size_t n) {
        const Bytes taken = bytes.first(std::min(n, bytes.size()));
        bytes = bytes.subspan(taken.size());
        return taken;
    };
    const auto number = [&] {
        const Bytes byte = take(1);
        return byte.empty() ? std::size_t{0} : static_cast<std::size_t>(byte.front());
    };
    for (std::size_t left = number(); left != 0; --left) {
        const Bytes address = take(number());
        if (address.size() == kFourBytes || address.size() == kSixBytes) {
            entrance.hosts.emplace_back(address.begin(), address.end());
        }
    }
    for (std::size_t left = number(); left != 0; --left) {
        const std::size_t high = number();
        entrance.ports.push_back(static_cast<std::uint16_t>(high << 8 | number()));
    }
    return entrance;
}

bool attach_filter(int fd, const std::vector<sock_filter>& program) noexcept {
    SFT_ASSERT(!program.empty() && program.size() <= BPF_MAXINSNS);
    const sock_fprog filter{.len = static_cast<unsigned short>(program.size()),
                            .filter = const_cast<sock_filter*>(program.data())};
    return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

Listeners::Listeners() : before_(listening_sockets()) {}

void Listeners::find(Bytes address) {
    for (const int fd : listening_sockets()) {
        const std::vector<std::byte> port = port_of(fd);
        if (!port.empty() && std::find(before_.begin(), before_.end(), fd) == before_.end() &&
            std::search(address.begin(), address.end(), port.begin(), port.end()) != address.end()) {
            sockets_.push_back(fd);
        }
    }
}

bool Listeners::admit(std::vector<HostAddress> addresses) noexcept {
    const std::vector<sock_filter> program = filter_for(std::move(addresses));
    return std::all_of(sockets_.begin(), sockets_.end(), [&](int fd) { return attach_filter(fd, program); });
}

bool Listeners::sign(std::uint64_t key) noexcept {
    return !sockets_.empty() &&
           std::all_of(sockets_.begin(), sockets_.end(), [key](int fd) { return sign_listener(fd, key); });
}

std::vector<std::uint16_t> Listeners::ports() const {
    std::vector<std::uint16_t> ports;
    for (const int fd : sockets_) {
        const std::vector<std::byte> port = port_of(fd);
        SFT_ASSERT(port.size() == sizeof(in_port_t));  // find() has looked
        ports.push_back(
            static_cast<std::uint16_t>(static_cast<unsigned>(port[0]) << 8 | static_cast<unsigned>(port[1])));
    }
    return ports;
}

}  // namespace sft
