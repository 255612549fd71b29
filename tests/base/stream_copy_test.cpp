// Copies past the caches: both places get the same bytes, and nothing around them changes.
#include "base/stream_copy.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace sft {
namespace {

struct alignas(kStreamUnit) Unit {
    std::byte bytes[kStreamUnit];
};

TEST(StreamCopy, BothPlacesGetTheBytes) {
    std::mt19937 random(3);
    for (std::size_t units = 1; units <= 70; ++units) {
        for (const unsigned shift : {0U, 1U, 8U, 63U}) {  // of the source
            std::vector<Unit> from(units + 1);
            std::vector<Unit> to(units + 1);
            std::vector<Unit> kept(units + 1);
            for (Unit& unit : from) {
                for (std::byte& byte : unit.bytes) {
                    byte = std::byte(random() & 0xffU);
                }
            }
            std::memset(static_cast<void*>(to.data()), 0x5a, to.size() * sizeof(Unit));
            std::memset(static_cast<void*>(kept.data()), 0x5a, kept.size() * sizeof(Unit));
            const std::byte* const source = from.front().bytes + shift;
            const std::size_t bytes = units * kStreamUnit;
            stream_copy(to.data(), kept.data(), source, bytes);
            stream_fence();
            EXPECT_EQ(std::memcmp(to.data(), source, bytes), 0) << units << " units, shift " << shift;
            EXPECT_EQ(std::memcmp(kept.data(), source, bytes), 0) << units << " units, shift " << shift;
            std::vector<Unit> alone(units + 1);
            std::memset(static_cast<void*>(alone.data()), 0x5a, alone.size() * sizeof(Unit));
            stream_copy(alone.data(), source, bytes);
            stream_fence();
            EXPECT_EQ(std::memcmp(alone.data(), to.data(), alone.size() * sizeof(Unit)), 0);
            EXPECT_EQ(to.back().bytes[0], std::byte{0x5a});
            EXPECT_EQ(kept.back().bytes[0], std::byte{0x5a});
        }
    }
}

TEST(StreamCopy, AnyAddressMayBeAskedFor) {
    ask_for(nullptr, 4096);
    ask_for(reinterpret_cast<const void*>(~std::uintptr_t{0} - 8192), 4096);
}

}  // namespace
}  // namespace sft
