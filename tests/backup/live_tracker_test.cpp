// What a process has written itself, what others have written to it, and pages that come and go: copies made by
// tracking are those of comparing. On systems that do not track, there is nothing to be tested, which is said.
#include "backup/live_tracker.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "backup/still_state.hpp"
#include "backup/store.hpp"
#include "base/assert.hpp"
#include "tests/backup/fake_wire.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::size_t kWatchedBlocks = 60;

class LiveTracking : public testing::TestWithParam<BackupMode> {
protected:
    void SetUp() override {
        if (const Result<std::int64_t> probed = WrittenPages::probe(); !probed) {
            GTEST_SKIP() << probed.error().line;
        }
        EXPECT_TRUE(good(keeper_.create(GetParam(), live_.state, 1)));
        peer_ = static_cast<std::byte*>(
            ::mmap(nullptr, live_.heap.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, live_.heap.fd(), 0));
        ASSERT_NE(peer_, MAP_FAILED);
    }
    void TearDown() override {
        if (peer_ != nullptr) {
            ::munmap(peer_, live_.heap.bytes());
        }
    }
    void open(BackupStore& store) {
        EXPECT_TRUE(good(store.create(GetParam(), live_.state, 1)));
        Trouble trouble;
        const BackupStore::KeeperLocation keeper{::getpid(), process_start_time(::getpid()), keeper_.fd()};
        EXPECT_EQ(store.use_keeper(keeper, PeId(0), live_.state, trouble), Reach::opened) << trouble.what;
    }
    // The keeper is on another node.
    BackupStore::KeeperLocation use_far(FakeWire& wire) {
        BackupStore::KeeperLocation keeper;
        keeper.process = ProcId(7);
        keeper.wire = &wire;
        Trouble trouble;
        EXPECT_EQ(owner_.use_keeper(keeper, PeId(0), live_.state, trouble), Reach::opened) << trouble.what;
        return keeper;
    }
    BackupStore::KeeperLocation open_far() {
        EXPECT_TRUE(good(owner_.create(GetParam(), live_.state, 1)));
        return use_far(wires_[0]);
    }
    // So that pages are watched, and all copies are made.
    void fill_and_checkpoint(std::uint32_t n) {
        std::fill_n(live_.heap.address(), live_.heap.bytes(), std::byte(1));
        for (std::uint32_t version = 1; version <= n; ++version) {
            checkpoint(version);
        }
    }
    // One block by its owner, one by another process. A third that leaves no note is none that is looked at.
    void change_two_blocks() {
        live_.heap.address()[5 * kBlockBytes + 9] = std::byte(2);
        write_from_outside(9 * kBlockBytes + 9, std::byte(2));
#if !SFT_SLOW_ASSERTIONS
        write_from_outside(11 * kBlockBytes + 9, std::byte(2), false);
#endif
    }
    void checkpoint(std::uint32_t version) {
        static_cast<void>(owner_.replicate(Version(version), live_.state));
        owner_.update_local_copy(Version(version), live_.state);
    }
    // By another process, through its own mapping.
    void write_from_outside(std::size_t offset, std::byte value, bool is_noted = true) {
        peer_[offset] = value;
        if (is_noted) {
            notes_.wrote(0, live_.heap.address() + offset, 1);
        }
    }
    // As shmem_calloc does with large blocks. The page tables do not tell of it.
    void punch(std::size_t block) {
        EXPECT_EQ(::fallocate(live_.heap.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(block * kBlockBytes), 8192),
                  0);
        notes_.wrote(0, live_.heap.address() + block * kBlockBytes, 8192);
    }
    void write(std::mt19937& random) {
        const std::size_t place = random() % live_.heap.bytes();
        const auto value = std::byte(random());
        switch (random() % 6) {
            case 0: live_.heap.address()[place] = value; break;
            case 1: write_from_outside(place, value); break;
            case 2: live_.globals[random() % live_.globals.size()] = value; break;
            case 3: live_.library[random() % live_.library.size()] = value; break;
            case 4:  // the kernel takes the entry of a page that has been written
                live_.heap.address()[place] = value;
                ::madvise(live_.heap.address() + place / 4096 * 4096, 4096, MADV_DONTNEED);
                break;
            default: peer_[exposed_ + random() % kBlockBytes] = value;  // without a note
        }
    }

