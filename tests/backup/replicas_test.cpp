// Several shadows of one PE, each at a keeper on another node: all of them have what was replicated, any of them is
// enough, and each mends the others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "backup/protector.hpp"
#include "backup/store.hpp"
#include "base/process_watch.hpp"
#include "tests/backup/fake_wire.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"
#include "tests/rounds.hpp"

namespace sft {
namespace {

using Copy = BackupStore::Copy;
using Fetched = BackupStore::Fetched;

constexpr std::size_t kHeapBlocksEach = 30;
constexpr std::size_t kKeepers = 3;  // of more processes that could be

class Replicas : public testing::Test {
protected:
    Replicas() {
        for (std::uint32_t process = 0; process < 6; ++process) {
            wires.push_back(std::make_unique<FakeWire>(3 * 2 * Image::bytes_for(live.state), process));
        }
    }
    void SetUp() override { use_anew({0, 1, 2}); }

    [[nodiscard]] BackupStore::KeeperLocation at(std::size_t process) {
        BackupStore::KeeperLocation location;
        location.process = ProcId(static_cast<std::int32_t>(process));
        location.wire = wires[process].get();
        return location;
    }
    void use_anew(const std::vector<std::size_t>& processes) {
        keepers = processes;
        ASSERT_TRUE(good(owner.create(BackupMode::double_copy, live.state, 3)));
        if (version != kNoVersion) {
            owner.update_local_copy(version, live.state);
        }
        Trouble trouble;
        for (const std::size_t process : processes) {
            const bool is_first = process == processes.front();
            const Reach reach = is_first ? owner.use_keeper(at(process), kMe, live.state, trouble)
                                         : owner.add_keeper(at(process), kMe, live.state, trouble);
            ASSERT_EQ(reach, Reach::opened) << trouble.what;
        }
    }
    void checkpoint() {
        version = version.next();
        ASSERT_FALSE(owner.replicate(version, live.state).keeper_gone);
        owner.update_local_copy(version, live.state);
        stored = std::make_unique<State>(live);
    }
    void change() {
        live.scribble(random, static_cast<int>(random() % 12));
        if (random() % 4 == 0) {
            live.punch(random);
        }
    }
    void expect_at(std::size_t process) {
        LiveMemory substitute(kHeapBlocksEach);
        std::mt19937 noise(3);
        substitute.scribble(noise, 50);
        Trouble trouble;
        ASSERT_EQ(BackupStore::fetch(at(process), kMe, version, substitute.state, &trouble), Fetched::done)
            << trouble.what;
        ASSERT_TRUE(State(substitute) == *stored) << "version " << version.value() << " at " << process;
    }
    void expect_at_all() {
        for (const std::size_t process : keepers) {
            ASSERT_NO_FATAL_FAILURE(expect_at(process));
        }
    }
    void roll_back() {
        ASSERT_TRUE(owner.roll_back(version, live.state)) << owner.explanation();
        ASSERT_TRUE(State(live) == *stored);
    }
    // What a recovery does after the death of a keeper: the others stay, and a new one gets the committed version.
    void replace(std::size_t number) {
        std::size_t next = 0;
        while (std::find(keepers.begin(), keepers.end(), next) != keepers.end()) {
            ++next;
        }
        wires[keepers[number]] = std::make_unique<FakeWire>(wires[0]->memory.size(), random());  // with another process
        keepers[number] = next;
        std::vector<ProcId> left;
        for (const std::size_t process : keepers) {
            left.emplace_back(static_cast<std::int32_t>(process));
        }
        owner.keep_only(left);
        Trouble trouble;
        ASSERT_EQ(owner.add_keeper(at(next), kMe, live.state, trouble), Reach::opened) << trouble.what;
        ASSERT_FALSE(owner.replicate(version, live.state, left[number]).keeper_gone);
    }

