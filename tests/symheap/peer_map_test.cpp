// PEs whose holders are "processes" of this one: what they would have in memory files of theirs lies in our own.
#include "symheap/peer_map.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>

#include "base/process_watch.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::size_t kBytes = 1 << 16;
constexpr std::int32_t kPes = 3;
constexpr std::int32_t kProcesses = 5;

class PeerMapTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(good(control_.create(kPes, kProcesses)));
        for (std::int32_t process = 0; process < kProcesses; ++process) {
            for (Segment* const segment : {&heaps_[process], &globals_[process]}) {
                ASSERT_TRUE(good(segment->create("peer-map-test", kBytes)));
                ASSERT_TRUE(good(segment->map_at(nullptr)));
            }
            ProcessSlot& slot = control_.slot(ProcId(process));
            slot.pid = ::getpid();
            slot.start_time = process_start_time(::getpid());
            slot.heap_fd = heaps_[process].fd();
            slot.globals_fd = globals_[process].fd();
            std::memset(heaps_[process].address(), 'a' + process, kBytes);
            std::memset(globals_[process].address(), 'A' + process, kBytes);
        }
        own_heap_ = {reinterpret_cast<std::uintptr_t>(heaps_[0].address()), kBytes};
        own_globals_ = {reinterpret_cast<std::uintptr_t>(globals_[0].address()), kBytes};
        peers_.open({.control = &control_,
                     .n_pes = kPes,
                     .heap = own_heap_,
                     .heap_window_bytes = kBytes,
                     .globals = own_globals_,
                     .gate = &gate_,
                     .is_dead = [this](ProcId process) { return dead_.count(process.value()) != 0; },
                     .is_remote = [this](ProcId process) { return far_.count(process.value()) != 0; }});
        ASSERT_TRUE(peers_.reserve(PeId(0)));
    }

    [[nodiscard]] const void* own_heap_address() const { return heaps_[0].address(); }
    [[nodiscard]] std::intptr_t heap_difference(int pe) { return peers_.entries()[pe].heap_difference.load(); }
    // What this process reads at the symmetric address `offset` of that PE.
    [[nodiscard]] char heap_at(int pe, std::size_t offset) {
        return *reinterpret_cast<const char*>(static_cast<std::intptr_t>(own_heap_.begin + offset) +
                                              heap_difference(pe));
    }
    [[nodiscard]] char globals_at(int pe, std::size_t offset) {
        return *reinterpret_cast<const char*>(static_cast<std::intptr_t>(own_globals_.begin + offset) +
                                              peers_.entries()[pe].globals_difference.load());
    }
    [[nodiscard]] bool is_pending() { return gate_.pending.word.load() != 0; }

    ControlSegment control_;
    Segment heaps_[kProcesses];
    Segment globals_[kProcesses];
    AddressRange own_heap_;
    AddressRange own_globals_;
    FaultGate gate_;
    std::set<std::int32_t> dead_;
    std::set<std::int32_t> far_;
    PeerMap peers_;
};

TEST_F(PeerMapTest, OnlyTheOwnMemoryIsThereAtFirst) {
    EXPECT_EQ(heap_difference(0), 0);
    EXPECT_EQ(heap_difference(1), kUnreachable);
    EXPECT_EQ(peers_.shown(PeId(1)), kNoProc);
    peers_.retire_dead();
    EXPECT_FALSE(is_pending());
}

TEST_F(PeerMapTest, AHoldersMemoryIsSeenAndWritten) {
    ASSERT_TRUE(peers_.show(PeId(1), ProcId(1)));
    EXPECT_EQ(heap_at(1, 100), 'b');
    EXPECT_EQ(globals_at(1, kBytes - 1), 'B');
    heaps_[1].address()[7] = std::byte{'x'};
    EXPECT_EQ(heap_at(1, 7), 'x');
    EXPECT_EQ(peers_.shown(PeId(1)), ProcId(1));
}

TEST_F(PeerMapTest, ASubstitutesMemoryComesToTheSameAddress) {
    ASSERT_TRUE(peers_.show(PeId(2), ProcId(2)));
    const std::intptr_t before = heap_difference(2);
    dead_ = {2};
    peers_.retire_dead();
    EXPECT_TRUE(is_pending());
    EXPECT_EQ(heap_difference(2), kUnreachable);
    ASSERT_TRUE(peers_.show(PeId(2), ProcId(3)));
    EXPECT_EQ(heap_difference(2), before);
    EXPECT_EQ(heap_at(2, 0), 'd');
    peers_.end_fault();
    EXPECT_FALSE(is_pending());
}

TEST_F(PeerMapTest, WhoDiesWhileAFaultEndsLeavesItPending) {
    ASSERT_TRUE(peers_.show(PeId(1), ProcId(1)));
    dead_ = {1};
    peers_.end_fault();
    EXPECT_TRUE(is_pending());
    EXPECT_EQ(heap_difference(1), kUnreachable);
}

TEST_F(PeerMapTest, WhatWasShownBeforeStaysIfTheNextOneIsGone) {
    ASSERT_TRUE(peers_.show(PeId(1), ProcId(1)));
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(0);
    }
    ProcessSlot& slot = control_.slot(ProcId(4));
    slot.pid = child;
    slot.start_time = process_start_time(child);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const Result<> shown = peers_.show(PeId(1), ProcId(4));
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().failure, Failure::gone);
    EXPECT_EQ(peers_.shown(PeId(1)), ProcId(1));
    EXPECT_EQ(heap_at(1, 0), 'b');
}

