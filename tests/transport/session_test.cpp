// Messages survive their connections: exactly once, in order, whole.
#include <random>

#include "tests/result.hpp"
#include "tests/transport/cut.hpp"
#include "tests/transport/fabric_test.hpp"
#include "tests/transport/socket_fabric.hpp"
#include "transport/net/session_fabric.hpp"

namespace sft {
namespace {

class SessionTest : public FabricTest {
protected:
    void start_session(std::int32_t self, std::int32_t n, const Body& body, std::int64_t lost_ms = 60'000) {
        children.push_back(std::make_unique<Child>([&, self, n, lost_ms] {
            std::unique_ptr<Fabric> fabric =
                GetParam() == "socket" ? std::make_unique<SocketFabric>(true) : fabric_called(GetParam());
            Node node(std::make_unique<SessionFabric>(std::move(fabric)), *board, self, n, lost_ms);
            return body(node);
        }));
    }

public:
    static auto with_sockets() {
        std::vector<std::string> all = names();
        all.emplace_back("socket");
        return testing::ValuesIn(all);
    }
};
INSTANTIATE_TEST_SUITE_P(Built, SessionTest, SessionTest::with_sockets(), FabricTest::name_of);

constexpr std::array<std::size_t, 7> kSizes{100, 0, 9000, 30'000, 300'000, 8, 1'500'000};

// Everybody sends to everybody, and breaks connections all the time.
TEST_P(SessionTest, EverythingArrivesOnceAndInOrder) {
    const std::int32_t kN = 3;
    const std::uint32_t kMessages = 800;
    const int kCuts = 50;
    for (std::int32_t self = 0; self < kN; ++self) {
        start_session(self, kN, [self, kN, kCuts, kMessages](Node& node) {
            Recorder& seen = node.recorder;
            std::mt19937 random(static_cast<unsigned>(self));
            int n_cut = 0;
            std::int64_t cut_ns = now_ns();
            const auto cut = [&] {
                if (n_cut < kCuts && now_ns() > cut_ns) {
                    cut_ns = now_ns() + std::uniform_int_distribution<int>(1, 40)(random) * 1'000'000;
                    n_cut += cut_connections([&] { return random() % 2 == 0; });
                }
            };
            for (std::uint32_t i = 0; i < kMessages; ++i) {
                for (std::int32_t to = 0; to < kN; ++to) {
                    if (to != self) {
                        EXPECT_NE(node.send(to, kSizes[i % kSizes.size()]), Fabric::Sent::gone);
                    }
                }
                cut();
                EXPECT_TRUE(node.wait([&] {
                    cut();
                    return seen.pending.size() < 8;
                }));
            }
            EXPECT_TRUE(node.wait([&] {
                cut();
                bool is_all = seen.pending.empty() && seen.places.empty();
                for (std::int32_t from = 0; from < kN; ++from) {
                    is_all = is_all && (from == self || seen.next[from] == kMessages);
                }
                return is_all && n_cut >= kCuts;
            }));
            EXPECT_GE(n_cut, kCuts) << "then this shows nothing";
            EXPECT_EQ(seen.n_cut, 0U);
            EXPECT_EQ(seen.n_lost, 0U);
            return node.finish(kN);
        });
    }
    expect_all_end_well();
}

// Nothing is under way when the connection breaks, so nobody may notice before the next message.
TEST_P(SessionTest, AConnectionThatBreaksWhileNothingIsSaid) {
    for (std::int32_t self = 0; self < 2; ++self) {
        start_session(self, 2, [this, self](Node& node) {
            for (int round = 1; round <= 5; ++round) {
                EXPECT_NE(node.send(1 - self, 100), Fabric::Sent::gone);
                EXPECT_TRUE(
                    node.wait([&] { return node.recorder.next[1 - self] == static_cast<std::uint32_t>(round); }));
                ++board->step;
                EXPECT_TRUE(node.wait([&] { return board->step >= 3 * round - 1; }));
                if (self == round % 2) {
                    cut_connections([] { return true; });
                    ++board->step;
                }
                EXPECT_TRUE(node.wait([&] { return board->step >= 3 * round; }));
            }
            return node.finish(2);
        });
    }
    expect_all_end_well();
}

// A process that cannot be reached is reported once, by both functions that wait: whether something was under way to it
// when it died, or the fabric has seen the end of the connection before anything was to be sent.
class SessionLossTest : public SessionTest {
protected:
    void lose(bool is_seen_before) {
        start_session(
            0, 2,
            [this, is_seen_before](Node& node) {
                EXPECT_NE(node.send(1, 100), Fabric::Sent::gone);
                EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == 1; }));
                board->step = 1;
                EXPECT_TRUE(node.wait([&] { return board->step == 2; }));  // it is dead now
                const std::int64_t seen_ns = now_ns() + (is_seen_before ? 300'000'000 : 0);
                EXPECT_TRUE(node.wait([&] { return now_ns() >= seen_ns; }));
                for (int i = 0; i < 10; ++i) {
                    EXPECT_NE(node.send(1, 20'000), Fabric::Sent::gone);
                }
                EXPECT_TRUE(node.wait([&] { return node.recorder.n_lost != 0; }));
                const std::int64_t end_ns = now_ns() + 700'000'000;
                EXPECT_TRUE(node.wait([&] { return now_ns() > end_ns; }));
                EXPECT_EQ(node.recorder.n_lost, 1U);
                node.fabric->retire_peer(ProcId(1));
                EXPECT_TRUE(node.recorder.pending.empty());
                EXPECT_EQ(node.send(1, 100), Fabric::Sent::gone);
                return 0;
            },
            300);
        start_session(1, 2, [](Node& node) {
            EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == 1; }));
            EXPECT_NE(node.send(0, 100), Fabric::Sent::gone);  // and so says that it has got that
            node.wait([] { return false; });
            return 0;
        });
        const std::int64_t end_ns = now_ns() + kPatienceNs;
        while (board->step != 1 && now_ns() < end_ns) {
            ::sched_yield();
        }
        children[1]->end(SIGKILL);
        board->step = 2;
        EXPECT_EQ(children[0]->end(), 0);
    }
};
INSTANTIATE_TEST_SUITE_P(Built, SessionLossTest, SessionTest::with_sockets(), FabricTest::name_of);

