// Live state made of plain memory, for the tests of images and stores.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backup/image.hpp"
#include "symheap/segment.hpp"
#include "tests/result.hpp"

namespace sft {

struct LiveMemory {
    explicit LiveMemory(std::size_t heap_blocks) : globals(3 * kBlockBytes + 4096), library(1000) {
        EXPECT_TRUE(good(heap.create("live", heap_blocks * kBlockBytes)));
        EXPECT_TRUE(good(heap.map_at(nullptr)));
        state.heap = {reinterpret_cast<std::uintptr_t>(heap.address()), heap.bytes()};
        state.heap_fd = heap.fd();
        state.globals = {reinterpret_cast<std::uintptr_t>(globals.data()), globals.size()};
        state.library = {reinterpret_cast<std::uintptr_t>(library.data()), library.size()};
        // A hole of left-out bytes that begins and ends inside blocks.
        state.saved = {{100, kBlockBytes}, {kBlockBytes + 500, globals.size() - kBlockBytes - 500}};
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

    Segment heap;
    std::vector<std::byte> globals;
    std::vector<std::byte> library;
    LiveState state;
};

// What a version has to bring back.
struct State {
    explicit State(const LiveMemory& live) : heap(live.heap_bytes()), library(live.library) {
        for (const ByteExtent& extent : live.state.saved) {
            const auto begin = live.globals.begin() + static_cast<std::ptrdiff_t>(extent.offset);
            globals.insert(globals.end(), begin, begin + static_cast<std::ptrdiff_t>(extent.bytes));
        }
    }
    bool operator==(const State&) const = default;

    std::vector<std::byte> heap;
    std::vector<std::byte> globals;
    std::vector<std::byte> library;
};

}  // namespace sft
