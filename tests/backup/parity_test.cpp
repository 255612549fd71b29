// Groups that keep parity, each member on a node of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backup/image_layout.hpp"
#include "backup/store.hpp"
#include "tests/backup/exact_tracker.hpp"
#include "tests/backup/live_memory.hpp"

namespace sft {
namespace {

constexpr std::size_t kHeapOfMember = 37;

// What others reach of a node: everything is under way until it is flushed.
class NodeWire final : public StoreWire {
public:
    NodeWire(std::byte* memory, int file, const ParityLayout& layout, std::size_t places)
        : memory_(memory), file_(file), layout_(layout), places_(places) {}

    void write(std::size_t, const void*, std::size_t) override { FAIL() << "parity is added to, not written"; }
    void read(std::size_t offset, void* dest, std::size_t bytes) override {
        pending_.push_back({offset, 0, false, nullptr, static_cast<std::byte*>(dest), bytes});
    }
    void fold(std::size_t offset, std::uint64_t build, bool is_anew, const void* source, std::size_t bytes) override {
        pending_.push_back({offset, build, is_anew, static_cast<const std::byte*>(source), nullptr, bytes});
        bytes_folded += bytes;
    }
    bool flush() override {
        bool is_good = is_alive;
        for (const Operation& operation : pending_) {
            if (!is_alive || (folds_left == 0 && operation.source != nullptr)) {
                is_alive = false;
                is_good = false;
                break;
            }
            if (operation.dest != nullptr) {
                std::memcpy(operation.dest, memory_ + operation.offset, operation.bytes);
                continue;
            }
            --folds_left;
            is_good = ParityPlace::fold_at(memory_, layout_, file_, places_, operation.offset, operation.build,
                                           operation.is_anew, operation.source, operation.bytes) &&
                      is_good;
        }
        pending_.clear();
        return is_good;
    }
    [[nodiscard]] std::size_t piece_bytes() const noexcept override { return 56 << 10; }
    void drain_to(std::size_t) override {}

    bool is_alive = true;
    std::size_t folds_left = SIZE_MAX;  // dies instead of the one after these
    std::size_t bytes_folded = 0;

private:
    struct Operation {
        std::size_t offset;
        std::uint64_t build;
        bool is_anew;
        const std::byte* source;
        std::byte* dest;
        std::size_t bytes;
    };
    std::byte* memory_;
    int file_;
    const ParityLayout& layout_;
    std::size_t places_;
    std::vector<Operation> pending_;
};

// A node with the process that is a member.
struct Node {
    Node(std::int32_t n_members, std::int32_t n_parity, std::shared_ptr<LiveMemory> memory)
        : live(std::move(memory)), layout(ParityUnits(live->state), n_parity) {
        const std::size_t image = Image::bytes_for(live->state);
        const auto n = static_cast<std::size_t>(n_members);
        places = {.local_copies = 0, .parity = n * image, .end = n * image + n * layout.bytes};
        EXPECT_TRUE(good(file.create("node", places.end)));
        EXPECT_TRUE(good(file.map_at(nullptr)));
        wire = std::make_unique<NodeWire>(file.address(), file.fd(), layout, places.parity);
        begin_process(n_members, n_parity);
    }
    // The one before, if any, is dead.
    void begin_process(std::int32_t n_members, std::int32_t n_parity) {
        store = std::make_unique<BackupStore>();
        store->keep_parity(n_parity);
        EXPECT_TRUE(good(store->create(BackupMode::double_copy, live->state, n_members)));
        store->keep_on_node(file.fd(), places);
    }
    [[nodiscard]] Image local_of(PeId pe) {
        return {file.address() + pe.index() * Image::bytes_for(live->state), live->state};
    }

