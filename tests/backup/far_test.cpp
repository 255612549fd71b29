// Shadows on another node: what comes back is what was replicated, whatever the network's order, whoever dies when, and
// nothing that changed is left out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "backup/scrubber.hpp"
#include "backup/store.hpp"
#include "tests/backup/fake_wire.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"
#include "tests/rounds.hpp"

namespace sft {
namespace {

using Copy = BackupStore::Copy;
using Fetched = BackupStore::Fetched;

constexpr std::size_t kBlocks = 40;

// A PE with a keeper on another node.
class FarFixture : public testing::Test {
protected:
    [[nodiscard]] static std::size_t store_bytes(const LiveState& live) { return 3 * 2 * Image::bytes_for(live); }
    [[nodiscard]] static BackupStore::KeeperLocation location(FakeWire& wire) {
        BackupStore::KeeperLocation location;
        location.process = ProcId(7);
        location.wire = &wire;
        return location;
    }
    void use(BackupMode mode) {
        ASSERT_TRUE(good(owner.create(mode, live.state, 3)));
        Trouble trouble;
        ASSERT_EQ(owner.use_keeper(location(wire), kMe, live.state, trouble), Reach::opened) << trouble.what;
    }
    void checkpoint() {
        version = version.next();
        ASSERT_FALSE(owner.replicate(version, live.state).keeper_gone);
        owner.update_local_copy(version, live.state);
    }
    void expect_at(FakeWire& keeper, Version wanted, const State& stored) {
        LiveMemory substitute(kBlocks);
        std::mt19937 noise(3);
        substitute.scribble(noise, 50);
        Trouble trouble;
        ASSERT_EQ(BackupStore::fetch(location(keeper), kMe, wanted, substitute.state, &trouble), Fetched::done)
            << trouble.what;
        ASSERT_TRUE(State(substitute) == stored) << "version " << wanted.value();
    }
    // Some changes, new blocks, and sometimes holes.
    void change() {
        live.scribble(random, static_cast<int>(random() % 12));
        if (random() % 4 == 0) {
            live.punch(random);
        }
        if (random() % 4 == 0) {
            live.heap.address()[random() % live.heap.bytes()] ^= std::byte{1};
        }
    }

