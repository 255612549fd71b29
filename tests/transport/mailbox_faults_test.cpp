// Mail when somebody dies, lies, forks or runs out of descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <random>

#include "base/clock.hpp"
#include "tests/transport/mail_test.hpp"
#include "tests/transport/raw_peer.hpp"
#include "transport/mail/mailbox.hpp"

namespace sft {
namespace {

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
        mailbox.send(ProcId(1), Buffer(1000));
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

TEST_F(MailboxTest, TheEndOfAnIdleConnectionIsTakenNoteOfOnce) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    auto receiver = std::make_unique<Mailbox>();
    open_or_fail(*receiver, options_of(token_, 1));
    mailbox.send(ProcId(1), numbered(0));
    receiver.reset();
    pollfd entry{.fd = mailbox.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, kPatienceMs), 1);
    mailbox.pump(kNoMail);
    EXPECT_EQ(poll(&entry, 1, 0), 0) << "it would wake its owner for ever";
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
        a.send(ProcId(1), Buffer(1000));
    }
    a.retire_peer(ProcId(1));
    EXPECT_EQ(a.n_waiting(), 0U);
    EXPECT_TRUE(a.flush());
    a.send(ProcId(1), numbered(0));
    EXPECT_EQ(a.n_waiting(), 0U);
    a.retire_peer(ProcId(77));  // never heard of
}

TEST_F(MailboxTest, StrangersAreRefused) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 3));
    const RawFrame good{.from = 1, .to = 3, .secret = token_.secret};
    const auto is_refused = [&](const Buffer& frame) {
        const RawPeer stranger(raw_name(token_, 3));
        stranger.send(frame);
        mailbox.pump(kNoMail);
        mailbox.pump(kNoMail);
        return stranger.is_closed();
    };
    EXPECT_TRUE(is_refused(Buffer(0)));
    EXPECT_TRUE(is_refused(Buffer(5)));
    EXPECT_TRUE(is_refused(Buffer(24)));
    EXPECT_TRUE(is_refused(Buffer(100'000, std::byte{0xff})));
    EXPECT_TRUE(is_refused(Buffer(kBytesMax + 25)));
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
    Buffer too_long = good.bytes();
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
    EXPECT_TRUE(is_dropped(mailbox, ProcId(1))) << "the real one is dead";
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
        a->send(ProcId(1), Buffer(10'000));
    }
    Child heir([&] {
        a->send(ProcId(1), numbered(9));
        EXPECT_TRUE(a->flush());
        b.pump(kNoMail);
        a->retire_peer(ProcId(1));
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

    // With a child that keeps copies of all descriptors, the owner's end is still seen: by whom it has accepted, by
    // whom it has not, and by whom comes later.
    Mailbox early;
    Mailbox late;
    open_or_fail(early, options_of(token_, 2));
    open_or_fail(late, options_of(token_, 3));
    n = 0;
    b.send(ProcId(0), numbered(0));
    ASSERT_TRUE(pump_until(*a, sink, [&] { return n == 1; }));
    early.send(ProcId(0), numbered(1));
    const Child sleeper([] {
        pause();
        return 0;
    });
    a.reset();
    EXPECT_TRUE(is_dropped(b, ProcId(0)));
    EXPECT_TRUE(is_dropped(early, ProcId(0)));
    EXPECT_TRUE(is_dropped(late, ProcId(0)));
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

}  // namespace
}  // namespace sft
