// Writers that are held up, through two mappings of the same heap, as two processes have it.
#include "symheap/heap_guard.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "symheap/segment.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::size_t kChunk = GuardWords::kChunkBytes;
constexpr std::size_t kChunks = 40;
constexpr std::size_t kGuardedBytes = kChunks * kChunk - 4096;  // the last one is not whole

// PE 0 is this process, and PE 1 another one of the node.
class HeapGuardTest : public ::testing::Test {
protected:
    void SetUp() override {
        for (std::size_t pe = 0; pe < 2; ++pe) {
            ASSERT_TRUE(good(files[pe].create("heap", kGuardedBytes + GuardWords::bytes_for(kGuardedBytes))));
            ASSERT_TRUE(good(files[pe].map_at(nullptr)));
            heaps[pe] = files[pe].address();
            words[pe] = GuardWords(heaps[pe] + kGuardedBytes, kGuardedBytes);
        }
        entries[0].heap_difference.store(0);
        entries[1].heap_difference.store(heaps[1] - heaps[0]);
        ASSERT_TRUE(good(guard.open({.heap = {reinterpret_cast<std::uintptr_t>(heaps[0]), kGuardedBytes},
                                     .words_offset = kGuardedBytes,
                                     .entries = entries.data(),
                                     .n_pes = 2,
                                     .me = PeId(0)})));
    }

    // Whether a write comes back before the chunk is let go of.
    [[nodiscard]] bool is_held_up(std::size_t pe, std::size_t offset) {
        std::atomic<bool> is_written{false};
        std::thread writer([&] {
            heaps[pe][offset] = std::byte(1);
            is_written.store(true);
        });
        int n_held_up = 0;
        while (!is_written.load()) {
            words[pe].take_wanted([&](std::size_t chunk) {
                EXPECT_EQ(chunk, offset / kChunk);
                EXPECT_EQ(heaps[pe][offset], std::byte(0)) << "written before it was saved";
                words[pe].let_go(chunk);
                ++n_held_up;
            });
            std::this_thread::yield();
        }
        writer.join();
        EXPECT_EQ(heaps[pe][offset], std::byte(1));
        EXPECT_LE(n_held_up, 1);
        return n_held_up != 0;
    }

    std::array<Segment, 2> files;
    std::array<std::byte*, 2> heaps{};
    std::array<GuardWords, 2> words;
    std::array<PeerEntry, 2> entries;
    HeapGuard guard;
};

TEST_F(HeapGuardTest, HoldsUpWhoWritesToWhatIsHeld) {
    for (std::size_t pe = 0; pe < 2; ++pe) {
        for (const std::size_t chunk : {0UL, 3UL, 30UL, kChunks - 1}) {
            words[pe].hold(chunk);
        }
    }
    ASSERT_TRUE(guard.raise());
    for (std::size_t pe = 0; pe < 2; ++pe) {
        EXPECT_TRUE(is_held_up(pe, 0));
        EXPECT_FALSE(is_held_up(pe, 17)) << "it has been let go of";
        EXPECT_TRUE(is_held_up(pe, 3 * kChunk + kChunk - 1));
        EXPECT_FALSE(is_held_up(pe, 2 * kChunk)) << "between two that are held";
        EXPECT_FALSE(is_held_up(pe, 20 * kChunk)) << "far from any";
        EXPECT_TRUE(is_held_up(pe, kGuardedBytes - 1));
        EXPECT_FALSE(is_held_up(pe, 30 * kChunk - 1));
        EXPECT_TRUE(is_held_up(pe, 30 * kChunk));
    }
}

TEST_F(HeapGuardTest, NothingIsHeldUpBeforeAndBehind) {
    words[0].hold(1);
    EXPECT_FALSE(is_held_up(0, kChunk)) << "not raised";
    ASSERT_TRUE(guard.raise());
    words[0].let_go(1);
    guard.lower();
    words[0].hold(1);
    EXPECT_FALSE(is_held_up(0, kChunk + 1)) << "lowered";
    words[0].reset();
    EXPECT_FALSE(words[0].is_held(1));
}

TEST_F(HeapGuardTest, AllAreReleasedByOneThatIsLetGo) {
    words[1].hold(5);
    ASSERT_TRUE(guard.raise());
    std::array<std::thread, 4> writers;
    for (std::size_t i = 0; i < writers.size(); ++i) {
        writers[i] = std::thread([&, i] { heaps[1][5 * kChunk + i] = std::byte(1); });
    }
    while (!words[1].is_any_wanted()) {
        std::this_thread::yield();
    }
    words[1].let_go(5);
    for (std::size_t i = 0; i < writers.size(); ++i) {
        writers[i].join();
        EXPECT_EQ(heaps[1][5 * kChunk + i], std::byte(1));
    }
}

