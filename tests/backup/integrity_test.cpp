// Flipped bits in stored copies: every one is found, mended from the other copy where there is one, named where not,
// and never taken for good because a later checkpoint compared something with it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "backup/scrubber.hpp"
#include "backup/store.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"
#include "tests/rounds.hpp"

namespace sft {
namespace {

const std::uint64_t kFlips = rounds(1000U);

// ---- one image ----

class ImageDamage : public testing::Test {
protected:
    void SetUp() override { live.scribble(random, 40); }

    // With holes between its blocks.
    LiveMemory live{24};
    std::vector<std::byte> memory = std::vector<std::byte>(Image::bytes_for(live.state));
    std::vector<std::byte> more_memory = memory;
    Image image{memory.data(), live.state};
    Image other{more_memory.data(), live.state};
    std::mt19937 random{17};
};

TEST_F(ImageDamage, EveryFlipThatMattersIsCaught) {
    image.store(Version(1), live.state);
    const auto whole = memory;
    std::uint64_t headers = 0;
    std::uint64_t tables = 0;
    for (std::uint64_t seed = 0; seed < kFlips; ++seed) {
        const std::string what = image.flip_bit(Version(1), seed);
        headers += what.find("header") != std::string::npos ? 1 : 0;
        tables += what.find("checksum") != std::string::npos ? 1 : 0;
        ASSERT_FALSE(image.verify(Version(1)).intact()) << what;
        ASSERT_FALSE(image.load(Version(1), live.state).intact()) << what;
        memory = whole;
    }
    EXPECT_GT(headers, kFlips / 20);
    EXPECT_GT(tables, kFlips / 20);
    EXPECT_TRUE(image.verify(Version(1)).intact());
}

TEST_F(ImageDamage, AnyFlipIsCaughtOrChangesNothing) {
    image.store(Version(1), live.state);
    const State stored(live);
    std::uint64_t caught = 0;
    for (std::uint64_t i = 0; i < kFlips; ++i) {
        // Half of them in header and table, which are a small part of the memory.
        const std::size_t byte = random() % (i % 2 == 0 ? memory.size() : 2 * 4096U);
        const auto bit = std::byte(1U << (random() % 8));
        memory[byte] ^= bit;
        const bool intact = image.verify(Version(1)).intact();
        caught += intact ? 0 : 1;
        live.scribble(random, 3);
        ASSERT_EQ(image.load(Version(1), live.state).intact(), intact) << "byte " << byte;
        if (intact) {
            ASSERT_EQ(State(live), stored) << "byte " << byte;
        }
        memory[byte] ^= bit;
    }
    EXPECT_GT(caught, kFlips / 10);
}

TEST_F(ImageDamage, AFlipThatEqualsTheNextChangeIsMendedFromTheOtherCopy) {
    std::byte& there = live.heap.address()[kBlockBytes + 77];
    there = std::byte{0};
    image.store(Version(1), live.state);
    other.store(Version(1), live.state);
    // The stored block turns into what live memory will be, so the comparison finds nothing to copy.
    const std::size_t data = 2 * 4096;
    memory[data + kBlockBytes + 77] ^= std::byte{4};
    there = std::byte{4};
    EXPECT_EQ(image.store(Version(2), live.state).bytes_copied, 0U);
    EXPECT_EQ(other.store(Version(2), live.state).bytes_copied, kBlockBytes);
    const State stored(live);
    live.scribble(random, 50);
    EXPECT_FALSE(image.verify(Version(2)).intact()) << "the checksum must not be made anew of a block not copied";
    const Findings findings = image.load(Version(2), live.state, &other);
    EXPECT_TRUE(findings.intact());
    EXPECT_EQ(findings.mended, 1U);
    EXPECT_EQ(State(live), stored);
    EXPECT_TRUE(image.verify(Version(2)).intact());
}

TEST_F(ImageDamage, WhatIsGoodIsNotTouchedByMending) {
    image.store(Version(1), live.state);
    other.store(Version(1), live.state);
    const auto whole = memory;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const std::string what = image.flip_bit(Version(1), seed);
        EXPECT_EQ(image.mend(Version(1), other).mended, 1U) << what;
        ASSERT_EQ(memory, whole) << what;
        ASSERT_EQ(more_memory, whole) << "the other one is only read";
    }
}

TEST_F(ImageDamage, ATornImageHoldsNothing) {
    Segment segment;
    ASSERT_TRUE(good(segment.create("image", memory.size())));
    ASSERT_TRUE(good(segment.map_at(nullptr)));
    Image shared(segment.address(), live.state);
    shared.store(Version(1), live.state);
    ASSERT_EQ(shared.version(), Version(1));
    const pid_t child = ::fork();
    if (child == 0) {
        // It dies of a page that it may not read, in the first block already.
        ::signal(SIGSEGV, SIG_DFL);
        std::memset(live.heap.address(), 7, live.heap.bytes());
        ::mprotect(live.heap.address(), kBlockBytes, PROT_NONE);
        shared.store(Version(3), live.state);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it was to die while it stored";
    EXPECT_EQ(shared.version(), kNoVersion) << "nobody knows what it holds";
    EXPECT_FALSE(shared.verify(Version(1)).intact());
    EXPECT_FALSE(shared.verify(Version(3)).intact());
}

// ---- the copies of a PE ----

class Damage : public testing::Test {
protected:
    using Copy = BackupStore::Copy;

    void use(BackupMode mode) {
        ASSERT_TRUE(good(keeper.create(mode, live.state, 3)));
        ASSERT_TRUE(good(owner.create(mode, live.state, 3)));
        Trouble trouble;
        ASSERT_EQ(owner.use_keeper(location(), kMe, live.state, trouble), Reach::opened) << trouble.what;
        live.scribble(random, 30);
        checkpoint();
    }
    void checkpoint() {
        version = version.next();
        owner.replicate(version, live.state);
        owner.update_local_copy(version, live.state);
    }
    [[nodiscard]] BackupStore::KeeperLocation location() const {
        return {::getpid(), process_start_time(::getpid()), keeper.fd()};
    }

    LiveMemory live{40};
    BackupStore keeper;
    BackupStore owner;
    Version version;
    std::mt19937 random{23};
};

TEST_F(Damage, ARollbackMendsTheLocalCopyFromTheShadow) {
    use(BackupMode::double_copy);
    const State stored(live);
    for (std::uint64_t seed = 0; seed < kFlips; ++seed) {
        const std::string what = owner.flip_bit(Copy::local, seed, live.state);
        ASSERT_FALSE(what.empty());
        live.scribble(random, 3);
        ASSERT_TRUE(owner.roll_back(version, live.state)) << what << ": " << owner.explanation();
        ASSERT_EQ(State(live), stored) << what;
        // Nothing is left: the next flip is the only one again.
        ASSERT_EQ(owner.counters().bad, seed + 1) << what;
        ASSERT_EQ(owner.counters().repaired, seed + 1) << what;
    }
}

TEST_F(Damage, TheShadowIsMendedFromTheLocalCopy) {
    use(BackupMode::double_copy);
    const State stored(live);
    for (std::uint64_t seed = 0; seed < kFlips; ++seed) {
        const std::string what = owner.flip_bit(Copy::shadow, seed, live.state);
        LiveMemory substitute(40);
        Trouble trouble;
        ASSERT_EQ(BackupStore::fetch(location(), kMe, version, substitute.state, &trouble),
                  BackupStore::Fetched::corrupt)
            << what;
        ASSERT_NE(trouble.what.find("PE 1 "), std::string::npos) << trouble.what;
        ASSERT_NE(trouble.what.find("shadow"), std::string::npos) << trouble.what;
        ASSERT_TRUE(owner.mend(live.state)) << what << ": " << owner.explanation();
        ASSERT_EQ(BackupStore::fetch(location(), kMe, version, substitute.state, &trouble), BackupStore::Fetched::done)
            << trouble.what;
        ASSERT_EQ(State(substitute), stored) << what;
    }
    EXPECT_EQ(owner.counters().repaired, kFlips);
}

TEST_F(Damage, TheSamePlaceInBothCopiesIsNamed) {
    use(BackupMode::double_copy);
    int blocks = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const std::string what = owner.flip_bit(Copy::local, seed, live.state);
        ASSERT_EQ(owner.flip_bit(Copy::shadow, seed, live.state), what) << "equal copies: one seed, one place";
        ASSERT_FALSE(owner.mend(live.state)) << what;
        ASSERT_FALSE(owner.roll_back(version, live.state)) << what;
        const std::string why = owner.explanation();
        ASSERT_NE(why.find("PE 1 "), std::string::npos) << why;
        ASSERT_NE(why.find("local copy and in its shadow"), std::string::npos) << why;
        const std::size_t block = what.find("block ");
        if (block != std::string::npos && what.find("checksum") == std::string::npos) {
            ASSERT_EQ(why.find(what.substr(block)), 0U) << what << " but " << why;
            ++blocks;
        }
        checkpoint();
        checkpoint();  // both slots
        ASSERT_TRUE(owner.mend(live.state)) << what << ": " << owner.explanation();
    }
    EXPECT_GT(blocks, 100);
}

TEST_F(Damage, DifferentPlacesInBothCopiesHealEachOther) {
    use(BackupMode::double_copy);
    const State stored(live);
    int healed = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const std::string local = owner.flip_bit(Copy::local, seed, live.state);
        const std::string shadow = owner.flip_bit(Copy::shadow, seed + kFlips, live.state);
        const auto place = [](const std::string& what) { return what.substr(what.find(" of ", 10) + 4); };
        const auto is_block = [&](const std::string& what) { return place(what).starts_with("block"); };
        const bool hopeless = place(local) == place(shadow) || (!is_block(local) && !is_block(shadow));
        live.scribble(random, 3);
        ASSERT_EQ(owner.mend(live.state), !hopeless) << local << " and " << shadow << ": " << owner.explanation();
        if (hopeless) {
            checkpoint();
            checkpoint();
            ASSERT_TRUE(owner.mend(live.state));
            continue;
        }
        ++healed;
        ASSERT_TRUE(owner.roll_back(version, live.state));
        LiveMemory substitute(40);
        ASSERT_EQ(BackupStore::fetch(location(), kMe, version, substitute.state), BackupStore::Fetched::done);
        ASSERT_EQ(State(substitute), State(live));
    }
    EXPECT_GT(healed, 200);
}

