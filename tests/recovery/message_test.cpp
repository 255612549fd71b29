// Messages on the wire: what is encoded comes back, and nothing else is taken for a message.
#include "recovery/membership/message.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace sft {
namespace {

class RandomMessages {
public:
    explicit RandomMessages(std::uint64_t seed) : random_(seed) {}

    [[nodiscard]] std::int32_t below(std::int32_t end) {
        return std::uniform_int_distribution<std::int32_t>(0, end - 1)(random_);
    }
    [[nodiscard]] std::uint64_t word() { return random_(); }

    [[nodiscard]] Message message() {
        Message message;
        message.kind = static_cast<MessageKind>(1 + below(static_cast<int>(kLastMessageKind)));
        message.ballot = ballot();
        message.index = word();
        message.ready = {static_cast<Goal>(below(static_cast<std::int32_t>(Goal::any) + 1)), below(2) == 0, word()};
        message.accepted = {static_cast<Acceptance::Kind>(below(4)), ballot()};
        message.end = {below(2) == 0, static_cast<EndReason>(below(8)), ProcId(below(100) - 1),
                       static_cast<std::int32_t>(word())};
        if (below(2) == 0) {
            message.state = state();
            message.index = message.state->index;
        }
        message.deaths = deaths();
        if (message.kind == MessageKind::join) {
            message.node = NodeId(below(64));
        }
        if (message.kind == MessageKind::ping || message.kind == MessageKind::heartbeat ||
            message.kind == MessageKind::stalled) {
            message.asked_ns = static_cast<std::int64_t>(word());
            message.node = NodeId(below(64) - 1);
            message.testimony = static_cast<Testimony>(below(3));
        }
        return message;
    }

private:
    Ballot ballot() { return {below(1000), static_cast<std::uint32_t>(word())}; }
    FailureReason reason() { return {static_cast<FailureKind>(below(7)), static_cast<std::uint16_t>(below(0x10000))}; }
    std::vector<Death> deaths() {
        std::vector<Death> list;
        for (std::int32_t n = below(6); n > 0; --n) {
            insert_sorted(list, {ProcId(below(5000)), reason(), below(2) == 0});
        }
        return list;
    }
    std::set<std::int32_t> numbers() {
        std::set<std::int32_t> some;
        for (std::int32_t n = below(6); n > 0; --n) {
            some.insert(below(5000));
        }
        return some;
    }
    std::vector<FailedPe> failed() {
        std::vector<FailedPe> list;
        for (const std::int32_t pe : numbers()) {
            list.push_back({PeId(pe), reason()});
        }
        std::shuffle(list.begin(), list.end(), random_);
        return list;
    }
    JobState state() {
        JobState state;
        state.index = word();
        state.stage = static_cast<Stage>(1 + below(8));
        state.version = Version(static_cast<std::uint32_t>(word()));
        state.view = static_cast<std::uint32_t>(word());
        state.attempt = static_cast<std::uint32_t>(word());
        state.rejections = static_cast<std::uint32_t>(word());
        state.witness = ProcId(below(10) - 1);
        state.end_reason = static_cast<EndReason>(below(8));
        state.ended_by = ProcId(below(10) - 1);
        state.exit_status = static_cast<std::int32_t>(word());
        state.deaths = deaths();
        std::shuffle(state.deaths.begin(), state.deaths.end(), random_);
        for (const std::int32_t pe : numbers()) {
            state.replacements.push_back({PeId(pe), ProcId(below(5000))});
        }
        for (const std::int32_t pe : numbers()) {
            state.protected_layout.push_back({PeId(pe), ProcId(below(5000))});
        }
        for (const std::int32_t pe : numbers()) {
            state.unprotected.push_back(PeId(pe));
        }
        state.failed = failed();
        state.further = failed();
        for (const std::int32_t pe : numbers()) {
            state.lost.push_back(PeId(pe));
        }
        for (const std::int32_t process : numbers()) {
            state.joined.push_back({ProcId(process), NodeId(below(64))});
        }
        return state;
    }

