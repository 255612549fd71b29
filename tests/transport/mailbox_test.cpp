// Mail between real processes: order, loss only with the dead, strangers, fork, and what a message costs.
#include "shmem_ft/transport/mail/mailbox.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>

#include "shmem_ft/base/clock.hpp"
#include "shmem_ft/base/report.hpp"
#include "tests/transport/raw_peer.hpp"

namespace sft {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kBytesMax = 160 * 1024;
constexpr int kPatienceMs = 20'000;

const Mailbox::Sink kNoMail = [](ProcId from, std::span<const std::byte>) {
    ADD_FAILURE() << "mail from " << from.value();
};

Mailbox::Options options_of(const MailToken& token, std::int32_t self, int backlog = 4096) {
    return {.token = token, .self = ProcId(self), .bytes_max = kBytesMax, .backlog = backlog};
}

void open_or_fail(Mailbox& mailbox, const Mailbox::Options& options) {
    std::string error_line;
    if (!mailbox.open(options, error_line)) {
        die("%s", error_line.c_str());
    }
}

// Number `i` of a sequence: its length and bytes follow from it.
Bytes numbered(std::uint32_t i, std::size_t length_max = 3000) {
    Bytes bytes(sizeof i + i * 7919U % length_max, static_cast<std::byte>(i & 0xff));
    std::memcpy(bytes.data(), &i, sizeof i);
    return bytes;
}

bool is_number(std::span<const std::byte> message, std::uint32_t i) {
    const Bytes expected = numbered(i);
    return std::equal(message.begin(), message.end(), expected.begin(), expected.end());
}

// Until `is_done`; false: too long.
bool pump_until(Mailbox& mailbox, const Mailbox::Sink& sink, const std::function<bool()>& is_done,
                int patience_ms = kPatienceMs) {
    const std::int64_t end_ns = now_ns() + patience_ms * std::int64_t{1'000'000};
    while (!is_done()) {
        const std::int64_t left_ns = end_ns - now_ns();
        if (left_ns <= 0) {
            return false;
        }
        pollfd entry{.fd = mailbox.fd(), .events = POLLIN, .revents = 0};
        if (poll(&entry, 1, static_cast<int>(left_ns / 1'000'000) + 1) > 0) {
            mailbox.pump(sink);
        }
    }
    return true;
}

bool flush_all(Mailbox& mailbox) {
    return pump_until(
        mailbox, [](ProcId, std::span<const std::byte>) {}, [&] { return mailbox.flush(); });
}

class Child {
public:
    // Runs `body`, whose result is the exit status; _exit, so nothing of the parent is destroyed there.
    explicit Child(const std::function<int()>& body) {
        std::fflush(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            const int status = body();
            std::fflush(nullptr);
            _exit(testing::Test::HasFailure() ? 99 : status);
        }
    }
    ~Child() { end(SIGKILL); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    int end(int signal = 0) {
        int status = -1;
        if (pid_ > 0) {
            if (signal != 0) {
                kill(pid_, signal);
            }
            waitpid(pid_, &status, 0);
            pid_ = -1;
        }
        return status;
    }
    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    pid_t pid_;
};

// One process tells another that it is so far.
class Signpost {
public:
    Signpost() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
    ~Signpost() {
        ::close(ends_[0]);
        ::close(ends_[1]);
    }
    Signpost(const Signpost&) = delete;
    Signpost& operator=(const Signpost&) = delete;
    void reach() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
    void await() const {
        char byte;
        EXPECT_EQ(read(ends_[0], &byte, 1), 1);
    }

private:
    int ends_[2] = {-1, -1};
};

class MailboxTest : public testing::Test {
protected:
    MailToken token_ = make_mail_token().value();
};

TEST_F(MailboxTest, TokensDiffer) {
    const MailToken other = make_mail_token().value();
    EXPECT_NE(token_.name, other.name);
    EXPECT_NE(token_.secret, other.secret);
}

TEST_F(MailboxTest, MessagesArriveOnceAndInOrder) {
    constexpr std::uint32_t n = 20'000;
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    Child sender([&] {
        Mailbox own;
        open_or_fail(own, options_of(token_, 1));
        std::size_t most_waiting = 0;
        for (std::uint32_t i = 0; i < n; ++i) {
            own.send(ProcId(0), numbered(i));
            most_waiting = std::max(most_waiting, own.n_waiting());
        }
        EXPECT_GT(most_waiting, 0U) << "there was always room: the test tests too little";
        EXPECT_TRUE(flush_all(own));
        return 0;
    });
    usleep(100'000);  // so that there is no room for a while
    std::uint32_t next = 0;
    const auto sink = [&](ProcId from, std::span<const std::byte> message) {
        EXPECT_EQ(from, ProcId(1));
        EXPECT_TRUE(is_number(message, next)) << next;
        ++next;
    };
    EXPECT_TRUE(pump_until(mailbox, sink, [&] { return next >= n; })) << next;
    EXPECT_EQ(sender.end(), 0);
    mailbox.pump(sink);
    EXPECT_EQ(next, n);
}

TEST_F(MailboxTest, ManySendersToOne) {
    constexpr std::int32_t n_senders = 64;
    constexpr std::uint32_t n = 200;
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0, 1));  // most of them have to try again
    std::vector<std::unique_ptr<Child>> senders;
    for (std::int32_t self = 1; self <= n_senders; ++self) {
        senders.push_back(std::make_unique<Child>([&, self] {
            Mailbox own;
            open_or_fail(own, options_of(token_, self));
            for (std::uint32_t i = 0; i < n; ++i) {
                own.send(ProcId(0), numbered(i));
            }
            return flush_all(own) ? 0 : 1;
        }));
    }
    std::map<std::int32_t, std::uint32_t> next;
    std::uint32_t total = 0;
    const auto sink = [&](ProcId from, std::span<const std::byte> message) {
        EXPECT_TRUE(is_number(message, next[from.value()]++));
        ++total;
    };
    EXPECT_TRUE(pump_until(mailbox, sink, [&] { return total == n * n_senders; })) << total;
    EXPECT_EQ(next.size(), static_cast<std::size_t>(n_senders));
    for (auto& sender : senders) {
        EXPECT_EQ(sender->end(), 0);
    }
}

TEST_F(MailboxTest, TheSinkMayAnswer) {
    Mailbox a;
    Mailbox b;
    open_or_fail(a, options_of(token_, 0));
    open_or_fail(b, options_of(token_, 1));
    std::uint32_t n = 0;
    const auto answer = [&n](Mailbox& own) {
        return [&own, &n](ProcId from, std::span<const std::byte> message) {
            EXPECT_TRUE(is_number(message, n++));
            own.send(from, numbered(n));
            own.forget(ProcId(7));
            own.flush();
        };
    };
    a.send(ProcId(1), numbered(0));
    while (n < 1000) {
        ASSERT_TRUE(pump_until(b, answer(b), [&] { return n % 2 == 1; }));
        ASSERT_TRUE(pump_until(a, answer(a), [&] { return n % 2 == 0; }));
    }
}

TEST_F(MailboxTest, APostmanMayWriteToHimself) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 5));
    mailbox.send(ProcId(5), numbered(3));
    bool is_here = false;
    EXPECT_TRUE(pump_until(
        mailbox, [&](ProcId from, auto message) { is_here = from == ProcId(5) && is_number(message, 3); },
        [&] { return is_here; }));
}

