// What a checkpoint in the background is made of.
#include "backup/still_state.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "tests/backup/live_memory.hpp"
#include "tests/backup/protector_members.hpp"

namespace sft {
namespace {

constexpr std::size_t kHeapBlocks = 24;

// As it would be restored.
State state_of(const LiveState& state) {
    std::vector<std::byte> room(Image::bytes_for(state) + kPageBytes);
    auto* const begin = reinterpret_cast<std::byte*>(whole_pages(reinterpret_cast<std::uintptr_t>(room.data())));
    Image image(begin, state);
    static_cast<void>(image.store(Version(1), state));
    LiveMemory other(kHeapBlocks);
    EXPECT_TRUE(image.load(Version(1), other.state).intact());
    return State(other);
}

std::size_t bytes_of(const StillState& still) {
    struct stat info {};
    EXPECT_EQ(::fstat(still.fd(), &info), 0);
    return static_cast<std::size_t>(info.st_blocks) * 512;
}

TEST(StillState, StaysWhatLiveMemoryWas) {
    LiveMemory live(kHeapBlocks);
    StillState still;
    EXPECT_EQ(still.version(), kNoVersion);
    ASSERT_TRUE(good(still.create(live.state)));
    EXPECT_EQ(still.version(), kNoVersion);
    std::mt19937 random(3);
    for (std::uint32_t version = 1; version <= 200; ++version) {
        live.scribble(random, 10);
        if (random() % 3 == 0) {
            live.punch(random);
        }
        if (random() % 3 == 0) {
            live.exclude_some(random);
        }
        still.take(Version(version), live.state, nullptr, false);
        EXPECT_EQ(still.version(), Version(version));
        EXPECT_TRUE(still.state().is_still);
        const State then(live);
        live.scribble(random, 30);
        live.exclude_some(random);
        ASSERT_EQ(state_of(still.state()), then) << "version " << version;
    }
}

// Else the memory that a program has given back would stay taken, and be copied as what it was.
TEST(StillState, HasNoMoreBlocksThanLiveMemory) {
    LiveMemory live(kHeapBlocks);
    StillState still;
    ASSERT_TRUE(good(still.create(live.state)));
    std::fill_n(live.heap.address(), live.heap.bytes(), std::byte(1));
    still.take(Version(1), live.state, nullptr, false);
    const std::size_t full = bytes_of(still);
    EXPECT_GE(full, live.heap.bytes());
    ASSERT_EQ(::fallocate(live.heap.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                          static_cast<off_t>(20 * kBlockBytes)),
              0);
    still.take(Version(2), live.state, nullptr, false);
    EXPECT_EQ(bytes_of(still), full - 20 * kBlockBytes);
}

// A flipped bit in the table: everything is taken anew.
TEST(StillState, WhatIsDamagedIsTakenAnew) {
    LiveMemory live(kHeapBlocks);
    StillState still;
    ASSERT_TRUE(good(still.create(live.state)));
    std::mt19937 random(4);
    std::fill_n(live.heap.address(), live.heap.bytes(), std::byte(1));
    still.take(Version(1), live.state, nullptr, false);
    live.punch(random);
    auto* const table = reinterpret_cast<std::byte*>(still.state().heap.begin) - kPageBytes;
    *table ^= std::byte(1);
    BlockSet nothing;
    nothing.reset(kHeapBlocks + 20);
    still.take(Version(2), live.state, &nothing, false);  // nor is it believed that nothing differs
    EXPECT_EQ(state_of(still.state()), State(live));
}

TEST_P(ProtectorTest, OfAStillTheProgramMayGoOn) {
    use(near);
    commit(Version(1));
    ASSERT_TRUE(good(owner.protector.prepare_still()));
    ASSERT_TRUE(good(owner.protector.prepare_still())) << "again";
    for (std::uint32_t version = 2; version <= 5; ++version) {
        owner.live.scribble(random, 50);
        owner.protector.take_still(Version(version));
        EXPECT_TRUE(owner.protector.uses_still());
        const State then(owner.live);
        owner.live.scribble(random, 50);
        ASSERT_TRUE(owner.protector.replicate(Version(version)));
        owner.live.scribble(random, 50);
        owner.protector.update_local_copy(Version(version));
        owner.protector.end_still();
        expect_back(Version(version), then);
        commit(Version(version + 1));  // of live memory, between two
        expect_back(Version(++version), State(owner.live));
    }
}

TEST_P(ProtectorTest, RoomIsWantedForAStill) {
    use(near);
    commit(Version(1));
    commit(Version(2));
    const BackupStore& store = owner.protector.store();
    const BackupStore::Room before = store.room(owner.live.state);
    StillState still;
    ASSERT_TRUE(good(still.create(owner.live.state)));
    const BackupStore::Room wanted = store.room(owner.live.state, &still);
    EXPECT_GT(wanted.next, before.next);
    EXPECT_GT(wanted.most, before.most);
    still.take(Version(3), owner.live.state, nullptr, false);
    EXPECT_GE(store.room(owner.live.state, &still).used, before.used + owner.live.library.size());
    EXPECT_LT(store.room(owner.live.state, &still).next, wanted.next);
    ASSERT_TRUE(good(owner.protector.prepare_still()));
    EXPECT_EQ(owner.protector.room().most, before.most) << "the shadow takes its place";
}

TEST_P(ProtectorTest, TheProgramMayGoOnWhenItsShadowIsMade) {
    use(near);
    commit(Version(1));
    EXPECT_TRUE(owner.protector.has_near_shadow());
    alignas(64) static std::byte room[4096];
    const GuardWords words(room, owner.live.heap.bytes());
    const std::size_t most = owner.protector.room().most;
    ASSERT_TRUE(good(owner.protector.prepare_to_hold(words)));
    EXPECT_EQ(owner.protector.room().most, most + owner.live.heap.bytes());
    for (std::uint32_t version = 2; version <= 9; ++version) {
        const bool is_held = version % 2 == 0;
        owner.live.scribble(random, version % 3 == 0 ? 0 : 50);
        if (version % 4 == 0) {
            owner.live.punch(random);
        }
        ASSERT_EQ(owner.protector.begin_in_shadow(Version(version), is_held), is_held)
            << "nobody knows what has changed";
        EXPECT_EQ(words.is_held(0), is_held);
        const State then(owner.live);
        owner.protector.tell_when_saved([&] {
            if (is_held) {
                EXPECT_TRUE(words.is_held(0));
                owner.live.globals[200] ^= std::byte(1);
            } else {
                owner.live.scribble(random, 50);
            }
        });
        ASSERT_TRUE(owner.protector.replicate(Version(version)));
        EXPECT_FALSE(words.is_held(0));
        owner.live.scribble(random, 50);
        owner.protector.update_local_copy(Version(version));
        owner.protector.end_still();
        expect_back(Version(version), then);
        commit(Version(version + 1));  // of live memory, between two
        expect_back(Version(++version), State(owner.live));
    }
}

}  // namespace
}  // namespace sft