    // In all the ways that there are.
    void change(std::mt19937& random) {
        for (int i = 0; i < 8; ++i) {
            write(random);
        }
        if (random() % 8 == 0) {
            punch(random() % kWatchedBlocks);
        }
        if (random() % 8 == 0) {
            live_.exclude_some(random);
        }
    }

    LiveMemory live_{kWatchedBlocks};
    std::vector<std::uint64_t> notes_memory_ =
        std::vector<std::uint64_t>(ChangeNotes::bytes_for(live_.state.heap.bytes, live_.state.globals.bytes) / 8);
    ChangeNotes notes_{reinterpret_cast<std::byte*>(notes_memory_.data()), live_.state.heap, live_.state.globals};
    const std::size_t exposed_ = 7 * kBlockBytes;
    std::byte* peer_ = nullptr;
    FakeWire wires_[2] = {FakeWire(2 * Image::bytes_for(live_.state)), FakeWire(2 * Image::bytes_for(live_.state), 2)};
    BackupStore keeper_;
    BackupStore owner_;
};

// With rollbacks, after which a number is used again, with versions that were replicated in vain, and with holes.
TEST_P(LiveTracking, HasTheSameCopiesAsComparing) {
    LiveTracker tracker(live_.state, notes_, 0);
    open(owner_);
    owner_.track_changes_by(tracker);
    notes_.expose(0, live_.heap.address() + exposed_, kBlockBytes);
    std::mt19937 random(5);
    std::uint32_t version = 0;
    std::vector<State> committed;
    Exclusions left_out;
    int n_tracked = 0;
    for (int round = 0; round < 400; ++round) {
        change(random);
        switch (version == 0 ? 0 : random() % 4) {
            case 0:
            case 1:
                checkpoint(++version);
                n_tracked += tracker.changed_since(Version(version)) != nullptr ? 1 : 0;
                committed = {State(live_)};
                left_out = live_.excluded;
                break;
            case 2: static_cast<void>(owner_.replicate(Version(version + 1), live_.state)); break;
            default:
                ASSERT_TRUE(owner_.roll_back(Version(version), live_.state)) << owner_.explanation();
                live_.excluded = left_out;
                ASSERT_TRUE(State(live_) == committed[0]) << "round " << round;
        }
    }
    EXPECT_GT(n_tracked, 100) << "then this shows nothing: " << tracker.refusal();
}

// Made of what live memory was when the still was taken, while it is written to; beside others that are not, and those
// that are not committed.
TEST_P(LiveTracking, CopiesOfStillsAreThoseOfTheirMoment) {
    LiveTracker tracker(live_.state, notes_, 0);
    open(owner_);
    owner_.track_changes_by(tracker);
    notes_.expose(0, live_.heap.address() + exposed_, kBlockBytes);
    StillState still;
    ASSERT_TRUE(good(still.create(live_.state)));
    std::mt19937 random(7);
    checkpoint(1);
    std::uint32_t version = 1;
    State committed(live_);
    Exclusions left_out = live_.excluded;
    int n_tracked = 0;
    for (int round = 0; round < 400; ++round) {
        change(random);
        const auto next = Version(version + 1);
        const auto kind = random() % 5;
        if (kind < 3) {
            owner_.take_still(next, live_.state, still);
            EXPECT_EQ(still.version(), next);
            const State then(live_);
            const Exclusions left_out_then = live_.excluded;
            change(random);
            static_cast<void>(owner_.replicate(next, still.state()));
            change(random);
            if (kind < 2) {
                owner_.update_local_copy(next, still.state());
                n_tracked += tracker.changed_since(next) != nullptr ? 1 : 0;
                ++version;
                committed = then;
                left_out = left_out_then;
            }
        } else if (kind == 3) {
            checkpoint(++version);
            committed = State(live_);
            left_out = live_.excluded;
        }
        if (kind >= 2 && random() % 2 == 0) {
            ASSERT_TRUE(owner_.roll_back(Version(version), live_.state)) << owner_.explanation();
            live_.excluded = left_out;
            ASSERT_TRUE(State(live_) == committed) << "round " << round;
        }
    }
    EXPECT_GT(n_tracked, 50) << "then this shows nothing: " << tracker.refusal();
}

