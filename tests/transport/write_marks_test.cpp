// Marks of writes: every marked word is found, once, and nothing else; also while others go on writing.
#include "transport/shm/write_marks.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace sft {
namespace {

class WriteMarksTest : public testing::Test {
protected:
    static constexpr std::size_t kHeap = (5 << 20) + 4096;
    static constexpr std::size_t kGlobals = 3 * 4096;

    WriteMarksTest() {
        heap_ = map(kHeap);
        globals_ = map(kGlobals);
        const std::size_t bytes = WriteMarks::bytes_for(kHeap, kGlobals);
        marks_ = WriteMarks(reinterpret_cast<std::byte*>(map(bytes)), {heap_, kHeap}, {globals_, kGlobals});
    }
    static std::uintptr_t map(std::size_t bytes) {
        void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return reinterpret_cast<std::uintptr_t>(place);
    }
    void mark(std::uintptr_t address, std::size_t bytes) const {
        marks_.mark(reinterpret_cast<const void*>(address), bytes);
    }
    // The words that are found.
    [[nodiscard]] std::set<std::uintptr_t> collect() const {
        std::set<std::uintptr_t> words;
        marks_.collect([&](std::uintptr_t address, std::size_t bytes) {
            EXPECT_NE(bytes, 0U);
            for (std::size_t at = 0; at < bytes; at += 8) {
                EXPECT_TRUE(words.insert(address + at).second);
            }
        });
        return words;
    }

    std::uintptr_t heap_ = 0;
    std::uintptr_t globals_ = 0;
    WriteMarks marks_;
};

TEST_F(WriteMarksTest, FindsWhatWasMarkedAndNothingElse) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 400; ++round) {
        std::set<std::uintptr_t> expected;
        for (int i = 0; i < 5; ++i) {
            const bool in_globals = random() % 4 == 0;
            const std::uintptr_t begin = in_globals ? globals_ : heap_;
            const std::size_t size = in_globals ? kGlobals : kHeap;
            const std::size_t offset = random() % size;
            const std::size_t most = random() % 3 == 0 ? 3 << 20 : (random() % 2 == 0 ? 20000 : 16);
            const std::size_t bytes = std::min<std::size_t>(1 + random() % most, size - offset);
            mark(begin + offset, bytes);
            for (std::uintptr_t word = (begin + offset) / 8 * 8; word < begin + offset + bytes; word += 8) {
                expected.insert(word);
            }
        }
        EXPECT_TRUE(marks_.has_any());
        ASSERT_EQ(collect(), expected) << round;
        EXPECT_TRUE(collect().empty());
    }
}

TEST_F(WriteMarksTest, WhatIsNotSymmetricIsNotMarked) {
    int local = 0;
    marks_.mark(&local, sizeof local);
    mark(heap_, 0);
    EXPECT_TRUE(collect().empty());
}

// The property that a substitute's start-up depends on: when the writer has gone on to its next value, which it does
// when it has been told that this one was seen, the owner has found the value before. Four writers, words beside each
// other.
// As a program may do by mistake: behind the heap lies what is not marked.
TEST_F(WriteMarksTest, WhatLeavesTheMemoryIsMarkedUpToItsEnd) {
    mark(heap_ + kHeap - 8, 4 << 20);
    EXPECT_EQ(collect(), (std::set<std::uintptr_t>{heap_ + kHeap - 8}));
    mark(globals_ + kGlobals - 16, 8 << 20);
    EXPECT_EQ(collect(), (std::set<std::uintptr_t>{globals_ + kGlobals - 16, globals_ + kGlobals - 8}));
}

TEST_F(WriteMarksTest, NoWriteIsMissedWhileOthersWrite) {
    constexpr std::uint64_t kRounds = 3000;
    constexpr int kWriters = 4;
    std::atomic<std::uint64_t> seen[kWriters] = {};
    const auto word_of = [&](int writer) {
        return reinterpret_cast<std::atomic<std::uint64_t>*>(heap_ + 4096 - 16 + static_cast<std::size_t>(writer) * 8);
    };
    std::vector<std::thread> writers;
    for (int w = 0; w < kWriters; ++w) {
        writers.emplace_back([&, w] {
            for (std::uint64_t value = 1; value <= kRounds; ++value) {
                word_of(w)->store(value, std::memory_order_relaxed);
                marks_.mark(word_of(w), 8);
                while (seen[w].load(std::memory_order_relaxed) < value) {
                    std::this_thread::yield();
                }
            }
        });
    }
    std::uint64_t found[kWriters] = {};
    for (bool is_done = false; !is_done;) {
        marks_.collect([&](std::uintptr_t address, std::size_t bytes) {
            for (std::size_t at = 0; at < bytes; at += 8) {
                const auto w = static_cast<int>((address + at - (heap_ + 4096 - 16)) / 8);
                found[w] = word_of(w)->load(std::memory_order_relaxed);
            }
        });
        is_done = true;
        for (int w = 0; w < kWriters; ++w) {
            seen[w].store(found[w], std::memory_order_relaxed);
            is_done = is_done && found[w] == kRounds;
        }
        std::this_thread::yield();
    }
    for (std::thread& writer : writers) {
        writer.join();  // a mark that was missed makes its writer, and this test, wait for ever
    }
}

TEST_F(WriteMarksTest, ObjectsWithPointersToThem) {
    marks_.expose(reinterpret_cast<const void*>(heap_), 100);
    marks_.expose(reinterpret_cast<const void*>(heap_), 100);
    ASSERT_EQ(marks_.n_exposed(), 1U);
    EXPECT_EQ(marks_.exposed(0).address, heap_);
    EXPECT_EQ(marks_.exposed(0).bytes, 100U);
    EXPECT_FALSE(marks_.is_exposed_unseen());
    for (std::size_t i = 1; i <= WriteMarks::kExposedMax; ++i) {
        marks_.expose(reinterpret_cast<const void*>(heap_ + 4096 * i), 8);
    }
    EXPECT_EQ(marks_.n_exposed(), WriteMarks::kExposedMax);
    EXPECT_TRUE(marks_.is_exposed_unseen());
}

}  // namespace
}  // namespace sft