    std::shared_ptr<LiveMemory> live;
    ParityLayout layout;
    BackupStore::OnNode places;
    Segment file;
    std::unique_ptr<NodeWire> wire;
    std::unique_ptr<BackupStore> store;
};

class Group {
public:
    Group(std::int32_t n_members, std::int32_t n_parity) : n_members_(n_members), n_parity_(n_parity) {
        for (std::int32_t member = 0; member < n_members; ++member) {
            nodes.push_back(std::make_unique<Node>(n_members, n_parity, std::make_shared<LiveMemory>(kHeapOfMember)));
        }
        for (std::int32_t member = 0; member < n_members; ++member) {
            use(member, {});
        }
    }
    void use(std::int32_t position, const std::vector<std::int32_t>& lost) {
        std::vector<BackupStore::GroupMember> members;
        for (std::int32_t member = 0; member < n_members_; ++member) {
            BackupStore::GroupMember& other = members.emplace_back();
            other.pe = PeId(member);
            other.is_lost = member != position && std::find(lost.begin(), lost.end(), member) != lost.end();
            if (member != position && !other.is_lost) {
                other.location.process = ProcId(member);
                other.location.wire = at(member).wire.get();
            }
        }
        Trouble trouble;
        ASSERT_EQ(at(position).store->use_group(members, position, n_parity_, at(position).live->state, {}, trouble),
                  Reach::opened)
            << trouble.what;
    }
    [[nodiscard]] Node& at(std::int32_t member) { return *nodes[static_cast<std::size_t>(member)]; }
    bool replicate(std::int32_t member, Version of) {
        at(member).store->begin_round(round);
        return !at(member).store->replicate(of, at(member).live->state).keeper_gone;
    }
    void update(std::int32_t member, Version of) {
        at(member).store->update_local_copy(of, at(member).live->state);
        EXPECT_EQ(at(member).store->complaint(), "");
    }
    void commit() {
        ++version;
        committed.clear();
        for (std::int32_t member = 0; member < n_members_; ++member) {
            at(member).live->scribble(random, static_cast<int>(random() % 40));
            if (random() % 3 == 0) {
                at(member).live->punch(random);
            }
            ASSERT_TRUE(replicate(member, Version(version)));
        }
        for (std::int32_t member = 0; member < n_members_; ++member) {
            update(member, Version(version));
            committed.emplace_back(*at(member).live);  // not before: to read a hole makes a page of it
            at(member).live->scribble(random, 5);      // the program goes on
        }
    }
    // All of them at once, with all that their nodes have; the others go back.
    void lose(const std::vector<std::int32_t>& lost) {
        for (const std::int32_t member : lost) {
            nodes[static_cast<std::size_t>(member)] =
                std::make_unique<Node>(n_members_, n_parity_, std::make_shared<LiveMemory>(kHeapOfMember));
        }
        for (std::int32_t member = 0; member < n_members_; ++member) {
            use(member, lost);
            ASSERT_TRUE(at(member).store->bring_back(Version(version), at(member).live->state))
                << at(member).store->explanation();
            const State now(*at(member).live);
            const State& then = committed[static_cast<std::size_t>(member)];
            ASSERT_TRUE(now.heap == then.heap) << "member " << member << " of " << n_members_ << " with " << n_parity_;
            ASSERT_TRUE(now.globals == then.globals)
                << "member " << member << " of " << n_members_ << " with " << n_parity_;
            ASSERT_TRUE(now.library == then.library);
        }
        protect(lost);
    }
    void protect(const std::vector<std::int32_t>& lost) {
        ++round;
        for (std::int32_t member = 0; member < n_members_; ++member) {
            use(member, {});
            std::vector<std::int32_t> anew = lost;
            std::erase(anew, member);
            at(member).store->begin_round(round);
            ASSERT_TRUE(at(member).store->make_anew(Version(version), anew, at(member).live->state));
        }
        ++round;
    }