TEST_F(MailboxTest, TheLargestAndTheSmallest) {
    Mailbox a;
    Mailbox b;
    open_or_fail(a, options_of(token_, 0));
    open_or_fail(b, options_of(token_, 1));
    std::vector<Bytes> sent;
    for (int i = 0; i < 20; ++i) {
        sent.push_back(Bytes(i % 3 == 0 ? kBytesMax : i % 3 == 1 ? 0 : kBytesMax - 1, static_cast<std::byte>(i)));
        a.send(ProcId(1), sent.back());
    }
    EXPECT_GT(a.n_waiting(), 0U);
    std::vector<Bytes> received;
    const auto sink = [&](ProcId, auto message) { received.emplace_back(message.begin(), message.end()); };
    while (received.size() < sent.size()) {
        ASSERT_TRUE(pump_until(b, sink, [&] { return a.n_waiting() == 0 || !received.empty(); }));
        b.pump(sink);
        a.pump(kNoMail);
    }
    EXPECT_EQ(received, sent);
    EXPECT_EXIT(a.send(ProcId(1), Bytes(kBytesMax + 1)), testing::ExitedWithCode(kExitError), "larger than 163840");
}

TEST_F(MailboxTest, WithoutRoomForItsMessagesItDoesNotOpen) {
    Mailbox mailbox;
    Mailbox::Options options = options_of(token_, 0);
    options.bytes_max = std::size_t{1} << 28;
    std::string error_line;
    EXPECT_FALSE(mailbox.open(options, error_line));
    EXPECT_NE(error_line.find("net.core.wmem_max"), std::string::npos) << error_line;
    EXPECT_FALSE(mailbox.is_open());
}

