// Operations between real processes, over sockets and over every fabric that has been built.
#include "transport/net/network.hpp"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/transport/net_test.hpp"

namespace sft {
namespace {

std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        data[i] = static_cast<std::byte>((i >> 11 ^ i) * 37 + seed);
    }
    return data;
}

const std::size_t kSizes[] = {1, 2, 3, 4, 7, 8, 9, 64, 4096, 7936, 8192, 8193, 100'000, 300'000, 1 << 20, 20'000'000};

TEST_P(NetTest, PutAndGetOfEverySize) {
    run(2, [](NetNode& node, int self) {
        if (self != 0) {
            return;
        }
        std::uint32_t seed = 1;
        for (const std::size_t bytes : kSizes) {
            for (const std::size_t offset : {std::size_t{0}, std::size_t{3}}) {
                std::vector<std::byte> data = pattern(bytes, ++seed);
                const std::vector<std::byte> expected = data;
                node.network.put(PeId(1), heap(64 + offset), data.data(), bytes);
                std::fill(data.begin(), data.end(), std::byte{0xee});  // must not matter any more
                node.network.quiet();
                EXPECT_EQ(std::memcmp(node.memory.seen(1, heap(64 + offset)), expected.data(), bytes), 0) << bytes;
                node.network.get(PeId(1), data.data(), heap(64 + offset), bytes);
                EXPECT_TRUE(data == expected) << bytes;
            }
        }
        auto* const globals = reinterpret_cast<std::byte*>(kGlobalsBase);
        const std::vector<std::byte> data = pattern(kGlobalsBytes, 3);
        node.network.put_nbi(PeId(1), globals, data.data(), kGlobalsBytes);
        node.network.quiet();
        std::vector<std::byte> back(kGlobalsBytes);
        node.network.get_nbi(PeId(1), back.data(), globals, kGlobalsBytes);
        node.network.quiet();
        EXPECT_TRUE(back == data);
        EXPECT_EQ(node.network.counters().refused, 0U);
    });
}

