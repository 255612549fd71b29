// What is in a file is the version that it names, whatever the copies become meanwhile.
#include "storage/drain.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>

#include "tests/storage/stored_job.hpp"

namespace sft {
namespace {

TEST(Drain, WritesTheVersionWhileTheCopyBecomesTheNextOnes) {
    const Folder folder;
    constexpr std::uint64_t kSlow = 20'000'000;
    StoredJob job(folder.path(), 1, PeId(0), kSlow);
    std::mt19937 random(1);
    std::map<Version, Contents> stored;
    int overtaken = 0;
    for (std::uint32_t i = 1; stored.size() < 5; ++i) {
        job.live.scribble(random, 400);
        const bool stores = !job.drain.is_writing();
        overtaken += stores ? 0 : 1;
        job.checkpoint(Version(i), stores);
        if (stores) {
            stored[Version(i)] = contents(job.live);
        }
    }
    job.await_complete(stored.rbegin()->first);
    EXPECT_GT(overtaken, 5);  // else nothing was written over
    auto versions = stored_versions(folder.path());
    while (versions->size() > 2) {  // Options::keep
        versions = stored_versions(folder.path());
    }
    ASSERT_EQ(versions->size(), 2U);
    for (const StoredVersion& one : *versions) {
        EXPECT_TRUE(one.is_complete);
        EXPECT_TRUE(load(state_file(one.folder, PeId(0)), one.version) == stored[one.version]) << one.version.value();
    }
}

TEST(Drain, WritesHolesAsHoles) {
    const Folder folder;
    StoredJob job(folder.path());
    std::mt19937 random(2);
    job.live.scribble(random, 10);
    job.live.punch(random);
    job.checkpoint(Version(1), true);
    job.await_complete(Version(1));
    const std::string path = state_file(version_folder(folder.path(), Version(1)), PeId(0));
    EXPECT_TRUE(load(path, Version(1)) == contents(job.live));
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_LT(info.st_blocks * 512, info.st_size / 2);
}

TEST(Drain, IsCompleteOnlyWithTheFilesOfAllPes) {
    const Folder folder;
    StoredJob first(folder.path(), 2, PeId(0));
    StoredJob second(folder.path(), 2, PeId(1));
    std::mt19937 random(3);
    first.live.scribble(random, 10);
    second.live.scribble(random, 10);
    first.checkpoint(Version(1), true);
    first.await_written();
    const std::string one = version_folder(folder.path(), Version(1));
    EXPECT_EQ(missing_states(one, 2), std::vector<PeId>{PeId(1)});
    EXPECT_FALSE(read_manifest(one));
    second.checkpoint(Version(1), true);
    first.await_complete(Version(1));
    const auto manifest = read_manifest(one);
    ASSERT_TRUE(manifest) << manifest.error().line;
    EXPECT_TRUE(good(verify_version(one, *manifest, true)));
    EXPECT_EQ(manifest->settings, about(2).settings);
}

// Two jobs that do not know of each other.
TEST(Drain, CompletesNoVersionOfTwoJobs) {
    const Folder folder;
    StoredJob first(folder.path(), 2, PeId(0), 0, 1);
    StoredJob stranger(folder.path(), 2, PeId(1), 0, 2);
    StoredJob second(folder.path(), 2, PeId(1), 0, 1);
    second.checkpoint(Version(1), false);
    stranger.checkpoint(Version(1), true);
    stranger.await_written();
    first.checkpoint(Version(1), true);
    first.await_written();
    first.checkpoint(Version(2), true);
    second.checkpoint(Version(2), true);
    first.await_complete(Version(2));
    EXPECT_FALSE(read_manifest(version_folder(folder.path(), Version(1))));
}

TEST(Drain, GivesUpAVersionThatOthersHaveNotWritten) {
    const Folder folder;
    StoredJob first(folder.path(), 2, PeId(0));
    StoredJob second(folder.path(), 2, PeId(1));
    second.checkpoint(Version(1), false);
    first.checkpoint(Version(1), true);
    first.await_written();
    first.checkpoint(Version(2), true);
    second.checkpoint(Version(2), true);
    first.await_complete(Version(2));
    while (std::filesystem::exists(version_folder(folder.path(), Version(1)))) {
        std::this_thread::yield();  // it is of no use any more
    }
}

// SHMEM_FT_STORE_NODES. What changes while it waits is not in the file.
TEST(Drain, WaitsForTheFilesOfOthers) {
    const Folder folder;
    StoredJob first(folder.path(), 2, PeId(0));
    StoredJob second(folder.path(), 2, PeId(1));
    std::mt19937 random(8);
    second.live.scribble(random, 20);
    const Contents before = contents(second.live);
    second.drain.want(Version(1), {PeId(0)});
    second.checkpoint(Version(1), false);
    EXPECT_EQ(second.drain.progress(), Drain::Progress::waits);
    second.drain.go_on();
    second.live.scribble(random, 20);
    second.drain.want(kNoVersion);
    second.checkpoint(Version(2), false);
    const std::string one = version_folder(folder.path(), Version(1));
    EXPECT_EQ(missing_states(one, 2).size(), 2U);
    first.checkpoint(Version(1), true);
    first.await_complete(Version(1));
    second.await_written();
    EXPECT_TRUE(load(state_file(one, PeId(1)), Version(1)) == before);
    EXPECT_EQ(second.drain.progress(), Drain::Progress::idle);
}

// Whose turn has not come does not begin between a question and its answer, and gives a version up at once.
TEST(Drain, GivesUpAVersionThatItWaitsFor) {
    const Folder folder;
    StoredJob first(folder.path(), 2, PeId(0));
    StoredJob second(folder.path(), 2, PeId(1));
    second.drain.want(Version(1), {PeId(0)});
    second.checkpoint(Version(1), false);
    ASSERT_EQ(second.drain.progress(), Drain::Progress::waits);
    first.checkpoint(Version(1), true);
    first.await_written();
    EXPECT_EQ(missing_states(version_folder(folder.path(), Version(1)), 2), std::vector<PeId>{PeId(1)});
    second.drain.give_up();
    EXPECT_EQ(second.drain.progress(), Drain::Progress::idle);
    for (std::uint32_t version = 2; version < 14; ++version) {  // the thread may be anywhere when the next one begins
        first.checkpoint(Version(version), true);
        second.drain.want(Version(version), {PeId(0)});
        second.checkpoint(Version(version), false);
        if (version % 3 == 0 && second.drain.progress() == Drain::Progress::waits) {
            second.drain.give_up();
            first.await_written();
            continue;
        }
        second.drain.go_on();
        first.await_complete(Version(version));
        second.await_written();
    }
}

TEST(Drain, StopsWhileItWaits) {
    const Folder folder;
    StoredJob second(folder.path(), 2, PeId(1));
    second.drain.want(Version(1), {PeId(0)});
    second.checkpoint(Version(1), false);
    EXPECT_EQ(second.drain.progress(), Drain::Progress::waits);
}

TEST(Drain, TellsThatTheLastFileWasNotWritten) {
    const Folder folder;
    StoredJob job(folder.path());
    std::ofstream(version_folder(folder.path(), Version(1))) << "in the way";
    EXPECT_EQ(job.drain.progress(), Drain::Progress::idle);
    job.checkpoint(Version(1), true);
    job.await_written();
    EXPECT_EQ(job.drain.progress(), Drain::Progress::failed);
    job.checkpoint(Version(2), true);
    job.await_complete(Version(2));
    EXPECT_EQ(job.drain.progress(), Drain::Progress::idle);
}

TEST(Drain, FinishesWhatTheOneBeforeHasLeft) {
    const Folder folder;
    std::mt19937 random(4);
    std::filesystem::create_directories(version_folder(folder.path(), Version(7)));
    std::ofstream(unfinished(state_file(version_folder(folder.path(), Version(7)), PeId(0)))) << "torn";
    StoredJob job(folder.path());
    job.live.scribble(random, 10);
    job.owner.replicate(Version(7), job.live.state);
    job.owner.update_local_copy(Version(7), job.live.state);  // the first that this process hears of
    job.await_complete(Version(7));
    EXPECT_TRUE(load(state_file(version_folder(folder.path(), Version(7)), PeId(0)), Version(7)) == contents(job.live));
}

TEST(Drain, GoesOnBehindAFolderThatCannotBeWritten) {
    const Folder folder;
    StoredJob job(folder.path());
    std::ofstream(version_folder(folder.path(), Version(1))) << "in the way";
    job.checkpoint(Version(1), true);
    job.await_written();
    job.checkpoint(Version(2), true);
    job.await_complete(Version(2));
    EXPECT_EQ(newest_complete(folder.path())->version, Version(2));
}

TEST(Drain, WritesNoBlockThatIsDamaged) {
    const Folder folder;
    StoredJob job(folder.path(), 1, PeId(0), 2'000'000);
    std::mt19937 random(5);
    job.live.scribble(random, 400);
    job.checkpoint(Version(1), true);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        static_cast<void>(job.owner.flip_bit(BackupStore::Copy::local, seed, job.live.state));
    }
    job.await_written();
    EXPECT_FALSE(newest_complete(folder.path())->is_complete);
}

TEST(Drain, GivesUpAtTheEndAndLeavesNothing) {
    const Folder folder;
    StoredJob job(folder.path(), 1, PeId(0), 100'000);
    std::mt19937 random(6);
    job.live.scribble(random, 400);
    job.checkpoint(Version(1), true);
    job.drain.stop();
    EXPECT_TRUE(good(Drain::remove_incomplete(folder.path())));
    EXPECT_TRUE(stored_versions(folder.path())->empty());
}

TEST(Drain, RefusesAFolderOfAnotherJob) {
    const Folder folder;
    {
        StoredJob job(folder.path());
        job.checkpoint(Version(1), true);
        job.await_complete(Version(1));
        job.checkpoint(Version(2), true);
        job.await_complete(Version(2));
    }
    std::filesystem::create_directories(version_folder(folder.path(), Version(3)));
    Drain next;
    EXPECT_FALSE(next.prepare(folder.path(), kNoVersion));
    EXPECT_FALSE(next.prepare(folder.path(), Version(1)));
    EXPECT_TRUE(good(next.prepare(folder.path(), Version(2))));
    Drain other;
    EXPECT_FALSE(other.prepare(folder.path(), Version(2)));  // as long as that one runs
    next.stop();
    EXPECT_TRUE(good(other.prepare(folder.path(), Version(2))));
    EXPECT_FALSE(std::filesystem::exists(version_folder(folder.path(), Version(3))));
    EXPECT_FALSE(Drain().prepare("/proc/no/such", kNoVersion));
}

}  // namespace
}  // namespace sft