TEST_F(MailboxTest, MailToTheDeadIsDropped) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    mailbox.send(ProcId(9), numbered(1));  // never was there
    EXPECT_EQ(mailbox.n_waiting(), 0U);

    const Signpost is_open;
    Child receiver([&] {
        Mailbox own;
        open_or_fail(own, options_of(token_, 1));
        is_open.reach();
        pause();
        return 0;
    });
    is_open.await();
    while (mailbox.n_waiting() < 10) {
        mailbox.send(ProcId(1), Bytes(1000));
    }
    EXPECT_FALSE(mailbox.flush());
    receiver.end(SIGKILL);
    // Nobody sends any more: the end of the connection alone frees what waits.
    EXPECT_TRUE(pump_until(mailbox, kNoMail, [&] { return mailbox.n_waiting() == 0; }));
    mailbox.send(ProcId(1), numbered(1));
    EXPECT_EQ(mailbox.n_waiting(), 0U);
    pollfd entry{.fd = mailbox.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, 0), 0) << "nothing is left to do";
}

TEST_F(MailboxTest, ASendToOneThatHasJustDiedIsDropped) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    auto receiver = std::make_unique<Mailbox>();
    open_or_fail(*receiver, options_of(token_, 1));
    mailbox.send(ProcId(1), numbered(0));
    receiver.reset();
    for (std::uint32_t i = 0; i < 10; ++i) {
        mailbox.send(ProcId(1), numbered(i));  // EPIPE, and no SIGPIPE
    }
    EXPECT_EQ(mailbox.n_waiting(), 0U);
}

TEST_F(MailboxTest, WhatWasSentOutlivesItsSender) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    for (std::int32_t self = 1; self <= 50; ++self) {
        Child sender([&] {
            Mailbox own;
            open_or_fail(own, options_of(token_, self));
            own.send(ProcId(0), numbered(1));
            own.send(ProcId(0), numbered(2));
            kill(getpid(), SIGKILL);
            return 0;
        });
        sender.end();
        std::uint32_t n = 0;
        mailbox.pump([](auto, auto) { FAIL() << "before it was accepted"; });
        const auto sink = [&](ProcId from, auto message) {
            EXPECT_EQ(from, ProcId(self));
            EXPECT_TRUE(is_number(message, ++n));
        };
        ASSERT_TRUE(pump_until(mailbox, sink, [&] { return n == 2; })) << self;
    }
}

// Killed anywhere: what arrives is a beginning of what was sent, each message whole.
TEST_F(MailboxTest, DeathAnywhereLeavesWholeMessages) {
    std::mt19937 random(11);
    for (std::int32_t round = 0; round < 60; ++round) {
        Mailbox mailbox;
        open_or_fail(mailbox, options_of(token_, 0));
        Child sender([&] {
            Mailbox own;
            open_or_fail(own, options_of(token_, 1));
            for (std::uint32_t i = 0;; ++i) {
                own.send(ProcId(0), numbered(i));
                own.pump(kNoMail);
            }
            return 0;
        });
        std::uint32_t n = 0;
        bool is_whole = true;
        const auto sink = [&](ProcId, auto message) { is_whole = is_number(message, n++) && is_whole; };
        const std::int64_t end_ns = now_ns() + static_cast<std::int64_t>(random() % 8'000'000);
        pump_until(
            mailbox, sink, [&] { return now_ns() > end_ns; }, 100);
        sender.end(SIGKILL);
        while (mailbox.pump(sink)) {
        }
        ASSERT_TRUE(is_whole) << round;
    }
}

