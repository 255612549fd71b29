// Copies in memory of the node: what a substitute takes over, and where the shadow is on another node.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "backup/protector.hpp"
#include "tests/backup/fake_wire.hpp"
#include "tests/backup/protector_members.hpp"

namespace sft {
namespace {

// The processes have one file, with room for the shadows of all PEs, and behind them their local copies.
class OfTheNode : public ProtectorTest {
protected:
    OfTheNode() {
        const std::size_t room = BackupStore::room_bytes(owner.live.state);
        EXPECT_TRUE(file.create("node", static_cast<std::size_t>(kPes) * (room + Image::bytes_for(owner.live.state))));
        place = {.node_file = file.fd(), .local_copies = static_cast<std::size_t>(kPes) * room, .process = ProcId(2)};
        join(owner);
    }
    void join(Member& member) const {
        member.protector.store().keep_on_node(
            file.fd(), {.local_copies = place.local_copies, .parity = file.bytes(), .end = file.bytes()});
    }
    // What the dead process has left is its successor's, copies and the memory itself.
    void expect_taken_over(const State& committed, Version version, std::uint64_t* n_bad = nullptr) {
        Member substitute(GetParam());
        join(substitute);
        ASSERT_TRUE(substitute.protector.fetch_front(place, kMe, version, kBlockBytes));
        const Result<> taken = substitute.protector.take_over(place, kMe, version);
        ASSERT_TRUE(taken) << taken.error().line;
        EXPECT_EQ(State(substitute.live), committed);
        EXPECT_EQ(first_keeper(substitute), ProcId(2));
        if (n_bad != nullptr) {
            *n_bad = substitute.protector.store().counters().bad;
        }
        // And goes on with them.
        substitute.protector.update_local_copy(version);
        substitute.live.scribble(random, 50);
        ASSERT_TRUE(substitute.protector.replicate(version.next()));
        ASSERT_TRUE(substitute.protector.roll_back(version));
        EXPECT_EQ(State(substitute.live), committed);
    }

    // What lies in the file from there on.
    void forget(std::size_t begin) const {
        ASSERT_EQ(::fallocate(file.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                              static_cast<off_t>(file.bytes() - begin)),
                  0);
    }

    Segment file;
    Protector::KeeperLocation place;
    FakeWire wire{static_cast<std::size_t>(kPes) * BackupStore::room_bytes(owner.live.state)};
};

TEST_P(OfTheNode, ASubstituteTakesOverWhatTheDeadHasLeft) {
    use(place);
    commit(Version(1));
    const State committed(owner.live);
    expect_taken_over(committed, Version(1));
}

// It has died when the next version was complete at its keeper, and not yet in its local copy.
TEST_P(OfTheNode, AVersionThatTheLocalCopyDoesNotHoldIsInTheShadow) {
    use(place);
    commit(Version(1));
    owner.live.scribble(random, 50);
    ASSERT_TRUE(owner.protector.replicate(Version(2)));
    std::uint64_t n_bad = 0;
    expect_taken_over(State(owner.live), Version(2), &n_bad);
    EXPECT_EQ(n_bad, 0U) << "a copy of another version is no damaged one";
}

// The same where the shadow is on another node, with or without a local copy to take over.
TEST_P(OfTheNode, OfAFarShadowOnlyWhatIsMissingIsRead) {
    place.wire = &wire;
    use(place);
    commit(Version(1));
    const std::size_t before = wire.operations;
    expect_taken_over(State(owner.live), Version(1));
    const std::size_t with_local = wire.operations - before;
    commit(Version(2));
    forget(place.local_copies);
    const std::size_t begin = wire.operations;
    expect_taken_over(State(owner.live), Version(2));
    if (GetParam() == BackupMode::double_copy) {
        EXPECT_LT(with_local, wire.operations - begin) << "nothing had to be read";
    }
}

// Its death will be decided about, and others of its node may have what it kept: nothing is lost yet.
TEST_P(OfTheNode, AFarKeeperThatDiesWhileItIsReadIsGone) {
    place.wire = &wire;
    use(place);
    commit(Version(1));
    forget(0);
    int n_gone = 0;
    for (std::size_t lives_for = 1;; ++lives_for) {
        Member substitute(GetParam());
        join(substitute);
        wire.lives_for = lives_for;
        const Result<> taken = substitute.protector.take_over(place, kMe, Version(1));
        wire.lives_for = SIZE_MAX;
        if (taken) {
            EXPECT_EQ(State(substitute.live), State(owner.live));
            break;
        }
        ASSERT_EQ(taken.error().failure, Failure::gone) << lives_for << ": " << taken.error().line;
        ++n_gone;
    }
    EXPECT_GT(n_gone, 10);
}

// What is said before a checkpoint is what it takes then.
TEST_P(OfTheNode, TheRoomThatACheckpointTakesIsKnownBefore) {
    const auto in_file = [&] {
        struct stat info {};
        EXPECT_EQ(::fstat(file.fd(), &info), 0);
        return static_cast<std::size_t>(info.st_blocks) * 512;
    };
    const std::size_t all = Image::bytes_for(owner.live.state);
    const std::size_t n_copies = GetParam() == BackupMode::double_copy ? 3 : 2;
    EXPECT_EQ(owner.protector.room().most, 0U) << "nobody keeps copies";
    use(place);
    std::size_t sum = 0;
    for (std::uint32_t version = 1; version <= 4; ++version) {
        owner.live.scribble(random, 3);
        const BackupStore::Room room = owner.protector.room();
        const std::size_t before = in_file();
        EXPECT_GE(room.used, owner.live.existing_bytes() + before);
        EXPECT_LE(room.used, owner.live.existing_bytes() + before + 4096) << "and the state of the library";
        EXPECT_EQ(room.used + room.most, (1 + n_copies) * all);
        ASSERT_TRUE(owner.protector.replicate(Version(version)));
        owner.protector.update_local_copy(Version(version));
        // A table whose end no block has come to is not touched.
        EXPECT_LE(in_file() - before, room.next);
        EXPECT_GE(in_file() - before + (n_copies - 1) * 4 * 4096, room.next) << version;
        sum += room.next;
    }
    EXPECT_GT(sum, 0U);
    for (std::uint32_t version = 5; version <= 6; ++version) {
        ASSERT_TRUE(owner.protector.replicate(Version(version)));
        owner.protector.update_local_copy(Version(version));
    }
    // All that exists is there by now, but for such ends of tables.
    EXPECT_LE(owner.protector.room().next, 2 * Image::front_bytes_for(owner.live.state));
}

class TwoCopiesOfTheNode : public OfTheNode {};

TEST_P(TwoCopiesOfTheNode, EitherCopyWillDo) {
    for (const auto copy : {BackupStore::Copy::local, BackupStore::Copy::shadow}) {
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            Member dead(GetParam());
            join(dead);
            ASSERT_TRUE(dead.protector.use_keeper(place, kMe));
            dead.live.scribble(random, 50);
            ASSERT_TRUE(dead.protector.replicate(Version(1)));
            dead.protector.update_local_copy(Version(1));
            ASSERT_NE(dead.protector.store().flip_bit(copy, seed, dead.live.state), "");
            expect_taken_over(State(dead.live), Version(1));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, TwoCopiesOfTheNode, testing::Values(BackupMode::double_copy));
INSTANTIATE_TEST_SUITE_P(Modes, OfTheNode, testing::Values(BackupMode::single_copy, BackupMode::double_copy));

}  // namespace
}  // namespace sft