TEST_F(PeerMapTest, ADescriptorThatIsNotThereIsNoDeath) {
    control_.slot(ProcId(1)).heap_fd = 1'000'000;
    const Result<> shown = peers_.show(PeId(1), ProcId(1));
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().failure, Failure::cannot_be_opened);
    EXPECT_NE(shown.error().line.find("heap of process 1"), std::string::npos) << shown.error().line;
}

TEST_F(PeerMapTest, AnotherNodeIsOnlyNamed) {
    far_ = {3};
    ASSERT_TRUE(peers_.show(PeId(1), ProcId(3)));
    EXPECT_EQ(heap_difference(1), kRemote);
    EXPECT_EQ(peers_.entries()[1].globals_difference.load(), kRemote);
    dead_ = {3};
    peers_.retire_dead();
    EXPECT_EQ(heap_difference(1), kUnreachable);
    ASSERT_TRUE(peers_.show(PeId(1), ProcId(4)));  // a substitute on this node
    EXPECT_EQ(heap_at(1, 0), 'e');
}

TEST_F(PeerMapTest, BeforeThereIsAnythingTheWindowReadsAsZeros) {
    auto* const window = static_cast<std::byte*>(peers_.before_joining(PeId(1), own_heap_address()));
    ASSERT_NE(window, nullptr);
    EXPECT_EQ(window[kBytes - 1], std::byte{0});
    window[3] = std::byte{1};
    ASSERT_TRUE(peers_.show(PeId(1), ProcId(1)));
    EXPECT_EQ(heap_at(1, 3), 'b');
}

// Heaps and globals of three PEs lie in one file; a substitute has the heap of the one before, and globals of its own.
class NodeFilePeerMapTest : public testing::Test {
protected:
    static constexpr std::size_t kGlobals = kPes * kBytes;  // where they begin

    void SetUp() override {
        ASSERT_TRUE(good(control_.create(kPes, kProcesses)));
        ASSERT_TRUE(good(file_.create("peer-map-test", 2 * kPes * kBytes)));
        ASSERT_TRUE(good(file_.map_at(nullptr)));
        ASSERT_TRUE(good(own_.create("peer-map-test", kBytes)));
        ASSERT_TRUE(good(own_.map_at(nullptr)));
        std::memset(own_.address(), 's', kBytes);
        for (std::int32_t process = 0; process < kProcesses; ++process) {
            ProcessSlot& slot = control_.slot(ProcId(process));
            slot.pid = ::getpid();
            slot.start_time = process_start_time(::getpid());
            slot.heap_fd = slot.globals_fd = own_.fd();
            if (process < kPes) {
                const std::size_t place = static_cast<std::size_t>(process) * kBytes;
                slot.heap_in_node_file.store(place + 1);
                slot.globals_in_node_file = kGlobals + place + 1;
                std::memset(file_.address() + place, 'a' + process, kBytes);
                std::memset(file_.address() + kGlobals + place, 'A' + process, kBytes);
            }
        }
        peers_.open({.control = &control_,
                     .n_pes = kPes,
                     .heap = {kOwnHeap, kBytes},
                     .heap_window_bytes = kBytes,
                     .globals = {kOwnGlobals, kBytes},
                     .node_file = file_.fd(),
                     .node_heaps = 0,
                     .node_globals = kGlobals,
                     .gate = &gate_,
                     .is_dead = [](ProcId) { return false; },
                     .is_remote = [](ProcId) { return false; }});
        ASSERT_TRUE(peers_.reserve(PeId(0)));
    }
    [[nodiscard]] std::string seen(int pe) {
        const auto at = [](std::uintptr_t own, std::intptr_t difference) {
            return *reinterpret_cast<const char*>(static_cast<std::intptr_t>(own + kBytes - 1) + difference);
        };
        const PeerEntry& entry = peers_.entries()[pe];
        return {at(kOwnHeap, entry.heap_difference.load()), at(kOwnGlobals, entry.globals_difference.load())};
    }

    static constexpr std::uintptr_t kOwnHeap = 1 << 20;  // nobody looks
    static constexpr std::uintptr_t kOwnGlobals = 2 << 20;
    ControlSegment control_;
    Segment file_;
    Segment own_;
    FaultGate gate_;
    PeerMap peers_;
};

TEST_F(NodeFilePeerMapTest, EachPesMemoryIsSeenAtItsPlace) {
    for (const int pe : {2, 1}) {
        ASSERT_TRUE(good(peers_.show(PeId(pe), ProcId(pe))));
    }
    EXPECT_EQ(seen(1), "bB");
    EXPECT_EQ(seen(2), "cC");
    EXPECT_EQ(peers_.shown(PeId(0)), kNoProc);
}

TEST_F(NodeFilePeerMapTest, ASubstituteHasTheHeapOfTheOneBeforeAndGlobalsOfItsOwn) {
    ASSERT_TRUE(good(peers_.show(PeId(1), ProcId(1))));
    ASSERT_TRUE(good(peers_.show(PeId(2), ProcId(2))));
    control_.slot(ProcId(3)).heap_in_node_file.store(kBytes + 1);
    ASSERT_TRUE(good(peers_.show(PeId(1), ProcId(3))));
    EXPECT_EQ(seen(1), "bs");
    EXPECT_EQ(seen(2), "cC");
}

// One that comes to a job sees it in any order: what it has been shown is not covered by what lies in the node's file.
TEST_F(NodeFilePeerMapTest, WhatWasShownOfAnotherFileStays) {
    ASSERT_TRUE(good(peers_.show(PeId(1), ProcId(3))));  // in the file with neither
    ASSERT_TRUE(good(peers_.show(PeId(2), ProcId(2))));
    EXPECT_EQ(seen(1), "ss");
    EXPECT_EQ(seen(2), "cC");
}

}  // namespace
}  // namespace sft
