// Live state made of plain memory, for the tests of images and stores.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backup/image.hpp"
#include "symheap/segment.hpp"
#include "tests/result.hpp"

namespace sft {

inline constexpr PeId kMe{1};

struct LiveMemory {
    static constexpr std::size_t kGlobalsBytes = 7 * kBlockBytes + 4096;

    explicit LiveMemory(std::size_t heap_blocks) : library(1000) {
        EXPECT_TRUE(good(heap.create("live", heap_blocks * kBlockBytes)));
        EXPECT_TRUE(good(heap.map_at(nullptr)));
        state.heap = {reinterpret_cast<std::uintptr_t>(heap.address()), heap.bytes()};
        state.heap_fd = heap.fd();
        EXPECT_TRUE(good(globals_file.create("live", kGlobalsBytes)));
        EXPECT_TRUE(good(globals_file.map_at(nullptr)));
        globals = {globals_file.address(), kGlobalsBytes};
        state.globals_fd = globals_file.fd();
        state.globals = {reinterpret_cast<std::uintptr_t>(globals.data()), globals.size()};
        state.library = {reinterpret_cast<std::uintptr_t>(library.data()), library.size()};
        state.excluded = &excluded;
        // A hole of left-out bytes that begins and ends inside blocks.
        state.saved = {{100, kBlockBytes},
                       {kBlockBytes + 500, 2 * kBlockBytes},
                       {3 * kBlockBytes + 600, 100},
                       {3 * kBlockBytes + 900, globals.size() - 3 * kBlockBytes - 900}};
    }

    [[nodiscard]] bool is_saved(std::size_t offset) const {
        for (const ByteExtent& extent : state.saved) {
            if (offset >= extent.offset && offset < extent.offset + extent.bytes) {
                return true;
            }
        }
        return false;
    }

    // Writes some random bytes all over.
    void scribble(std::mt19937& random, int places) {
        for (int i = 0; i < places; ++i) {
            heap.address()[random() % heap.bytes()] = std::byte(random());
            globals[random() % globals.size()] = std::byte(random());
            library[random() % library.size()] = std::byte(random());
        }
    }

    [[nodiscard]] std::vector<std::byte> heap_bytes() const { return {heap.address(), heap.address() + heap.bytes()}; }
    [[nodiscard]] std::vector<std::byte> globals_bytes() const { return {globals.begin(), globals.end()}; }
    // Makes some blocks holes again, as nobody but a rollback does.
    void punch(std::mt19937& random) {
        for (const Segment* const file : {&heap, &globals_file}) {
            const std::size_t blocks = file->bytes() / kBlockBytes;
            const std::size_t first = random() % blocks;
            const std::size_t count = 1 + random() % (blocks - first);
            EXPECT_EQ(::fallocate(file->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(first * kBlockBytes), static_cast<off_t>(count * kBlockBytes)),
                      0);
        }
    }
    // Leaves some blocks out of versions, or takes them in again.
    void exclude_some(std::mt19937& random) {
        const std::size_t blocks = (heap.bytes() + globals.size()) / kBlockBytes;  // the last one of globals is none
        const std::size_t first = random() % blocks;
        const std::size_t end = first + 1 + random() % std::min<std::size_t>(blocks - first, 6);
        if (random() % 2 == 0) {
            excluded.remove(first, end);
        } else {
            EXPECT_TRUE(excluded.add(first, end));
        }
    }
    // Of heap and globals together.
    [[nodiscard]] std::size_t existing_bytes() const {
        std::size_t bytes = 0;
        for (const Segment* const file : {&heap, &globals_file}) {
            struct stat info {};
            EXPECT_EQ(::fstat(file->fd(), &info), 0);
            bytes += static_cast<std::size_t>(info.st_blocks) * 512;
        }
        return bytes;
    }

    Segment heap;
    Segment globals_file;
    std::span<std::byte> globals;
    std::vector<std::byte> library;
    LiveState state;
    Exclusions excluded;
};

// What a version has to bring back; zeros where it leaves something out.
struct State {
    explicit State(const LiveMemory& live) : heap(live.heap_bytes()), library(live.library) {
        std::vector<std::byte> all_globals = live.globals_bytes();
        live.excluded.each_run([&](std::size_t first, std::size_t end) {
            for (std::size_t byte = first * kBlockBytes; byte < end * kBlockBytes; ++byte) {
                (byte < heap.size() ? heap[byte] : all_globals[byte - heap.size()]) = std::byte(0);
            }
        });
        for (const ByteExtent& extent : live.state.saved) {
            const auto begin = all_globals.begin() + static_cast<std::ptrdiff_t>(extent.offset);
            globals.insert(globals.end(), begin, begin + static_cast<std::ptrdiff_t>(extent.bytes));
        }
    }
    bool operator==(const State&) const = default;

    std::vector<std::byte> heap;
    std::vector<std::byte> globals;
    std::vector<std::byte> library;
};

}  // namespace sft
