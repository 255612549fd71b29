// Stores: the committed version stays whole while the next one is written, and what comes back is what was replicated.
#include "backup/store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "base/report.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"
#include "tests/rounds.hpp"

namespace sft {
namespace {

class StoreTest : public testing::TestWithParam<BackupMode> {
protected:
    void SetUp() override {
        ASSERT_TRUE(good(keeper.create(GetParam(), live.state, 3)));
        ASSERT_TRUE(good(owner.create(GetParam(), live.state, 3)));
        Trouble trouble;
        ASSERT_EQ(owner.use_keeper(location(), kMe, live.state, trouble), Reach::opened) << trouble.what;
    }
    [[nodiscard]] BackupStore::KeeperLocation location() const {
        return {::getpid(), process_start_time(::getpid()), keeper.fd()};
    }

    LiveMemory live{20};
    BackupStore keeper;
    BackupStore owner;
    std::mt19937 random{5};
};

TEST_P(StoreTest, ACommittedVersionComesBackToOwnerAndSubstitute) {
    for (std::uint32_t version = 1; version <= 6; ++version) {
        live.scribble(random, 50);
        owner.replicate(Version(version), live.state);
        owner.update_local_copy(Version(version), live.state);
        const auto heap = live.heap_bytes();
        live.scribble(random, 50);
        ASSERT_TRUE(owner.roll_back(Version(version), live.state));
        ASSERT_EQ(live.heap_bytes(), heap);
        LiveMemory substitute(20);
        ASSERT_EQ(BackupStore::fetch(location(), kMe, Version(version), substitute.state), BackupStore::Fetched::done);
        ASSERT_EQ(substitute.heap_bytes(), heap);
        ASSERT_EQ(substitute.library, live.library);
    }
}

// What exists is known from the version before, unless a call of the heap or a rollback may have made holes.
TEST_P(StoreTest, AHoleIsForgottenIfItMayHaveBeenMade) {
    std::uint64_t calls = 0;
    live.state.heap_calls = &calls;
    std::memset(live.heap.address(), 3, live.heap.bytes());
    std::uint32_t version = 0;
    const auto stored_bytes = [&] {
        const std::size_t bytes = owner.replicate(Version(++version), live.state).bytes_stored;
        owner.update_local_copy(Version(version), live.state);
        return bytes;
    };
    const auto make_hole = [&](std::size_t block) {
        ASSERT_EQ(::fallocate(live.heap.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(block * kBlockBytes), kBlockBytes),
                  0);
    };
    const std::size_t all = stored_bytes();
    ASSERT_EQ(stored_bytes(), all);
    make_hole(10);
    EXPECT_EQ(stored_bytes(), all) << "it is asked for";
    EXPECT_EQ(live.heap.address()[10 * kBlockBytes], std::byte(0));
    ++calls;
    make_hole(10);
    EXPECT_EQ(stored_bytes(), all - kBlockBytes);
    EXPECT_EQ(stored_bytes(), all - kBlockBytes) << "the other slot";
    live.heap.address()[10 * kBlockBytes] = std::byte(1);
    EXPECT_EQ(stored_bytes(), all);
    ASSERT_TRUE(owner.roll_back(Version(version), live.state)) << owner.explanation();
    make_hole(11);
    EXPECT_EQ(stored_bytes(), all - kBlockBytes);
    const State committed(live);
    live.scribble(random, 10);
    ASSERT_TRUE(owner.roll_back(Version(version), live.state)) << owner.explanation();
    EXPECT_TRUE(State(live) == committed);
}

TEST_P(StoreTest, AVersionThatIsNotCommittedDisturbsNothing) {
    live.scribble(random, 50);
    owner.replicate(Version(1), live.state);
    owner.update_local_copy(Version(1), live.state);
    const auto heap = live.heap_bytes();
    live.scribble(random, 50);
    owner.replicate(Version(2), live.state);  // and then somebody dies: 2 is never committed
    ASSERT_TRUE(owner.roll_back(Version(1), live.state));
    EXPECT_EQ(live.heap_bytes(), heap);
    LiveMemory substitute(20);
    EXPECT_EQ(BackupStore::fetch(location(), kMe, Version(1), substitute.state), BackupStore::Fetched::done);
    EXPECT_EQ(substitute.heap_bytes(), heap);
}

TEST_P(StoreTest, WhatIsLeftOutTakesNoRoomAndComesBackAsZeros) {
    std::fill_n(live.heap.address(), live.heap.bytes(), std::byte(7));
    ASSERT_TRUE(live.excluded.add(3, 17));
    owner.replicate(Version(1), live.state);
    owner.update_local_copy(Version(1), live.state);
    const std::size_t used = owner.room(live.state).used;
    EXPECT_EQ(owner.counters().replicated, 6 * kBlockBytes + live.library.size());
    live.excluded.remove(3, 17);
    owner.replicate(Version(2), live.state);
    EXPECT_EQ(owner.counters().replicated, 26 * kBlockBytes + 2 * live.library.size()) << "the other slot has nothing";
    EXPECT_GE(owner.room(live.state).used, used + 14 * kBlockBytes);
    ASSERT_TRUE(owner.roll_back(Version(1), live.state));
    for (std::size_t block = 0; block < 20; ++block) {
        const bool is_left_out = block >= 3 && block < 17;
        ASSERT_EQ(live.heap.address()[block * kBlockBytes + 5], std::byte(is_left_out ? 0 : 7)) << block;
    }
}

TEST_P(StoreTest, ADeadKeeperIsNoticedAndItsMemoryStillServesTheOwner) {
    live.scribble(random, 50);
    owner.replicate(Version(1), live.state);
    owner.update_local_copy(Version(1), live.state);
    const auto heap = live.heap_bytes();
    const BackupStore::KeeperLocation closed = location();
    BackupStore::KeeperLocation gone = closed;
    ++gone.start_time;  // somebody else has its pid, and has the very descriptor
    Trouble trouble;
    EXPECT_EQ(BackupStore::fetch(gone, kMe, Version(1), live.state, &trouble), BackupStore::Fetched::keeper_gone);
    keeper.release();
    live.scribble(random, 50);
    EXPECT_TRUE(owner.roll_back(Version(1), live.state));
    EXPECT_EQ(live.heap_bytes(), heap);
    // It lives, so that its store cannot be opened is no death.
    EXPECT_EQ(BackupStore::fetch(closed, kMe, Version(1), live.state, &trouble),
              BackupStore::Fetched::cannot_be_opened);
    EXPECT_EQ(trouble.error, ENOENT) << trouble.what;
}

TEST_P(StoreTest, AVersionThatIsNotThereIsNotReturned) {
    owner.replicate(Version(1), live.state);
    EXPECT_EQ(BackupStore::fetch(location(), kMe, Version(2), live.state), BackupStore::Fetched::corrupt);
    EXPECT_EQ(BackupStore::fetch(location(), PeId(0), Version(1), live.state), BackupStore::Fetched::corrupt);
}

using StoreDeathTest = StoreTest;

TEST_P(StoreDeathTest, TheSlotOfTheCommittedVersionIsNotWrittenAsAnotherOne) {
    owner.replicate(Version(1), live.state);
    owner.update_local_copy(Version(1), live.state);
    EXPECT_EXIT(owner.replicate(Version(3), live.state), testing::ExitedWithCode(kExitError), "defect.*committed_");
    EXPECT_EXIT(owner.update_local_copy(Version(0), live.state), testing::ExitedWithCode(kExitError),
                "defect.*kNoVersion");
}

// Loads each local copy that is committed into memory of its own.
class LocalCopies final : public VersionStore {
public:
    void committed(Version version, const Image& image) override {
        Image local = image;
        EXPECT_TRUE(local.load(version, copy.state).intact());
    }
    LiveMemory copy{20};
};

class LocalCopy : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(good(keeper.create(BackupMode::double_copy, live.state, 3)));
        ASSERT_TRUE(good(owner.create(BackupMode::double_copy, live.state, 3)));
        owner.give_versions_to(copies);
        Trouble trouble;
        const BackupStore::KeeperLocation here{::getpid(), process_start_time(::getpid()), keeper.fd()};
        ASSERT_EQ(owner.use_keeper(here, kMe, live.state, trouble), Reach::opened) << trouble.what;
    }

