// Words of readiness: threads stand for processes, each with a doorbell of its own.
#include "recovery/ready_words.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace sft {
namespace {

class ReadyWordsTest : public testing::Test {
protected:
    static constexpr std::int32_t kProcesses = 3;

    void SetUp() override { ASSERT_TRUE(control_.create(2, kProcesses)); }
    [[nodiscard]] Waiter waiter_of(ProcId process) {
        return {&control_.slot(process).doorbell, &gate_, {.spins = 10, .yields = 0}};
    }

    ControlSegment control_;
    FaultGate gate_;
};

TEST_F(ReadyWordsTest, EveryProcessHasOneAndThoseThatComeLaterToo) {
    for (std::int32_t process = 0; process < kProcesses + kJoinSlots; ++process) {
        Waiter waiter = waiter_of(ProcId(process));
        ReadyWords own(control_, ProcId(process), waiter);
        EXPECT_EQ(own.of(ProcId(process)), 0U);
        own.write(static_cast<std::uint64_t>(process) + 1);
    }
    for (std::int32_t process = 0; process < kProcesses + kJoinSlots; ++process) {
        EXPECT_EQ(control_.ready_word(ProcId(process)).load(), static_cast<std::uint64_t>(process) + 1);
    }
}

TEST_F(ReadyWordsTest, AWordOnlyGrows) {
    Waiter waiter = waiter_of(ProcId(0));
    ReadyWords own(control_, ProcId(0), waiter);
    own.write(5);
    EXPECT_DEATH(own.write(5), "");
}

// Each of two writes and waits for the other; one that slept through its wake would sleep for ever.
TEST_F(ReadyWordsTest, NobodySleepsThroughIt) {
    constexpr std::uint64_t kRounds = 20'000;
    const auto run = [&](std::int32_t self) {
        Waiter waiter = waiter_of(ProcId(self));
        ReadyWords own(control_, ProcId(self), waiter);
        const ProcId other(1 - self);
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            own.write(round);
            if (own.of(other) >= round) {
                own.wake(other);
            } else if (!own.await({other}, round, own.moves())) {
                return 1;
            }
        }
        return 0;
    };
    std::future<int> other = std::async(std::launch::async, [&] { return run(1); });
    EXPECT_EQ(run(0), 0);
    EXPECT_EQ(other.get(), 0);
}

TEST_F(ReadyWordsTest, ADecisionEndsTheWait) {
    Waiter waiter = waiter_of(ProcId(0));
    ReadyWords own(control_, ProcId(0), waiter);
    const std::uint64_t moves = own.moves();
    std::future<bool> waiting = std::async(std::launch::async, [&] {
        return own.await({ProcId(1), ProcId(2)}, 1, moves);
    });
    ASSERT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    own.move_on();
    EXPECT_FALSE(waiting.get());
    EXPECT_FALSE(own.await({ProcId(1)}, 1, moves));  // it was before
}

TEST_F(ReadyWordsTest, APendingFaultEndsTheWait) {
    Waiter waiter = waiter_of(ProcId(0));
    ReadyWords own(control_, ProcId(0), waiter);
    std::future<bool> waiting = std::async(std::launch::async, [&] { return own.await({ProcId(1)}, 1, own.moves()); });
    ASSERT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    gate_.pending.store(true);
    own.wake(ProcId(0));
    EXPECT_FALSE(waiting.get());
    control_.ready_word(ProcId(1)).store(1);
    EXPECT_TRUE(own.await({ProcId(1)}, 1, own.moves()));  // what is there counts nevertheless
}

}  // namespace
}  // namespace sft
