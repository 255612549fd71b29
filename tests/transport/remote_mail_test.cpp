// The mailbox between nodes: mailboxes of one process, and of two, that take each other for ones of other nodes.

#include "transport/mail/remote_mail.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <map>
#include <memory>

#include "tests/result.hpp"
#include "tests/transport/mail_test.hpp"
#include "transport/mail/remote_mail_wire.hpp"
#include "transport/net/signed_ways.hpp"

namespace sft {
namespace {

MailAddress loopback() {
    MailAddress address;
    address.family = AF_INET;
    address.bytes = {127, 0, 0, 1};
    return address;
}

using Book = std::map<std::int32_t, MailAddress>;

// Whether connections are signed.
class RemoteMailTest : public MailboxTest, public testing::WithParamInterface<bool> {
protected:
    std::unique_ptr<Mailbox> open_one(std::int32_t self) {
        auto mailbox = std::make_unique<Mailbox>();
        Mailbox::Options options = options_of(token_, self);
        options.remote.listen_on = loopback();
        options.remote.is_signed = is_signed_;
        options.remote.is_remote = [](ProcId) { return true; };
        options.remote.address_of = [this](ProcId process) { return book_[process.value()]; };
        options.remote.introduced = [this](ProcId process, const Contact& contact) {
            book_[process.value()] = contact.mail;
        };
        open_or_fail(*mailbox, options);
        book_[self] = mailbox->address();
        return mailbox;
    }

    // Both take turns until `is_done`; what comes to either goes to its sink.
    static bool pump_both(Mailbox& a, const Mailbox::Sink& to_a, Mailbox& b, const Mailbox::Sink& to_b,
                          const std::function<bool()>& is_done) {
        const std::int64_t end_ns = now_ns() + kPatienceMs * std::int64_t{1'000'000};
        while (!is_done()) {
            if (now_ns() > end_ns) {
                return false;
            }
            pollfd entries[] = {{a.fd(), POLLIN, 0}, {b.fd(), POLLIN, 0}};
            poll(entries, 2, 100);
            a.pump(to_a);
            b.pump(to_b);
        }
        return true;
    }

    // A connection made by hand to the port of `process`.
    int connect_raw(std::int32_t process) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_TRUE(!is_signed_ || sign_listener(fd, token_.secret));
        const SocketAddress address(book_[process]);
        EXPECT_EQ(connect(fd, address.get(), address.bytes), 0) << strerrordesc_np(errno);
        return fd;
    }

    void SetUp() override {
        is_signed_ = GetParam();
        ASSERT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    }
    void TearDown() override {
        ::close(ends_[0]);
        ::close(ends_[1]);
    }