// Its thread that saves is gone with it.
TEST_F(HeapGuardTest, NobodyWaitsForTheDead) {
    words[1].hold(2);
    ASSERT_TRUE(guard.raise());
    std::thread writer([&] { heaps[1][2 * kChunk] = std::byte(1); });
    while (!words[1].is_any_wanted()) {
        std::this_thread::yield();
    }
    entries[1].heap_difference.store(kUnreachable);
    writer.join();
    words[0].hold(2);
    words[0].let_go(2);
    guard.await_all();
}

// One of the heaps cannot be guarded: no other is, and who is about to write waits for all.
TEST_F(HeapGuardTest, WhereTheSystemRefusesAllAreWaitedFor) {
    words[0].hold(3);
    words[1].hold(5);
    ASSERT_EQ(::munmap(heaps[1] + 5 * kChunk, 4096), 0);
    EXPECT_FALSE(guard.raise());
    heaps[0][3 * kChunk] = std::byte(1);
    std::atomic<bool> has_waited{false};
    std::thread waiting([&] {
        guard.await_all();
        has_waited.store(true);
    });
    for (std::size_t pe = 0; pe < 2; ++pe) {
        while (!words[pe].is_any_wanted()) {
            std::this_thread::yield();
        }
        EXPECT_FALSE(has_waited.load());
        words[pe].let_go(pe == 0 ? 3 : 5);
    }
    waiting.join();
}

// Its limit: the kernel asks nobody.
TEST_F(HeapGuardTest, SystemCallsCannotWriteThere) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    ASSERT_EQ(::write(ends[1], "ab", 2), 2);
    words[0].hold(1);
    ASSERT_TRUE(guard.raise());
    EXPECT_EQ(::read(ends[0], heaps[0] + kChunk, 1), -1);
    EXPECT_EQ(errno, EFAULT);
    words[0].let_go(1);
    guard.lower();
    EXPECT_EQ(::read(ends[0], heaps[0] + kChunk, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_F(HeapGuardTest, OneProcessRefusesForAll) {
    EXPECT_TRUE(guard.has_signal());
    EXPECT_FALSE(guard.is_refused());
    words[1].refuse();
    EXPECT_TRUE(guard.is_refused());
    words[1].reset();
    EXPECT_TRUE(guard.is_refused()) << "for good";
}

// Not null, of which sanitizers have an opinion.
volatile int* nowhere() {
    return static_cast<volatile int*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

int n_heard = 0;
void hear(int /*signal*/) {
    ++n_heard;
    ::_exit(n_heard == 1 ? 7 : 8);
}

// How a child ends that does so.
template <class Do>
int end_of(Do&& act) {
    const pid_t child = ::fork();
    if (child == 0) {
        act();
        ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
}

TEST_F(HeapGuardTest, WhatIsNoneOfItsOwnIsAsWithoutIt) {
    words[0].hold(0);
    ASSERT_TRUE(guard.raise());
    const auto dies = [](int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV; };
    EXPECT_TRUE(dies(end_of([] { *nowhere() = 1; })));
    EXPECT_TRUE(dies(end_of([] { ::raise(SIGSEGV); })));
    // A jump into the heap: memory that cannot be executed, and what is written to it can be tried again for ever.
    EXPECT_TRUE(dies(end_of([this] {
        void (*jump)() = nullptr;
        std::memcpy(&jump, &heaps[0], sizeof jump);
        jump();
    })));
    EXPECT_TRUE(dies(end_of([] {
        void* const locked = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *static_cast<volatile int*>(locked) = 1;
    })));
}

TEST_F(HeapGuardTest, TheHandlerBeforeItHearsOfTheRest) {
    guard.close();
    const int status = end_of([this] {
        ::signal(SIGSEGV, hear);
        const bool is_open = guard
                                 .open({.heap = {reinterpret_cast<std::uintptr_t>(heaps[0]), kGuardedBytes},
                                        .words_offset = kGuardedBytes,
                                        .entries = entries.data(),
                                        .n_pes = 2,
                                        .me = PeId(0)})
                                 .has_value();
        if (is_open && guard.has_signal()) {
            *nowhere() = 1;
        }
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST_F(HeapGuardTest, SeesThatTheSignalIsTaken) {
    struct sigaction before = {};
    struct sigaction other = {};
    other.sa_handler = hear;
    ASSERT_EQ(::sigaction(SIGSEGV, &other, &before), 0);
    EXPECT_FALSE(guard.has_signal());
    ASSERT_EQ(::sigaction(SIGSEGV, &before, nullptr), 0);
    EXPECT_TRUE(guard.has_signal());
    guard.close();
    EXPECT_FALSE(guard.has_signal());
}

}  // namespace
}  // namespace sft