    std::mt19937_64 random_;
};

Message full_message() {
    RandomMessages random(7);
    for (;;) {
        Message message = random.message();
        if (message.state && message.deaths.size() > 1 && message.state->deaths.size() > 1 &&
            message.state->replacements.size() > 1 && message.state->protected_layout.size() > 1 &&
            message.state->unprotected.size() > 1 && !message.state->failed.empty() &&
            !message.state->further.empty() && !message.state->lost.empty()) {
            return message;
        }
    }
}

TEST(Message, WhatIsEncodedComesBack) {
    RandomMessages random(1);
    for (int i = 0; i < 5000; ++i) {
        const Message message = random.message();
        const auto decoded = decode(encode(message));
        ASSERT_TRUE(decoded);
        ASSERT_EQ(*decoded, message);
    }
}

TEST(Message, ALaterLeadersBallotIsHigherWhateverItsNumbers) {
    EXPECT_LT((Ballot{4, 9}), (Ballot{5, 1}));
    EXPECT_LT((Ballot{4, 9, 4}), (Ballot{3, 1, 5}));
    EXPECT_LT((Ballot{4, 1, 6}), (Ballot{4, 2, 6}));
}

TEST(Message, TheFormIsFixed) {
    Message message;
    message.kind = MessageKind::heartbeat;
    message.ballot = {5, 0x01020304, 0x0708090a};
    message.index = 0x1122334455667788;
    message.deaths = {{ProcId(9), {FailureKind::signal, 15}, true}};
    message.asked_ns = 0x0102030405060708;
    message.node = NodeId(0x0a0b0c0d);
    message.testimony = Testimony::silent;
    const auto bytes = encode(message);
    const unsigned char head[] = {12,   4,    3,    2,    1,    5,    0,    0,    0,    0x0a, 0x09,
                                  0x08, 0x07, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    ASSERT_EQ(bytes.size(), 80U);
    for (std::size_t i = 0; i < sizeof head; ++i) {
        EXPECT_EQ(std::to_integer<int>(bytes[i]), head[i]) << i;
    }
    const unsigned char tail[] = {1, 0, 0, 0, 9, 0, 0, 0,    1,    15,   0,    1, 8,
                                  7, 6, 5, 4, 3, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a, 2};
    for (std::size_t i = 0; i < sizeof tail; ++i) {
        EXPECT_EQ(std::to_integer<int>(bytes[bytes.size() - sizeof tail + i]), tail[i]) << i;
    }
}

TEST(Message, EveryTruncationIsRefused) {
    const auto bytes = encode(full_message());
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        // A copy of that length, so that a sanitizer sees a read beyond it.
        const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
        ASSERT_FALSE(decode(part)) << length;
    }
}

TEST(Message, NothingMayFollow) {
    auto bytes = encode(full_message());
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes));
}

TEST(Message, WhatIsTakenIsWhatWasSent) {
    const auto good = encode(full_message());
    std::mt19937_64 random(3);
    for (int i = 0; i < 20'000; ++i) {
        auto bytes = good;
        for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
            bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xff);
        }
        if (const auto decoded = decode(bytes)) {
            ASSERT_EQ(encode(*decoded), bytes) << "two forms of one message";
        }
    }
}

// Every byte with the values at the ends of ranges: no enum, flag or number outside its range gets through.
TEST(Message, EveryByteIsCheckedOrKept) {
    const auto good = encode(full_message());
    for (std::size_t at = 0; at < good.size(); ++at) {
        for (const int value : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 127, 128, 254, 255}) {
            auto bytes = good;
            bytes[at] = static_cast<std::byte>(value);
            if (const auto decoded = decode(bytes)) {
                ASSERT_EQ(encode(*decoded), bytes) << at;
                ASSERT_STRNE(name_of(decoded->kind), "?");
                ASSERT_STRNE(name_of(decoded->state ? decoded->state->stage : Stage::ended), "?");
                ASSERT_STRNE(name_of(decoded->ready.goal), "?");
            }
        }
    }
}

template <class Change>
bool is_refused(Change change) {
    Message message = full_message();
    change(message);
    return !decode(encode(message));
}