    Book book_;
    bool is_signed_ = false;
    int ends_[2] = {-1, -1};  // from a child
};

INSTANTIATE_TEST_SUITE_P(Ways, RemoteMailTest, testing::Bool(),
                         [](const auto& way) { return std::string(way.param ? "Signed" : "Plain"); });

// Expects the numbers from 0 on.
struct Counting {
    std::uint32_t next = 0;
    Mailbox::Sink sink() {
        return [this](ProcId, std::span<const std::byte> message) {
            EXPECT_TRUE(is_number(message, next)) << "instead of message " << next;
            ++next;
        };
    }
};

const Mailbox::Sink kIgnore = [](ProcId, std::span<const std::byte>) {};

void send_raw(int fd, FrameKind kind, std::uint64_t number, std::size_t claimed_bytes, const void* payload,
              std::size_t bytes) {
    const StreamHead head{.kind = kind, .bytes = static_cast<std::uint32_t>(claimed_bytes), .number = number};
    EXPECT_EQ(send(fd, &head, sizeof head, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof head));
    if (bytes != 0) {
        EXPECT_EQ(send(fd, payload, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    }
}

// The other side has closed, after `skipped` bytes at most.
bool is_closed(int fd, std::size_t skipped = 0) {
    std::vector<char> bytes(skipped + 1);
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0 && static_cast<std::size_t>(got) <= skipped) {
        return is_closed(fd, skipped - static_cast<std::size_t>(got));
    }
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

TEST_P(RemoteMailTest, ArrivesInOrderInBothDirections) {
    const auto a = open_one(0);
    const auto b = open_one(1);
    Counting at_a;
    Counting at_b;
    constexpr std::uint32_t kMessages = 2000;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        a->send(ProcId(1), numbered(i));
        b->send(ProcId(0), numbered(i));
    }
    EXPECT_FALSE(a->is_settled());
    EXPECT_TRUE(pump_both(*a, at_a.sink(), *b, at_b.sink(), [&] {
        return at_a.next == kMessages && at_b.next == kMessages && a->is_settled() && b->is_settled();
    }));
}

TEST_P(RemoteMailTest, DatagramsArriveBesidesAndTellThatTheyAre) {
    const auto a = open_one(0);
    const auto b = open_one(1);
    int n_datagrams = 0;
    int n_mails = 0;
    const Mailbox::Sink sink = [&](ProcId from, std::span<const std::byte> bytes) {
        EXPECT_EQ(from, ProcId(0));
        EXPECT_TRUE(is_number(bytes, b->is_taking_datagram() ? 0U : 8U));
        ++(b->is_taking_datagram() ? n_datagrams : n_mails);
    };
    a->send(ProcId(1), numbered(8));
    a->send_datagram(ProcId(1), numbered(0));  // a small one
    EXPECT_TRUE(pump_both(*a, kNoMail, *b, sink, [&] { return n_datagrams == 1 && n_mails == 1; }));
}

// Anybody may send them.
TEST_P(RemoteMailTest, DatagramsOfStrangersAreDropped) {
    const auto a = open_one(0);
    const auto b = open_one(1);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const SocketAddress to(book_[1]);
    Greeting wrong{.from = 0, .to = 1, .secret = 1};
    std::vector<std::byte> large(4096);
    ASSERT_EQ(sendto(fd, &wrong, sizeof wrong, 0, to.get(), to.bytes), static_cast<ssize_t>(sizeof wrong));
    ASSERT_EQ(sendto(fd, &wrong, 3, 0, to.get(), to.bytes), 3);
    ASSERT_EQ(sendto(fd, large.data(), large.size(), 0, to.get(), to.bytes), static_cast<ssize_t>(large.size()));
    ::close(fd);
    a->send_datagram(ProcId(1), numbered(0));  // a small one
    int n_taken = 0;
    const Mailbox::Sink sink = [&](ProcId, std::span<const std::byte> bytes) {
        EXPECT_TRUE(is_number(bytes, 0));
        ++n_taken;
    };
    EXPECT_TRUE(pump_both(*a, kNoMail, *b, sink, [&] { return n_taken == 1; }));
}

TEST_P(RemoteMailTest, TheLargestMessageArrives) {
    const auto a = open_one(0);
    const auto b = open_one(1);
    const Buffer message(kBytesMax, std::byte{42});
    bool has_come = false;
    a->send(ProcId(1), message);
    const Mailbox::Sink sink = [&](ProcId from, std::span<const std::byte> bytes) {
        EXPECT_EQ(from, ProcId(0));
        has_come = std::equal(bytes.begin(), bytes.end(), message.begin(), message.end());
    };
    EXPECT_TRUE(pump_both(*a, kNoMail, *b, sink, [&] { return has_come; }));
}

// Guards: numbers, acknowledgements and the welcome. Without resending, messages are missing; without numbers, some
// come twice.
TEST_P(RemoteMailTest, ConnectionsThatBreakLoseNothing) {
    const auto a = open_one(0);
    const auto b = open_one(1);
    Counting at_a;
    Counting at_b;
    constexpr std::uint32_t kRounds = 12;
    constexpr std::uint32_t kEach = 100;
    std::uint32_t n_sent = 0;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        for (std::uint32_t i = 0; i < kEach; ++i, ++n_sent) {
            a->send(ProcId(1), numbered(n_sent));
            b->send(ProcId(0), numbered(n_sent));
        }
        // In the middle: some have come, others are in sockets, the rest waits.
        ASSERT_TRUE(pump_both(*a, at_a.sink(), *b, at_b.sink(),
                              [&] { return at_b.next > n_sent - kEach && at_a.next > n_sent - kEach; }));
        (round % 2 == 0 ? *a : *b).cut_until(now_ns() + round % 3 * 20'000'000);
    }
    EXPECT_TRUE(pump_both(*a, at_a.sink(), *b, at_b.sink(), [&] {
        return at_a.next == n_sent && at_b.next == n_sent && a->is_settled() && b->is_settled();
    }));
    EXPECT_TRUE(a->take_gone().empty() && b->take_gone().empty());
}

TEST_P(RemoteMailTest, RefusedPortIsADeath) {
    const auto a = open_one(0);
    auto b = open_one(1);
    b.reset();
    a->send(ProcId(1), numbered(0));
    std::vector<RemoteMail::Gone> gone;
    EXPECT_TRUE(pump_until(*a, kNoMail, [&] { return !(gone = a->take_gone()).empty(); }));
    ASSERT_EQ(gone.size(), 1U);
    EXPECT_EQ(gone[0].process, ProcId(1));
    EXPECT_FALSE(gone[0].goodbye.has_value());
    EXPECT_EQ(a->n_waiting(), 0U);
    a->send(ProcId(1), numbered(1));
    EXPECT_EQ(a->n_waiting(), 0U);
}

// Who has been talked to by a process hears of its death though it has nothing to say.
TEST_P(RemoteMailTest, EndOfAConnectionIsFollowedUp) {
    const auto a = open_one(0);
    const Child child([&] {
        const auto b = open_one(1);
        const MailAddress own = b->address();
        EXPECT_EQ(write(ends_[1], &own, sizeof own), static_cast<ssize_t>(sizeof own));
        b->send(ProcId(0), numbered(0));
        pump_until(*b, kNoMail, [] { return false; });
        return 0;
    });
    MailAddress there;
    ASSERT_EQ(read(ends_[0], &there, sizeof there), static_cast<ssize_t>(sizeof there));
    book_[1] = there;
    Counting at_a;
    ASSERT_TRUE(pump_until(*a, at_a.sink(), [&] { return at_a.next == 1; }));
    EXPECT_TRUE(a->take_gone().empty());
    kill(child.pid(), SIGKILL);
    std::vector<RemoteMail::Gone> gone;
    EXPECT_TRUE(pump_until(*a, kNoMail, [&] { return !(gone = a->take_gone()).empty(); }));
    EXPECT_EQ(gone.at(0).process, ProcId(1));
}

TEST_P(RemoteMailTest, StoppedProcessIsNotGone) {
    const auto a = open_one(0);
    Child child([&] {
        const auto b = open_one(1);
        const MailAddress own = b->address();
        EXPECT_EQ(write(ends_[1], &own, sizeof own), static_cast<ssize_t>(sizeof own));
        Counting at_b;
        return pump_until(*b, at_b.sink(), [&] { return at_b.next == 3; }) ? 0 : 1;
    });
    MailAddress there;
    ASSERT_EQ(read(ends_[0], &there, sizeof there), static_cast<ssize_t>(sizeof there));
    book_[1] = there;
    a->send(ProcId(1), numbered(0));
    ASSERT_TRUE(pump_until(*a, kNoMail, [&] { return a->is_settled(); }));
    kill(child.pid(), SIGSTOP);
    a->send(ProcId(1), numbered(1));
    EXPECT_FALSE(pump_until(
        *a, kNoMail, [&] { return a->is_settled() || !a->take_gone().empty(); }, 1000));
    kill(child.pid(), SIGCONT);
    a->send(ProcId(1), numbered(2));
    EXPECT_TRUE(pump_until(*a, kNoMail, [&] { return a->is_settled(); }));
    EXPECT_EQ(child.end(), 0);
}

TEST_P(RemoteMailTest, GoodbyeIsNoDeath) {
    const auto a = open_one(0);
    auto b = open_one(1);
    Counting at_b;
    a->send(ProcId(1), numbered(0));
    ASSERT_TRUE(pump_both(*a, kNoMail, *b, at_b.sink(), [&] { return at_b.next == 1 && a->is_settled(); }));
    b->leave(7);
    b.reset();
    std::vector<RemoteMail::Gone> gone;
    EXPECT_TRUE(pump_until(*a, kNoMail, [&] { return !(gone = a->take_gone()).empty(); }));
    EXPECT_EQ(gone.at(0).process, ProcId(1));
    EXPECT_EQ(gone.at(0).goodbye, 7U);
}

TEST_P(RemoteMailTest, PortOfAnotherProcessIsADeathToo) {
    const auto a = open_one(0);
    const auto c = open_one(2);
    book_[1] = c->address();
    a->send(ProcId(1), numbered(0));
    std::vector<RemoteMail::Gone> gone;
    EXPECT_TRUE(pump_both(*a, kNoMail, *c, kNoMail, [&] { return !(gone = a->take_gone()).empty(); }));
    EXPECT_EQ(gone.at(0).process, ProcId(1));
}

TEST_P(RemoteMailTest, OfWhatIsSentToOneGivenUpTheLastIsKept) {
    const auto a = open_one(0);
    const auto b = open_one(1);
    Counting at_b;
    a->send(ProcId(1), numbered(0));
    ASSERT_TRUE(pump_both(*a, kNoMail, *b, at_b.sink(), [&] { return at_b.next == 1 && a->is_settled(); }));
    a->cut_until(now_ns() + 300'000'000);
    a->send(ProcId(1), numbered(1));
    a->give_up(ProcId(1));
    EXPECT_TRUE(a->is_settled());  // nobody waits for it
    a->send(ProcId(1), numbered(2));
    a->send(ProcId(1), numbered(3));
    at_b.next = 3;
    EXPECT_TRUE(pump_both(*a, kNoMail, *b, at_b.sink(), [&] { return at_b.next == 4; }));
}

TEST_P(RemoteMailTest, WhoJoinsIsIntroducedByItsHello) {
    const auto a = open_one(0);
    const auto b = open_one(5);
    Contact own;
    own.node = 1;
    own.mail = b->address();
    book_.erase(5);
    b->introduce_self(own);
    b->send(ProcId(0), numbered(0));
    Counting at_a;
    Counting at_b;
    ASSERT_TRUE(pump_both(*a, at_a.sink(), *b, at_b.sink(), [&] { return at_a.next == 1; }));
    a->send(ProcId(5), numbered(0));
    EXPECT_TRUE(pump_both(*a, at_a.sink(), *b, at_b.sink(), [&] { return at_b.next == 1; }));
}

TEST_P(RemoteMailTest, StrangersAreClosedAndNamedOnce) {
    const auto a = open_one(0);
    const auto b = open_one(1);
    Greeting right{.from = 1, .to = 0, .secret = token_.secret};
    Greeting wrong_secret = right;
    wrong_secret.secret ^= 1;
    Greeting wrong_magic = right;
    wrong_magic.magic ^= 1;
    Greeting wrong_layout = right;
    wrong_layout.layout += 1;
    testing::internal::CaptureStderr();
    const auto is_refused = [&](const std::function<void(int)>& speak) {
        const int fd = connect_raw(0);
        speak(fd);
        const bool was_closed = pump_until(
            *a, kNoMail, [&] { return is_closed(fd); }, 3000);
        ::close(fd);
        return was_closed;
    };
    const auto greets = [&](const Greeting& greeting) {
        return [&](int fd) { send_raw(fd, FrameKind::hello, 1, sizeof greeting, &greeting, sizeof greeting); };
    };
    EXPECT_TRUE(is_refused(greets(wrong_secret)));
    EXPECT_TRUE(is_refused(greets(wrong_magic)));
    EXPECT_TRUE(is_refused(greets(wrong_layout)));
    EXPECT_TRUE(is_refused([](int fd) { EXPECT_EQ(send(fd, "GET / HTTP/1.1\r\n\r\n\r\n\r\n", 22, 0), 22); }));
    EXPECT_TRUE(is_refused([](int fd) { send_raw(fd, FrameKind::hello, 1, 0, nullptr, 0); }));
    EXPECT_TRUE(is_refused([](int fd) { send_raw(fd, FrameKind::hello, 1, 0xffffffffU, nullptr, 0); }));
    EXPECT_TRUE(is_refused([&](int fd) { send_raw(fd, FrameKind::message, 1, sizeof right, &right, sizeof right); }));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(said.find("127.0.0.1"), std::string::npos) << said;
    // And members are served all the same.
    Counting at_a;
    b->send(ProcId(0), numbered(0));
    EXPECT_TRUE(pump_both(*a, at_a.sink(), *b, kNoMail, [&] { return at_a.next == 1; }));
}

TEST_P(RemoteMailTest, NonsenseOfAMemberEndsItsConnection) {
    const auto a = open_one(0);
    const Greeting right{.from = 1, .to = 0, .secret = token_.secret};
    constexpr std::size_t kWelcomeBytes = sizeof(StreamHead) + sizeof(Greeting);
    const auto is_closed_after = [&](const std::function<void(int)>& speak) {
        const int fd = connect_raw(0);
        send_raw(fd, FrameKind::hello, 1, sizeof right, &right, sizeof right);
        speak(fd);
        const bool was_closed = pump_until(
            *a, kNoMail, [&] { return is_closed(fd, kWelcomeBytes); }, 3000);
        ::close(fd);
        return was_closed;
    };
    book_[1] = loopback();  // where nobody listens
    book_[1].port = 1;
    EXPECT_TRUE(is_closed_after([](int fd) { send_raw(fd, FrameKind::message, 1, kBytesMax + 1, nullptr, 0); }));
    EXPECT_TRUE(is_closed_after([](int fd) { send_raw(fd, FrameKind::message, 2, 1, "x", 1); }));
    EXPECT_TRUE(is_closed_after([](int fd) { send_raw(fd, FrameKind::welcome, 1, 1, "x", 1); }));
}

TEST_P(RemoteMailTest, WhoDoesNotSignIsNotHeard) {
    const auto a = open_one(0);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const SocketAddress address(book_[0]);
    connect(fd, address.get(), address.bytes);
    pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, 200) == 1, !is_signed_);
    ::close(fd);
}

