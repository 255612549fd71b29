#include "transport/shm/status.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stop_token>
#include <thread>

#include "base/clock.hpp"
#include "transport/shm/control.hpp"

namespace sft {
namespace {

// Every word the same, so that a mixture of two shows.
ProcessStatus filled(std::uint64_t number) {
    std::array<std::uint64_t, sizeof(ProcessStatus) / sizeof number> words{};
    words.fill(number);
    return std::bit_cast<ProcessStatus>(words);
}

TEST(StatusBlock, NothingIsReadBeforeTheFirstWriting) {
    const auto block = std::make_unique<StatusBlock>();
    ProcessStatus status;
    EXPECT_FALSE(block->read(status));
}

TEST(StatusBlock, TheLastWritingIsRead) {
    const auto block = std::make_unique<StatusBlock>();
    for (std::uint64_t number = 1; number < 4; ++number) {
        block->write(filled(number));
        ProcessStatus status;
        ASSERT_TRUE(block->read(status));
        EXPECT_EQ(status.index, number);
    }
}

TEST(StatusBlock, WhatIsReadIsNeverAMixture) {
    const auto block = std::make_unique<StatusBlock>();
    block->write(filled(1));
    const std::jthread writer([&](const std::stop_token& stop) {
        for (std::uint64_t number = 2; !stop.stop_requested(); ++number) {
            block->write(filled(number));
        }
    });
    // Long enough for a reader that shares its core with the writer to be interrupted in the middle.
    const std::int64_t end_ns = now_ns() + 1'500'000'000;
    std::uint64_t n_read = 0;
    std::uint64_t last = 0;
    while (now_ns() < end_ns) {
        ProcessStatus status;
        if (!block->read(status)) {
            continue;
        }
        ++n_read;
        const ProcessStatus whole = filled(status.index);
        ASSERT_EQ(std::memcmp(&status, &whole, sizeof status), 0) << "in reading " << n_read;
        ASSERT_GE(status.index, last);
        last = status.index;
    }
    EXPECT_GT(n_read, 1000U);
}

// A writer that died in the middle has written a part of the next status and no count.
TEST(StatusBlock, AWriterThatDiesInTheMiddleLeavesTheLastWhole) {
    const auto block = std::make_unique<StatusBlock>();
    block->write(filled(1));
    block->write(filled(2));
    block->write(filled(3));
    // Number 4 goes where number 2 is: the place right behind the count.
    alignas(StatusBlock) std::byte image[sizeof(StatusBlock)];
    std::memcpy(image, static_cast<const void*>(block.get()), sizeof image);
    std::memset(image + sizeof(std::uint64_t), 0xee, sizeof(ProcessStatus) / 2);
    const auto* torn = reinterpret_cast<const StatusBlock*>(image);
    ProcessStatus status;
    ASSERT_TRUE(torn->read(status));
    EXPECT_EQ(status.index, 3U);
    EXPECT_EQ(status.blocks_repaired, 3U);
}

TEST(ProcessSlot, TheFirstReasonThatSaysSomethingStays) {
    const auto slot = std::make_unique<ProcessSlot>();
    const auto reason = [&] { return FailureReason::from_status(static_cast<std::int32_t>(slot->death.load())); };
    slot->note_death({FailureKind::died, 0}, 100);
    EXPECT_EQ(reason(), (FailureReason{FailureKind::died, 0}));
    slot->note_death({FailureKind::signal, 9}, 200);
    EXPECT_EQ(reason(), (FailureReason{FailureKind::signal, 9}));
    slot->note_death({FailureKind::died, 0}, 300);
    slot->note_death({FailureKind::exited, 3}, 300);
    EXPECT_EQ(reason(), (FailureReason{FailureKind::signal, 9}));
    EXPECT_EQ(slot->death_seen_ns.load(), 100);
}

}  // namespace
}  // namespace sft
