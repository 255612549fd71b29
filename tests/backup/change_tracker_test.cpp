// A store asks a tracker what may have changed, looks at nothing else, and has the same copies as one that compares.
#include "backup/change_tracker.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "backup/store.hpp"
#include "base/assert.hpp"
#include "tests/backup/fake_wire.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::size_t kHeapBlocks = 20;
constexpr std::size_t kHeapPages = kHeapBlocks * kPagesOfBlock;

// Is told of every write by the test.
class ToldTracker final : public ChangeTracker {
public:
    explicit ToldTracker(std::size_t blocks) : blocks_(blocks) {}

    void wrote(std::size_t page) {
        for (auto& [version, changed] : since_) {
            changed.insert_page_run(page, page + 1);
        }
    }
    void begin(Version version) override { since_[version] = empty(); }
    void restart(Version version) override {
        since_.clear();
        begin(version);
    }
    void heard(std::size_t stored_bytes, std::size_t changed_bytes) override { EXPECT_LE(changed_bytes, stored_bytes); }
    const BlockSet* changed_since(Version version) override {
        const auto found = since_.find(version);
        n_known += found != since_.end() ? 1 : 0;
        return found == since_.end() ? nullptr : &found->second;
    }

    int n_known = 0;

private:
    [[nodiscard]] BlockSet empty() const {
        BlockSet none;
        none.reset(blocks_);
        return none;
    }

    std::size_t blocks_;
    std::map<Version, BlockSet> since_;
};

class TrackedStore : public testing::TestWithParam<bool> {
protected:
    TrackedStore() {
        EXPECT_TRUE(good(keeper_.create(BackupMode::double_copy, live_.state, 3)));
        EXPECT_TRUE(good(owner_.create(BackupMode::double_copy, live_.state, 3)));
        Trouble trouble;
        EXPECT_EQ(owner_.use_keeper(location(), kMe, live_.state, trouble), Reach::opened) << trouble.what;
        owner_.track_changes_by(tracker_);
    }
    [[nodiscard]] BackupStore::KeeperLocation location() {
        BackupStore::KeeperLocation at{::getpid(), process_start_time(::getpid()), keeper_.fd()};
        at.wire = GetParam() ? &wire_ : nullptr;
        return at;
    }
    void write(std::size_t page, std::byte value, bool is_told = true) {
        live_.heap.address()[page * kPageBytes + 7] = value;
        if (is_told) {
            tracker_.wrote(page);
        }
    }
    [[nodiscard]] std::byte value(std::size_t page) const { return live_.heap.address()[page * kPageBytes + 7]; }
    void fill() {
        for (std::size_t page = 0; page < kHeapPages; ++page) {
            write(page, std::byte(1));
        }
    }
    void checkpoint(std::uint32_t version) {
        owner_.replicate(Version(version), live_.state);
        owner_.update_local_copy(Version(version), live_.state);
    }
    // By a substitute, from the shadow.
    [[nodiscard]] std::vector<std::byte> fetched(std::uint32_t version) {
        LiveMemory substitute(kHeapBlocks);
        EXPECT_EQ(BackupStore::fetch(location(), kMe, Version(version), substitute.state), BackupStore::Fetched::done);
        return substitute.heap_bytes();
    }

    LiveMemory live_{kHeapBlocks};
    FakeWire wire_{3 * 2 * Image::bytes_for(live_.state)};
    ToldTracker tracker_{Image(wire_.memory.data(), live_.state).blocks()};
    BackupStore keeper_;
    BackupStore owner_;
};

// With rollbacks, after which a number is used again, and versions that were replicated in vain.
TEST_P(TrackedStore, HasTheSameCopiesAsOneThatCompares) {
    std::mt19937 random(3);
    std::uint32_t version = 0;
    std::vector<std::byte> committed;
    for (int round = 0; round < 200; ++round) {
        for (int i = 0; i < 5; ++i) {
            write(random() % kHeapPages, std::byte(random()));
        }
        switch (version == 0 ? 0 : random() % 4) {
            case 0:
            case 1:
                checkpoint(++version);
                committed = live_.heap_bytes();
                break;
            case 2: owner_.replicate(Version(version + 1), live_.state); break;
            default:
                ASSERT_TRUE(owner_.roll_back(Version(version), live_.state)) << owner_.explanation();
                ASSERT_EQ(live_.heap_bytes(), committed);
        }
        ASSERT_EQ(fetched(version), committed) << "round " << round;
    }
    EXPECT_GT(tracker_.n_known, 50) << "then this shows nothing";
    ASSERT_TRUE(owner_.roll_back(Version(version), live_.state));
    EXPECT_EQ(live_.heap_bytes(), committed);
}