TEST_P(SessionLossTest, AProcessThatCannotBeReachedIsReported) { lose(false); }

TEST_P(SessionLossTest, SoIsOneWhoseConnectionHasEndedBefore) { lose(true); }

// ---- losses that nobody reports, repetitions, delays: fabrics of one process ----

struct Wire;

class TestFabric final : public Fabric {
public:
    TestFabric(Wire& wire, std::int32_t self) : wire_(wire), self_(self) {}
    Result<> open(const Options& options) override;
    void close() noexcept override;
    Bytes address() const noexcept override { return {}; }
    void introduce(ProcId, Bytes) override {}
    Sent send(ProcId, Bytes head, Bytes payload, std::uint64_t) override;
    std::size_t eager_bytes() const noexcept override { return 1000; }
    bool progress() override;
    int fd() const noexcept override { return -1; }
    bool arm() override { return false; }
    void retire_peer(ProcId) override {}
    bool reconnects() const noexcept override { return true; }
    void reconnect(ProcId) override {}
    std::string describe() const override { return "a wire of a test"; }

private:
    Wire& wire_;
    std::int32_t self_;
    Options options_;
};

struct Wire {
    struct Message {
        std::vector<std::byte> head;
        std::vector<std::byte> payload;
    };
    std::array<std::deque<Message>, 2> to;
    std::array<FabricReceiver*, 2> receivers{};  // null: closed
    std::mt19937 random{1};
    int percent_lost = 0;
    int percent_repeated = 0;
    int percent_full = 0;
    int percent_broken = 0;
    bool is_lazy = false;  // connects when something is to be sent, and lets a connection go that nobody uses
    std::int64_t ready_ns = 0;
    std::int64_t used_ns = 0;

    bool takes() {
        const std::int64_t now = now_ns();
        if (!is_lazy) {
            return true;
        }
        if (ready_ns == 0 || now > std::max(ready_ns, used_ns) + 50'000'000) {
            ready_ns = now + 5'000'000;
        }
        if (now < ready_ns) {
            return false;
        }
        used_ns = now;
        return true;
    }
    bool happens(int percent) { return std::uniform_int_distribution<int>(0, 99)(random) < percent; }
};

Result<> TestFabric::open(const Options& options) {
    options_ = options;
    wire_.receivers[static_cast<std::size_t>(self_)] = options.receiver;
    return {};
}

// The other one may outlive this one, and break connections while it waits for acknowledgements.
void TestFabric::close() noexcept { wire_.receivers[static_cast<std::size_t>(self_)] = nullptr; }

Fabric::Sent TestFabric::send(ProcId, Bytes head, Bytes payload, std::uint64_t) {
    if (!wire_.takes() || wire_.happens(wire_.percent_full)) {
        return Sent::full;
    }
    std::deque<Wire::Message>& line = wire_.to[static_cast<std::size_t>(1 - self_)];
    for (int i = 0; i < (wire_.happens(wire_.percent_repeated) ? 2 : 1); ++i) {
        if (!wire_.happens(wire_.percent_lost)) {
            line.push_back({{head.begin(), head.end()}, {payload.begin(), payload.end()}});
        }
    }
    return Sent::done;
}

bool TestFabric::progress() {
    std::deque<Wire::Message>& line = wire_.to[static_cast<std::size_t>(self_)];
    if (wire_.happens(wire_.percent_broken)) {
        line.resize(line.size() / 2);
        options_.receiver->broken(ProcId(1 - self_));
        if (FabricReceiver* const other = wire_.receivers[static_cast<std::size_t>(1 - self_)]) {
            other->broken(ProcId(self_));
        }
    }
    if (line.empty()) {
        return false;
    }
    const Wire::Message message = std::move(line.front());
    line.pop_front();
    options_.receiver->message(message.head, message.payload);
    return true;
}

