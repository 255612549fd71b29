// The death log under concurrent appenders.
#include "shmem_ft/membership/death_log.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace sft {
namespace {

TEST(DeathLog, KeepsOrderAndTheFirstReason) {
    const auto log = std::make_unique<DeathLog>();
    EXPECT_EQ(log->length(), DeathCount(0));
    EXPECT_TRUE(log->append(ProcId(7), {FailureKind::signal, 9}));
    EXPECT_TRUE(log->append(ProcId(0), {FailureKind::exited, 3}));
    EXPECT_FALSE(log->append(ProcId(7), {FailureKind::died, 0}));
    EXPECT_EQ(log->length(), DeathCount(2));
    EXPECT_EQ(log->at(0).process, ProcId(7));
    EXPECT_EQ(log->at(0).reason, (FailureReason{FailureKind::signal, 9}));
    EXPECT_EQ(log->at(1).process, ProcId(0));
    EXPECT_EQ(log->at(1).reason, (FailureReason{FailureKind::exited, 3}));
    EXPECT_TRUE(log->contains(ProcId(0), DeathCount(2)));
    EXPECT_FALSE(log->contains(ProcId(0), DeathCount(1))) << "not in the shorter prefix";
}

TEST(DeathLog, ConcurrentAppendersAgree) {
    constexpr int kRuns = 200;
    constexpr int kDead = 20;
    for (int run = 0; run < kRuns; ++run) {
        const auto log = std::make_unique<DeathLog>();
        std::vector<std::thread> witnesses;
        std::atomic<int> firsts{0};
        for (int witness = 0; witness < 4; ++witness) {
            witnesses.emplace_back([&, witness] {
                for (int i = 0; i < kDead; ++i) {
                    const int process = (i * (2 * witness + 1) + run) % kDead;  // another order for each
                    firsts +=
                        log->append(ProcId(process), {FailureKind::signal, static_cast<std::uint16_t>(witness + 1)});
                }
            });
        }
        for (std::thread& witness : witnesses) {
            witness.join();
        }
        ASSERT_EQ(log->length(), DeathCount(kDead));
        std::set<std::int32_t> seen;
        for (std::uint16_t i = 0; i < kDead; ++i) {
            seen.insert(log->at(i).process.value());
        }
        ASSERT_EQ(seen.size(), static_cast<std::size_t>(kDead)) << "a process is in the list once";
        ASSERT_EQ(firsts.load(), kDead) << "exactly one witness was first for each";
    }
}

}  // namespace
}  // namespace sft
