// A store of versions is given each one that is committed, and no other, with a copy that it can read.
#include "backup/version_store.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "backup/store.hpp"
#include "tests/backup/fake_wire.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::size_t kStoredBlocks = 20;

// Keeps what it is given, as another process would read it.
class Collection final : public VersionStore {
public:
    void committed(Version version, const Image& copy) override {
        LiveMemory reader(kStoredBlocks);
        Image image = copy;
        EXPECT_TRUE(image.load(version, reader.state).intact());
        heaps.insert_or_assign(version, reader.heap_bytes());
    }

    std::map<Version, std::vector<std::byte>> heaps;
};

struct Case {
    BackupMode mode;
    bool is_far;
};

class VersionStoreTest : public testing::TestWithParam<Case> {};

TEST_P(VersionStoreTest, GetsWhatIsCommitted) {
    LiveMemory live(kStoredBlocks);
    FakeWire wire(3 * 2 * Image::bytes_for(live.state));
    Collection collection;
    BackupStore keeper;
    BackupStore owner;
    ASSERT_TRUE(good(keeper.create(GetParam().mode, live.state, 3)));
    ASSERT_TRUE(good(owner.create(GetParam().mode, live.state, 3)));
    BackupStore::KeeperLocation location{::getpid(), process_start_time(::getpid()), keeper.fd()};
    location.wire = GetParam().is_far ? &wire : nullptr;
    Trouble trouble;
    ASSERT_EQ(owner.use_keeper(location, kMe, live.state, trouble), Reach::opened) << trouble.what;
    owner.give_versions_to(collection);
    std::mt19937 random(1);
    std::map<Version, std::vector<std::byte>> committed;
    for (std::uint32_t i = 1; i <= 5; ++i) {
        live.scribble(random, 30);
        owner.replicate(Version(i), live.state);
        if (i == 3) {  // in vain
            ASSERT_TRUE(owner.roll_back(Version(2), live.state));
            live.scribble(random, 30);
            owner.replicate(Version(i), live.state);
        }
        owner.update_local_copy(Version(i), live.state);
        committed[Version(i)] = live.heap_bytes();
    }
    EXPECT_TRUE(collection.heaps == committed);
}

INSTANTIATE_TEST_SUITE_P(Copies, VersionStoreTest,
                         testing::Values(Case{BackupMode::double_copy, false}, Case{BackupMode::double_copy, true},
                                         Case{BackupMode::single_copy, false}, Case{BackupMode::single_copy, true}));

}  // namespace
}  // namespace sft