    std::int32_t n_members_;
    std::int32_t n_parity_;
    std::vector<std::unique_ptr<Node>> nodes;
    std::uint32_t version = 0;
    std::uint32_t round = 1;
    std::vector<State> committed;
    std::mt19937 random{17};
};

TEST(Parity, EveryLossThatIsPromisedComesBackBitForBit) {
    for (std::int32_t n_members = 2; n_members <= 5; ++n_members) {
        for (std::int32_t n_parity = 1; n_parity < n_members && n_parity <= 3; ++n_parity) {
            Group group(n_members, n_parity);
            for (unsigned pattern = 0; pattern < 1U << n_members; ++pattern) {
                std::vector<std::int32_t> lost;
                for (std::int32_t member = 0; member < n_members; ++member) {
                    if ((pattern >> member & 1) != 0) {
                        lost.push_back(member);
                    }
                }
                if (lost.size() <= static_cast<std::size_t>(n_parity)) {
                    group.commit();
                    group.lose(lost);
                    if (testing::Test::HasFatalFailure()) {
                        return;
                    }
                }
            }
        }
    }
}

// What is told of a place is what is there, and no more than was said before.
TEST(Parity, RoomIsToldAndKept) {
    Group group(5, 1);
    const BackupStore& store = *group.at(0).store;
    std::memset(group.at(0).live->heap.address(), 1, group.at(0).live->heap.bytes());
    std::memset(group.at(0).live->globals.data(), 1, group.at(0).live->globals.size());
    for (int i = 0; i < 4; ++i) {
        const BackupStore::Room before = store.room(group.at(0).live->state);
        group.commit();
        const BackupStore::Room after = store.room(group.at(0).live->state);
        EXPECT_LE(after.used, before.used + before.next + 10 * kBlockBytes) << i;
        EXPECT_LE(after.used + after.most, before.used + before.most + 10 * kBlockBytes);
        const std::size_t state = Image::bytes_for(group.at(0).live->state);
        EXPECT_LT(after.used, 3 * state) << "and not four times";
    }
}

TEST(Parity, MoreThanThatIsTold) {
    Group group(4, 1);
    group.commit();
    for (const std::int32_t member : {1, 2}) {
        group.nodes[static_cast<std::size_t>(member)] =
            std::make_unique<Node>(4, 1, std::make_shared<LiveMemory>(kHeapOfMember));
    }
    group.use(1, {1, 2});
    EXPECT_FALSE(group.at(1).store->bring_back(Version(1), group.at(1).live->state));
    EXPECT_EQ(group.at(1).store->explanation(), "too little is left in the group of PE 1 to compute its checkpoint 1");
}

// What was added for a checkpoint that failed counts neither for the one before nor for the one after.
TEST(Parity, ACheckpointThatFailsLeavesNothing) {
    for (std::int32_t n_done = 0; n_done <= 4; ++n_done) {
        Group group(4, 2);
        group.commit();
        group.commit();
        for (std::int32_t member = 0; member < n_done; ++member) {
            group.at(member).live->scribble(group.random, 30);
            ASSERT_TRUE(group.replicate(member, Version(group.version + 1)));
        }
        group.lose({0, 2});
        group.commit();
        group.lose({1, 3});
        group.commit();
        group.lose({3});
    }
}

// A recovery in which somebody else dies begins again: what was sent for a share before counts no more.
TEST(Parity, AShareThatIsMadeAnewAgainBeginsWithNothing) {
    Group group(4, 1);
    group.commit();
    group.lose({2});
    for (const std::int32_t member : {0, 3}) {  // an attempt that only these have come to the end of
        group.at(member).store->begin_round(group.round);
        ASSERT_TRUE(group.at(member).store->make_anew(Version(1), {2}, group.at(member).live->state));
    }
    group.protect({2});
    group.lose({0});
    group.commit();
    group.lose({2});
}

TEST(Parity, AMemberThatDiesInTheMiddleOfAnAdditionLeavesTheCommittedVersion) {
    for (std::size_t folds = 0; folds < 9; ++folds) {
        Group group(4, 1);
        group.commit();
        group.at(2).wire->folds_left = folds;
        group.at(0).live->scribble(group.random, 60);
        EXPECT_FALSE(group.replicate(0, Version(2)));
        EXPECT_EQ(group.at(0).store->lost_member(), ProcId(2));
        group.lose({2});
        group.commit();
        group.lose({0});
    }
}

// The state of one that died while its local copy followed a commit is in that and in its heap: nobody else is needed.
TEST(Parity, ATornLocalCopyIsMadeWholeFromTheHeapOfTheDead) {
    Group group(3, 1);
    group.commit();
    for (std::int32_t member = 0; member < 3; ++member) {
        group.at(member).live->scribble(group.random, 60);
        ASSERT_TRUE(group.replicate(member, Version(2)));
    }
    const State at_commit(*group.at(1).live);
    group.update(1, Version(2));
    Image local = group.at(1).local_of(PeId(1));
    // As if half of it had not come to that.
    std::memset(local.begin(), 0, 64);
    for (std::size_t block = 0; block < local.blocks(); block += 2) {
        std::memset(local.begin() + local.place_of(block).offset, 0x5a, local.place_of(block).bytes);
    }
    group.at(1).begin_process(3, 1);
    group.use(1, {0, 2});  // both are lost, which parity could not help
    ASSERT_TRUE(group.at(1).store->bring_back(Version(2), group.at(1).live->state)) << group.at(1).store->explanation();
    EXPECT_TRUE(State(*group.at(1).live) == at_commit);
}

// By its neighbours, too, for others to compute with.
TEST(Parity, ALeftCopyIsMadeWholeByWhoeverIsThere) {
    Group group(3, 1);
    group.commit();
    // Two PEs of one node: the places of member 2 are used for what PE 2 has left, by the process that is PE 0 there.
    Node& node = group.at(2);
    Image local = node.local_of(PeId(2));
    std::memset(local.begin(), 0, 64);
    ASSERT_FALSE(local.sound(Version(1)));
    BackupStore neighbour;
    neighbour.keep_parity(1);
    ASSERT_TRUE(good(neighbour.create(BackupMode::double_copy, node.live->state, 3)));
    BackupStore::OnNode places = node.places;
    places.heaps = 0;  // the heap is not in the file here: what the local copy has is enough
    places.heap_bytes = node.file.bytes();
    neighbour.keep_on_node(node.file.fd(), places);
    std::vector<BackupStore::GroupMember> members(2);
    members[0].pe = PeId(0);
    members[1].pe = PeId(1);
    members[1].is_lost = true;
    Trouble trouble;
    ASSERT_EQ(neighbour.use_group(members, 0, 1, node.live->state, {}, trouble), Reach::opened);
    neighbour.mend_left_copy(PeId(2), Version(1), node.live->state);
    EXPECT_TRUE(local.sound(Version(1)));
}

TEST(Parity, FlippedBitsAreMendedFromTheGroup) {
    Group group(4, 2);
    group.commit();
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        ASSERT_NE(group.at(0).local_of(PeId(0)).flip_bit(Version(1), seed), "");
        ASSERT_TRUE(group.at(0).store->bring_back(Version(1), group.at(0).live->state))
            << group.at(0).store->explanation();
        ASSERT_TRUE(State(*group.at(0).live) == group.committed[0]);
    }
    EXPECT_GT(group.at(0).store->counters().repaired, 10U);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {  // the same in the background
        ASSERT_NE(group.at(0).local_of(PeId(0)).flip_bit(Version(1), seed), "");
        ASSERT_TRUE(group.at(0).store->mend(group.at(0).live->state)) << group.at(0).store->explanation();
        ASSERT_TRUE(group.at(0).local_of(PeId(0)).verify(Version(1)).intact());
    }
}

// A bad local copy would make parity of the next version wrong for all others.
TEST(Parity, ChangesAreNotMadeAgainstFlippedBits) {
    Group group(4, 1);
    group.commit();
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        Image local = group.at(0).local_of(PeId(0));
        std::size_t block = local.next_existing(seed % 5);
        (local.begin() + local.place_of(block).offset)[7] ^= std::byte(4);
        if (seed % 2 == 1) {  // in its header and table as they went into parity, too
            Node& node = group.at(0);
            node.file.address()[node.places.parity + node.layout.front(Version(group.version)) + 4096 + 8 * seed] ^=
                std::byte(2);
        }
        group.at(0).live->scribble(group.random, 200);
        group.commit();
        group.lose({1 + static_cast<std::int32_t>(seed % 3)});
    }
}

