// The filter of listeners, with real sockets of the loopback: who gets a connection, and who does not.
#include "transport/net/listeners.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

namespace sft {
namespace {

// What the kernel drops is not answered, so it takes this time to see that there is no connection.
constexpr int kPatienceMs = 150;

HostAddress number(const std::string& text) {
    const bool is_six = text.find(':') != std::string::npos;
    HostAddress address(is_six ? 16 : 4);
    EXPECT_EQ(inet_pton(is_six ? AF_INET6 : AF_INET, text.c_str(), address.data()), 1) << text;
    return address;
}

struct Socket {
    explicit Socket(const std::string& text) : address(number(text)) {
        fd = socket(address.size() == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (address.size() == 4) {
            auto& four = reinterpret_cast<sockaddr_in&>(name);
            four.sin_family = AF_INET;
            std::memcpy(&four.sin_addr, address.data(), 4);
            bytes = sizeof four;
        } else {
            auto& six = reinterpret_cast<sockaddr_in6&>(name);
            six.sin6_family = AF_INET6;
            std::memcpy(&six.sin6_addr, address.data(), 16);
            bytes = sizeof six;
        }
        EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), bytes), 0) << text << ": " << strerror(errno);
        getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes);
    }
    ~Socket() { close(fd); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    HostAddress address;
    sockaddr_storage name{};
    socklen_t bytes = 0;
    int fd = -1;
};

struct Server : Socket {
    explicit Server(const std::string& text = "127.0.0.1") : Socket(text) { EXPECT_EQ(listen(fd, 64), 0); }

    // As UCX has it in its address.
    [[nodiscard]] std::vector<std::byte> port() const {
        const in_port_t port = reinterpret_cast<const sockaddr_in&>(name).sin_port;
        const auto* begin = reinterpret_cast<const std::byte*>(&port);
        return {begin, begin + sizeof port};
    }
    // Where the port of the second protocol's sockets lies, too.
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
};

// Of this machine's many addresses, 127.0.0.0/8, or ::1.
struct Client : Socket {
    Client(const std::string& from, const Server& server) : Socket(from) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        connect(fd, reinterpret_cast<const sockaddr*>(&server.name), server.bytes);
    }
    [[nodiscard]] bool is_let_in() const {
        pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
        int error = 0;
        socklen_t length = sizeof error;
        return poll(&entry, 1, kPatienceMs) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 &&
               error == 0;
    }
};

bool is_let_in(const std::string& from, const Server& server) { return Client(from, server).is_let_in(); }

struct DoorsTest : testing::Test {
    void SetUp() override {
        listeners.find(server.port());
        ASSERT_FALSE(listeners.empty());
    }
    Listeners listeners;  // before the server
    Server server;
};

TEST_F(DoorsTest, OnlyThoseThatAreAdmittedGetAConnection) {
    EXPECT_TRUE(is_let_in("127.0.0.3", server));
    ASSERT_TRUE(listeners.admit({number("127.0.0.2"), number("127.0.0.7"), number("::1")}));
    EXPECT_TRUE(is_let_in("127.0.0.2", server));
    EXPECT_TRUE(is_let_in("127.0.0.7", server));
    EXPECT_FALSE(is_let_in("127.0.0.1", server));
    EXPECT_FALSE(is_let_in("127.0.0.3", server));
    EXPECT_FALSE(is_let_in("127.0.0.6", server));
    EXPECT_FALSE(is_let_in("127.0.0.8", server));
}

TEST_F(DoorsTest, NobodyIsAdmittedByAnEmptyList) {
    ASSERT_TRUE(listeners.admit({}));
    EXPECT_FALSE(is_let_in("127.0.0.1", server));
    ASSERT_TRUE(listeners.admit({number("127.0.0.1")}));
    EXPECT_TRUE(is_let_in("127.0.0.1", server));
}

