// The fabric on libfabric: what is special to it. Every process here is one of its own, or a fabric of its own in the
// test's process; they talk over the loopback interface.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "tests/result.hpp"
#include "transport/fabric.hpp"
#include "transport/net/listeners.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::vector<std::byte> pattern(std::size_t n, std::size_t seed) {
    std::vector<std::byte> bytes(n);
    for (std::size_t i = 0; i < n; ++i) {
        bytes[i] = static_cast<std::byte>((i * 131 + i / 251 + seed * 17) & 0xff);
    }
    return bytes;
}

// One process of a job: a fabric and what it has received.
class Side : public FabricReceiver {
public:
    struct Large {
        ProcId from = kNoProc;
        std::vector<std::byte> bytes;
        bool is_over = false;
        bool is_whole = false;
    };

    explicit Side(std::int32_t self, const std::string& address = "127.0.0.1") {
        auto made = make_fabric("ofi");
        EXPECT_TRUE(good(made));
        fabric = std::move(*made);
        EXPECT_TRUE(good(fabric->open(
            {.self = ProcId(self), .n_slots = 16, .receiver = this, .interface = "", .address = address})));
    }

    // Heads say who sends and which large message this is: "from:text".
    void message(Bytes head, Bytes payload) override {
        heads.emplace_back(reinterpret_cast<const char*>(head.data()), head.size());
        small.emplace_back(payload.begin(), payload.end());
    }
    Place place(Bytes head, std::size_t payload_bytes) override {
        heads.emplace_back(reinterpret_cast<const char*>(head.data()), head.size());
        if (drops) {
            return {};
        }
        Large& large = incoming[++n_places];
        large.from = ProcId(std::stoi(heads.back()));
        large.bytes.assign(payload_bytes, std::byte{0xee});
        return {.address = large.bytes.data(), .from = large.from, .ticket = n_places};
    }
    void arrived(std::uint64_t ticket, bool is_whole) override {
        EXPECT_FALSE(incoming.at(ticket).is_over);
        incoming.at(ticket).is_over = true;
        incoming.at(ticket).is_whole = is_whole;
    }
    void sent(std::uint64_t ticket) override { EXPECT_EQ(++sent_tickets[ticket], 1); }

    std::unique_ptr<Fabric> fabric;
    std::vector<std::string> heads;
    std::vector<std::vector<std::byte>> small;
    std::map<std::uint64_t, Large> incoming;
    std::map<std::uint64_t, int> sent_tickets;
    std::uint64_t n_places = 0;
    bool drops = false;
};

// Works, or sleeps until there is work; no longer than that.
void work(Side& side, int limit_ms = 1000) {
    if (!side.fabric->progress() && side.fabric->arm()) {
        pollfd fd{side.fabric->fd(), POLLIN, 0};
        ::poll(&fd, 1, limit_ms);
    }
}

void introduce(Side& one, std::int32_t one_number, Side& other, std::int32_t other_number) {
    one.fabric->introduce(ProcId(other_number), other.fabric->address());
    other.fabric->introduce(ProcId(one_number), one.fabric->address());
}

// Lets them work until `is_done`. False: it took too long.
bool run(const std::vector<Side*>& sides, const std::function<bool()>& is_done, int limit_ms = 20000) {
    const std::int64_t end_ns = now_ns() + std::int64_t{limit_ms} * 1'000'000;
    while (!is_done()) {
        if (now_ns() > end_ns) {
            return false;
        }
        for (Side* side : sides) {
            sides.size() == 1 ? work(*side, 5) : static_cast<void>(side->fabric->progress());
        }
    }
    return true;
}

// Another process, which runs `body` with a fabric of its own, number 1. `body` gets a way to wait until told.
class Child {
public:
    using Body = std::function<void(Side&)>;