TEST_F(Damage, ACheckpointNeverTakesDamageForGood) {
    use(BackupMode::double_copy);
    for (std::uint64_t seed = 0; seed < kFlips; ++seed) {
        const std::string local = owner.flip_bit(Copy::local, seed, live.state);
        const std::string shadow = owner.flip_bit(Copy::shadow, seed, live.state);
        live.scribble(random, static_cast<int>(random() % 4));
        checkpoint();
        checkpoint();  // the damaged slot again
        const auto bad = owner.counters().bad;
        ASSERT_TRUE(owner.mend(live.state)) << local << ": " << owner.explanation();
        ASSERT_EQ(owner.counters().bad, bad) << local << ": written over or found, not kept";
        const State stored(live);
        live.scribble(random, 3);
        ASSERT_TRUE(owner.roll_back(version, live.state)) << local << ": " << owner.explanation();
        ASSERT_EQ(State(live), stored) << local;
    }
}

TEST_F(Damage, ASingleCopyIsNotMended) {
    use(BackupMode::single_copy);
    EXPECT_EQ(owner.flip_bit(Copy::local, 1, live.state), "");
    const std::string what = owner.flip_bit(Copy::shadow, 1, live.state);
    EXPECT_NE(what, "");
    EXPECT_FALSE(owner.mend(live.state));
    EXPECT_FALSE(owner.roll_back(version, live.state));
    EXPECT_NE(owner.explanation().find("its shadow, the only copy"), std::string::npos) << owner.explanation();
    EXPECT_EQ(owner.counters().repaired, 0U);
}