TEST_P(NetTest, ManyWithoutWaiting) {
    run(3, [](NetNode& node, int self) {
        constexpr std::size_t n = 5000;
        std::vector<std::uint64_t> source(n);
        for (std::size_t i = 0; i < n; ++i) {
            source[i] = i * 8 + static_cast<std::uint64_t>(self);
        }
        const int other = (self + 1) % 3;
        for (std::size_t i = 0; i < n; ++i) {
            node.network.put_nbi(PeId(other), heap<std::uint64_t>() + i, &source[i], 8);
        }
        node.network.quiet();
        EXPECT_EQ(std::memcmp(node.memory.seen(other, heap()), source.data(), n * 8), 0);
        std::vector<std::uint64_t> back(n);
        for (std::size_t i = 0; i < n; ++i) {
            node.network.get_nbi(PeId(other), &back[i], heap<std::uint64_t>() + i, 8);
        }
        node.network.quiet();
        EXPECT_TRUE(back == source);
        const std::vector<std::byte> large = pattern(300'000, static_cast<std::uint32_t>(self));
        for (std::size_t i = 0; i < 40; ++i) {
            node.network.put_nbi(PeId(other), heap(100'000 + i * large.size()), large.data(), large.size());
        }
        node.network.quiet();
        for (std::size_t i = 0; i < 40; ++i) {
            const void* const there = node.memory.seen(other, heap(100'000 + i * large.size()));
            EXPECT_EQ(std::memcmp(there, large.data(), large.size()), 0);
        }
    });
}

TEST_P(NetTest, BlocksLandWhereCopiesWould) {
    run(2, [](NetNode& node, int self) {
        if (self != 0) {
            return;
        }
        std::mt19937 random(7);
        constexpr std::size_t bytes = 1 << 20;
        const std::vector<std::byte> source = pattern(bytes, 5);
        std::vector<std::byte> model(bytes);
        std::memset(node.memory.seen(1, heap()), 0, bytes);
        for (int turn = 0; turn < 200; ++turn) {
            NetBlocks blocks;
            blocks.block_bytes = turn % 20 == 0 ? 9000 : 1 + random() % 40;
            blocks.n_blocks = turn % 20 == 0 ? 5 : random() % 2000;
            blocks.dest_step = static_cast<std::ptrdiff_t>(blocks.block_bytes + random() % 40);
            blocks.source_step = static_cast<std::ptrdiff_t>(random() % 60);
            if (turn % 3 == 0) {
                blocks.dest_step = -blocks.dest_step;
            }
            const std::size_t middle = bytes / 2;
            const auto step = [&](std::size_t i) { return static_cast<std::ptrdiff_t>(i) * blocks.dest_step; };
            for (std::size_t i = 0; i < blocks.n_blocks; ++i) {
                std::memcpy(model.data() + middle + step(i),
                            source.data() + static_cast<std::ptrdiff_t>(i) * blocks.source_step, blocks.block_bytes);
            }
            node.network.put_blocks(PeId(1), heap(middle), source.data(), blocks);
            node.network.quiet();
            ASSERT_EQ(std::memcmp(node.memory.seen(1, heap()), model.data(), bytes), 0) << turn;
            // Back the other way: gathers there, scatters here.
            std::vector<std::byte> back(blocks.n_blocks * blocks.block_bytes);
            const NetBlocks gather{.block_bytes = blocks.block_bytes,
                                   .n_blocks = blocks.n_blocks,
                                   .dest_step = static_cast<std::ptrdiff_t>(blocks.block_bytes),
                                   .source_step = blocks.dest_step};
            node.network.get_blocks(PeId(1), back.data(), heap(middle), gather);
            for (std::size_t i = 0; i < blocks.n_blocks; ++i) {
                ASSERT_EQ(std::memcmp(back.data() + i * blocks.block_bytes, model.data() + middle + step(i),
                                      blocks.block_bytes),
                          0);
            }
        }
        EXPECT_EQ(node.network.counters().refused, 0U);
    });
}

template <class Word>
void try_atomics(NetNode& node) {
    using Op = AtomicOperation;
    constexpr std::size_t width = sizeof(Word);
    Word* const there = heap<Word>(1024);
    Word* const seen = node.memory.seen(1, there);
    const auto first = static_cast<Word>(0xf0f0'1234'5678'9abcULL);
    const auto other = static_cast<Word>(0x0ff0'9999'1111'ffffULL);
    const auto fetch = [&](Op operation, Word operand, Word condition = 0) {
        return static_cast<Word>(node.network.atomic_fetch(PeId(1), operation, width, there, operand, condition));
    };
    const auto expect = [&](Op operation, Word after) {
        *seen = first;
        EXPECT_EQ(fetch(operation, other), first);
        EXPECT_EQ(*seen, after);
        if (operation != Op::fetch) {
            *seen = first;
            node.network.atomic_post(PeId(1), operation, width, there, other);
            node.network.quiet();
            EXPECT_EQ(*seen, after);
        }
    };
    seen[1] = 77;
    expect(Op::fetch, first);
    expect(Op::swap, other);
    expect(Op::add, static_cast<Word>(first + other));
    expect(Op::bit_and, first & other);
    expect(Op::bit_or, first | other);
    expect(Op::bit_xor, first ^ other);
    *seen = first;
    EXPECT_EQ(fetch(Op::compare_swap, other, first), first);
    EXPECT_EQ(fetch(Op::compare_swap, 1, first), other);
    EXPECT_EQ(*seen, other);
    node.network.atomic_post(PeId(1), Op::set, width, there, first);
    EXPECT_EQ(fetch(Op::fetch, 0), first) << "after everything before it";
    EXPECT_EQ(seen[1], 77) << "the next word";
}

TEST_P(NetTest, AtomicsOfBothWidths) {
    run(2, [](NetNode& node, int self) {
        if (self == 0) {
            try_atomics<std::uint32_t>(node);
            try_atomics<std::uint64_t>(node);
        }
    });
}

TEST_P(NetTest, AtomicsOfAllWaysTogether) {
    constexpr std::uint64_t n = 3000;
    run(3, [](NetNode& node, int self) {
        auto* const sum = heap<std::uint64_t>(4096);
        auto* const half = heap<std::uint32_t>(8192);
        for (std::uint64_t i = 0; i < n; ++i) {
            if (self == 1) {
                std::atomic_ref(*sum).fetch_add(1);
                std::atomic_ref(*half).fetch_add(1);
                continue;
            }
            node.network.atomic_post(PeId(1), AtomicOperation::add, 8, sum, 1);
            if (i % 10 == 0) {
                static_cast<void>(node.network.atomic_fetch(PeId(1), AtomicOperation::add, 4, half, 10));
            }
        }
        node.network.quiet();
        node.meet(3);
        EXPECT_EQ(*node.memory.seen(1, sum), 3 * n);
        EXPECT_EQ(*node.memory.seen(1, half), 3 * n);
    });
}

TEST_P(NetTest, FenceKeepsLargePutsBeforeFlags) {
    constexpr std::size_t bytes = 3'000'000;
    run(2, [](NetNode& node, int self) {
        auto* const flag = heap<std::uint64_t>(0);
        auto* const ready = heap<std::uint64_t>(8);
        for (std::uint64_t turn = 1; turn <= 20; ++turn) {
            if (self == 0) {
                const std::vector<std::byte> data = pattern(bytes, static_cast<std::uint32_t>(turn));
                node.network.put_nbi(PeId(1), heap(4096), data.data(), bytes);
                node.network.put_nbi(PeId(1), heap(4096 + bytes), data.data(), bytes);
                node.network.fence();
                node.network.put(PeId(1), flag, &turn, 8);
                node.network.quiet();
                patiently([&] { return std::atomic_ref(*ready).load() == turn; });
            } else {
                patiently([&] { return std::atomic_ref(*flag).load() == turn; });
                const std::vector<std::byte> data = pattern(bytes, static_cast<std::uint32_t>(turn));
                EXPECT_EQ(std::memcmp(heap(4096), data.data(), bytes), 0);
                EXPECT_EQ(std::memcmp(heap(4096 + bytes), data.data(), bytes), 0);
                node.network.put(PeId(0), ready, &turn, 8);
            }
        }
    });
}

TEST_P(NetTest, ThreadsDoNotMixUp) {
    run(2, [](NetNode& node, int self) {
        const PeId other(1 - self);
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t < 4; ++t) {
            threads.emplace_back([&node, other, t] {
                std::byte* const place = heap(t << 20);
                for (std::uint32_t turn = 0; turn < 100; ++turn) {
                    const std::size_t bytes = turn % 10 == 0 ? 300'000 : 1 + turn * 13;
                    const std::vector<std::byte> data = pattern(bytes, turn + static_cast<std::uint32_t>(t));
                    std::vector<std::byte> back(bytes);
                    node.network.put_nbi(other, place, data.data(), bytes);
                    node.network.quiet();
                    EXPECT_EQ(std::memcmp(node.memory.seen(other.value(), place), data.data(), bytes), 0);
                    node.network.get(other, back.data(), place, bytes);
                    EXPECT_TRUE(back == data);
                    static_cast<void>(
                        node.network.atomic_fetch(other, AtomicOperation::add, 8, heap<std::uint64_t>(8 << 20), 1));
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        node.meet(2);
        EXPECT_EQ(*heap<std::uint64_t>(8 << 20), 400U);
    });
}

TEST_P(NetTest, ADoorbellWakesWhoWaitsForAPut) {
    run(2, [](NetNode& node, int self) {
        auto* const flag = heap<std::uint64_t>();
        for (std::uint64_t turn = 1; turn <= 50; ++turn) {
            if (static_cast<std::uint64_t>(self) == turn % 2) {
                node.network.put(PeId(1 - self), flag, &turn, 8);
                continue;
            }
            Waiter waiter(&node.doorbell, &node.gate, {.spins = 0, .yields = 0});
            EXPECT_TRUE(waiter.block_until([&] { return std::atomic_ref(*flag).load() >= turn; }));
        }
    });
}

TEST_P(NetTest, ChannelsKeepTheirOrder) {
    constexpr std::uint64_t n = 2000;
    run(3, [](NetNode& node, int self) {
        // Everybody is sender and receiver, in two lanes: who sends must take in meanwhile.
        std::uint64_t next[2][3] = {};
        const auto take = [&] {
            for (std::uint32_t lane = 0; lane < 2; ++lane) {
                for (int from = 0; from < 3; ++from) {
                    std::uint64_t got = 0;
                    if (from != self && node.network.try_receive(PeId(from), LaneId(lane * 200), &got, 8)) {
                        EXPECT_EQ(got, next[lane][from]++ * 10 + static_cast<std::uint64_t>(from));
                    }
                }
            }
        };
        std::thread sender([&] {
            for (std::uint64_t i = 0; i < n; ++i) {
                const std::uint64_t value = i * 10 + static_cast<std::uint64_t>(self);
                for (int to = 0; to < 3; ++to) {
                    for (std::uint32_t lane = 0; lane < 2 && to != self; ++lane) {
                        EXPECT_TRUE(node.network.send(PeId(to), LaneId(lane * 200), &value, 8));
                    }
                }
            }
        });
        {
            const Network::Polling polling(&node.network);
            const int one = (self + 1) % 3;
            const int two = (self + 2) % 3;
            patiently([&] {
                node.network.poll();
                take();
                return next[0][one] + next[0][two] + next[1][one] + next[1][two] == 4 * n;
            });
        }
        sender.join();
        EXPECT_EQ(node.network.counters().refused, 0U);
    });
}

TEST_P(NetTest, ASlowReceiverHoldsTheSenderBack) {
    run(2, [](NetNode& node, int self) {
        const LaneId lane(3);
        if (self == 0) {
            std::atomic<int> n_sent{0};
            std::thread sender([&] {
                for (int i = 0; i < 1000; ++i) {
                    ASSERT_TRUE(node.network.send(PeId(1), lane, &i, sizeof i));
                    ++n_sent;
                }
            });
            patiently([&] { return n_sent == 32; });
            const std::int64_t end_ns = now_ns() + 50'000'000;
            patiently([&] { return now_ns() > end_ns; });
            EXPECT_EQ(n_sent, 32) << "of messages that nobody has taken out";
            node.reach(1);
            sender.join();
        } else {
            node.await_step(1);
            for (int i = 0; i < 1000; ++i) {
                int got = -1;
                patiently([&] { return node.network.try_receive(PeId(0), lane, &got, sizeof got); });
                ASSERT_EQ(got, i);
            }
        }
    });
}

TEST_P(NetTest, AMessageComesBehindLargePuts) {
    constexpr std::size_t bytes = 2'000'000;
    run(2, [](NetNode& node, int self) {
        for (std::uint32_t turn = 1; turn <= 10; ++turn) {
            const std::vector<std::byte> data = pattern(bytes, turn);
            if (self == 0) {
                node.network.put_nbi(PeId(1), heap(), data.data(), bytes);
                EXPECT_TRUE(node.network.send(PeId(1), LaneId(0), nullptr, 0));
                patiently([&] { return node.network.try_receive(PeId(1), LaneId(0), nullptr, 0); });
            } else {
                patiently([&] { return node.network.try_receive(PeId(0), LaneId(0), nullptr, 0); });
                EXPECT_EQ(std::memcmp(heap(), data.data(), bytes), 0);
                EXPECT_TRUE(node.network.send(PeId(0), LaneId(0), nullptr, 0));
            }
        }
    });
}

TEST_P(NetTest, AResetBeginsAnewWhoeverIsAhead) {
    run(2, [](NetNode& node, int self) {
        const LaneId lane(1);
        int value = 1;
        const auto take = [&] {
            patiently([&] { return node.network.try_receive(PeId(1 - self), lane, &value, sizeof value); });
            return value;
        };
        EXPECT_TRUE(node.network.send(PeId(1 - self), lane, &value, sizeof value));
        EXPECT_TRUE(node.network.send(PeId(1 - self), lane, &value, sizeof value));
        EXPECT_EQ(take(), 1);  // the other one is never taken out
        node.meet(2);
        if (self == 1) {
            node.await_step(1);
        }
        node.network.reset_channels(5);
        if (self == 0) {
            node.network.reset_channels(5);  // in the same attempt, for which a spare has joined
        }
        value = 2 + self;
        EXPECT_TRUE(node.network.send(PeId(1 - self), lane, &value, sizeof value));
        if (self == 0) {
            // What is ahead has arrived before the other one resets.
            node.network.put(PeId(1), heap(), &value, sizeof value);
            node.network.quiet();
            node.reach(1);
        }
        EXPECT_EQ(take(), 3 - self);
    });
}

TEST_P(NetTest, StoresAreWrittenAndRead) {
    run(2, [](NetNode& node, int self) {
        if (self != 0) {
            return;
        }
        const std::vector<std::byte> data = pattern(kStoreBytes, 9);
        for (std::size_t at = 0; at < kStoreBytes; at += 16384) {
            node.network.write_store(ProcId(1), at, data.data() + at, at % 32768 == 0 ? 16384 : 100);
        }
        EXPECT_TRUE(node.network.flush_store(ProcId(1)));
        node.network.drain_store(ProcId(1), 0);  // waits for ever if a byte was counted that was not acknowledged
        EXPECT_EQ(std::memcmp(node.memory.store(1), data.data(), 16384 + 100), 0);
        EXPECT_EQ(node.memory.store(1)[16384 + 100], std::byte{0});
        node.network.write_store(ProcId(1), 0, data.data(), data.size());
        EXPECT_TRUE(node.network.flush_store(ProcId(1)));
        std::vector<std::byte> back(kStoreBytes);
        node.network.read_store(ProcId(1), 5, back.data(), 3);
        node.network.read_store(ProcId(1), 8, back.data() + 3, kStoreBytes - 8);
        EXPECT_TRUE(node.network.flush_store(ProcId(1)));
        EXPECT_EQ(std::memcmp(back.data(), data.data() + 5, kStoreBytes - 5), 0);
        node.network.write_store(ProcId(1), kStoreBytes - 10, data.data(), 11);
        EXPECT_FALSE(node.network.flush_store(ProcId(1))) << "one byte too far";
        node.network.write_store(ProcId(1), kStoreBytes - 20'000, data.data(), 20'001);
        EXPECT_FALSE(node.network.flush_store(ProcId(1)));
        EXPECT_TRUE(node.network.flush_store(ProcId(1))) << "said once";
    });
}

TEST_P(NetTest, SleepsWhenThereIsNothingToDo) {
    run(2, [](NetNode& node, int self) {
        std::uint64_t value = 1;
        node.network.put(PeId(1 - self), heap(), &value, 8);
        node.network.quiet();
        node.meet(2);
        const auto cpu_us = [] {
            rusage usage{};
            ::getrusage(RUSAGE_SELF, &usage);
            return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
                   usage.ru_stime.tv_usec;
        };
        // Connections that were made for the first message may still exchange something.
        EXPECT_EQ(::poll(nullptr, 0, 300), 0);
        const auto before = cpu_us();
        EXPECT_EQ(::poll(nullptr, 0, 1000), 0);
        const auto used = cpu_us() - before;
        std::printf("idle: %ld us of processor time in a second\n", static_cast<long>(used));
        EXPECT_LT(used, 10'000);
    });
}

INSTANTIATE_TEST_SUITE_P(Fabrics, NetTest, testing::ValuesIn(NetTest::fabrics()), NetTest::name_of);

}  // namespace
}  // namespace sft