    // Before any fabric is opened here: a fabric does not survive a fork.
    explicit Child(Body body, std::int32_t number = 1) : number_(number) {
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_), 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::close(sockets_[0]);
            Side side(number);
            put(sockets_[1], side.fabric->address());
            side.fabric->introduce(ProcId(0), get(sockets_[1]));
            body(side);
            ::_exit(::testing::Test::HasFailure() ? 1 : 0);
        }
        ::close(sockets_[1]);
    }
    ~Child() {
        kill(SIGKILL);
        ::close(sockets_[0]);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void meet(Side& side) {
        side.fabric->introduce(ProcId(number_), get(sockets_[0]));
        put(sockets_[0], side.fabric->address());
    }
    void signal(int number) const { ::kill(process_, number); }
    // When this returns it is dead, or stopped.
    void stop() const {
        ::kill(process_, SIGSTOP);
        ::waitpid(process_, nullptr, WUNTRACED);
    }
    void kill(int number) {
        if (process_ > 0) {
            ::kill(process_, number);
            ::waitpid(std::exchange(process_, -1), nullptr, 0);
        }
    }

private:
    static void put(int socket, Bytes bytes) { EXPECT_GT(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0); }
    static std::vector<std::byte> get(int socket) {
        std::vector<std::byte> bytes(kFabricAddressBytes);
        const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), 0);
        EXPECT_GT(n, 0);
        bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        return bytes;
    }

    std::int32_t number_;
    int sockets_[2] = {-1, -1};
    pid_t process_ = -1;
};

TEST(Ofi, MovesMessagesOfAllSizesInOrder) {
    Side one(0);
    Side other(1);
    introduce(one, 0, other, 1);
    EXPECT_NE(one.fabric->describe().find("ofi ("), std::string::npos);
    EXPECT_LE(one.fabric->address().size(), kFabricAddressBytes);
    const std::vector<std::size_t> sizes{0,     1,      8,        64,     4096, 8191,     8192, 8193,
                                         65536, 262143, 262144,   262145, kMiB, kMiB + 7, 0,    4 * kMiB,
                                         8,     300000, 3 * kMiB, 8,      8193, 100};
    std::deque<std::vector<std::byte>> payloads;
    std::vector<std::uint64_t> pending;
    std::vector<std::string> heads;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        heads.push_back("0:" + std::to_string(i));
        payloads.push_back(pattern(sizes[i], i));
        const Fabric::Sent sent = one.fabric->send(ProcId(1), bytes_of(heads.back()), payloads.back(), i);
        ASSERT_NE(sent, Fabric::Sent::gone);
        if (sent == Fabric::Sent::pending) {
            pending.push_back(i);
        } else {
            std::fill(payloads.back().begin(), payloads.back().end(), std::byte{0x55});  // it has been taken
        }
    }
    ASSERT_TRUE(run({&one, &other}, [&] {
        return other.heads.size() == sizes.size() && one.sent_tickets.size() == pending.size() &&
               std::all_of(other.incoming.begin(), other.incoming.end(),
                           [](const auto& l) { return l.second.is_over; });
    }));
    EXPECT_EQ(other.heads, heads);
    std::size_t n_small = 0;
    std::uint64_t n_large = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool is_small = sizes[i] <= one.fabric->eager_bytes();
        EXPECT_EQ(is_small ? other.small[n_small++] : other.incoming[++n_large].bytes, pattern(sizes[i], i))
            << sizes[i];
    }
    EXPECT_EQ(other.incoming.size(), n_large);
}

TEST(Ofi, DropsWhatHasNoPlace) {
    Side one(0);
    Side other(1);
    introduce(one, 0, other, 1);
    other.drops = true;
    const std::vector<std::byte> payload = pattern(2 * kMiB, 1);
    ASSERT_EQ(one.fabric->send(ProcId(1), bytes_of("0:large"), payload, 7), Fabric::Sent::pending);
    ASSERT_EQ(one.fabric->send(ProcId(1), bytes_of("0:small"), {}, 8), Fabric::Sent::done);
    ASSERT_TRUE(run({&one, &other}, [&] { return other.heads.size() == 2 && one.sent_tickets.count(7) == 1; }));
    EXPECT_TRUE(other.incoming.empty());
}