TEST_F(Damage, AStoreTornByADeathStaysDetectedAndLeavesNothingBehind) {
    use(BackupMode::double_copy);
    const State stored(live);
    // The process dies of a page that it may not read, after blocks 0, 10, 20 have been replicated and before 30.
    const Version next = version.next();
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGSEGV, SIG_DFL);
        ::signal(SIGBUS, SIG_DFL);
        Trouble trouble;
        BackupStore dying;
        if (!dying.create(BackupMode::single_copy, live.state, 3) ||
            dying.use_keeper(location(), kMe, live.state, trouble) != Reach::opened) {
            ::_exit(1);
        }
        std::memset(live.heap.address(), 7, live.heap.bytes());
        ::mprotect(live.heap.address() + 30 * kBlockBytes, kBlockBytes, PROT_NONE);
        dying.replicate(next, live.state);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << "it was to die while it replicated";
    // The heap's file is shared with the child; the successor has what was committed.
    ASSERT_TRUE(owner.roll_back(version, live.state));
    LiveMemory substitute(40);
    ASSERT_EQ(BackupStore::fetch(location(), kMe, version, substitute.state), BackupStore::Fetched::done);
    EXPECT_EQ(State(substitute), stored);
    EXPECT_EQ(BackupStore::fetch(location(), kMe, next, substitute.state), BackupStore::Fetched::corrupt);
    // What the dead process wrote to blocks that its successor has as holes must not come back.
    LiveMemory successor(40);
    successor.heap.address()[0] = std::byte{1};
    successor.heap.address()[39 * kBlockBytes] = std::byte{2};
    BackupStore store;
    ASSERT_TRUE(good(store.create(BackupMode::double_copy, successor.state, 3)));
    Trouble trouble;
    ASSERT_EQ(store.use_keeper(location(), kMe, successor.state, trouble), Reach::opened) << trouble.what;
    store.replicate(next, successor.state);
    store.update_local_copy(next, successor.state);
    EXPECT_TRUE(store.mend(successor.state)) << store.explanation();
    ASSERT_EQ(BackupStore::fetch(location(), kMe, next, substitute.state), BackupStore::Fetched::done);
    EXPECT_EQ(State(substitute), State(successor));
}

