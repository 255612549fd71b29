// Queues of writes: what is told is found, once and in order; also while the writer goes on, and when there is no room.
#include "transport/shm/write_queues.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sft {
namespace {

using Put = WriteQueues::Put;
using Told = std::pair<std::uintptr_t, std::size_t>;

class WriteQueuesTest : public testing::Test {
protected:
    static constexpr std::int32_t kPes = 3;
    static constexpr PeId kFrom{2};

    [[nodiscard]] Put put(std::uintptr_t address, std::size_t bytes) {
        return queues_.put(kFrom, 0, writing_, address, bytes);
    }
    [[nodiscard]] std::vector<Told> take() {
        std::vector<Told> told;
        queues_.take(kFrom, reading_,
                     [&](std::uintptr_t address, std::size_t bytes) { told.emplace_back(address, bytes); });
        return told;
    }

    std::vector<WriteQueues::Queue> memory_ = std::vector<WriteQueues::Queue>(kPes);
    WriteQueues queues_{reinterpret_cast<std::byte*>(memory_.data()), kPes};
    WriteQueues::Writing writing_;
    WriteQueues::Reading reading_;
};

TEST_F(WriteQueuesTest, WhatIsToldIsFoundOnceAndInOrder) {
    std::mt19937_64 random(3);
    for (int round = 0; round < 3000; ++round) {
        std::vector<Told> told;
        for (std::uint64_t i = random() % (WriteQueues::kEntries * 3 / 4); i > 0; --i) {  // room that is said
            told.emplace_back(random(), random() % 100'000'000'000);
            ASSERT_EQ(put(told.back().first, told.back().second), Put::queued);
        }
        EXPECT_EQ(queues_.has_any(kFrom, reading_), !told.empty());
        ASSERT_EQ(take(), told) << round;
        ASSERT_FALSE(queues_.has_any(kFrom, reading_));
    }
    EXPECT_FALSE(queues_.has_any(PeId(0), {}));
}

TEST_F(WriteQueuesTest, WhatDoesNotFitIsRefusedUntilThereIsRoom) {
    for (std::uint64_t i = 0; i < WriteQueues::kEntries; ++i) {
        ASSERT_EQ(put(i, 8), Put::queued);
    }
    EXPECT_EQ(put(0, 8), Put::full);
    EXPECT_EQ(take().size(), WriteQueues::kEntries);
    EXPECT_EQ(put(0, std::size_t{1} << 40), Put::full) << "a length that an entry has no room for";
    EXPECT_EQ(put(4711, 8), Put::queued);
    EXPECT_EQ(take(), std::vector<Told>({{4711, 8}}));
}

TEST_F(WriteQueuesTest, WhatNobodyReadsNeedNotBeMarked) {
    queues_.stop_reading();
    for (std::uint64_t i = 0; i < WriteQueues::kEntries; ++i) {
        ASSERT_EQ(put(i, 8), Put::queued);
    }
    EXPECT_EQ(put(0, 8), Put::nobody_reads);
    EXPECT_EQ(put(0, 8), Put::nobody_reads);
}

TEST_F(WriteQueuesTest, ManyPesHaveNone) {
    EXPECT_EQ(WriteQueues(nullptr, WriteQueues::kWritersMax + 1).size(), 0);
    EXPECT_EQ(queues_.size(), kPes);
}

// As in write_marks_test.cpp: the writer goes on when the owner has found its value.
TEST_F(WriteQueuesTest, NoWriteIsMissedWhileOthersWrite) {
    constexpr std::uint64_t kRounds = 5000;
    std::atomic<std::uint64_t> value{0};
    std::atomic<std::uint64_t> seen{0};
    std::thread writer([&] {
        for (std::uint64_t next = 1; next <= kRounds; ++next) {
            value.store(next, std::memory_order_relaxed);
            EXPECT_NE(put(reinterpret_cast<std::uintptr_t>(&value), 8), Put::full);
            while (next % 7 == 0 && seen.load(std::memory_order_relaxed) < next) {
                std::this_thread::yield();
            }
        }
    });
    for (std::uint64_t found = 0; found < kRounds;) {
        queues_.take(kFrom, reading_, [&](std::uintptr_t address, std::size_t) {
            found = reinterpret_cast<std::atomic<std::uint64_t>*>(address)->load(std::memory_order_relaxed);
        });
        seen.store(found, std::memory_order_relaxed);
        std::this_thread::yield();
    }
    writer.join();
}

}  // namespace
}  // namespace sft
