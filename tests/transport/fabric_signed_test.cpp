// Fabrics whose connections are signed: who gets one. What goes through them is tested by the other tests of fabrics,
// with SFT_TEST_SIGNED in their environment.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/result.hpp"
#include "tests/transport/fabric_test.hpp"
#include "transport/net/listeners.hpp"
#include "transport/net/signed_ways.hpp"

namespace sft {
namespace {

using FabricSignedTest = FabricTest;
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricSignedTest);
INSTANTIATE_TEST_SUITE_P(Built, FabricSignedTest, FabricTest::all(), FabricTest::name_of);

constexpr std::uint64_t kSecret = 0x0123456789abcdef;
// What the kernel drops is not answered.
constexpr int kPatienceMs = 200;

bool is_let_in(std::uint16_t port, const std::uint64_t* key) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (key != nullptr) {
        EXPECT_TRUE(sign_listener(fd, *key)) << "an end that connects takes a key in the same way";
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
    int error = 0;
    socklen_t bytes = sizeof error;
    const bool is_in = ::poll(&entry, 1, kPatienceMs) == 1 &&
                       ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
    ::close(fd);
    return is_in;
}

std::unique_ptr<Fabric> opened(const std::string& name, bool is_signed, FabricReceiver& receiver) {
    std::unique_ptr<Fabric> fabric = fabric_called(name);
    EXPECT_TRUE(good(fabric->open({.self = ProcId(0),
                                   .n_slots = 2,
                                   .receiver = &receiver,
                                   .interface = "lo",
                                   .address = "127.0.0.1",
                                   .is_signed = is_signed,
                                   .secret = kSecret,
                                   .is_in_session = true})));
    return fabric;
}

TEST_P(FabricSignedTest, OnlyWhoSignsWithTheSecretIsLetIn) {
    children.push_back(std::make_unique<Child>([&] {
        Recorder recorder;
        const std::unique_ptr<Fabric> fabric = opened(GetParam(), true, recorder);
        Bytes address = fabric->address();
        const Entrance entrance = unpack(address);
        EXPECT_FALSE(entrance.ports.empty());
        for (const std::uint16_t port : entrance.ports) {
            const std::uint64_t wrong = kSecret + 1;
            EXPECT_FALSE(is_let_in(port, nullptr));
            EXPECT_FALSE(is_let_in(port, &wrong));
            EXPECT_TRUE(is_let_in(port, &kSecret));
        }
        return 0;
    }));
    expect_all_end_well();
}

TEST_P(FabricSignedTest, WithoutSignaturesEverybodyIs) {
    children.push_back(std::make_unique<Child>([&] {
        Recorder recorder;
        const std::unique_ptr<Fabric> fabric = opened(GetParam(), false, recorder);
        Bytes address = fabric->address();
        const Entrance entrance = unpack(address);
        EXPECT_FALSE(entrance.ports.empty());
        for (const std::uint16_t port : entrance.ports) {
            EXPECT_TRUE(is_let_in(port, nullptr));
        }
        return 0;
    }));
    expect_all_end_well();
}

TEST_P(FabricSignedTest, NobodyIsAdmittedBeforeItIsSaidWho) {
    children.push_back(std::make_unique<Child>([&] {
        const std::unique_ptr<Fabric> fabric = fabric_called(GetParam());
        Recorder recorder;
        EXPECT_TRUE(good(fabric->open({.self = ProcId(0),
                                       .n_slots = 2,
                                       .receiver = &recorder,
                                       .interface = "lo",
                                       .address = "127.0.0.1",
                                       .starts_shut = true,
                                       .is_in_session = true})));
        EXPECT_TRUE(fabric->has_listeners());
        Bytes address = fabric->address();
        const std::vector<Bytes> all{address};
        const Entrance entrance = unpack(address);
        EXPECT_FALSE(is_let_in(entrance.ports.front(), nullptr));
        EXPECT_TRUE(fabric->admit(all));
        EXPECT_TRUE(is_let_in(entrance.ports.front(), nullptr));
        return 0;
    }));
    expect_all_end_well();
}

}  // namespace
}  // namespace sft