TEST_F(MailboxTest, ForgettingDropsWhatWaits) {
    Mailbox a;
    Mailbox b;
    open_or_fail(a, options_of(token_, 0));
    open_or_fail(b, options_of(token_, 1));
    while (a.n_waiting() == 0) {
        a.send(ProcId(1), Bytes(1000));
    }
    a.forget(ProcId(1));
    EXPECT_EQ(a.n_waiting(), 0U);
    EXPECT_TRUE(a.flush());
    a.send(ProcId(1), numbered(0));
    EXPECT_EQ(a.n_waiting(), 0U);
    a.forget(ProcId(77));  // never heard of
}

TEST_F(MailboxTest, ANameCannotBeTakenTwice) {
    Mailbox first;
    Mailbox second;
    open_or_fail(first, options_of(token_, 0));
    std::string error_line;
    EXPECT_FALSE(second.open(options_of(token_, 0), error_line));
    EXPECT_NE(error_line.find("in use"), std::string::npos) << error_line;
    first.close();
    EXPECT_TRUE(second.open(options_of(token_, 0), error_line)) << "a name is free as soon as its owner is gone";
}

TEST_F(MailboxTest, StrangersAreRefused) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 3));
    const RawFrame good{.from = 1, .to = 3, .secret = token_.secret};
    const auto is_refused = [&](const Bytes& frame) {
        const RawPeer stranger(raw_name(token_, 3));
        stranger.send(frame);
        mailbox.pump(kNoMail);
        mailbox.pump(kNoMail);
        return stranger.is_closed();
    };
    EXPECT_TRUE(is_refused(Bytes(0)));
    EXPECT_TRUE(is_refused(Bytes(5)));
    EXPECT_TRUE(is_refused(Bytes(24)));
    EXPECT_TRUE(is_refused(Bytes(100'000, std::byte{0xff})));
    EXPECT_TRUE(is_refused(Bytes(kBytesMax + 25)));
    const auto changed = [&](auto change) {
        RawFrame frame = good;
        change(frame);
        return frame.bytes();
    };
    EXPECT_TRUE(is_refused(changed([](RawFrame& frame) { frame.secret ^= 1; })));
    EXPECT_TRUE(is_refused(changed([](RawFrame& frame) { frame.magic ^= 1; })));
    EXPECT_TRUE(is_refused(changed([](RawFrame& frame) { frame.layout = 2; })));
    EXPECT_TRUE(is_refused(changed([](RawFrame& frame) { frame.to = 4; })));
    EXPECT_TRUE(is_refused(changed([](RawFrame& frame) { frame.from = -1; })));
    Bytes too_long = good.bytes();
    too_long.resize(kBytesMax + 25);
    EXPECT_TRUE(is_refused(too_long)) << "cut off";

    std::vector<ProcId> heard;
    const auto sink = [&](ProcId from, auto) { heard.push_back(from); };
    const RawPeer turncoat(raw_name(token_, 3));
    turncoat.send(good.bytes());
    turncoat.send(changed([](RawFrame& frame) { frame.from = 2; }));
    mailbox.pump(sink);
    mailbox.pump(sink);
    EXPECT_EQ(heard, std::vector<ProcId>{ProcId(1)}) << "a good frame is taken, another name is not";
    EXPECT_TRUE(turncoat.is_closed());
}

TEST_F(MailboxTest, OtherUsersAreRefused) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can be somebody else";
    }
    constexpr uid_t nobody = 65534;
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    const Signpost is_there;
    const Signpost is_over;
    Child other([&] {
        EXPECT_EQ(setresuid(nobody, nobody, nobody), 0);
        const RawPeer stranger(raw_name(token_, 0));
        stranger.send(RawFrame{.from = 1, .to = 0, .secret = token_.secret}.bytes());
        Mailbox thief;
        open_or_fail(thief, options_of(token_, 1));
        is_there.reach();
        is_over.await();
        thief.pump(kNoMail);
        return stranger.is_closed() ? 0 : 1;
    });
    is_there.await();
    mailbox.pump(kNoMail);
    mailbox.pump(kNoMail);
    mailbox.send(ProcId(1), numbered(1));
    EXPECT_EQ(mailbox.n_waiting(), 0U) << "the real one is dead";
    is_over.reach();
    EXPECT_EQ(other.end(), 0);
}

