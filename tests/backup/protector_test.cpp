// The owner of a process's copies: where they are kept, what each step leaves, and what its failures say.
#include "backup/protector.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>

#include "base/process_watch.hpp"
#include "tests/backup/fake_wire.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/backup/protector_members.hpp"

namespace sft {
namespace {

TEST_P(ProtectorTest, ACommittedVersionComesBackToOwnerAndSubstitute) {
    use(near);
    EXPECT_EQ(first_keeper(owner), ProcId(2));
    for (std::uint32_t version = 1; version <= 4; ++version) {
        commit(Version(version));
        EXPECT_GE(owner.protector.stored_bytes(), owner.live.library.size());
        const State committed(owner.live);
        owner.live.scribble(random, 50);
        ASSERT_TRUE(owner.protector.replicate(Version(version + 1)));  // which is not committed
        expect_back(Version(version), committed);
    }
}

TEST_P(ProtectorTest, ASubstituteReadsTheFrontWithoutTheRest) {
    use(near);
    commit(Version(1));
    Member substitute(GetParam());
    const auto heap = substitute.live.heap_bytes();
    ASSERT_TRUE(substitute.protector.fetch_front(near, kMe, Version(1), kBlockBytes));
    EXPECT_EQ(substitute.live.library, owner.live.library);
    const auto begin = [](const std::vector<std::byte>& bytes) {
        return std::vector<std::byte>(bytes.begin(), bytes.begin() + kBlockBytes);
    };
    const auto rest = [](const std::vector<std::byte>& bytes) {
        return std::vector<std::byte>(bytes.begin() + kBlockBytes, bytes.end());
    };
    EXPECT_EQ(begin(substitute.live.heap_bytes()), begin(owner.live.heap_bytes()));
    EXPECT_EQ(rest(substitute.live.heap_bytes()), rest(heap));
    EXPECT_EQ(first_keeper(substitute), kNoProc) << "a fetch chooses no keeper";
}

TEST_P(ProtectorTest, WithoutAKeeperNothingIsReplicated) {
    EXPECT_EQ(first_keeper(owner), kNoProc);
    EXPECT_TRUE(owner.protector.replicate(Version(1)));
    EXPECT_EQ(owner.protector.stored_bytes(), 0U);
    use(near);
    commit(Version(1));
    owner.protector.protect_by_nobody();
    EXPECT_EQ(first_keeper(owner), kNoProc);
    const std::uint64_t before = bytes_replicated();
    owner.live.scribble(random, 50);
    EXPECT_TRUE(owner.protector.replicate(Version(2)));
    EXPECT_EQ(bytes_replicated(), before);
}

TEST_P(ProtectorTest, AKeeperThatIsGoneIsAnotherFailureThanOneThatCannotBeOpened) {
    use(near);
    Protector::KeeperLocation gone = near;
    ++gone.start_time;  // somebody else has its pid
    const Result<> used = owner.protector.use_keeper(gone, kMe);
    ASSERT_FALSE(used);
    EXPECT_EQ(used.error().failure, Failure::gone);
    EXPECT_EQ(first_keeper(owner), kNoProc) << "nor is it the one before";
    EXPECT_EQ(owner.protector.fetch(gone, kMe, Version(1)).error().failure, Failure::gone);

    keeper.protector.release();
    const Result<> closed = owner.protector.use_keeper(near, kMe);
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().failure, Failure::cannot_be_opened);
    EXPECT_EQ(closed.error().number, ENOENT);
    EXPECT_NE(closed.error().line.find("process 2"), std::string::npos) << closed.error().line;
    EXPECT_EQ(owner.protector.fetch(near, kMe, Version(1)).error().failure, Failure::cannot_be_opened);
}

TEST_P(ProtectorTest, ACopyThatIsBadIsAFailureThatNamesIt) {
    use(near);
    commit(Version(1));
    Member substitute(GetParam());
    const Result<> other = substitute.protector.fetch(near, kMe, Version(2));
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().failure, Failure::failed);
    EXPECT_NE(other.error().line.find("PE 1"), std::string::npos) << other.error().line;
    ASSERT_FALSE(owner.protector.store().flip_bit(BackupStore::Copy::shadow, 7, owner.live.state).empty());
    EXPECT_EQ(substitute.protector.fetch(near, kMe, Version(1)).error().failure, Failure::failed);
    const bool has_local = GetParam() == BackupMode::double_copy;
    EXPECT_EQ(owner.protector.roll_back(Version(1)).has_value(), has_local) << "mended from the other copy, if any";
}

TEST_P(ProtectorTest, AShadowMovesToANewKeeper) {
    use(near);
    commit(Version(1));
    const State committed(owner.live);
    Member next(GetParam());
    const Protector::KeeperLocation other = keeper_location(next, ProcId(0));
    ASSERT_TRUE(owner.protector.protect(kMe, one(other, false), Version(1)));
    EXPECT_EQ(first_keeper(owner), ProcId(0));
    Member substitute(GetParam());
    ASSERT_TRUE(substitute.protector.fetch(other, kMe, Version(1)));
    EXPECT_EQ(State(substitute.live), committed);
}