    LiveMemory live{kBlocks};
    FakeWire wire{store_bytes(live.state)};
    BackupStore owner;
    Version version = kNoVersion;
    std::mt19937 random{23};
};

class Far : public FarFixture, public testing::WithParamInterface<BackupMode> {};
class FarDamage : public FarFixture {};

// The one test that matters most: a change that is not noticed would be a wrong answer after a recovery. Blocks go back
// and forth between few contents, so that a slot often has what live memory had two versions ago.
TEST_P(Far, NothingThatChangedIsLeftOut) {
    use(GetParam());
    auto other = std::make_unique<FakeWire>(store_bytes(live.state), 2);
    FakeWire* keeper = &wire;
    FakeWire* unused = other.get();
    for (int i = 0; i < rounds(400); ++i) {
        change();
        if (random() % 4 == 0) {
            live.exclude_some(random);
        }
        checkpoint();
        const State stored(live);
        const Exclusions left_out = live.excluded;
        expect_at(*keeper, version, stored);
        switch (random() % 8) {
            case 0: {  // replicated, not committed, and back
                change();
                live.exclude_some(random);
                ASSERT_FALSE(owner.replicate(version.next(), live.state).keeper_gone);
                change();
                ASSERT_TRUE(owner.roll_back(version, live.state)) << owner.explanation();
                live.excluded = left_out;
                ASSERT_TRUE(State(live) == stored);
                expect_at(*keeper, version, stored);
                break;
            }
            case 1: {  // another keeper, which may have old versions
                std::swap(keeper, unused);
                Trouble trouble;
                ASSERT_EQ(owner.use_keeper(location(*keeper), kMe, live.state, trouble), Reach::opened) << trouble.what;
                ASSERT_FALSE(owner.replicate(version, live.state).keeper_gone);
                expect_at(*keeper, version, stored);
                expect_at(*unused, version, stored);  // stays until everybody is protected
                break;
            }
            case 2: {  // a substitute takes over
                owner.release();
                live.scribble(random, 30);
                ASSERT_EQ(BackupStore::fetch(location(*keeper), kMe, version, live.state), Fetched::done);
                ASSERT_TRUE(State(live) == stored);
                ASSERT_TRUE(good(owner.create(GetParam(), live.state, 3)));
                owner.update_local_copy(version, live.state);
                Trouble trouble;
                ASSERT_EQ(owner.use_keeper(location(*keeper), kMe, live.state, trouble), Reach::opened) << trouble.what;
                break;
            }
            default: break;
        }
        ASSERT_TRUE(owner.mend(live.state)) << owner.explanation();
        ASSERT_EQ(owner.counters().bad, 0U);
    }
}

TEST_P(Far, OnlyWhatChangedIsSent) {
    use(GetParam());
    std::memset(live.heap.address(), 1, live.heap.bytes());
    checkpoint();
    checkpoint();
    const std::size_t before = wire.bytes_written;
    live.heap.address()[17 * kBlockBytes + 5] = std::byte{2};
    version = version.next();
    const BackupStore::Replicated one = owner.replicate(version, live.state);
    owner.update_local_copy(version, live.state);
    EXPECT_EQ(one.bytes_copied, kBlockBytes);
    EXPECT_LT(wire.bytes_written - before, kBlockBytes + 4096 + 200) << "a block, a page of table, two headers";
    version = version.next();
    EXPECT_EQ(owner.replicate(version, live.state).bytes_copied, kBlockBytes) << "the other slot has not got it yet";
    owner.update_local_copy(version, live.state);
    version = version.next();
    EXPECT_EQ(owner.replicate(version, live.state).bytes_copied, 0U);
    EXPECT_EQ(owner.counters().replicated, 2 * one.bytes_stored + 2 * kBlockBytes);
}

TEST_P(Far, ASubstituteKnowsWhatItsPredecessorHasShipped) {
    use(GetParam());
    live.scribble(random, 200);
    checkpoint();
    checkpoint();
    BackupStore substitute;
    ASSERT_TRUE(good(substitute.create(GetParam(), live.state, 3)));
    substitute.update_local_copy(version, live.state);
    Trouble trouble;
    ASSERT_EQ(substitute.use_keeper(location(wire), kMe, live.state, trouble), Reach::opened) << trouble.what;
    live.heap.address()[3 * kBlockBytes] ^= std::byte{1};
    EXPECT_EQ(substitute.replicate(version.next(), live.state).bytes_copied, kBlockBytes);
}

// A heap that shrinks leaves entries in the far table that mean nothing, and that a substitute has not read. They must
// not come back when the heap grows again with a hole in that place.
TEST_P(Far, EntriesBehindAHeapThatShrankDoNotComeBack) {
    constexpr std::size_t kLargeBlocks = 1200;  // a table of three pages
    LiveMemory large(kLargeBlocks);
    FakeWire keeper(store_bytes(large.state));
    BackupStore store;
    const auto begin = [&] {
        ASSERT_TRUE(good(store.create(GetParam(), large.state, 3)));
        Trouble trouble;
        ASSERT_EQ(store.use_keeper(location(keeper), kMe, large.state, trouble), Reach::opened) << trouble.what;
    };
    const auto ship = [&](std::uint32_t number) {
        ASSERT_FALSE(store.replicate(Version(number), large.state).keeper_gone);
        store.update_local_copy(Version(number), large.state);
    };
    const auto punch_from = [&](std::size_t block) {
        ASSERT_EQ(::fallocate(large.heap.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(block * kBlockBytes),
                              static_cast<off_t>((kLargeBlocks - block) * kBlockBytes)),
                  0);
    };
    begin();
    large.heap.address()[600 * kBlockBytes] = std::byte{1};
    ship(1);
    ship(2);  // the other slot
    punch_from(0);
    large.heap.address()[0] = std::byte{2};
    ship(3);
    store.release();
    begin();
    large.heap.address()[1100 * kBlockBytes] = std::byte{3};
    ship(5);
    LiveMemory substitute(kLargeBlocks);
    Trouble trouble;
    ASSERT_EQ(BackupStore::fetch(location(keeper), kMe, Version(5), substitute.state, &trouble), Fetched::done)
        << trouble.what;
    EXPECT_TRUE(State(substitute) == State(large));
}

// Whoever dies in the middle of a ship, v can be fetched, and v + 1 if and only if it is complete.
TEST_P(Far, AShipMayEndAnywhere) {
    use(GetParam());
    live.scribble(random, 300);
    checkpoint();
    checkpoint();
    const State before(live);
    const std::vector<std::byte> memory = wire.memory;
    live.scribble(random, 60);
    const State after(live);
    bool was_complete = false;
    int torn = 0;
    for (std::size_t steps = 1; !was_complete; ++steps) {
        FakeWire dying(0, static_cast<std::uint32_t>(steps));
        dying.memory = memory;
        BackupStore store;
        ASSERT_TRUE(good(store.create(GetParam(), live.state, 3)));
        Trouble trouble;
        ASSERT_EQ(store.use_keeper(location(dying), kMe, live.state, trouble), Reach::opened) << trouble.what;
        dying.lives_for = steps;
        was_complete = !store.replicate(version.next(), live.state).keeper_gone;
        // The owner is dead and not the keeper: what had arrived is what its substitute finds.
        FakeWire found(0);
        found.memory = dying.memory;
        expect_at(found, version, before);
        LiveMemory substitute(kBlocks);
        if (BackupStore::fetch(location(found), kMe, version.next(), substitute.state) == Fetched::done) {
            ASSERT_TRUE(State(substitute) == after) << steps;
        } else {
            ASSERT_FALSE(was_complete) << steps;
            ++torn;
        }
        // What the torn slot says of itself must not keep the substitute from writing over it.
        ASSERT_EQ(BackupStore::fetch(location(found), kMe, version, substitute.state), Fetched::done);
        BackupStore successor;
        ASSERT_TRUE(good(successor.create(GetParam(), substitute.state, 3)));
        successor.update_local_copy(version, substitute.state);
        ASSERT_EQ(successor.use_keeper(location(found), kMe, substitute.state, trouble), Reach::opened) << trouble.what;
        ASSERT_FALSE(successor.replicate(version.next(), substitute.state).keeper_gone);
        expect_at(found, version.next(), before);
    }
    EXPECT_GT(torn, 10);
}

TEST_P(Far, AKeeperMayDieAnywhereInAShip) {
    use(GetParam());
    live.scribble(random, 300);
    checkpoint();
    const State stored(live);
    const std::vector<std::byte> memory = wire.memory;
    bool survived = false;
    for (std::size_t steps = 1; !survived; ++steps) {
        wire.memory = memory;
        Trouble trouble;
        ASSERT_EQ(owner.use_keeper(location(wire), kMe, live.state, trouble), Reach::opened) << trouble.what;
        wire.lives_for = steps;
        live.scribble(random, 100);
        survived = !owner.replicate(version.next(), live.state).keeper_gone;
        if (GetParam() == BackupMode::double_copy) {
            ASSERT_TRUE(owner.roll_back(version, live.state)) << owner.explanation();
            ASSERT_TRUE(State(live) == stored);
        } else if (!survived) {
            ASSERT_FALSE(owner.roll_back(version, live.state));
            ASSERT_NE(owner.explanation().find("with process 7 on another node, which has died"), std::string::npos)
                << owner.explanation();
        }
        wire.lives_for = SIZE_MAX;
    }
    // A new keeper gets everything.
    FakeWire fresh(store_bytes(live.state));
    Trouble trouble;
    ASSERT_EQ(owner.use_keeper(location(fresh), kMe, live.state, trouble), Reach::opened) << trouble.what;
    const BackupStore::Replicated all = owner.replicate(version, live.state);
    EXPECT_EQ(all.bytes_copied, all.bytes_stored);
    expect_at(fresh, version, State(live));
}

TEST_P(Far, AKeeperMayDieAnywhereInAFetch) {
    use(GetParam());
    live.scribble(random, 300);
    checkpoint();
    const State stored(live);
    Fetched fetched = Fetched::keeper_gone;
    std::size_t steps = 1;
    for (; fetched != Fetched::done; ++steps) {
        LiveMemory substitute(kBlocks);
        wire.lives_for = steps;
        Trouble trouble;
        fetched = BackupStore::fetch(location(wire), kMe, version, substitute.state, &trouble);
        ASSERT_NE(fetched, Fetched::corrupt) << steps;
        ASSERT_EQ(trouble.what.empty(), fetched == Fetched::done) << steps;
        ASSERT_EQ(fetched == Fetched::done, State(substitute) == stored) << steps;
    }
    EXPECT_GT(steps, 5U);
}

TEST_P(Far, TheFrontAloneCanBeFetched) {
    use(GetParam());
    live.scribble(random, 300);
    checkpoint();
    const auto heap = live.heap_bytes();
    LiveMemory substitute(kBlocks);
    const auto globals = substitute.globals_bytes();
    ASSERT_EQ(BackupStore::fetch_front(location(wire), kMe, version, substitute.state, kBlockBytes + 1), Fetched::done);
    EXPECT_EQ(std::memcmp(substitute.heap.address(), heap.data(), 2 * kBlockBytes), 0);
    EXPECT_EQ(substitute.heap.address()[2 * kBlockBytes + 77], std::byte{0});
    EXPECT_EQ(substitute.library, live.library);
    EXPECT_EQ(substitute.globals_bytes(), globals);
    EXPECT_EQ(BackupStore::fetch_front(location(wire), PeId(0), version, substitute.state, 1), Fetched::corrupt);
}

// From one node to another and back: as a PE that moves, or a keeper that does.
TEST_P(Far, KeepersChangeBetweenNodes) {
    use(GetParam());
    BackupStore near;
    ASSERT_TRUE(good(near.create(GetParam(), live.state, 3)));
    BackupStore::KeeperLocation near_location;
    near_location.pid = ::getpid();
    near_location.start_time = process_start_time(::getpid());
    near_location.store_fd = near.fd();
    for (int i = 0; i < 40; ++i) {
        change();
        checkpoint();
        const State stored(live);
        const bool to_far = i % 2 == 1;
        const BackupStore::KeeperLocation next = to_far ? location(wire) : near_location;
        Trouble trouble;
        ASSERT_EQ(owner.use_keeper(next, kMe, live.state, trouble), Reach::opened) << trouble.what;
        ASSERT_FALSE(owner.replicate(version, live.state).keeper_gone);
        LiveMemory substitute(kBlocks);
        for (const BackupStore::KeeperLocation& where : {near_location, location(wire)}) {
            ASSERT_EQ(BackupStore::fetch(where, kMe, version, substitute.state), Fetched::done);
            ASSERT_TRUE(State(substitute) == stored);
        }
        change();
        ASSERT_TRUE(owner.roll_back(version, live.state)) << owner.explanation();
        ASSERT_TRUE(State(live) == stored);
        ASSERT_TRUE(owner.mend(live.state)) << owner.explanation();
    }
}

// ---- damage ----

TEST_P(Far, FlippedBitsAreNamedOrMended) {
    use(GetParam());
    live.scribble(random, 200);
    checkpoint();
    const State stored(live);
    const std::vector<std::byte> memory = wire.memory;
    const bool has_both = GetParam() == BackupMode::double_copy;
    for (std::uint64_t seed = 0; seed < rounds(300U); ++seed) {
        const std::string what = owner.flip_bit(Copy::shadow, seed, live.state);
        ASSERT_NE(what, "");
        ASSERT_NE(wire.memory, memory) << what;
        LiveMemory substitute(kBlocks);
        Trouble trouble;
        if (what.find("globals") == std::string::npos) {  // of which not all is loaded
            ASSERT_EQ(BackupStore::fetch(location(wire), kMe, version, substitute.state, &trouble), Fetched::corrupt)
                << what;
            ASSERT_NE(trouble.what.find("its shadow at process 7, the only copy"), std::string::npos) << trouble.what;
        }
        const bool in_front = what.find("header") != std::string::npos || what.find("checksum") != std::string::npos;
        // Header and table are here as well, so they are mended with one copy, too.
        ASSERT_EQ(owner.mend(live.state), has_both || in_front) << what << ": " << owner.explanation();
        ASSERT_EQ(wire.memory == memory, has_both || in_front) << what;
        wire.memory = memory;
    }
    expect_at(wire, version, stored);
}

TEST_P(Far, ABadBlockIsNamedWhenThePeRollsBackFromIt) {
    use(GetParam());
    live.scribble(random, 200);
    checkpoint();
    const std::string what = owner.flip_bit(Copy::shadow, 3, live.state);
    ASSERT_NE(what.find("of block"), std::string::npos) << what;
    const bool has_both = GetParam() == BackupMode::double_copy;
    EXPECT_EQ(owner.roll_back(version, live.state), has_both);
    if (!has_both) {
        EXPECT_NE(owner.explanation().find("its shadow at process 7, the only copy"), std::string::npos)
            << owner.explanation();
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, Far, testing::Values(BackupMode::single_copy, BackupMode::double_copy));

TEST_F(FarDamage, ALocalCopyIsMendedFromAFarShadow) {
    use(BackupMode::double_copy);
    live.scribble(random, 200);
    checkpoint();
    const State stored(live);
    for (std::uint64_t seed = 0; seed < rounds(200U); ++seed) {
        const std::string what = owner.flip_bit(Copy::local, seed, live.state);
        live.scribble(random, 20);
        if (seed % 2 == 0) {
            ASSERT_TRUE(owner.roll_back(version, live.state)) << what << ": " << owner.explanation();
            ASSERT_TRUE(State(live) == stored) << what;
        }
        ASSERT_TRUE(owner.mend(live.state)) << what << ": " << owner.explanation();
    }
    EXPECT_EQ(owner.counters().repaired, rounds(200U));
}

// A flip in the local copy that is just what the program changes next hides the change from the comparison.
TEST_F(FarDamage, AFlipThatEqualsTheNextChangeIsStillSent) {
    use(BackupMode::double_copy);
    std::memset(live.heap.address(), 1, live.heap.bytes());
    checkpoint();
    checkpoint();
    for (std::uint64_t seed = 0; seed < rounds(400U); ++seed) {
        const State stored(live);
        const std::string what = owner.flip_bit(Copy::local, seed, live.state);
        unsigned bit = 0;
        std::size_t byte = 0;
        std::size_t block = 0;
        if (std::sscanf(what.c_str(), "bit %u of byte %zu of block %zu of the heap", &bit, &byte, &block) == 3) {
            live.heap.address()[block * kBlockBytes + byte] ^= std::byte(1U << bit);
        }
        checkpoint();
        expect_at(wire, version, State(live));
        ASSERT_TRUE(owner.mend(live.state)) << what << ": " << owner.explanation();
        const State now(live);
        live.scribble(random, 10);
        ASSERT_TRUE(owner.roll_back(version, live.state)) << what;
        ASSERT_TRUE(State(live) == now) << what;
    }
}

TEST_F(FarDamage, ScrubbingFindsAndMends) {
    use(BackupMode::double_copy);
    live.scribble(random, 200);
    checkpoint();
    const State stored(live);
    Scrubber scrubber;
    ASSERT_TRUE(scrubber.start(owner, live.state, Scrubber::Pace{std::chrono::milliseconds(1), 1ULL << 40}));
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const std::string what = owner.flip_bit(seed % 2 == 0 ? Copy::shadow : Copy::local, seed, live.state);
        scrubber.await_passes(2);
        ASSERT_EQ(owner.counters().repaired, seed + 1) << what;
    }
    scrubber.stop();
    expect_at(wire, version, stored);
}

TEST_F(FarDamage, ScrubbingGoesWithCheckpoints) {
    use(BackupMode::double_copy);
    Scrubber scrubber;
    ASSERT_TRUE(scrubber.start(owner, live.state, Scrubber::Pace{std::chrono::milliseconds(1), 1ULL << 40}));
    for (int i = 0; i < rounds(200); ++i) {
        change();
        checkpoint();
    }
    scrubber.await_passes(2);
    scrubber.stop();
    EXPECT_EQ(owner.counters().bad, 0U) << owner.explanation();
    expect_at(wire, version, State(live));
}

// The death of a keeper is no damage: nothing is counted as bad, nothing said.
TEST_F(FarDamage, ADeadKeeperIsNotTakenForDamage) {
    use(BackupMode::double_copy);
    live.scribble(random, 200);
    checkpoint();
    checkpoint();
    std::size_t steps = 0;
    for (bool survived = false; !survived;) {
        wire.lives_for = ++steps;
        EXPECT_TRUE(owner.mend(live.state)) << owner.explanation();
        EXPECT_EQ(owner.counters().bad, 0U);
        survived = wire.is_alive();
        wire.lives_for = SIZE_MAX;
        Trouble trouble;
        ASSERT_TRUE(survived || owner.use_keeper(location(wire), kMe, live.state, trouble) == Reach::opened)
            << trouble.what;
    }
    EXPECT_GT(steps, 4U);
    wire.lives_for = 5;
    Scrubber scrubber;
    ASSERT_TRUE(scrubber.start(owner, live.state, Scrubber::Pace{std::chrono::milliseconds(1), 1ULL << 40}));
    scrubber.await_passes(2);
    scrubber.stop();
    EXPECT_EQ(owner.counters().bad, 0U) << owner.explanation();
    EXPECT_EQ(owner.flip_bit(Copy::shadow, 1, live.state), "");
}

}  // namespace
}  // namespace sft
