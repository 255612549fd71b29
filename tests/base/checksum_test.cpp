// Checksums are those of XXH3, and whoever makes one finds the vector registers as code for plain x86-64 needs them.
#include "base/checksum.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <array>
#include <cstring>

#include "tests/registers/upper_halves.h"

namespace {

constexpr std::array<std::size_t, 9> kLengths = {0, 1, 8, 24, 200, 241, 1024, 16384, 65536};

const std::array<unsigned char, 65536>& bytes() {
    static const auto kBytes = [] {
        std::array<unsigned char, 65536> made{};
        for (std::size_t i = 0; i < made.size(); ++i) {
            made[i] = static_cast<unsigned char>(i * i + (i >> 7));
        }
        return made;
    }();
    return kBytes;
}

TEST(Checksum, IsXxh3WhateverTheProcessor) {
    for (const std::size_t length : kLengths) {
        EXPECT_EQ(sft::checksum(bytes().data(), length), XXH3_64bits(bytes().data(), length)) << length;
        EXPECT_EQ(sft::checksum(bytes().data(), length, 5), XXH3_64bits_withSeed(bytes().data(), length, 5)) << length;
    }
}

// Libxxhash 0.8.1 leaves them in use for everything longer than 240 bytes. Every instruction of the application was up
// to 4 times slower from the first checkpoint on.
TEST(Checksum, LeavesNoUpperHalfInUse) {
    if (const char* problem = upper_halves_problem()) {
        GTEST_SKIP() << problem;
    }
    for (const std::size_t length : kLengths) {
        clear_upper_halves();
        const std::uint64_t sum = sft::checksum(bytes().data(), length);
        const std::uint32_t in_use = upper_halves_in_use();
        EXPECT_EQ(in_use, 0) << length << " bytes, sum " << sum;
    }
}

}  // namespace