TEST_F(MailboxTest, ChildrenOfTheApplicationDisturbNothing) {
    auto a = std::make_unique<Mailbox>();
    Mailbox b;
    open_or_fail(*a, options_of(token_, 0));
    open_or_fail(b, options_of(token_, 1));
    std::uint32_t n = 0;
    const auto sink = [&](ProcId, auto message) { EXPECT_TRUE(is_number(message, n++)); };
    a->send(ProcId(1), numbered(0));
    ASSERT_TRUE(pump_until(b, sink, [&] { return n == 1; }));
    while (a->n_waiting() == 0) {
        a->send(ProcId(1), Bytes(10'000));
    }
    Child heir([&] {
        a->send(ProcId(1), numbered(9));
        EXPECT_TRUE(a->flush());
        b.pump(kNoMail);
        a->forget(ProcId(1));
        a.reset();
        b.close();
        return 0;
    });
    EXPECT_EQ(heir.end(), 0);
    std::uint32_t n_plain = 0;
    while (a->n_waiting() > 0) {
        b.pump([&](ProcId, auto message) { n_plain += message.size() == 10'000 ? 1U : 1000U; });
        a->pump(kNoMail);
    }
    while (b.pump([&](ProcId, auto message) { n_plain += message.size() == 10'000 ? 1U : 1000U; })) {
    }
    EXPECT_LT(n_plain, 1000U) << "only what the parent has sent";
    a->send(ProcId(1), numbered(1));
    EXPECT_TRUE(pump_until(b, sink, [&] { return n == 2; }));

    // With a child that keeps copies of all descriptors, the owner's end is still seen.
    const Child sleeper([] {
        pause();
        return 0;
    });
    b.send(ProcId(0), numbered(0));
    a.reset();
    b.send(ProcId(0), numbered(1));
    EXPECT_EQ(b.n_waiting(), 0U);
    Mailbox late;
    open_or_fail(late, options_of(token_, 2));
    late.send(ProcId(0), numbered(1));
    EXPECT_EQ(late.n_waiting(), 0U) << "it listens no more";
    while (b.pump(kNoMail)) {
    }
    pollfd entry{.fd = b.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, 0), 0) << "closed descriptors whose copies live do not wake anybody";
}

std::map<int, int> open_descriptors() {
    std::map<int, int> flags;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int fd = std::stoi(entry.path().filename());
        flags[fd] = fcntl(fd, F_GETFD);
    }
    return flags;
}

TEST_F(MailboxTest, DescriptorsAreClosedByExecAndByTheEnd) {
    const auto before = open_descriptors();
    {
        Mailbox a;
        Mailbox b;
        open_or_fail(a, options_of(token_, 0));
        open_or_fail(b, options_of(token_, 1));
        a.send(ProcId(1), numbered(1));
        std::uint32_t n = 0;
        ASSERT_TRUE(pump_until(
            b, [&](auto, auto) { ++n; }, [&] { return n == 1; }));
        for (const auto& [fd, flags] : open_descriptors()) {
            if (!before.contains(fd) && flags >= 0) {  // the directory itself is closed by now
                EXPECT_NE(flags & FD_CLOEXEC, 0) << fd;
            }
        }
        EXPECT_GE(open_descriptors().size(), before.size() + 8);
    }
    EXPECT_EQ(open_descriptors().size(), before.size());
}

// Out of descriptors on either side: messages wait, and go on by themselves when there are some again.
TEST_F(MailboxTest, WithoutDescriptorsMessagesWait) {
    Child process([&] {
        Mailbox a;
        Mailbox b;
        open_or_fail(a, options_of(token_, 0));
        open_or_fail(b, options_of(token_, 1));
        rlimit original{};
        getrlimit(RLIMIT_NOFILE, &original);
        const auto allow_until = [&](int fd) {
            rlimit limit = original;
            limit.rlim_cur = static_cast<rlim_t>(fd);
            EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        };
        const int highest = open_descriptors().rbegin()->first;
        int first_free = dup(0);
        while (first_free < highest) {  // no holes below
            first_free = dup(0);
        }
        ::close(first_free);
        allow_until(first_free);
        a.send(ProcId(1), numbered(0));
        EXPECT_EQ(a.n_waiting(), 1U);
        pump_until(
            a, kNoMail, [] { return false; }, 20);
        EXPECT_EQ(a.n_waiting(), 1U);
        allow_until(first_free + 1);
        EXPECT_TRUE(pump_until(a, kNoMail, [&] { return a.n_waiting() == 0; })) << "a has one again";
        std::uint32_t n = 0;
        const auto sink = [&](ProcId, auto message) { EXPECT_TRUE(is_number(message, n++)); };
        pump_until(
            b, sink, [] { return false; }, 20);
        EXPECT_EQ(n, 0U) << "b has none";
        allow_until(first_free + 2);
        EXPECT_TRUE(pump_until(b, sink, [&] { return n == 1; })) << "b has one again";
        return 0;
    });
    EXPECT_EQ(process.end(), 0);
}

TEST_F(MailboxTest, WhatItCosts) {
    constexpr std::uint32_t n_trips = 20'000;
    constexpr std::uint32_t n_stream = 200'000;
    const Bytes message(64);
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    const Signpost is_open;
    Child echo([&] {
        Mailbox own;
        open_or_fail(own, options_of(token_, 1));
        is_open.reach();
        std::uint32_t n = 0;
        const auto sink = [&](ProcId from, std::span<const std::byte> received) {
            if (++n <= n_trips || n == n_trips + n_stream) {
                own.send(from, received);
            }
        };
        epoll_event event{};
        while (n < n_trips + n_stream && epoll_wait(own.fd(), &event, 1, kPatienceMs) > 0) {
            own.pump(sink);
        }
        return flush_all(own) ? 0 : 1;
    });
    is_open.await();
    std::vector<std::int64_t> times;
    std::uint32_t n_back = 0;
    const auto sink = [&](ProcId, auto) { ++n_back; };
    epoll_event event{};
    for (std::uint32_t i = 0; i < n_trips; ++i) {
        const std::int64_t begin = now_ns();
        mailbox.send(ProcId(1), message);
        while (n_back == i && epoll_wait(mailbox.fd(), &event, 1, kPatienceMs) > 0) {
            mailbox.pump(sink);
        }
        times.push_back(now_ns() - begin);
    }
    ASSERT_EQ(n_back, n_trips);
    std::sort(times.begin(), times.end());
    const std::int64_t begin = now_ns();
    for (std::uint32_t i = 0; i < n_stream; ++i) {
        mailbox.send(ProcId(1), message);
        // As an owner would: what finds no room waits for the kernel's sign.
        if (mailbox.n_waiting() > 1000) {
            pump_until(mailbox, sink, [&] { return mailbox.n_waiting() == 0; });
        }
    }
    ASSERT_TRUE(pump_until(mailbox, sink, [&] { return n_back == n_trips + 1; }));
    const auto stream_ns = static_cast<double>(now_ns() - begin);
    std::printf("round trip of 64 bytes: median %.1f us, 99%% below %.1f us; stream: %.0f thousand messages a second\n",
                static_cast<double>(times[n_trips / 2]) / 1e3, static_cast<double>(times[n_trips / 100 * 99]) / 1e3,
                n_stream / stream_ns * 1e6);
    EXPECT_EQ(echo.end(), 0);
}

}  // namespace
}  // namespace sft
