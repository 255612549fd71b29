// What processes of a node have decided, read by others when they are dead.
#include "recovery/value_records.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace sft {
namespace {

constexpr std::int32_t kSlots = 4;
constexpr std::size_t kBegin = 8192;  // behind other things

class ValueRecordsTest : public testing::Test {
protected:
    ValueRecordsTest() {
        fd_ = ::memfd_create("records", MFD_CLOEXEC);
        EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes())), 0);
        for (std::int32_t process = 0; process < kSlots; ++process) {
            EXPECT_TRUE(records_[static_cast<std::size_t>(process)].open(fd_, kBegin, kSlots, ProcId(process)));
        }
    }
    ~ValueRecordsTest() override { ::close(fd_); }

    static std::size_t bytes() { return kBegin + ValueRecords::bytes_for(kSlots); }
    static JobState value(std::uint64_t index) {
        JobState state;
        state.index = index;
        state.version = Version(static_cast<std::uint32_t>(index / 3));
        state.deaths = {{ProcId(1), {FailureKind::signal, 9}, true}};
        return state;
    }
    static std::vector<Death> dead(std::initializer_list<int> processes) {
        std::vector<Death> deaths;
        for (const int process : processes) {
            deaths.push_back({ProcId(process), {FailureKind::signal, 9}, true});
        }
        return deaths;
    }
    // A byte somewhere in what `process` has written, in either place.
    void damage(int process, std::size_t place) {
        const std::size_t of_process = ValueRecords::bytes_for(kSlots) / kSlots;
        const auto at =
            static_cast<off_t>(kBegin + static_cast<std::size_t>(process) * of_process + place * (of_process / 2) + 40);
        std::byte byte{};
        ASSERT_EQ(::pread(fd_, &byte, 1, at), 1);
        byte ^= std::byte{1};
        ASSERT_EQ(::pwrite(fd_, &byte, 1, at), 1);
    }

    int fd_ = -1;
    ValueRecords records_[kSlots];
};

TEST_F(ValueRecordsTest, NobodyHasWrittenAnything) {
    EXPECT_FALSE(records_[3].latest(dead({0, 1, 2})));
    EXPECT_FALSE(ValueRecords::latest(fd_, kBegin, kSlots));
    EXPECT_FALSE(ValueRecords().is_open());
}

TEST_F(ValueRecordsTest, TheHighestOfTheDeadCounts) {
    for (std::uint64_t index = 1; index <= 5; ++index) {
        records_[0].write(value(index));
    }
    records_[1].write(value(6));
    records_[2].write(value(9));
    EXPECT_EQ(records_[3].latest(dead({0})), value(5));
    EXPECT_EQ(records_[3].latest(dead({0, 1})), value(6));
    EXPECT_EQ(records_[3].latest(dead({0, 1, 2})), value(9));
    EXPECT_EQ(ValueRecords::latest(fd_, kBegin, kSlots), value(9)) << "as who looks from outside sees it";
    damage(2, 0);
    EXPECT_EQ(ValueRecords::latest(fd_, kBegin, kSlots), value(6)) << "who is writing has the one before, if any";
}

// Whoever dies while it writes has done nothing because of that value.
TEST_F(ValueRecordsTest, OneThatIsTornLeavesTheOneBefore) {
    records_[0].write(value(1));
    records_[0].write(value(2));
    records_[0].write(value(3));  // over the first one
    damage(0, 0);
    EXPECT_EQ(records_[3].latest(dead({0})), value(2));
    damage(0, 1);
    EXPECT_FALSE(records_[3].latest(dead({0})));
    records_[0].write(value(4));
    records_[0].write(value(5));
    EXPECT_EQ(records_[3].latest(dead({0})), value(5));
}

TEST_F(ValueRecordsTest, WhatIsInFrontStays) {
    std::vector<std::byte> before(kBegin);
    ASSERT_EQ(::pread(fd_, before.data(), kBegin, 0), static_cast<ssize_t>(kBegin));
    records_[0].write(value(1));
    std::vector<std::byte> after(kBegin);
    ASSERT_EQ(::pread(fd_, after.data(), kBegin, 0), static_cast<ssize_t>(kBegin));
    EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace sft