// Nobody spins: whoever has nothing to do sleeps on fd(), and is woken by what comes.
TEST(Ofi, WakesWhoSleeps) {
    Side one(0);
    Side other(1);
    introduce(one, 0, other, 1);
    const std::vector<std::byte> payload = pattern(kMiB, 3);
    for (int round = 1; round <= 20; ++round) {
        const bool is_large = round % 2 == 0;
        ASSERT_NE(one.fabric->send(ProcId(1), bytes_of("0:ping"), is_large ? Bytes(payload) : Bytes(),
                                   1000U + static_cast<unsigned>(round)),
                  Fabric::Sent::gone);
        while (other.heads.size() < static_cast<std::size_t>(round) ||
               one.sent_tickets.size() < static_cast<std::size_t>(round / 2) ||
               std::any_of(other.incoming.begin(), other.incoming.end(),
                           [](const auto& l) { return !l.second.is_over; })) {
            const bool is_busy = one.fabric->progress() || other.fabric->progress();
            if (!is_busy && one.fabric->arm() && other.fabric->arm()) {
                pollfd fds[] = {{one.fabric->fd(), POLLIN, 0}, {other.fabric->fd(), POLLIN, 0}};
                ASSERT_GT(::poll(fds, 2, 5000), 0) << "nobody was woken in round " << round;
            }
        }
    }
}

// An address whose key is wrong leads to the process, but what is sent there is not heard.
TEST(Ofi, DoesNotHearStrangers) {
    Side one(0);
    Side other(1);
    introduce(one, 0, other, 1);
    Side stranger(2);
    std::vector<std::byte> address(one.fabric->address().begin(), one.fabric->address().end());
    Bytes behind_listeners(address);
    static_cast<void>(unpack(behind_listeners));  // the key follows
    address[address.size() - behind_listeners.size()] ^= std::byte{1};
    stranger.fabric->introduce(ProcId(0), address);
    for (const std::size_t n : {std::size_t{0}, std::size_t{4000}, 2 * kMiB}) {
        const std::vector<std::byte> payload = pattern(n, 1);
        static_cast<void>(stranger.fabric->send(ProcId(0), bytes_of("2:x"), payload, n));
        ASSERT_TRUE(run({&one, &stranger}, [&] { return n < kMiB || stranger.sent_tickets.size() == 1; }));
    }
    ASSERT_EQ(other.fabric->send(ProcId(0), bytes_of("1:known"), {}, 1), Fabric::Sent::done);
    ASSERT_TRUE(run({&one, &other, &stranger}, [&] { return !one.heads.empty(); }));
    EXPECT_EQ(one.heads, std::vector<std::string>{"1:known"});
}

// What nobody takes in does not block the sender and goes nowhere near the other receivers; retire_peer() gives it
// back.
TEST(Ofi, GivesBackWhatIsUnderWayToTheForgotten) {
    Side one(0);
    Side deaf(1);  // makes no progress
    Side other(2);
    introduce(one, 0, deaf, 1);
    introduce(one, 0, other, 2);
    const std::vector<std::byte> payload = pattern(8 * kMiB, 3);
    std::size_t n_pending = 0;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const bool is_large = i % 100 == 7;
        const Bytes bytes = Bytes(payload).first(is_large ? payload.size() : 3000);
        const Fabric::Sent sent = one.fabric->send(ProcId(1), bytes_of("0:x"), bytes, i);
        ASSERT_NE(sent, Fabric::Sent::gone);
        n_pending += sent == Fabric::Sent::pending ? 1 : 0;
        one.fabric->progress();
    }
    ASSERT_EQ(one.fabric->send(ProcId(2), bytes_of("0:y"), Bytes(payload), 5000), Fabric::Sent::pending);
    ASSERT_TRUE(run({&one, &other}, [&] { return other.incoming.size() == 1 && other.incoming[1].is_whole; }));
    EXPECT_LT(one.sent_tickets.size(), n_pending + 1);
    one.fabric->retire_peer(ProcId(1));
    ASSERT_TRUE(run({&one, &other}, [&] { return one.sent_tickets.count(5000) == 1; }));
    EXPECT_EQ(one.sent_tickets.size(), n_pending + 1);
    EXPECT_EQ(one.fabric->send(ProcId(1), bytes_of("0:x"), {}, 1), Fabric::Sent::gone);
}

