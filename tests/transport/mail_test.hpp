// What the tests of the mailbox share: numbered messages, waiting with patience, processes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "tests/transport/child.hpp"
#include "transport/mail/mailbox.hpp"

namespace sft {

using Buffer = std::vector<std::byte>;

inline constexpr std::size_t kBytesMax = 160 * 1024;
inline constexpr int kPatienceMs = 20'000;

inline const Mailbox::Sink kNoMail = [](ProcId from, std::span<const std::byte>) {
    ADD_FAILURE() << "mail from " << from.value();
};

inline Mailbox::Options options_of(const MailToken& token, std::int32_t self, int backlog = 4096) {
    return {.token = token, .self = ProcId(self), .bytes_max = kBytesMax, .backlog = backlog};
}

inline void open_or_fail(Mailbox& mailbox, const Mailbox::Options& options) {
    if (const Result<> opened = mailbox.open(options); !opened) {
        die("%s", opened.error().line.c_str());
    }
}

// Number `i` of a sequence: its length and bytes follow from it.
inline Buffer numbered(std::uint32_t i, std::size_t length_max = 3000) {
    Buffer bytes(sizeof i + i * 7919U % length_max, static_cast<std::byte>(i & 0xff));
    std::memcpy(bytes.data(), &i, sizeof i);
    return bytes;
}

inline bool is_number(std::span<const std::byte> message, std::uint32_t i) {
    const Buffer expected = numbered(i);
    return std::equal(message.begin(), message.end(), expected.begin(), expected.end());
}

// Until `is_done`; false: too long.
inline bool pump_until(Mailbox& mailbox, const Mailbox::Sink& sink, const std::function<bool()>& is_done,
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

inline bool flush_all(Mailbox& mailbox, int patience_ms = kPatienceMs) {
    return pump_until(
        mailbox, [](ProcId, std::span<const std::byte>) {}, [&] { return mailbox.flush(); }, patience_ms);
}

// More than any socket has room for: nothing waits afterwards only if it was dropped.
inline bool is_dropped(Mailbox& mailbox, ProcId to) {
    for (int i = 0; i < 200; ++i) {
        mailbox.send(to, Buffer(10'000));
    }
    return mailbox.n_waiting() == 0;
}

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

}  // namespace sft