TEST_F(DoorsTest, WhatIsConnectedStaysSo) {
    Client client("127.0.0.5", server);
    ASSERT_TRUE(client.is_let_in());
    const int accepted = accept(server.fd, nullptr, nullptr);
    ASSERT_TRUE(listeners.admit({number("127.0.0.9")}));
    std::vector<char> sent(100'000, 'x');
    std::size_t n = 0;
    for (int round = 0; round < 20; ++round) {
        ASSERT_EQ(write(client.fd, sent.data(), 1000), 1000);
        for (std::size_t got = 0; got < 1000;) {
            pollfd entry{.fd = accepted, .events = POLLIN, .revents = 0};
            ASSERT_EQ(poll(&entry, 1, 5000), 1);
            const ssize_t bytes = read(accepted, sent.data(), sent.size());
            ASSERT_GT(bytes, 0);
            got += static_cast<std::size_t>(bytes);
            n += static_cast<std::size_t>(bytes);
        }
    }
    EXPECT_EQ(n, 20'000U);
    close(accepted);
}

TEST_F(DoorsTest, NeighboursAreOneRange) {
    std::vector<HostAddress> addresses;
    for (int i = 20; i < 250; ++i) {
        addresses.push_back(number("127.0.3." + std::to_string(i)));
    }
    std::shuffle(addresses.begin(), addresses.end(), std::mt19937(7));
    EXPECT_LT(filter_for(addresses).size(), 20U);
    ASSERT_TRUE(listeners.admit(addresses));
    EXPECT_TRUE(is_let_in("127.0.3.20", server));
    EXPECT_TRUE(is_let_in("127.0.3.249", server));
    EXPECT_FALSE(is_let_in("127.0.3.19", server));
    EXPECT_FALSE(is_let_in("127.0.3.250", server));
}

// More than a filter holds: the smallest gaps are let in as well, the largest stay closed, nobody of the job is left
// out.
TEST_F(DoorsTest, AnyNumberOfAddresses) {
    std::vector<HostAddress> addresses;
    for (int i = 0; i < 20'000; ++i) {
        addresses.push_back(number("127." + std::to_string(10 + i % 2 * 100) + "." + std::to_string(i / 200) + "." +
                                   std::to_string(1 + i % 100 * 2)));
    }
    ASSERT_LE(filter_for(addresses).size(), static_cast<std::size_t>(BPF_MAXINSNS));
    ASSERT_TRUE(listeners.admit(addresses));
    EXPECT_TRUE(is_let_in("127.10.0.1", server));
    EXPECT_TRUE(is_let_in("127.10.99.197", server));
    EXPECT_TRUE(is_let_in("127.110.0.3", server));
    EXPECT_TRUE(is_let_in("127.110.99.199", server));
    EXPECT_FALSE(is_let_in("127.9.255.255", server));
    EXPECT_FALSE(is_let_in("127.50.1.1", server));
    EXPECT_FALSE(is_let_in("127.111.0.1", server));
}

TEST(DoorsOfTheSixth, WholeAddressesAndNetworks) {
    Listeners listeners;
    const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in6 loopback{
        .sin6_family = AF_INET6, .sin6_port = 0, .sin6_flowinfo = 0, .sin6_addr = in6addr_loopback, .sin6_scope_id = 0};
    const bool has_six = bind(probe, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0;
    close(probe);
    if (!has_six) {
        GTEST_SKIP() << "no ::1 here";
    }
    const Server server("::1");
    listeners.find(server.port());
    ASSERT_TRUE(listeners.admit({number("fd00::2"), number("127.0.0.1")}));
    EXPECT_FALSE(is_let_in("::1", server));
    ASSERT_TRUE(listeners.admit({number("fd00::2"), number("::1"), number("fd00::3")}));
    EXPECT_TRUE(is_let_in("::1", server));
    std::vector<HostAddress> many{number("::1")};
    for (int i = 0; i < 5000; ++i) {
        char text[32];
        (void)snprintf(text, sizeof text, "fd00:%x:%x::%x", i % 7, i, i);
        many.push_back(number(text));
    }
    ASSERT_LE(filter_for(many).size(), static_cast<std::size_t>(BPF_MAXINSNS));
    ASSERT_TRUE(listeners.admit(many));
    EXPECT_TRUE(is_let_in("::1", server));
}

TEST(Listeners, TheProgramsOwnSocketsAreLeftAlone) {
    const Server older;
    Listeners listeners;
    const Server ucx;
    const Server newer;
    listeners.find(ucx.port());
    ASSERT_TRUE(listeners.admit({}));
    EXPECT_FALSE(is_let_in("127.0.0.1", ucx));
    EXPECT_TRUE(is_let_in("127.0.0.1", older));
    EXPECT_TRUE(is_let_in("127.0.0.1", newer));
}

TEST(HostAddresses, TheNodesOwnComesFirstAndTheyArePacked) {
    const std::vector<HostAddress> own = host_addresses("10.11.12.13");
    ASSERT_FALSE(own.empty());
    EXPECT_LE(own.size(), kHostAddressesMax);
    EXPECT_EQ(own.front(), number("10.11.12.13"));
    EXPECT_EQ(std::count(own.begin(), own.end(), number("127.0.0.1")), 0);

    const Entrance some{.hosts = {number("10.1.2.3"), number("fd00::9")}, .ports = {80, 65534}};
    std::vector<std::byte> bytes = packed(some);
    bytes.push_back(std::byte{42});
    Bytes rest = bytes;
    EXPECT_EQ(unpack(rest), some);
    ASSERT_EQ(rest.size(), 1U);
    EXPECT_EQ(rest.front(), std::byte{42});
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        Bytes part = Bytes(bytes).first(cut);
        EXPECT_LE(unpack(part).hosts.size(), 2U);
    }
}

}  // namespace
}  // namespace sft
