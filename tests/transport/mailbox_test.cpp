// Mail between real processes: what arrives, in which order, and what it costs.
#include "transport/mail/mailbox.hpp"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "tests/result.hpp"
#include "tests/transport/mail_test.hpp"

namespace sft {
namespace {

TEST_F(MailboxTest, TokensDiffer) {
    const MailToken other = make_mail_token().value();
    EXPECT_NE(token_.name, other.name);
    EXPECT_NE(token_.secret, other.secret);
}

TEST_F(MailboxTest, MessagesArriveOnceAndInOrder) {
    constexpr std::uint32_t n = 20'000;
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0));
    const Signpost is_full;
    Child sender([&] {
        Mailbox own;
        open_or_fail(own, options_of(token_, 1));
        for (std::uint32_t i = 0; i < n; ++i) {
            own.send(ProcId(0), numbered(i));
            if (own.n_waiting() == 10) {
                is_full.reach();
            }
        }
        EXPECT_TRUE(flush_all(own));
        return 0;
    });
    is_full.await();
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
            // Nobody reads until the last one of them is there, and a fork may take half a second (AddressSanitizer).
            return flush_all(own, 10 * kPatienceMs) ? 0 : 1;
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

// Whoever waits for a place in a full queue leaves the processor to the one that has to make it.
TEST_F(MailboxTest, AFullQueueIsTriedSeldom) {
    Mailbox mailbox;
    open_or_fail(mailbox, options_of(token_, 0, 1));
    std::vector<std::unique_ptr<Mailbox>> senders;
    do {
        senders.push_back(std::make_unique<Mailbox>());
        open_or_fail(*senders.back(), options_of(token_, static_cast<std::int32_t>(senders.size())));
        senders.back()->send(ProcId(0), numbered(0));
    } while (senders.back()->n_waiting() == 0 && senders.size() < 100);
    Mailbox& last = *senders.back();
    ASSERT_EQ(last.n_waiting(), 1U);
    int n_tries = 0;
    const auto wakes = [&](ProcId, std::span<const std::byte>) {};
    EXPECT_FALSE(pump_until(
        last, wakes, [&] { return ++n_tries > 1000; }, 500));
    EXPECT_LE(n_tries, 40) << "one in a millisecond, and not one in 32";
    std::size_t n = 0;
    const auto sink = [&](ProcId, std::span<const std::byte>) { ++n; };
    mailbox.pump(sink);
    EXPECT_TRUE(pump_until(last, kNoMail, [&] { return last.n_waiting() == 0; }));
    EXPECT_TRUE(pump_until(mailbox, sink, [&] { return n == senders.size(); }));
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
            own.retire_peer(ProcId(7));
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
    std::vector<Buffer> sent;
    for (int i = 0; i < 20; ++i) {
        sent.push_back(Buffer(i % 3 == 0 ? kBytesMax : i % 3 == 1 ? 0 : kBytesMax - 1, static_cast<std::byte>(i)));
        a.send(ProcId(1), sent.back());
    }
    EXPECT_GT(a.n_waiting(), 0U);
    std::vector<Buffer> received;
    const auto sink = [&](ProcId, auto message) { received.emplace_back(message.begin(), message.end()); };
    while (received.size() < sent.size()) {
        ASSERT_TRUE(pump_until(b, sink, [&] { return a.n_waiting() == 0 || !received.empty(); }));
        b.pump(sink);
        a.pump(kNoMail);
    }
    EXPECT_EQ(received, sent);
    EXPECT_EXIT(a.send(ProcId(1), Buffer(kBytesMax + 1)), testing::ExitedWithCode(kExitError),
                "message.size\\(\\) <= options_.bytes_max");
}

TEST_F(MailboxTest, WithoutRoomForItsMessagesItDoesNotOpen) {
    Mailbox mailbox;
    Mailbox::Options options = options_of(token_, 0);
    options.bytes_max = std::size_t{1} << 28;
    std::string error_line;
    error_line = line_of(mailbox.open(options));
    EXPECT_NE(error_line, "");
    EXPECT_NE(error_line.find("net.core.wmem_max"), std::string::npos) << error_line;
    EXPECT_FALSE(mailbox.is_open());
}

TEST_F(MailboxTest, ANameCannotBeTakenTwice) {
    Mailbox first;
    Mailbox second;
    open_or_fail(first, options_of(token_, 0));
    std::string error_line;
    error_line = line_of(second.open(options_of(token_, 0)));
    EXPECT_NE(error_line, "");
    EXPECT_NE(error_line.find("in use"), std::string::npos) << error_line;
    first.close();
    EXPECT_TRUE(good(second.open(options_of(token_, 0)))) << "a name is free as soon as its owner is gone";
}

TEST_F(MailboxTest, WhatItCosts) {
    constexpr std::uint32_t n_trips = 20'000;
    constexpr std::uint32_t n_stream = 200'000;
    const Buffer message(64);
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