    LiveMemory live{kHeapBlocksEach};
    std::vector<std::unique_ptr<FakeWire>> wires;
    std::vector<std::size_t> keepers;
    BackupStore owner;
    Version version = kNoVersion;
    std::unique_ptr<State> stored;
    std::mt19937 random{29};
};

TEST_F(Replicas, AllHaveWhatWasReplicated) {
    for (int i = 0; i < rounds(250); ++i) {
        change();
        ASSERT_NO_FATAL_FAILURE(checkpoint());
        ASSERT_NO_FATAL_FAILURE(expect_at_all());
        switch (random() % 6) {
            case 0: {  // replicated, not committed, and back
                change();
                ASSERT_FALSE(owner.replicate(version.next(), live.state).keeper_gone);
                change();
                ASSERT_NO_FATAL_FAILURE(roll_back());
                break;
            }
            case 1: {  // one dies while it is written to
                const std::size_t number = random() % kKeepers;
                wires[keepers[number]]->lives_for = random() % 20;
                change();
                const BackupStore::Replicated replicated = owner.replicate(version.next(), live.state);
                ASSERT_EQ(replicated.keeper_gone, !wires[keepers[number]]->is_alive());
                if (replicated.keeper_gone) {
                    ASSERT_EQ(replicated.gone, ProcId(static_cast<std::int32_t>(keepers[number])));
                }
                ASSERT_NO_FATAL_FAILURE(roll_back());
                ASSERT_NO_FATAL_FAILURE(replace(number));
                break;
            }
            case 2: {  // a substitute takes over, from whichever it asks
                owner.release();
                live.scribble(random, 30);
                ASSERT_EQ(BackupStore::fetch(at(keepers[random() % kKeepers]), kMe, version, live.state),
                          Fetched::done);
                ASSERT_TRUE(State(live) == *stored);
                ASSERT_NO_FATAL_FAILURE(use_anew(keepers));
                break;
            }
            default: break;
        }
        ASSERT_NO_FATAL_FAILURE(expect_at_all());
        ASSERT_TRUE(owner.mend(live.state)) << owner.explanation();
        ASSERT_EQ(owner.counters().bad, 0U);
    }
}

TEST_F(Replicas, WhatIsBadInOneIsMendedFromAnother) {
    live.scribble(random, 200);
    checkpoint();
    for (std::uint64_t seed = 0; seed < rounds(100U); ++seed) {
        // The same bit of the local copy and of the first shadow.
        const std::string of_local = owner.flip_bit(Copy::local, seed, live.state);
        const std::string of_shadow = owner.flip_bit(Copy::shadow, seed, live.state);
        if (seed % 2 == 0) {
            live.scribble(random, 20);
            ASSERT_NO_FATAL_FAILURE(roll_back()) << of_local << ", " << of_shadow;
        }
        ASSERT_TRUE(owner.mend(live.state)) << of_local << ", " << of_shadow << ": " << owner.explanation();
        ASSERT_NO_FATAL_FAILURE(expect_at_all()) << of_local << ", " << of_shadow;
    }
}

TEST_F(Replicas, ScrubbingChecksThemAll) {
    live.scribble(random, 200);
    checkpoint();
    BackupStore::ScrubPlace place;
    const auto pass = [&] {
        while (owner.scrub(place, 4, live.state) != BackupStore::Scrubbed::end) {
        }
    };
    pass();
    EXPECT_EQ(owner.counters().bad, 0U);
    // The last block of the heap, in the memory of each.
    for (const std::size_t process : keepers) {
        const std::uint64_t before = owner.counters().repaired;
        std::vector<std::byte>& memory = wires[process]->memory;
        const std::vector<std::byte> was = memory;
        const std::size_t begin = kMe.index() * 2 * Image::bytes_for(live.state);
        bool is_found = false;
        for (std::size_t byte = begin; byte < begin + 2 * Image::bytes_for(live.state) && !is_found; byte += 997) {
            memory[byte] ^= std::byte{4};
            pass();
            is_found = owner.counters().repaired != before;
        }
        EXPECT_TRUE(is_found) << "nobody looks at keeper " << process;
        memory = was;
    }
    expect_at_all();
}

TEST_F(Replicas, AllKeepersButOneMayDie) {
    live.scribble(random, 200);
    checkpoint();
    wires[0]->lives_for = wires[1]->lives_for = 0;
    EXPECT_TRUE(owner.mend(live.state)) << owner.explanation();
    EXPECT_EQ(owner.counters().bad, 0U) << "a death is no damage";
    const std::string what = owner.flip_bit(Copy::local, 5, live.state);
    live.scribble(random, 20);
    roll_back();
    EXPECT_EQ(owner.counters().repaired, 1U) << what;
    expect_at(2);
    EXPECT_NE(owner.flip_bit(Copy::shadow, 1, live.state), "");
    EXPECT_TRUE(owner.mend(live.state));
    wires[2]->lives_for = 0;
    EXPECT_TRUE(owner.mend(live.state));
    EXPECT_EQ(owner.flip_bit(Copy::shadow, 1, live.state), "") << "there is none";
    EXPECT_FALSE(owner.replicate(version.next(), live.state).keeper_gone) << "nobody is written to";
    roll_back();
}

TEST_F(Replicas, EachTakesRoom) {
    live.scribble(random, 200);
    checkpoint();
    checkpoint();
    const std::size_t with_three = owner.room(live.state).used;
    owner.keep_only(std::vector{ProcId(0)});
    const std::size_t with_one = owner.room(live.state).used;
    owner.keep_only({});
    const std::size_t with_none = owner.room(live.state).used;
    EXPECT_GT(with_one, with_none);
    EXPECT_EQ(with_three - with_one, 2 * (with_one - with_none));
}

// ---- what a recovery asks for ----

class ReplicasProtector : public Replicas {
protected:
    void SetUp() override {
        ASSERT_TRUE(good(protector.create(BackupMode::double_copy, 3)));
        ASSERT_TRUE(good(protector.use_keeper(at(0), kMe)));
        ASSERT_TRUE(good(protector.add_keeper(at(1), kMe)));
    }
    void commit() {
        version = version.next();
        ASSERT_TRUE(protector.replicate(version));
        protector.update_local_copy(version);
        stored = std::make_unique<State>(live);
    }