// The sender is stopped in the middle of a large message and taken for dead. When it goes on, memory stays as it is.
TEST(Ofi, WritesNothingOfTheForgotten) {
    const auto body = [](Side& side) {
        const std::vector<std::byte> payload = pattern(256 * kMiB, 1);
        static_cast<void>(side.fabric->send(ProcId(0), bytes_of("1:large"), payload, 1));
        for (;;) {
            work(side, 10);
            static_cast<void>(side.fabric->send(ProcId(0), bytes_of("1:small"), {}, 2));
        }
    };
    Child child(body);
    Child witness(
        [](Side& side) {
            for (;;) {
                work(side);
                if (!side.heads.empty()) {
                    static_cast<void>(side.fabric->send(ProcId(0), bytes_of("2:alive"), {}, 1));
                    side.heads.clear();
                }
            }
        },
        2);
    Side side(0);
    child.meet(side);
    witness.meet(side);
    ASSERT_TRUE(
        run({&side}, [&] { return side.incoming.size() == 1 && side.incoming[1].bytes[kMiB] != std::byte{0xee}; }));
    child.stop();
    ASSERT_FALSE(side.incoming[1].is_over);
    side.fabric->retire_peer(ProcId(1));
    EXPECT_TRUE(side.incoming[1].is_over);
    EXPECT_FALSE(side.incoming[1].is_whole);
    const std::vector<std::byte> before = side.incoming[1].bytes;
    side.heads.clear();
    child.signal(SIGCONT);
    const std::int64_t end_ns = now_ns() + 500'000'000;
    ASSERT_TRUE(run({&side}, [&] { return now_ns() > end_ns; }));
    EXPECT_TRUE(side.incoming[1].bytes == before);
    EXPECT_TRUE(side.heads.empty());
    ASSERT_EQ(side.fabric->send(ProcId(2), bytes_of("0:there?"), {}, 1), Fabric::Sent::done);
    EXPECT_TRUE(run({&side}, [&] { return !side.heads.empty() && side.heads.back() == "2:alive"; }));
}

// Processes die in the middle of what they send and receive, more of them than there are buffers for what arrives.
TEST(Ofi, OutlivesDeathsInTheMiddleOfMessages) {
    constexpr int kChildren = 10;
    std::deque<std::unique_ptr<Child>> children;
    for (int i = 1; i <= kChildren; ++i) {
        children.push_back(std::make_unique<Child>(
            [i](Side& side) {
                const std::vector<std::byte> payload = pattern(64 * kMiB, 1);
                static_cast<void>(side.fabric->send(ProcId(0), bytes_of(std::to_string(i) + ":large"), payload, 1));
                for (;;) {
                    work(side);
                }
            },
            i));
    }
    Child last(
        [](Side& side) {
            for (;;) {
                work(side);
                if (!side.heads.empty()) {
                    const std::vector<std::byte> payload = pattern(8 * kMiB, 5);
                    static_cast<void>(side.fabric->send(ProcId(0), bytes_of("12:answer"), payload, 1));
                    ASSERT_TRUE(run({&side}, [&] { return side.sent_tickets.size() == 1; }));
                    for (;;) {
                        work(side);
                    }
                }
            }
        },
        12);
    Side side(0);
    last.meet(side);
    const std::vector<std::byte> payload = pattern(16 * kMiB, 9);
    for (int i = 1; i <= kChildren; ++i) {
        Child& child = *children.front();
        child.meet(side);
        const auto n = static_cast<std::uint64_t>(i);
        ASSERT_EQ(side.fabric->send(ProcId(i), bytes_of("0:to"), payload, n), Fabric::Sent::pending);
        ASSERT_TRUE(run({&side}, [&] {
            return side.incoming.size() == n && side.incoming[n].bytes[kMiB / 2] != std::byte{0xee};
        }));
        child.kill(SIGKILL);
        // Some are forgotten at once, some while their connections are found broken.
        const std::int64_t end_ns = now_ns() + (i % 2) * 50'000'000;
        ASSERT_TRUE(run({&side}, [&] { return now_ns() > end_ns; }));
        side.fabric->retire_peer(ProcId(i));
        EXPECT_TRUE(side.incoming[n].is_over);
        EXPECT_EQ(side.sent_tickets.count(n), 1U);
        children.pop_front();
    }
    ASSERT_EQ(side.fabric->send(ProcId(12), bytes_of("0:question"), {}, 99), Fabric::Sent::done);
    ASSERT_TRUE(run({&side}, [&] { return side.incoming[kChildren + 1].is_over; }));
    EXPECT_TRUE(side.incoming[kChildren + 1].is_whole);
    EXPECT_EQ(side.incoming[kChildren + 1].bytes, pattern(8 * kMiB, 5));
}