class TwoSessions {
public:
    explicit TwoSessions(Wire& wire) {
        for (std::int32_t self = 0; self < 2; ++self) {
            auto& session = sessions[static_cast<std::size_t>(self)];
            session = std::make_unique<SessionFabric>(std::make_unique<TestFabric>(wire, self));
            Fabric::Options options;
            options.self = ProcId(self);
            options.n_slots = 2;
            options.receiver = &recorders[static_cast<std::size_t>(self)];
            options.secret = 99;
            EXPECT_TRUE(good(session->open(options)));
        }
    }

    void exchange(std::uint32_t n_messages) {
        std::uint64_t ticket = 0;
        for (std::uint32_t i = 0; i < n_messages; ++i) {
            for (std::size_t self = 0; self < 2; ++self) {
                const TestHead head{
                    .from = static_cast<std::int32_t>(self), .number = i, .bytes = i % 5 == 0 ? 12'345U : i % 900};
                Recorder& recorder = recorders[self];
                std::vector<std::byte>& payload = recorder.pending[++ticket] = content(head.from, i, head.bytes);
                if (sessions[self]->send(ProcId(1 - head.from), bytes_of(head), payload, ticket) !=
                    Fabric::Sent::pending) {
                    recorder.pending.erase(ticket);
                }
                sessions[self]->progress();
            }
        }
        const std::int64_t end_ns = now_ns() + kPatienceNs;
        while ((recorders[0].next[1] < n_messages || recorders[1].next[0] < n_messages ||
                !recorders[0].places.empty() || !recorders[1].places.empty()) &&
               now_ns() < end_ns) {
            sessions[0]->progress();
            sessions[1]->progress();
        }
        EXPECT_EQ(recorders[0].next[1], n_messages);
        EXPECT_EQ(recorders[1].next[0], n_messages);
        EXPECT_TRUE(recorders[0].places.empty() && recorders[1].places.empty());
        EXPECT_TRUE(recorders[0].pending.empty() && recorders[1].pending.empty());
    }

    std::array<Recorder, 2> recorders;
    std::array<std::unique_ptr<SessionFabric>, 2> sessions;
};

TEST(Sessions, SilentLossesAndRepetitions) {
    Wire wire;
    wire.percent_lost = 2;
    wire.percent_repeated = 5;
    wire.percent_full = 20;
    TwoSessions two(wire);
    two.exchange(400);
}

// A question is asked when a connection has gone in silence, so the fabric has none, and refuses it at first.
TEST(Sessions, AQuestionIsPutAgainUntilTheFabricTakesIt) {
    Wire wire;
    TwoSessions two(wire);
    wire.percent_lost = 100;
    const TestHead head{.from = 0, .number = 0, .bytes = 0};
    EXPECT_EQ(two.sessions[0]->send(ProcId(1), bytes_of(head), {}, 1), Fabric::Sent::done);
    wire.percent_lost = 0;
    wire.is_lazy = true;
    const std::int64_t end_ns = now_ns() + 10'000'000'000;
    while (two.recorders[1].n_heads == 0 && now_ns() < end_ns) {
        two.sessions[0]->progress();
        two.sessions[1]->progress();
    }
    EXPECT_EQ(two.recorders[1].n_heads, 1U);
}

TEST(Sessions, ConnectionsThatBreakAllTheTime) {
    for (unsigned seed = 0; seed < 5; ++seed) {
        Wire wire;
        wire.random.seed(seed);
        wire.percent_broken = 1;
        wire.percent_full = 20;
        TwoSessions two(wire);
        two.exchange(300);
    }
}

TEST(Sessions, StrangersChangeNothing) {
    Wire wire;
    TwoSessions two(wire);
    two.exchange(10);
    SessionHead head;
    head.secret = 99;
    head.number = 11;
    head.from = 0;
    head.to = 1;
    const auto say = [&](const SessionHead& wrong) {
        const Bytes bytes = std::as_bytes(std::span(&wrong, 1));
        wire.to[1].push_back({{bytes.begin(), bytes.end()}, {}});
        two.sessions[1]->progress();
    };
    const auto with = [&](auto change) {
        SessionHead wrong = head;
        change(wrong);
        say(wrong);
    };
    with([](SessionHead& wrong) { wrong.secret = 98; });
    with([](SessionHead& wrong) { wrong.from = 2; });
    with([](SessionHead& wrong) { wrong.from = -1; });
    with([](SessionHead& wrong) { wrong.to = 0; });
    with([](SessionHead& wrong) { wrong.received = 1'000'000; });
    with([](SessionHead& wrong) { wrong.head_bytes = 64; });
    with([](SessionHead& wrong) { wrong.message = 77, wrong.offset = 5; });
    EXPECT_EQ(two.recorders[1].n_heads, 10U);
    EXPECT_EQ(two.recorders[1].n_strangers, 6U);
}

}  // namespace
}  // namespace sft