// Header and table of the local copy as well.
TEST(Parity, TheBaseOfChangesIsMadeWhole) {
    Group group(4, 1);
    group.commit();
    for (std::size_t byte : {0U, 16U, 4096U, 4104U}) {
        group.at(0).local_of(PeId(0)).begin()[byte] ^= std::byte(16);
        group.commit();
        group.lose({2});
    }
}

// Words of a thread of somebody else's code, which are not restored, change between the two copies.
TEST(Parity, GlobalsThatChangeMeanwhileAreAsTheyWentIntoParity) {
    Group group(3, 1);
    group.commit();
    for (std::int32_t lost : {0, 1, 2, 0}) {
        const Version next(group.version + 1);
        group.committed.clear();
        for (std::int32_t member = 0; member < 3; ++member) {
            group.at(member).live->scribble(group.random, 40);
            ASSERT_TRUE(group.replicate(member, next));
            group.committed.emplace_back(*group.at(member).live);
            for (std::size_t byte = 10; byte < 50; ++byte) {  // in front of what is saved
                group.at(member).live->globals[byte] ^= std::byte(0x77);
            }
        }
        for (std::int32_t member = 0; member < 3; ++member) {
            group.update(member, next);
        }
        ++group.version;
        group.lose({lost});
    }
}

TEST(Parity, AHeapThatChangesMeanwhileIsToldOf) {
    Group group(3, 1);
    group.commit();
    for (std::int32_t member = 0; member < 3; ++member) {
        group.at(member).live->heap.address()[3 * kBlockBytes] ^= std::byte(1);
        ASSERT_TRUE(group.replicate(member, Version(2)));
    }
    group.at(1).live->heap.address()[3 * kBlockBytes + 1] ^= std::byte(1);
    BackupStore& store = *group.at(1).store;
    store.update_local_copy(Version(2), group.at(1).live->state);
    EXPECT_NE(store.complaint().find("PE 1: a thread of the program has written to the symmetric heap"),
              std::string::npos);
}