// To who is dead before it was ever reached nothing leaves; it is not in the way of others, and comes back.
TEST(Ofi, KeepsWhatIsForSomebodyWhoNeverAnswers) {
    auto dead = std::make_unique<Side>(1);
    const std::vector<std::byte> address(dead->fabric->address().begin(), dead->fabric->address().end());
    dead.reset();
    Side one(0);
    Side other(2);
    introduce(one, 0, other, 2);
    one.fabric->introduce(ProcId(1), address);
    const std::vector<std::byte> payload = pattern(kMiB, 1);
    ASSERT_NE(one.fabric->send(ProcId(1), bytes_of("0:small"), {}, 1), Fabric::Sent::gone);
    static_cast<void>(one.fabric->send(ProcId(1), bytes_of("0:large"), payload, 2));
    ASSERT_EQ(one.fabric->send(ProcId(2), bytes_of("0:small"), {}, 3), Fabric::Sent::done);
    ASSERT_TRUE(run({&one, &other}, [&] { return other.heads.size() == 1; }));
    one.fabric->retire_peer(ProcId(1));
    EXPECT_EQ(one.sent_tickets.count(2), 1U);
}

// A child of the program ends in its own way while the fabric goes on.
TEST(Ofi, OutlivesAFork) {
    Side one(0);
    Side other(1);
    introduce(one, 0, other, 1);
    for (std::size_t round = 1; round <= 3; ++round) {
        ASSERT_EQ(one.fabric->send(ProcId(1), bytes_of("0:x"), {}, round), Fabric::Sent::done);
        ASSERT_TRUE(run({&one, &other}, [&] { return other.heads.size() == round; }));
        const pid_t child = ::fork();
        if (child == 0) {
            if (round == 1) {
                ::_exit(0);
            }
            ::execlp(round == 2 ? "true" : "false", "child", nullptr);
            ::_exit(0);
        }
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    }
}

TEST(Ofi, SaysWhatItCannotDo) {
    const auto fabric = make_fabric("ofi");
    ASSERT_TRUE(good(fabric));
    Fabric::Options options{
        .self = ProcId(0), .n_slots = 1, .receiver = nullptr, .interface = "nosuch0", .address = ""};
    std::string error_line = line_of((*fabric)->open(options));
    EXPECT_NE(error_line.find("nosuch0"), std::string::npos) << error_line;
    options = {.self = ProcId(0), .n_slots = 1, .receiver = nullptr, .interface = "", .address = "203.0.113.77"};
    error_line = line_of((*fabric)->open(options));
    EXPECT_NE(error_line.find("203.0.113.77"), std::string::npos) << error_line;
}

}  // namespace
}  // namespace sft