#if !SFT_SLOW_ASSERTIONS  // which find the missing name
TEST_P(TrackedStore, DoesNotLookAtWhatIsNotNamed) {
    fill();
    checkpoint(1);
    checkpoint(2);
    const std::size_t named = 3 * kPagesOfBlock;
    write(named, std::byte(2));
    write(named + 1, std::byte(2), false);
    write(named + kPagesOfBlock, std::byte(2), false);
    checkpoint(3);
    ASSERT_TRUE(owner_.roll_back(Version(3), live_.state));
    EXPECT_EQ(value(named), std::byte(2));
    EXPECT_EQ(value(named + 1), std::byte(1)) << "a page of the same block has been compared";
    EXPECT_EQ(value(named + kPagesOfBlock), std::byte(1)) << "it has been compared";
}
#endif

// Of blocks of which a page has changed, only that page. A page that is named and the same is sent to another node with
// another one of its block, for the local copy does not decide there what is sent.
TEST_P(TrackedStore, CopiesPages) {
    fill();
    checkpoint(1);
    checkpoint(2);
    write(5, std::byte(2));
    write(6, std::byte(1));
    write(9, std::byte(3));
    EXPECT_EQ(owner_.replicate(Version(3), live_.state).bytes_copied, (GetParam() ? 3 : 2) * kPageBytes);
    EXPECT_EQ(owner_.update_local_copy(Version(3), live_.state).bytes_copied, 2 * kPageBytes);
    // The slot of version 2 lacks these, too.
    write(30, std::byte(4));
    EXPECT_EQ(owner_.replicate(Version(4), live_.state).bytes_copied, 3 * kPageBytes);
    EXPECT_EQ(owner_.update_local_copy(Version(4), live_.state).bytes_copied, kPageBytes);
    EXPECT_EQ(fetched(4), live_.heap_bytes());
    const std::vector<std::byte> committed = live_.heap_bytes();
    write(5, std::byte(7));
    ASSERT_TRUE(owner_.roll_back(Version(4), live_.state)) << owner_.explanation();
    EXPECT_EQ(live_.heap_bytes(), committed);
}

#if !SFT_SLOW_ASSERTIONS  // which take a flipped bit for a missing name
// A bit of a copy may flip in a page that is then written over, or in its neighbours. No rollback brings back anything
// else than what was committed.
TEST_P(TrackedStore, AFlipIsNeverTakenForGood) {
    std::mt19937 random(5);
    fill();
    std::uint32_t version = 2;
    checkpoint(1);
    checkpoint(2);
    for (int round = 0; round < 60; ++round) {
        const auto copy = random() % 2 == 0 ? BackupStore::Copy::local : BackupStore::Copy::shadow;
        static_cast<void>(owner_.flip_bit(copy, random(), live_.state));
        for (std::size_t page = 0; page < kHeapPages; page += 1 + random() % 3) {
            write(page, std::byte(random()));
        }
        checkpoint(++version);
        const std::vector<std::byte> committed = live_.heap_bytes();
        write(random() % kHeapPages, std::byte(random()));
        ASSERT_TRUE(owner_.roll_back(Version(version), live_.state)) << owner_.explanation();
        ASSERT_EQ(live_.heap_bytes(), committed) << "round " << round;
        EXPECT_TRUE(owner_.mend(live_.state)) << owner_.explanation();
    }
}
#endif

INSTANTIATE_TEST_SUITE_P(NearAndFar, TrackedStore, testing::Bool(),
                         [](const auto& which) { return which.param ? std::string("far") : std::string("near"); });

}  // namespace
}  // namespace sft