TEST_P(LiveTracking, AFarShadowIsTheSameAsByComparing) {
    LiveTracker tracker(live_.state, notes_, 0);
    BackupStore::KeeperLocation keeper = open_far();
    Trouble trouble;
    owner_.track_changes_by(tracker);
    notes_.expose(0, live_.heap.address() + exposed_, kBlockBytes);
    std::mt19937 random(6);
    int n_tracked = 0;
    for (std::uint32_t version = 1; version <= 150; ++version) {
        for (std::size_t i = 0; i < random() % 8; ++i) {
            write(random);
        }
        if (random() % 8 == 0) {
            punch(random() % kWatchedBlocks);
        }
        if (random() % 8 == 0) {
            live_.exclude_some(random);
        }
        checkpoint(version);
        if (random() % 8 == 0) {  // another keeper, which may have old versions
            keeper = use_far(wires_[random() % 2]);
            ASSERT_FALSE(owner_.replicate(Version(version), live_.state).keeper_gone);
        }
        n_tracked += tracker.changed_since(Version(version)) != nullptr ? 1 : 0;
        const State stored(live_);
        LiveMemory substitute(kWatchedBlocks);
        ASSERT_EQ(BackupStore::fetch(keeper, PeId(0), Version(version), substitute.state, &trouble),
                  BackupStore::Fetched::done)
            << trouble.what;
        ASSERT_TRUE(State(substitute) == stored) << "version " << version;
        if (random() % 4 == 0) {
            const Exclusions left_out = live_.excluded;
            write(random);
            static_cast<void>(owner_.replicate(Version(version + 1), live_.state));
            ASSERT_TRUE(owner_.roll_back(Version(version), live_.state)) << owner_.explanation();
            live_.excluded = left_out;
            ASSERT_TRUE(State(live_) == stored) << "version " << version;
        }
    }
    EXPECT_GT(n_tracked, 100) << "then this shows nothing: " << tracker.refusal();
}

TEST_P(LiveTracking, WhatAFarShadowHasIsNotSentAgain) {
    LiveTracker tracker(live_.state, notes_, 0);
    static_cast<void>(open_far());
    owner_.track_changes_by(tracker);
    fill_and_checkpoint(5);
    const std::uint64_t before = owner_.counters().replicated;
    change_two_blocks();
    checkpoint(6);
    EXPECT_EQ(owner_.counters().replicated, before + kBlockBytes + kPageBytes);
}

TEST_P(LiveTracking, LooksAtNothingElse) {
    LiveTracker tracker(live_.state, notes_, 0);
    open(owner_);
    owner_.track_changes_by(tracker);
    fill_and_checkpoint(4);
    const std::uint64_t before = owner_.counters().replicated;
    checkpoint(5);
    EXPECT_EQ(owner_.counters().replicated, before);
    change_two_blocks();
    checkpoint(6);
    EXPECT_EQ(owner_.counters().replicated, before + kBlockBytes + kPageBytes);
    ASSERT_TRUE(owner_.roll_back(Version(6), live_.state));
    EXPECT_EQ(live_.heap.address()[5 * kBlockBytes + 9], std::byte(2));
    EXPECT_EQ(live_.heap.address()[9 * kBlockBytes + 9], std::byte(2));
}