    LiveMemory live{20};
    LocalCopies copies;
    BackupStore keeper;
    BackupStore owner;
    std::mt19937 random{7};
};

// The local copy looks at what the shadow has found only. Values that come back, holes, versions in vain, rollbacks,
// and threads that go on writing in a checkpoint.
TEST_F(LocalCopy, IsThatOfLiveMemoryWhateverHasChanged) {
    const auto write_one = [&] {
        // One of two values at one place of a block.
        live.heap.address()[random() % 20 * kBlockBytes + 77] = std::byte(random() % 2);
        live.globals[random() % 7 * kBlockBytes + 700] = std::byte(random() % 2);
        live.library[random() % live.library.size()] = std::byte(random() % 2);
    };
    std::uint32_t version = 0;
    for (int round = 0; round < rounds(3000); ++round) {
        for (int i = 0; i < 3; ++i) {
            write_one();
        }
        if (random() % 5 == 0) {
            live.punch(random);
        }
        if (version != 0 && random() % 20 == 0) {
            static_cast<void>(owner.replicate(Version(version + 1), live.state));
            ASSERT_TRUE(owner.roll_back(Version(version), live.state));
            continue;
        }
        ++version;
        static_cast<void>(owner.replicate(Version(version), live.state));
        const bool goes_on_writing = random() % 10 == 0;
        if (goes_on_writing) {
            write_one();
        }
        owner.update_local_copy(Version(version), live.state);
        ASSERT_TRUE(goes_on_writing || State(copies.copy) == State(live)) << "round " << round;
    }
}

TEST_F(LocalCopy, ComparesNothingThatTheShadowHasCompared) {
    live.scribble(random, 100);
    for (std::uint32_t version = 1; version <= 4; ++version) {
        owner.replicate(Version(version), live.state);
        owner.update_local_copy(Version(version), live.state);
    }
    owner.replicate(Version(5), live.state);
    live.heap.address()[77] = ~live.heap.address()[77];  // against the rules, and not seen
    EXPECT_EQ(owner.update_local_copy(Version(5), live.state).bytes_copied, 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, StoreDeathTest, testing::Values(BackupMode::single_copy, BackupMode::double_copy));
INSTANTIATE_TEST_SUITE_P(Modes, StoreTest, testing::Values(BackupMode::single_copy, BackupMode::double_copy));

}  // namespace
}  // namespace sft
