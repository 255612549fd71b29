// Shadows between real processes, over sockets and over every fabric that has been built: what comes back is what was
// replicated, also when the owner or the keeper is killed in the middle.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <thread>

#include "backup/store.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"
#include "tests/transport/net_test.hpp"

namespace sft {
namespace {

using Fetched = BackupStore::Fetched;

constexpr int kOwner = 0;
constexpr int kKeeper = 1;
constexpr int kSubstitute = 2;
constexpr PeId kFirst{0};
constexpr std::int32_t kPes = 3;

// The state of a version is a function of its number, so every process knows what it has to be.
struct KnownState : LiveMemory {
    using LiveMemory::LiveMemory;

    void become(Version version) {
        std::mt19937 random(version.value());
        std::vector<std::uint64_t> words(heap.bytes() / sizeof(std::uint64_t));
        for (std::size_t i = 0; i < words.size(); ++i) {
            // Some blocks are the same in all versions.
            words[i] = i * sizeof(std::uint64_t) / kBlockBytes % 5 == 0 ? i : i * random() + version.value();
        }
        std::memcpy(heap.address(), words.data(), heap.bytes());
        for (const std::span<std::byte> bytes : {globals, std::span(library)}) {
            for (std::byte& byte : bytes) {
                byte = static_cast<std::byte>(random());
            }
        }
    }
    [[nodiscard]] static State of(Version version, std::size_t heap_blocks) {
        KnownState known(heap_blocks);
        known.become(version);
        return State(known);
    }
};

// Waits without taking time from the processes that work.
void await(const std::function<bool()>& is_done) {
    patiently([&] {
        ::poll(nullptr, 0, 1);
        return is_done();
    });
}

class NetBackup : public NetTest {
protected:
    [[nodiscard]] static BackupStore::KeeperLocation location(NetNode& node) {
        BackupStore::KeeperLocation location;
        location.process = ProcId(kKeeper);
        location.network = &node.network;
        return location;
    }
    // Keeps until `step` has been reached.
    void start_keeper(int n, std::size_t heap_blocks, int step) {
        start(kKeeper, n, [heap_blocks, step](NetNode& node) {
            const LiveMemory layout(heap_blocks);
            BackupStore keeper;
            ASSERT_TRUE(good(keeper.create(BackupMode::single_copy, layout.state, kPes)));
            ASSERT_TRUE(good(keeper.serve(node.network, layout.state)));
            node.board.values[0] = 1;
            await([&] { return node.board.step >= step; });
            node.network.close();
            keeper.release();
        });
    }
    static void begin(NetNode& node, BackupStore& owner, const LiveMemory& live) {
        await([&] { return node.board.values[0] == 1; });
        ASSERT_TRUE(good(owner.create(BackupMode::double_copy, live.state, kPes)));
        Trouble trouble;
        ASSERT_EQ(owner.use_keeper(location(node), kFirst, live.state, trouble), Reach::opened) << trouble.what;
    }
};

TEST_P(NetBackup, WhatIsShippedComesBack) {
    constexpr std::size_t kBlocks = 200;
    start_keeper(2, kBlocks, 1);
    start(kOwner, 2, [](NetNode& node) {
        LiveMemory live(kBlocks);
        std::mt19937 random(7);
        BackupStore owner;
        begin(node, owner, live);
        LiveMemory substitute(kBlocks);
        for (std::uint32_t number = 1; number <= 60; ++number) {
            live.scribble(random, static_cast<int>(random() % 100));
            const Version version(number);
            ASSERT_FALSE(owner.replicate(version, live.state).keeper_gone);
            owner.update_local_copy(version, live.state);
            Trouble trouble;
            ASSERT_EQ(BackupStore::fetch(location(node), kFirst, version, substitute.state, &trouble), Fetched::done)
                << trouble.what;
            ASSERT_TRUE(State(substitute) == State(live)) << number;
        }
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            ASSERT_NE(owner.flip_bit(BackupStore::Copy::shadow, seed, live.state), "");
            ASSERT_TRUE(owner.mend(live.state)) << owner.explanation();
        }
        EXPECT_EQ(owner.counters().repaired, 20U);
        EXPECT_EQ(node.network.counters().refused, 0U);
        node.reach(1);
    });
    expect_all_end_well();
}

// The version before is whole, and the one that was on its way is whole or named as bad.
TEST_P(NetBackup, AnOwnerMayBeKilledWhileItShips) {
    constexpr std::size_t kBlocks = 500;
    int torn = 0;
    for (int round = 0; round < 4; ++round) {
        NetBoard& board = *new (&memory.board()) NetBoard{};
        start_keeper(3, kBlocks, 3);
        start(kOwner, 3, [](NetNode& node) {
            KnownState live(kBlocks);
            BackupStore owner;
            begin(node, owner, live);
            for (std::uint32_t number = 1;; ++number) {
                live.become(Version(number));
                node.board.values[1] = number;
                owner.replicate(Version(number), live.state);
                owner.update_local_copy(Version(number), live.state);
                node.board.values[2] = number;
            }
        });
        start(kSubstitute, 3, [](NetNode& node) {
            await([&] { return node.board.step >= 1; });
            node.network.retire_peer(ProcId(kOwner));
            const Version committed(static_cast<std::uint32_t>(node.board.values[2].load()));
            LiveMemory live(kBlocks);
            Trouble trouble;
            ASSERT_EQ(BackupStore::fetch(location(node), kFirst, committed, live.state, &trouble), Fetched::done)
                << trouble.what;
            EXPECT_TRUE(State(live) == KnownState::of(committed, kBlocks));
            const Version next = committed.next();
            if (BackupStore::fetch(location(node), kFirst, next, live.state) == Fetched::done) {
                EXPECT_TRUE(State(live) == KnownState::of(next, kBlocks));
            } else {
                node.board.values[3] = 1;
            }
            // It goes on where its predecessor has ended.
            ASSERT_EQ(BackupStore::fetch(location(node), kFirst, committed, live.state), Fetched::done);
            BackupStore store;
            begin(node, store, live);
            store.update_local_copy(committed, live.state);
            ASSERT_FALSE(store.replicate(next, live.state).keeper_gone);
            LiveMemory again(kBlocks);
            ASSERT_EQ(BackupStore::fetch(location(node), kFirst, next, again.state, &trouble), Fetched::done)
                << trouble.what;
            EXPECT_TRUE(State(again) == State(live));
            node.reach(3);
        });
        // In the middle of the fourth ship or of what follows.
        await([&] { return board.values[1] >= 4; });
        ::poll(nullptr, 0, round);
        children[1]->end(SIGKILL);
        board.step = 1;
        children.erase(children.begin() + 1);
        expect_all_end_well();
        torn += static_cast<int>(board.values[3]);
    }
    EXPECT_GT(torn, 0) << "no kill has hit a ship";
}

TEST_P(NetBackup, AKeeperMayBeKilledWhileAPeShips) {
    constexpr std::size_t kBlocks = 500;
    start_keeper(2, kBlocks, 100);
    start(kOwner, 2, [](NetNode& node) {
        KnownState live(kBlocks);
        BackupStore owner;
        begin(node, owner, live);
        // What the membership does when it hears of the death.
        std::thread service([&] {
            await([&] { return node.board.step >= 1; });
            node.network.retire_peer(ProcId(kKeeper));
        });
        Version version(0);
        BackupStore::Replicated replicated;
        while (!replicated.keeper_gone) {
            version = version.next();
            live.become(version);
            node.board.values[1] = version.value();
            replicated = owner.replicate(version, live.state);
            if (!replicated.keeper_gone) {
                owner.update_local_copy(version, live.state);
            }
        }
        service.join();
        const Version committed(version.value() - 1);
        EXPECT_TRUE(owner.roll_back(committed, live.state)) << owner.explanation();
        EXPECT_TRUE(State(live) == KnownState::of(committed, kBlocks));
        LiveMemory substitute(kBlocks);
        EXPECT_EQ(BackupStore::fetch(location(node), kFirst, committed, substitute.state), Fetched::keeper_gone);
        EXPECT_TRUE(owner.mend(live.state));
        EXPECT_EQ(owner.counters().bad, 0U);
    });
    NetBoard& board = memory.board();
    await([&] { return board.values[1] >= 3; });
    ::poll(nullptr, 0, 3);
    children[0]->end(SIGKILL);
    board.step = 1;
    children.erase(children.begin());
    expect_all_end_well();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, NetBackup, testing::ValuesIn(NetTest::fabrics()), NetTest::name_of);

}  // namespace
}  // namespace sft