TEST(ContactTest, WhatIsNoContactIsRefused) {
    Contact contact;
    contact.node = 3;
    contact.fabric_bytes = 5;
    const Bytes good = contact.bytes();
    ASSERT_TRUE(read_contact(good).has_value());
    EXPECT_EQ(read_contact(good)->node, 3);
    EXPECT_FALSE(read_contact(good.first(good.size() - 1)).has_value());
    EXPECT_FALSE(read_contact({}).has_value());
    Contact bad = contact;
    bad.fabric_bytes = 6;
    EXPECT_FALSE(read_contact(bad.bytes().first(good.size())).has_value());
    bad = contact;
    bad.node = -1;
    EXPECT_FALSE(read_contact(bad.bytes()).has_value());
    bad = contact;
    std::fill(std::begin(bad.node_name), std::end(bad.node_name), 'x');
    EXPECT_FALSE(read_contact(bad.bytes()).has_value());
}

TEST(ContactTest, InterfacesAreFoundByName) {
    NodeInterface found;
    std::string error;
    ASSERT_TRUE(good(find_interface("lo", true, found)));
    EXPECT_EQ(to_string(found.address), "127.0.0.1");
    error = line_of(find_interface("lo", false, found));
    EXPECT_NE(error, "") << "it leads to no other host";
    ASSERT_TRUE(good(find_interface("", true, found)));
    EXPECT_EQ(found.name, "lo");
    error = line_of(find_interface("lo", false, found));
    EXPECT_NE(error, "") << "no other node is reached that way";
    EXPECT_NE(error.find("SHMEM_FT_INTERFACE=lo: the loopback"), std::string::npos) << error;
    error = line_of(find_interface("no-such-card", false, found));
    EXPECT_NE(error, "");
    EXPECT_NE(error.find("SHMEM_FT_INTERFACE=no-such-card"), std::string::npos) << error;
}

}  // namespace
}  // namespace sft