TEST(Message, ValuesOutOfRangeAreRefused) {
    EXPECT_FALSE(is_refused([](Message&) {}));
    EXPECT_TRUE(is_refused([](Message& m) { m.kind = MessageKind{}; }));
    EXPECT_TRUE(
        is_refused([](Message& m) { m.kind = static_cast<MessageKind>(static_cast<int>(kLastMessageKind) + 1); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.ready.goal = static_cast<Goal>(9); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.accepted.kind = static_cast<Acceptance::Kind>(4); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.ballot.leader = -1; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.ballot.turn = m.ballot.leader - 1; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->replacements.front().turn = 0; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.end.from = ProcId(-2); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.end.reason = static_cast<EndReason>(8); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->stage = static_cast<Stage>(0); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->stage = static_cast<Stage>(9); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->witness = ProcId(-2); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->end_reason = static_cast<EndReason>(8); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->lost[0] = kNoPe; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->failed[0].pe = kNoPe; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->unprotected[0] = kNoPe; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->replacements[0].pe = kNoPe; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->replacements[0].process = kNoProc; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->deaths[0].process = kNoProc; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->joined = {{kNoProc, NodeId(0)}}; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->joined = {{ProcId(9), kNoNode}}; }));
    EXPECT_TRUE(is_refused([](Message& m) { m.state->failed[0].reason.kind = static_cast<FailureKind>(7); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.deaths[0].process = kNoProc; }));
    EXPECT_FALSE(is_refused([](Message& m) {
        m.kind = MessageKind::heartbeat;
        m.node = kNoNode;
    })) << "most questions are about no other node";
    EXPECT_TRUE(is_refused([](Message& m) {
        m.kind = MessageKind::heartbeat;
        m.node = NodeId(-2);
    }));
    EXPECT_TRUE(is_refused([](Message& m) {
        m.kind = MessageKind::heartbeat;
        m.node = kNoNode;
        m.testimony = static_cast<Testimony>(3);
    }));
}

TEST(Message, AValueWithAnotherIndexThanTheMessageIsRefused) {
    EXPECT_TRUE(is_refused([](Message& m) { ++m.index; }));
    EXPECT_TRUE(is_refused([](Message& m) { --m.state->index; }));
    EXPECT_FALSE(is_refused([](Message& m) {
        ++m.index;
        m.state.reset();
    })) << "it is about the last value that the sender knows";
}

TEST(Message, SortedListsAreChecked) {
    EXPECT_TRUE(is_refused([](Message& m) { std::swap(m.deaths[0], m.deaths[1]); }));
    EXPECT_TRUE(is_refused([](Message& m) { m.deaths[1] = m.deaths[0]; }));
    EXPECT_TRUE(is_refused([](Message& m) { std::swap(m.state->unprotected[0], m.state->unprotected[1]); }));
    EXPECT_TRUE(is_refused([](Message& m) { std::swap(m.state->replacements[0], m.state->replacements[1]); }));
    EXPECT_TRUE(is_refused([](Message& m) { std::swap(m.state->protected_layout[0], m.state->protected_layout[1]); }));
    const auto joined = [](int first, int second) {
        return [=](Message& m) { m.state->joined = {{ProcId(first), NodeId(0)}, {ProcId(second), NodeId(0)}}; };
    };
    EXPECT_FALSE(is_refused(joined(8, 9)));
    EXPECT_TRUE(is_refused(joined(9, 8)));
    const auto joins_nowhere = [](Message& m) {
        m.kind = MessageKind::join;
        m.node = kNoNode;
    };
    EXPECT_TRUE(is_refused(joins_nowhere)) << "it says where its sender runs";
    EXPECT_FALSE(is_refused([](Message& m) { std::swap(m.state->deaths[0], m.state->deaths[1]); }))
        << "they are in agreed order";
}

// What follows a list need not be longer than the list itself.
TEST(Message, ALongListWithLittleBehindItIsTaken) {
    constexpr int kMany = 2000;
    const auto comes_back = [](auto fill) {
        Message message;
        message.kind = MessageKind::collect;
        message.state.emplace();
        fill(message);
        const auto bytes = encode(message);
        return decode(bytes) == message;
    };
    const auto many = [](auto& list, auto item) {
        for (int i = 0; i < kMany; ++i) {
            list.push_back(item(i));
        }
    };
    EXPECT_TRUE(comes_back([&](Message& m) { many(m.deaths, [](int i) { return Death{ProcId(i), {}, true}; }); }));
    EXPECT_TRUE(comes_back([&](Message& m) {
        many(m.state->deaths, [](int i) { return Death{ProcId(i), {}, true}; });
    }));
    EXPECT_TRUE(comes_back([&](Message& m) {
        many(m.state->replacements, [](int i) { return Replacement{PeId(i), ProcId(i)}; });
    }));
    EXPECT_TRUE(comes_back([&](Message& m) {
        many(m.state->protected_layout, [](int i) { return Replacement{PeId(i), ProcId(i)}; });
    }));
    EXPECT_TRUE(comes_back([&](Message& m) { many(m.state->unprotected, [](int i) { return PeId(i); }); }));
    EXPECT_TRUE(comes_back([&](Message& m) { many(m.state->further, [](int i) { return FailedPe{PeId(i), {}}; }); }));
    EXPECT_TRUE(comes_back([&](Message& m) { many(m.state->lost, [](int i) { return PeId(i); }); }));
    EXPECT_TRUE(comes_back([&](Message& m) {
        many(m.state->joined, [](int i) { return Joined{ProcId(i), NodeId(0)}; });
    }));
}