// With two parities one may be bad, or a unit of another member.
TEST(Parity, WhatIsComputedWithIsChecked) {
    Group group(4, 2);
    group.commit();
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        ASSERT_NE(group.at(1).local_of(PeId(1)).flip_bit(Version(group.version), 3 * seed + 2), "");
        Node& node = group.at(2);
        const std::size_t kept = node.places.parity + 2 * node.layout.bytes + node.layout.slots;
        const std::size_t unit = group.random() % 10;
        for (const std::size_t slot : {std::size_t{0}, std::size_t{1}}) {
            node.file.address()[kept + slot * node.layout.n_kept * kUnitBytes + unit * kUnitBytes + 100] ^=
                std::byte(1);
        }
        group.nodes[0] = std::make_unique<Node>(4, 2, std::make_shared<LiveMemory>(kHeapOfMember));
        group.use(0, {0});
        const bool is_back = group.at(0).store->bring_back(Version(group.version), group.at(0).live->state);
        if (is_back) {
            ASSERT_TRUE(State(*group.at(0).live) == group.committed[0]);
        } else {
            ASSERT_NE(group.at(0).store->explanation(), "");  // all three in one stripe
        }
        group = Group(4, 2);
        group.commit();
    }
}

TEST(Parity, PagesThatATrackerNamesAreEnough) {
    Group group(4, 2);
    std::vector<std::unique_ptr<ExactTracker>> trackers;
    for (std::int32_t member = 0; member < 4; ++member) {
        trackers.push_back(std::make_unique<ExactTracker>(*group.at(member).live));
        group.at(member).store->track_changes_by(*trackers.back(), false);
    }
    for (int round = 0; round < 12; ++round) {
        group.commit();
        // What an attempt in vain has left in the stash is not what the version has.
        group.at(0).live->scribble(group.random, 20);
        ASSERT_TRUE(group.replicate(0, Version(group.version + 1)));
        group.lose({});
    }
    EXPECT_GT(trackers[0]->n_known, 10) << "then this shows nothing";
    group.lose({1, 2});
    group.commit();
    group.lose({0, 3});
}

// Where nothing changes nothing is sent but the header, and what changes costs what it takes, for each parity.
TEST(Parity, OnlyChangesAreSent) {
    Group group(5, 2);
    group.commit();
    group.commit();
    const auto sent = [&] {
        std::size_t bytes = 0;
        for (std::int32_t member = 0; member < 5; ++member) {
            bytes += group.at(member).wire->bytes_folded;
        }
        return bytes;
    };
    group.at(0).live->heap.address()[5 * kBlockBytes] ^= std::byte(1);
    std::size_t before = sent();
    ASSERT_TRUE(group.replicate(0, Version(3)));
    before = sent();
    ASSERT_TRUE(group.replicate(1, Version(3)));
    const std::size_t of_next = sent() - before;
    EXPECT_LE(of_next, 2 * (16 * kBlockBytes + 2 * kPageBytes)) << "what the program has scribbled since";
}

}  // namespace
}  // namespace sft