    Protector protector{live.state};
};

TEST_F(ReplicasProtector, OnlyWhoLacksItGetsACopy) {
    live.scribble(random, 200);
    commit();
    EXPECT_EQ(protector.keepers(), (std::vector{ProcId(0), ProcId(1)}));
    const std::size_t before = wires[1]->operations;
    const std::vector<Protector::Shadow> shadows = {{.keeper = at(1), .is_there = true},
                                                    {.keeper = at(2), .is_there = false}};
    ASSERT_TRUE(good(protector.protect(kMe, shadows, version)));
    EXPECT_EQ(wires[1]->operations, before) << "it is open, and has the version";
    EXPECT_EQ(protector.keepers(), (std::vector{ProcId(1), ProcId(2)}));
    expect_at(1);
    expect_at(2);
    const std::size_t of_the_old_one = wires[0]->operations;
    live.scribble(random, 20);
    commit();
    expect_at(1);
    expect_at(2);
    EXPECT_EQ(wires[0]->operations, of_the_old_one) << "it is none any more";
}

// All PEs were on one node, and are on several after a recovery.
TEST_F(ReplicasProtector, SeveralFarKeepersFollowANearOne) {
    BackupStore near;
    ASSERT_TRUE(good(near.create(BackupMode::double_copy, live.state, 3)));
    const BackupStore::KeeperLocation here{
        .pid = ::getpid(), .start_time = process_start_time(::getpid()), .store_fd = near.fd(), .process = ProcId(5)};
    ASSERT_TRUE(good(protector.use_keeper(here, kMe)));
    live.scribble(random, 200);
    commit();
    commit();
    const std::vector<Protector::Shadow> far = {{.keeper = at(1), .is_there = false},
                                                {.keeper = at(2), .is_there = false}};
    ASSERT_TRUE(good(protector.protect(kMe, far, version)));
    EXPECT_EQ(protector.keepers(), (std::vector{ProcId(1), ProcId(2)}));
    expect_at(1);
    expect_at(2);
    live.scribble(random, 20);
    commit();
    expect_at(1);
    expect_at(2);
    // And back.
    const std::vector<Protector::Shadow> one = {{.keeper = here, .is_there = false}};
    ASSERT_TRUE(good(protector.protect(kMe, one, version)));
    EXPECT_EQ(protector.keepers(), std::vector{ProcId(5)});
    live.scribble(random, 20);
    commit();
    ASSERT_TRUE(good(protector.roll_back(version)));
    EXPECT_TRUE(State(live) == *stored);
}

TEST_F(ReplicasProtector, SaysWhoseDeathItIs) {
    live.scribble(random, 200);
    commit();
    wires[1]->lives_for = 4;
    live.scribble(random, 200);
    const Result<> replicated = protector.replicate(version.next());
    ASSERT_FALSE(replicated);
    EXPECT_EQ(replicated.error().failure, Failure::refused);
    EXPECT_EQ(protector.failed_keeper(), ProcId(1));
    EXPECT_EQ(protector.keepers(), std::vector{ProcId(0)});
    ASSERT_TRUE(good(protector.roll_back(version)));
    EXPECT_TRUE(State(live) == *stored);

    wires[3]->lives_for = 6;
    const std::vector<Protector::Shadow> shadows = {{.keeper = at(0), .is_there = true},
                                                    {.keeper = at(3), .is_there = false}};
    const Result<> done = protector.protect(kMe, shadows, version);
    ASSERT_FALSE(done);
    EXPECT_EQ(protector.failed_keeper(), ProcId(3));
    const std::vector<Protector::Shadow> next = {{.keeper = at(0), .is_there = true},
                                                 {.keeper = at(4), .is_there = false}};
    ASSERT_TRUE(good(protector.protect(kMe, next, version)));
    expect_at(0);
    expect_at(4);
}

}  // namespace
}  // namespace sft