TEST_P(ProtectorTest, AShadowThatIsThereIsNotWrittenAgain) {
    use(near);
    commit(Version(1));
    const std::uint64_t before = bytes_replicated();
    ASSERT_TRUE(owner.protector.protect(kMe, one(near, true), Version(1)));
    EXPECT_EQ(bytes_replicated(), before);

    // A new substitute has not opened it yet, and goes on with what its predecessor has written.
    Member substitute(GetParam());
    ASSERT_TRUE(substitute.protector.fetch(near, kMe, Version(1)));
    substitute.protector.update_local_copy(Version(1));
    ASSERT_TRUE(substitute.protector.protect(kMe, one(near, true), Version(1)));
    EXPECT_EQ(first_keeper(substitute), ProcId(2));
    EXPECT_EQ(substitute.protector.store().counters().replicated, 0U);
    substitute.live.scribble(random, 50);
    ASSERT_TRUE(substitute.protector.replicate(Version(2)));
    substitute.protector.update_local_copy(Version(2));
    const State committed(substitute.live);
    substitute.live.scribble(random, 50);
    ASSERT_TRUE(substitute.protector.roll_back(Version(2)));
    EXPECT_EQ(State(substitute.live), committed);
}

TEST_P(ProtectorTest, ANewKeeperThatIsGoneLeavesNone) {
    use(near);
    commit(Version(1));
    Protector::KeeperLocation gone = near;
    gone.process = ProcId(0);
    ++gone.start_time;
    const Result<> done = owner.protector.protect(kMe, one(gone, false), Version(1));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().failure, Failure::gone);
    EXPECT_EQ(first_keeper(owner), kNoProc);
    // The plan that follows leaves the shadow where it was; it has to be opened again.
    ASSERT_TRUE(owner.protector.protect(kMe, one(near, true), Version(1)));
    EXPECT_EQ(first_keeper(owner), ProcId(2));
}

TEST_P(ProtectorTest, AFarKeeperThatDiesTakesNoCopy) {
    FakeWire wire(kPes * 2 * Image::bytes_for(owner.live.state));
    Protector::KeeperLocation far;
    far.process = ProcId(7);
    far.wire = &wire;
    use(far);
    commit(Version(1));
    const State committed(owner.live);
    wire.lives_for = 3;
    owner.live.scribble(random, 50);
    const Result<> replicated = owner.protector.replicate(Version(2));
    ASSERT_FALSE(replicated);
    EXPECT_EQ(replicated.error().failure, Failure::refused);
    EXPECT_EQ(first_keeper(owner), kNoProc);

    const Result<> restored = owner.protector.roll_back(Version(1));
    if (GetParam() == BackupMode::double_copy) {
        ASSERT_TRUE(restored) << restored.error().line;
        EXPECT_EQ(State(owner.live), committed);
    } else {
        ASSERT_FALSE(restored);
        EXPECT_NE(restored.error().line.find("process 7 on another node"), std::string::npos) << restored.error().line;
    }
}

TEST_P(ProtectorTest, WhatGoesOnInTheBackgroundEndsBeforeTheCopiesDo) {
    use(near);
    commit(Version(1));
    Config config;
    config.first_touch = false;
    ASSERT_TRUE(owner.protector.start_idle_work(config, true, 1)) << "it is off: nothing to start";
    config.first_touch = true;
    config.scrub_seconds = 1;
    config.scrub_rate_bytes = 1 << 20;
    ASSERT_TRUE(owner.protector.start_idle_work(config, true, 1));
    owner.protector.release();
    EXPECT_EQ(first_keeper(owner), kNoProc);
    owner.protector.release();
}

// Pages of the copies, of which every block that exists in live memory is touched once, and no other.
class FirstTouchTest : public ProtectorTest {
protected:
    using Touched = BackupStore::Touched;

    // The number of pieces that were touched in one look.
    std::size_t look() {
        BackupStore::TouchPlace place;
        std::size_t pieces = 0;
        for (;;) {
            const Touched touched = owner.protector.store().touch(place, 2, owner.live.state);
            EXPECT_NE(touched, Touched::refused);
            EXPECT_NE(touched, Touched::busy);
            if (touched == Touched::end) {
                return pieces;
            }
            pieces += touched == Touched::more ? 1 : 0;
        }
    }
    [[nodiscard]] std::size_t kept_bytes() const {
        struct stat info {};
        EXPECT_EQ(::fstat(keeper.protector.store().fd(), &info), 0);
        return static_cast<std::size_t>(info.st_blocks) * 512;
    }
};