TEST(Message, AClaimedLengthTakesNoMemory) {
    Message message;
    message.kind = MessageKind::deaths;
    auto bytes = encode(message);
    for (std::size_t i = 1; i <= 4; ++i) {
        bytes[bytes.size() - i] = std::byte{0xff};
    }
    EXPECT_FALSE(decode(bytes));
}

// The largest job there is: everybody but one dead, every spare in use, with all lists as long as they can be together.
TEST(Message, TheLargestMessageFits) {
    constexpr std::int32_t n_processes = 4095;
    constexpr std::int32_t n_pes = n_processes / 2;
    Message message;
    message.kind = MessageKind::collect;
    message.state.emplace();
    for (std::int32_t process = 0; process < n_processes; ++process) {
        message.deaths.push_back({ProcId(process), {}, true});
        message.state->deaths.push_back({ProcId(process), {}, true});
    }
    for (std::int32_t pe = 0; pe < n_pes; ++pe) {
        message.state->replacements.push_back({PeId(pe), ProcId(n_pes + pe)});
        message.state->protected_layout.push_back({PeId(pe), ProcId(n_pes + pe)});
        message.state->unprotected.push_back(PeId(pe));
        message.state->failed.push_back({PeId(pe), {}});
        message.state->further.push_back({PeId(pe), {}});
        message.state->lost.push_back(PeId(pe));
    }
    const auto bytes = encode(message);
    EXPECT_LE(bytes.size(), kMessageBytesMax);
    EXPECT_EQ(decode(bytes), message);
    message.state->lost.assign(kMessageBytesMax / 4, PeId(1));
    EXPECT_FALSE(decode(encode(message))) << "too large";
}

TEST(Readiness, Sums) {
    const Readiness any{Goal::any, false, 0};
    const Readiness none;
    const Readiness arrive{Goal::arrive, false, 0};
    const Readiness restart{Goal::restart, false, 5};
    const Readiness other{Goal::restart, false, 6};
    EXPECT_EQ(sum(any, any), any);
    EXPECT_EQ(sum(any, restart), restart);
    EXPECT_EQ(sum(restart, any), restart);
    EXPECT_EQ(sum(restart, restart), restart);
    EXPECT_EQ(sum(any, none), none);
    EXPECT_EQ(sum(none, restart), none);
    EXPECT_EQ(sum(restart, none), none);
    EXPECT_EQ(sum(restart, other), (Readiness{Goal::restart, true, 5}));
    EXPECT_EQ(sum(arrive, restart), (Readiness{Goal::restart, true, 5}));
    const Readiness mixed = sum(restart, other);
    EXPECT_TRUE(sum(mixed, restart).is_mixed);
    EXPECT_TRUE(sum(restart, mixed).is_mixed);
    EXPECT_EQ(sum(any, mixed), mixed);
    EXPECT_EQ(sum(mixed, none), none);
}

TEST(Acceptance, Sums) {
    const Acceptance unset;
    const Acceptance by_ready{Acceptance::Kind::by_ready, {}};
    const Acceptance first{Acceptance::Kind::proposal, {3, 1}};
    const Acceptance second{Acceptance::Kind::proposal, {3, 2}};
    const Acceptance differs{Acceptance::Kind::differs, {}};
    EXPECT_EQ(sum(unset, unset), unset);
    EXPECT_EQ(sum(unset, first), first);
    EXPECT_EQ(sum(first, unset), first);
    EXPECT_EQ(sum(first, first), first);
    EXPECT_EQ(sum(first, second), differs);
    EXPECT_EQ(sum(by_ready, first), differs);
    EXPECT_EQ(sum(by_ready, by_ready), by_ready);
    EXPECT_EQ(sum(differs, first), differs);
    EXPECT_EQ(sum(unset, differs), differs);
}

}  // namespace
}  // namespace sft