// ---- the background ----

constexpr Scrubber::Pace kFast{std::chrono::milliseconds(1), 1ULL << 40};

TEST_F(Damage, ScrubbingFindsAndMends) {
    use(BackupMode::double_copy);
    const State stored(live);
    Scrubber scrubber;
    ASSERT_TRUE(scrubber.start(owner, live.state, kFast));
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const Copy copy = seed % 2 == 0 ? Copy::local : Copy::shadow;
        const std::string what = owner.flip_bit(copy, seed, live.state);
        scrubber.await_passes(2);
        ASSERT_EQ(owner.counters().repaired, seed + 1) << what;
    }
    scrubber.stop();
    EXPECT_EQ(owner.counters().bad, 50U);
    EXPECT_GT(owner.counters().checked, 0U);
    LiveMemory substitute(40);
    EXPECT_EQ(BackupStore::fetch(location(), kMe, version, substitute.state), BackupStore::Fetched::done);
    EXPECT_EQ(State(substitute), stored);
}

TEST_F(Damage, ScrubbingGoesWithCheckpointsAndRollbacks) {
    use(BackupMode::double_copy);
    Scrubber scrubber;
    ASSERT_TRUE(scrubber.start(owner, live.state, kFast));
    for (int i = 0; i < 300; ++i) {
        live.scribble(random, 10);
        checkpoint();
        if (i % 3 == 0) {
            const State stored(live);
            live.scribble(random, 10);
            owner.replicate(version.next(), live.state);  // and is not committed
            ASSERT_TRUE(owner.roll_back(version, live.state));
            ASSERT_EQ(State(live), stored);
        }
    }
    scrubber.await_passes(2);
    scrubber.stop();
    EXPECT_EQ(owner.counters().bad, 0U) << owner.explanation();
}

TEST_F(Damage, ScrubbingIsOffByDefault) {
    use(BackupMode::double_copy);
    Scrubber scrubber;
    ASSERT_TRUE(scrubber.start(owner, live.state, Config{}));
    scrubber.stop();
    Config config;
    config.scrub_seconds = 4094;
    config.scrub_rate_bytes = 1;
    ASSERT_TRUE(scrubber.start(owner, live.state, config));
    scrubber.stop();  // does not wait for the pause to end
    EXPECT_EQ(scrubber.passes(), 0U);
    EXPECT_EQ(owner.counters().checked, 0U);
}

TEST_F(Damage, ScrubbingWhatCannotBeMendedGoesOn) {
    use(BackupMode::single_copy);
    owner.flip_bit(Copy::shadow, 3, live.state);
    Scrubber scrubber;
    ASSERT_TRUE(scrubber.start(owner, live.state, kFast));
    scrubber.await_passes(2);
    scrubber.stop();
    EXPECT_GT(owner.counters().bad, 0U);
    EXPECT_EQ(owner.counters().repaired, 0U);
    checkpoint();
    checkpoint();
    EXPECT_TRUE(owner.mend(live.state)) << owner.explanation();
}

}  // namespace
}  // namespace sft
