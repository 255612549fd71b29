// Deaths in the middle of operations, processes that stand still, and messages that nobody of the job has sent.
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/result.hpp"
#include "tests/transport/net_test.hpp"
#include "transport/net/wire.hpp"

namespace sft {
namespace {

class NetFaultsTest : public NetTest {
protected:
    // Process 1, which answers until it is killed or stopped.
    void start_victim() {
        start(1, 2, [](NetNode& node) { node.await_step(1000); });
    }
    // Process 0 does `body`; the victim gets `signal` at step 1, and step 2 says so.
    void run_against(int signal, const std::function<void(NetNode&)>& body) {
        start_victim();
        start(0, 2, body);
        patiently([&] { return memory.board().step >= 1; });
        ::kill(children[0]->pid(), signal);
        memory.board().step = 2;
        EXPECT_EQ(children[1]->end(), 0);
        children[0]->end(SIGKILL);
    }
};

// What waits for a process that is gone is told by retire_peer(), from another thread.
void expect_told(NetNode& node, const std::function<void()>& wait) {
    std::atomic<bool> is_back{false};
    std::thread waiting([&] {
        wait();
        is_back = true;
    });
    const std::int64_t end_ns = now_ns() + 30'000'000;
    patiently([&] { return now_ns() > end_ns; });
    EXPECT_FALSE(is_back) << "it cannot know yet";
    const std::int64_t begin_ns = now_ns();
    node.network.retire_peer(ProcId(1));
    waiting.join();
    EXPECT_LT(now_ns() - begin_ns, 5'000'000'000);
}

constexpr std::size_t kLarge = 30'000'000;

void wait_for_one(NetNode& node, int what) {
    std::vector<std::byte> data(kLarge, std::byte{7});
    std::uint64_t value = 5;
    switch (what) {
        case 0:
            node.network.put(PeId(1), heap(), &value, 8);
            node.network.quiet();
            break;
        case 1:
            node.network.get(PeId(1), &value, heap(), 8);
            EXPECT_EQ(value, 5U) << "the destination stays as it was";
            break;
        case 2: EXPECT_EQ(node.network.atomic_fetch(PeId(1), AtomicOperation::add, 8, heap(), 1), 0U); break;
        case 3:
            node.network.put_nbi(PeId(1), heap(), data.data(), kLarge);
            node.network.quiet();
            break;
        case 4: node.network.get(PeId(1), data.data(), heap(), kLarge); break;
        case 5:
            node.network.put_nbi(PeId(1), heap(), data.data(), kLarge);
            node.network.fence();
            break;
        case 6:
            node.network.write_store(ProcId(1), 0, data.data(), kStoreBytes);
            EXPECT_FALSE(node.network.flush_store(ProcId(1)));
            break;
        case 7:
            for (int i = 0; i < 3000; ++i) {
                node.network.put(PeId(1), heap(), data.data(), 5000);  // more than the window
            }
            node.network.quiet();
            break;
        default: FAIL();
    }
}

constexpr int kWaits = 8;

TEST_P(NetFaultsTest, WaitsForAStoppedProcessEndWhenItIsForgotten) {
    for (int what = 0; what < kWaits; ++what) {
        memory.restart();
        SCOPED_TRACE(what);
        run_against(SIGSTOP, [what](NetNode& node) {
            node.reach(1);
            node.await_step(2);
            expect_told(node, [&] { wait_for_one(node, what); });
            EXPECT_FALSE(node.network.is_reachable(PeId(1)));
            wait_for_one(node, what == 2 ? 2 : what == 6 ? 6 : 0);  // and nothing waits for it from then on
        });
        children.clear();
    }
}

TEST_P(NetFaultsTest, WaitsForADeadProcessEndWhenItIsForgotten) {
    for (int what = 0; what < kWaits; ++what) {
        memory.restart();
        SCOPED_TRACE(what);
        run_against(SIGKILL, [what](NetNode& node) {
            std::uint64_t value = 1;
            node.network.put(PeId(1), heap(), &value, 8);
            node.network.quiet();  // there is a connection
            node.reach(1);
            node.await_step(2);
            expect_told(node, [&] { wait_for_one(node, what); });
        });
        children.clear();
    }
}

// Process 1 writes a pattern without end, and is forgotten in the midst of it: from then on nothing changes.
TEST_P(NetFaultsTest, NothingOfAForgottenProcessChangesMemory) {
    for (int turn = 0; turn < 3; ++turn) {
        memory.restart();
        start(1, 2, [](NetNode& node) {
            std::vector<std::byte> data(kLarge / 3);
            for (std::uint32_t i = 0;; ++i) {
                std::fill(data.begin(), data.end(), static_cast<std::byte>(i));
                node.network.put_nbi(PeId(0), heap(0), data.data(), data.size());
                node.network.put(PeId(0), heap(kLarge), data.data(), 2000);
                node.network.put(PeId(0), heap(kLarge / 3), data.data(), data.size());
                node.network.write_store(ProcId(0), 0, data.data(), 4'000'000);
                static_cast<void>(node.network.flush_store(ProcId(0)));
                ++node.board.values[0];
            }
        });
        start(0, 2, [turn](NetNode& node) {
            patiently([&] { return node.board.values[0] > static_cast<std::uint64_t>(turn) * 2; });
            const std::int64_t end_ns = now_ns() + turn * 1'700'000;
            patiently([&] { return now_ns() > end_ns; });
            node.network.retire_peer(ProcId(1));
            const std::vector<std::byte> before(heap(), heap(kHeapBytes));
            const std::vector<std::byte> store(node.memory.store(0), node.memory.store(0) + kStoreBytes);
            const std::int64_t later_ns = now_ns() + 100'000'000;
            patiently([&] { return now_ns() > later_ns; });
            EXPECT_EQ(std::memcmp(before.data(), heap(), kHeapBytes), 0);
            EXPECT_EQ(std::memcmp(store.data(), node.memory.store(0), kStoreBytes), 0);
        });
        EXPECT_EQ(children[1]->end(), 0);
        children.clear();
    }
}

TEST_P(NetFaultsTest, OthersGoOnWhenOneIsForgotten) {
    start(2, 3, [](NetNode& node) { node.await_step(1000); });
    start(1, 3, [](NetNode& node) { node.await_step(5); });
    start(0, 3, [this](NetNode& node) {
        std::uint64_t value = 1;
        node.network.put(PeId(2), heap(), &value, 8);
        node.network.quiet();
        ::kill(static_cast<pid_t>(node.board.values[1]), SIGSTOP);
        const std::vector<std::byte> data(kLarge);
        node.network.put_nbi(PeId(2), heap(), data.data(), data.size());
        node.network.put_nbi(PeId(1), heap(), data.data(), data.size());
        EXPECT_EQ(node.network.atomic_fetch(PeId(1), AtomicOperation::fetch, 8, heap(kLarge), 0), 0U);
        node.network.retire_peer(ProcId(2));
        node.network.quiet();
        EXPECT_EQ(std::memcmp(memory.seen(1, heap()), data.data(), data.size()), 0);
        // A substitute takes over.
        node.network.set_holder(PeId(2), ProcId(1));
        EXPECT_TRUE(node.network.is_reachable(PeId(2)));
        node.network.atomic_post(PeId(2), AtomicOperation::set, 8, heap(kLarge), 9);
        EXPECT_EQ(node.network.atomic_fetch(PeId(1), AtomicOperation::fetch, 8, heap(kLarge), 0), 9U);
        node.reach(5);
    });
    memory.board().values[1] = static_cast<std::uint64_t>(children[0]->pid());
    EXPECT_EQ(children[2]->end(), 0);
    EXPECT_EQ(children[1]->end(), 0);
    children[0]->end(SIGKILL);
}

TEST_P(NetFaultsTest, AFullChannelEndsWithTheFault) {
    run_against(SIGSTOP, [](NetNode& node) {
        node.reach(1);
        node.await_step(2);
        std::thread service([&] {
            const std::int64_t end_ns = now_ns() + 30'000'000;
            patiently([&] { return now_ns() > end_ns; });
            node.gate.pending.store(true);
        });
        bool is_fine = true;
        for (int i = 0; i < 33 && is_fine; ++i) {
            is_fine = node.network.send(PeId(1), LaneId(0), nullptr, 0);
        }
        EXPECT_FALSE(is_fine);
        service.join();
        node.network.retire_peer(ProcId(1));
    });
}

// ---- strangers ----

// Ignores what comes back.
struct Nobody : FabricReceiver {
    void message(Bytes, Bytes) override { ++n; }
    Place place(Bytes, std::size_t) override { return {}; }
    void arrived(std::uint64_t, bool) override {}
    void sent(std::uint64_t) override {}
    std::size_t n = 0;
};

struct Attacker {
    explicit Attacker(const NetBoard& board, int self) {
        EXPECT_TRUE(good(fabric.open(
            {.self = ProcId(self), .n_slots = kProcessesMax, .receiver = &nobody, .interface = {}, .address = {}})));
        fabric.introduce(ProcId(0), Bytes(board.addresses[0], board.address_bytes[0]));
        head.secret = kSecret;
        head.from = self;
        head.to = 0;
    }
    void send(std::size_t bytes = 0) {
        const std::vector<std::byte> payload(bytes, std::byte{0xbb});
        send_bytes(std::as_bytes(std::span(&head, 1)), payload);
    }
    void send_bytes(Bytes bytes, Bytes payload) {
        const auto sent = fabric.send(ProcId(0), bytes, payload, 1);
        EXPECT_NE(sent, Fabric::Sent::gone);
        while (sent == Fabric::Sent::pending && payload.size() > SocketFabric::kEagerBytes && !fabric.is_idle()) {
            fabric.progress();
        }
        fabric.progress();
    }
    Nobody nobody;
    SocketFabric fabric;
    WireHead head;
};

class StrangersTest : public NetTest {};

// A put that would be good, with one thing wrong.
struct Attack {
    explicit Attack(const NetBoard& board) : attacker(board, 3), good(attacker.head) {}
    void operator()(const std::function<void(WireHead&)>& change, std::size_t payload = 0) {
        attacker.head = good;
        attacker.head.kind = WireKind::put;
        attacker.head.address = kHeapBase;
        attacker.head.length = payload == 0 ? 8 : payload;
        attacker.head.operand = UINT64_MAX;
        change(attacker.head);
        attacker.send(payload);
        ++n;
    }
    Attacker attacker;
    const WireHead good;
    std::uint64_t n = 0;
};

void attack_with_places(Attack& attack) {
    attack([](WireHead& head) { head.secret ^= 1; });
    attack([](WireHead& head) { head.magic = 0; });
    attack([](WireHead& head) { head.to = 1; });
    attack([](WireHead& head) { head.from = 0; });
    attack([](WireHead& head) { head.from = -1; });
    attack([](WireHead& head) { head.from = kProcessesMax; });
    attack([](WireHead& head) { head.done = 1; });
    for (const std::uint64_t address :
         {kHeapBase - 8, kHeapBase + kHeapBytes, kHeapBase + kHeapBytes - 7, UINT64_MAX - 3}) {
        attack([=](WireHead& head) { head.address = address; });
        attack([=](WireHead& head) { head.address = address; }, 5000);
        attack([=](WireHead& head) { head.address = address; }, 50'000);
        attack([=](WireHead& head) {
            head.address = address;
            head.kind = WireKind::get;
        });
        attack([=](WireHead& head) {
            head.address = address;
            head.kind = WireKind::fetch;
            head.width = 8;
        });
    }
    attack([](WireHead& head) { head.length = 0; });
    attack([](WireHead& head) { head.length = UINT64_MAX; });
    attack([](WireHead& head) { head.length = 10; });
    attack([](WireHead& head) { head.length = 5001; }, 5000);
    attack([](WireHead& head) { head.length = 50'001; }, 50'000);
}

void attack_with_operations(Attack& attack) {
    for (const unsigned width : {0U, 1U, 2U, 3U, 16U, 255U}) {
        attack([=](WireHead& head) {
            head.kind = WireKind::post;
            head.width = static_cast<std::uint8_t>(width);
        });
    }
    attack([](WireHead& head) {
        head.kind = WireKind::post;
        head.width = 8;
        head.address += 4;
    });
    attack([](WireHead& head) {
        head.kind = WireKind::post;
        head.width = 8;
        head.operation = 8;
    });
    for (const std::uint64_t step : {UINT64_MAX, kHeapBytes, std::uint64_t{INT64_MAX}, std::uint64_t{1} << 63}) {
        for (const WireKind kind : {WireKind::put_blocks, WireKind::get_blocks}) {
            attack(
                [=](WireHead& head) {
                    head.kind = kind;
                    head.length = wire_pair(100, 50);
                    head.operand = step;
                },
                5000);
        }
    }
    attack(
        [](WireHead& head) {
            head.kind = WireKind::put_blocks;
            head.length = wire_pair(100, 51);
            head.operand = 100;
        },
        5000);
    attack([](WireHead& head) {
        head.kind = WireKind::get_blocks;
        head.length = wire_pair(100'000, 50);
        head.operand = 0;
    });
}

void attack_with_kinds(Attack& attack) {
    for (const WireKind kind : {WireKind::reply, WireKind::ack, WireKind::channel, WireKind::credit,
                                WireKind::store_write, WireKind{0}, WireKind{13}, WireKind{255}}) {
        attack([=](WireHead& head) {
            head.kind = kind;
            head.address = UINT64_MAX;
            head.operand = UINT64_MAX;
        });
        attack(
            [=](WireHead& head) {
                head.kind = kind;
                head.address = UINT64_MAX;
                head.operand = UINT64_MAX;
            },
            300'000);
    }
    for (const std::size_t bytes : {0U, 1U, 63U}) {
        attack.attacker.send_bytes(std::as_bytes(std::span(&attack.attacker.head, 1)).first(bytes), {});
        ++attack.n;
    }
}

TEST_P(StrangersTest, WhatDoesNotFitIsRefused) {
    start(0, 1, [](NetNode& node) {
        node.reach(1);
        node.await_step(2);
        const std::uint64_t n_refused = node.board.values[0];
        patiently([&] { return node.network.counters().refused >= n_refused; });
        EXPECT_EQ(node.network.counters().refused, n_refused);
        EXPECT_TRUE(std::all_of(heap(), heap(kHeapBytes), [](std::byte byte) { return byte == std::byte{0}; }));
    });
    patiently([&] { return memory.board().step >= 1; });
    Attack attack(memory.board());
    attack_with_places(attack);
    attack_with_operations(attack);
    attack_with_kinds(attack);
    memory.board().values[0] = attack.n;
    memory.board().step = 2;
    EXPECT_EQ(children[0]->end(), 0);
}

// Heads that are good but for some bytes, in any order: whatever they say, the process lives and goes on working for
// others.
TEST_P(StrangersTest, NoHeadBreaksAProcess) {
    start(0, 2, [](NetNode& node) { node.await_step(3); });  // until the other one has its last answer
    start(1, 2, [](NetNode& node) {
        for (std::uint64_t i = 0; node.board.step < 2; ++i) {
            const std::uint64_t before =
                node.network.atomic_fetch(PeId(0), AtomicOperation::fetch, 8, heap(), 0);  // only that it comes back
            node.board.values[0] = i + 1 + before - before;
        }
        node.board.step = 3;
    });
    patiently([&] { return memory.board().values[0] >= 1; });
    Attacker attacker(memory.board(), 3);
    const WireHead good = attacker.head;
    std::mt19937_64 random(11);
    const std::uint64_t addresses[] = {kHeapBase,      kHeapBase + kHeapBytes - 8, kGlobalsBase, 0, UINT64_MAX,
                                       kStoreBytes - 8};
    const std::uint64_t lengths[] = {
        0, 1, 8, 9, 64, 5000, 50'000, kHeapBytes, UINT64_MAX, wire_pair(8, 8), wire_pair(~0U, ~0U)};
    const std::size_t payloads[] = {0, 0, 8, 56, 64, 5000, 50'000};
    for (int i = 0; i < 20'000; ++i) {
        WireHead& head = attacker.head;
        head = good;
        head.kind = static_cast<WireKind>(random() % 14);
        head.operation = static_cast<std::uint8_t>(random() % 10);
        head.width = static_cast<std::uint8_t>(random() % 3 == 0 ? random() : 4 << random() % 2);
        head.flags = static_cast<std::uint8_t>(random() % 3);
        head.address = addresses[random() % std::size(addresses)] + random() % 5;
        head.length = lengths[random() % std::size(lengths)];
        head.request = random() % 2 == 0 ? random() % 4 : std::uint64_t{1} << 32 | random() % 8;
        head.operand = random() >> random() % 64;
        std::size_t payload = payloads[random() % std::size(payloads)];
        if (random() % 2 == 0 && head.length <= 50'000) {
            payload = head.length;
        }
        if (random() % 4 == 0) {
            reinterpret_cast<unsigned char*>(&head)[random() % sizeof head] ^= static_cast<unsigned char>(random());
        }
        head.from = head.from == 1 ? 3 : head.from;  // the secret makes it believed: no answers in another's name
        attacker.send(payload);
    }
    const std::uint64_t before = memory.board().values[0];
    patiently([&] { return memory.board().values[0] > before + 100; });
    memory.board().step = 2;
    expect_all_end_well();
}

INSTANTIATE_TEST_SUITE_P(Sockets, StrangersTest, testing::Values("socket"), NetTest::name_of);
INSTANTIATE_TEST_SUITE_P(Fabrics, NetFaultsTest, testing::ValuesIn(NetTest::fabrics()), NetTest::name_of);

}  // namespace
}  // namespace sft
