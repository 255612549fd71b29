// Windows keep their address when the memory behind them changes, and dead memory stays harmless.
#include "symheap/segment.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace sft {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

TEST(Window, ShowsAnotherSegmentAtTheSameAddress) {
    std::string error;
    Segment first;
    Segment second;
    ASSERT_TRUE(first.create("first", kBytes, error) && first.map_at(nullptr, error)) << error;
    ASSERT_TRUE(second.create("second", kBytes, error) && second.map_at(nullptr, error)) << error;
    Window window;
    ASSERT_TRUE(window.reserve(kBytes, error)) << error;
    ASSERT_TRUE(window.show(first.fd(), 0, error)) << error;
    std::byte* const pointer = window.address() + 100;
    *pointer = std::byte{1};
    EXPECT_EQ(first.address()[100], std::byte{1});
    first.release();
    *pointer = std::byte{2};  // its process is gone: the store goes nowhere, and harms nobody
    ASSERT_TRUE(window.show(second.fd(), 0, error)) << error;
    *pointer = std::byte{3};
    EXPECT_EQ(second.address()[100], std::byte{3});
}

TEST(Segment, ATakenAddressIsAnError) {
    std::string error;
    Segment first;
    Segment second;
    ASSERT_TRUE(first.create("first", kBytes, error) && first.map_at(nullptr, error)) << error;
    std::memset(first.address(), 5, kBytes);
    ASSERT_TRUE(second.create("second", kBytes, error)) << error;
    EXPECT_FALSE(second.map_at(first.address(), error));
    EXPECT_NE(error.find("cannot map"), std::string::npos) << error;
    EXPECT_EQ(first.address()[0], std::byte{5}) << "what was there is untouched";
}

}  // namespace
}  // namespace sft