// Nobody writes to it meanwhile.
TEST_P(LiveTracking, WhatIsLeftOutOrTakenInAgainHasChanged) {
    LiveTracker tracker(live_.state, notes_, 0);
    open(owner_);
    owner_.track_changes_by(tracker);
    std::fill_n(live_.heap.address(), live_.heap.bytes(), std::byte(1));
    ASSERT_TRUE(live_.excluded.add(10, 20));
    for (std::uint32_t version = 1; version <= 4; ++version) {
        checkpoint(version);
    }
    ASSERT_TRUE(tracker.is_on());
    live_.excluded.remove(12, 15);
    ASSERT_TRUE(live_.excluded.add(30, 40));
    for (std::uint32_t version = 5; version <= 6; ++version) {
        checkpoint(version);
        ASSERT_TRUE(owner_.roll_back(Version(version), live_.state));
        for (std::size_t block = 0; block < kWatchedBlocks; ++block) {
            const bool is_out = live_.excluded.next_included(block) != block;
            ASSERT_EQ(live_.heap.address()[block * kBlockBytes + 7], std::byte(is_out ? 0 : 1)) << block;
        }
    }
}

TEST_P(LiveTracking, AMissedChangeIsFoundIfItIsLookedFor) {
    EXPECT_DEATH(
        {
            LiveTracker tracker(live_.state, notes_, 0);
            open(owner_);
            owner_.track_changes_by(tracker, true);
            for (std::size_t block = 0; block < kWatchedBlocks; ++block) {
                live_.heap.address()[block * kBlockBytes] = std::byte(1);
            }
            for (std::uint32_t version = 1; version <= 4; ++version) {
                checkpoint(version);
            }
            write_from_outside(11 * kBlockBytes + 9, std::byte(2), false);
            checkpoint(5);
        },
        "raw_equal");
}

// Pages are watched while that is cheaper than comparing.
TEST_P(LiveTracking, IsOnWhileLittleChanges) {
    LiveTracker tracker(live_.state, notes_, 1000);
    open(owner_);
    owner_.track_changes_by(tracker);
    std::uint32_t version = 0;
    const auto change = [&](std::size_t blocks) {
        for (std::size_t byte = 0; byte < blocks * kBlockBytes; byte += 4096) {
            live_.heap.address()[byte] = std::byte(version + 1);
        }
        checkpoint(++version);
        return tracker.is_on();
    };
    EXPECT_FALSE(change(kWatchedBlocks));
    EXPECT_FALSE(change(kWatchedBlocks));
    EXPECT_FALSE(change(kWatchedBlocks));
    change(1);
    EXPECT_TRUE(change(1));
    EXPECT_TRUE(change(1));
    EXPECT_TRUE(change(1));
    EXPECT_FALSE(change(kWatchedBlocks));
    int n_until_on = 1;
    while (!change(1) && n_until_on < 100) {
        ++n_until_on;
    }
    EXPECT_GE(n_until_on, 2) << "it waits longer each time";
    EXPECT_LT(n_until_on, 10);
}

TEST_P(LiveTracking, IsOffWhileThereIsLittle) {
    LiveTracker tracker(live_.state, notes_, 1000);
    open(owner_);
    owner_.track_changes_by(tracker);
    std::uint32_t version = 0;
    const auto is_on_behind = [&](std::size_t blocks) {
        for (int i = 0; i < 4; ++i) {
            live_.heap.address()[0] = std::byte(version + 1);
            checkpoint(++version);
        }
        for (std::size_t block = 0; block < blocks; ++block) {
            live_.heap.address()[block * kBlockBytes] = std::byte(1);
        }
        return tracker.is_on();
    };
    EXPECT_FALSE(is_on_behind(20));
    EXPECT_FALSE(is_on_behind(kWatchedBlocks));
    EXPECT_TRUE(is_on_behind(0));
    ASSERT_TRUE(live_.excluded.add(10, kWatchedBlocks));
    EXPECT_FALSE(is_on_behind(0));
}

INSTANTIATE_TEST_SUITE_P(Modes, LiveTracking, testing::Values(BackupMode::single_copy, BackupMode::double_copy),
                         [](const auto& which) {
                             return which.param == BackupMode::single_copy ? std::string("single")
                                                                           : std::string("double");
                         });

}  // namespace
}  // namespace sft
