// Processes with their state and copies, for the tests of their owner.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "backup/protector.hpp"
#include "base/process_watch.hpp"
#include "tests/backup/live_memory.hpp"

namespace sft {

inline constexpr std::int32_t kPes = 3;
inline constexpr std::size_t kHeapBlocksOfPe = 20;

// A process that has its state, and its copies.
struct Member {
    explicit Member(BackupMode mode) {
        const Result<> created = protector.create(mode, kPes);
        EXPECT_TRUE(created) << created.error().line;
    }

    LiveMemory live{kHeapBlocksOfPe};
    Protector protector{live.state};
};

[[nodiscard]] inline Protector::KeeperLocation keeper_location(const Member& keeper, ProcId process) {
    return {.pid = ::getpid(),
            .start_time = process_start_time(::getpid()),
            .store_fd = keeper.protector.store().fd(),
            .process = process};
}

[[nodiscard]] inline ProcId first_keeper(const Member& member) {
    const std::vector<ProcId>& keepers = member.protector.keepers();
    return keepers.empty() ? kNoProc : keepers.front();
}
[[nodiscard]] inline std::vector<Protector::Shadow> one(const Protector::KeeperLocation& keeper, bool is_there) {
    return {{.keeper = keeper, .is_there = is_there}};
}

class ProtectorTest : public testing::TestWithParam<BackupMode> {
protected:
    void use(const Protector::KeeperLocation& location) {
        const Result<> used = owner.protector.use_keeper(location, kMe);
        ASSERT_TRUE(used) << used.error().line;
    }
    void commit(Version version) {
        owner.live.scribble(random, 50);
        ASSERT_TRUE(owner.protector.replicate(version));
        owner.protector.update_local_copy(version);
    }
    // The owner rolls back to it, and a substitute has it.
    void expect_back(Version version, const State& committed) {
        ASSERT_TRUE(owner.protector.roll_back(version));
        ASSERT_EQ(State(owner.live), committed);
        Member substitute(GetParam());
        ASSERT_TRUE(substitute.protector.fetch(near, kMe, version));
        ASSERT_EQ(State(substitute.live), committed);
    }
    [[nodiscard]] std::uint64_t bytes_replicated() const { return owner.protector.store().counters().replicated; }

    Member keeper{GetParam()};
    Member owner{GetParam()};
    const Protector::KeeperLocation near{keeper_location(keeper, ProcId(2))};
    std::mt19937 random{5};
};

}  // namespace sft
