#include "base/job_channel.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "tests/result.hpp"

namespace sft {
namespace {

class Listener {
public:
    explicit Listener(const std::string& name) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
        EXPECT_EQ(listen(fd_, 8), 0);
    }
    ~Listener() { close(fd_); }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    [[nodiscard]] int accept_one() const { return accept(fd_, nullptr, nullptr); }

private:
    int fd_;
};

std::string test_name(const char* part) { return "shmem-ft-test-" + std::to_string(getpid()) + part; }

TEST(JobChannel, EventsArriveWhole) {
    const Listener listener(test_name("whole"));
    JobChannel channel;
    ASSERT_TRUE(good(channel.connect(test_name("whole"))));
    EXPECT_TRUE(channel.is_connected());
    channel.set_rank(3);
    JobEvent sent;
    sent.kind = JobEventKind::failure_seen;
    sent.pe = 2;
    sent.code = 65545;
    sent.begin_ns = 123456789012;
    std::memset(sent.text, 'x', sizeof sent.text);  // without an end: report adds one
    channel.report(sent);

    const int peer = listener.accept_one();
    JobEvent received;
    ASSERT_EQ(read(peer, &received, sizeof received), static_cast<ssize_t>(sizeof received));
    EXPECT_EQ(received.magic, JobEvent{}.magic);
    EXPECT_EQ(received.kind, JobEventKind::failure_seen);
    EXPECT_EQ(received.rank, 3);
    EXPECT_EQ(received.pid, getpid());
    EXPECT_EQ(received.pe, 2);
    EXPECT_EQ(received.code, 65545);
    EXPECT_EQ(received.begin_ns, 123456789012);
    EXPECT_EQ(std::strlen(received.text), sizeof received.text - 1);

    channel.close();
    EXPECT_FALSE(channel.is_connected());
    EXPECT_EQ(read(peer, &received, sizeof received), 0);
    close(peer);
}

TEST(JobChannel, TheEndOfTheGuardianWakesThePoll) {
    JobChannel channel;
    {
        const Listener listener(test_name("end"));
        ASSERT_TRUE(good(channel.connect(test_name("end"))));
        close(listener.accept_one());
    }
    pollfd entry{.fd = channel.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, 5000), 1);
    channel.report({});  // neither a signal nor an error
}

TEST(JobChannel, NobodyListens) {
    JobChannel channel;
    EXPECT_EQ(line_of(channel.connect(test_name("nobody"))), "cannot reach oshrun on its socket " +
                                                                 test_name("nobody") +
                                                                 " (SHMEM_FT_JOB_SOCKET): Connection refused");
    EXPECT_FALSE(channel.is_connected());
    channel.report({});
}

TEST(JobChannel, NamesThatNoSocketCanHave) {
    JobChannel channel;
    std::string error_line;
    error_line = line_of(channel.connect(""));
    EXPECT_NE(error_line, "");
    error_line = line_of(channel.connect(std::string(200, 'x')));
    EXPECT_NE(error_line, "");
    EXPECT_NE(error_line.find("not a name"), std::string::npos);
}

}  // namespace
}  // namespace sft