TEST_P(FirstTouchTest, WhatTwoCheckpointsWriteIsTouchedAndNothingElse) {
    use(near);
    EXPECT_EQ(look(), 0U);
    owner.live.heap.address()[3 * kBlockBytes] = std::byte{1};
    owner.live.globals[5 * kBlockBytes] = std::byte{1};
    EXPECT_EQ(look(), 4U) << "a block of the heap and one of the globals, in two slots";
    EXPECT_EQ(kept_bytes(), 4 * kBlockBytes + 2 * 4096) << "and the headers, which have been read";
    EXPECT_EQ(look(), 0U);
    owner.live.heap.address()[9 * kBlockBytes] = std::byte{1};
    EXPECT_EQ(look(), 2U);
    for (std::uint32_t version = 1; version <= 2; ++version) {
        ASSERT_TRUE(owner.protector.replicate(Version(version)));
        owner.protector.update_local_copy(Version(version));
    }
    EXPECT_LE(kept_bytes(), 6 * kBlockBytes + 2 * (Image::front_bytes_for(owner.live.state) + 4096));
}

TEST_P(FirstTouchTest, ALookIsNeededOnlyWhenMemoryHasCome) {
    use(near);
    const BackupStore& store = owner.protector.store();
    const auto sign = store.touch_sign(owner.live.state);
    ASSERT_TRUE(sign.is_known());
    owner.live.heap.address()[0] = std::byte{1};
    const auto with_heap = store.touch_sign(owner.live.state);
    EXPECT_FALSE(with_heap == sign);
    owner.live.heap.address()[0] = std::byte{2};
    EXPECT_TRUE(store.touch_sign(owner.live.state) == with_heap) << "what is there already needs no look";
    owner.live.globals[5 * kBlockBytes] = std::byte{1};
    const auto with_globals = store.touch_sign(owner.live.state);
    EXPECT_FALSE(with_globals == with_heap);
    const Member other(GetParam());
    use(keeper_location(other, ProcId(0)));
    EXPECT_FALSE(store.touch_sign(owner.live.state) == with_globals) << "the copies are elsewhere";
    BackupStore::TouchSign unknown = sign;
    unknown.globals = -1;
    EXPECT_FALSE(unknown.is_known());
}

TEST_P(FirstTouchTest, TheThreadFindsMemoryThatComesLater) {
    const auto n_threads = [] {
        const std::filesystem::directory_iterator tasks("/proc/self/task");
        return std::distance(begin(tasks), end(tasks));
    };
    const auto before = n_threads();
    use(near);
    ASSERT_TRUE(owner.protector.start_idle_work(Config(), false, 1));
    EXPECT_EQ(n_threads(), before) << "a program that cannot checkpoint";
    ASSERT_TRUE(owner.protector.start_idle_work(Config(), true, 1));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (std::size_t blocks = 1; blocks <= 2; ++blocks) {
        owner.live.heap.address()[blocks * kBlockBytes] = std::byte{1};
        // Two slots, and a page of each that was there before; pages come one by one.
        const std::size_t expected = 2 * blocks * kBlockBytes + 2 * 4096;
        while (kept_bytes() < expected && std::chrono::steady_clock::now() < end) {
            ::poll(nullptr, 0, 1);
        }
        EXPECT_EQ(kept_bytes(), expected);
    }
}

TEST_P(FirstTouchTest, ContentsStay) {
    use(near);
    for (std::uint32_t version = 1; version <= 4; ++version) {
        commit(Version(version));
        const State committed(owner.live);
        owner.live.scribble(random, 50);
        look();
        expect_back(Version(version), committed);
    }
}

TEST_P(FirstTouchTest, AnotherKeepersPagesAreTouchedAnew) {
    use(near);
    owner.live.heap.address()[0] = std::byte{1};
    EXPECT_EQ(look(), 2U);
    const Member other(GetParam());
    use(keeper_location(other, ProcId(0)));
    EXPECT_EQ(look(), 2U);
    owner.protector.release();
    EXPECT_EQ(look(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, FirstTouchTest, testing::Values(BackupMode::single_copy, BackupMode::double_copy));
INSTANTIATE_TEST_SUITE_P(Modes, ProtectorTest, testing::Values(BackupMode::single_copy, BackupMode::double_copy));

TEST(Protector, AJobWithoutCopiesHasNoStore) {
    Member member(BackupMode::none);
    EXPECT_LT(member.protector.store().fd(), 0);
    EXPECT_TRUE(member.protector.replicate(Version(1)));
    member.protector.update_local_copy(Version(1));
    member.protector.protect_by_nobody();
    EXPECT_EQ(member.protector.stored_bytes(), 0U);
}

TEST(FirstTouch, LeavesTheProgramItsMemory) {
    constexpr std::uint64_t kLimit = 6400;
    EXPECT_TRUE(may_touch_ahead({.bytes = 3200, .limit = kLimit, .group = ""}, 3150)) << "whatever is written fits";
    EXPECT_FALSE(may_touch_ahead({.bytes = 3200, .limit = kLimit, .group = ""}, 3151));
    EXPECT_TRUE(may_touch_ahead({.bytes = 4801, .limit = kLimit, .group = ""}, UINT64_MAX)) << "up to a quarter";
    EXPECT_FALSE(may_touch_ahead({.bytes = 4800, .limit = kLimit, .group = ""}, UINT64_MAX));
    EXPECT_TRUE(may_touch_ahead({}, UINT64_MAX / 2)) << "nobody tells";
}

}  // namespace
}  // namespace sft
