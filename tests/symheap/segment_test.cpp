// Windows keep their address when the memory behind them changes, and dead memory stays harmless.
#include "symheap/segment.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

TEST(Window, ShowsAnotherSegmentAtTheSameAddress) {
    Segment first;
    Segment second;
    ASSERT_TRUE(good(first.create("first", kBytes)));
    ASSERT_TRUE(good(first.map_at(nullptr)));
    ASSERT_TRUE(good(second.create("second", kBytes)));
    ASSERT_TRUE(good(second.map_at(nullptr)));
    Window window;
    ASSERT_TRUE(good(window.reserve(kBytes)));
    ASSERT_TRUE(good(window.show(first.fd(), 0)));
    std::byte* const pointer = window.address() + 100;
    *pointer = std::byte{1};
    EXPECT_EQ(first.address()[100], std::byte{1});
    first.release();
    *pointer = std::byte{2};  // its process is gone: the store goes nowhere, and harms nobody
    ASSERT_TRUE(good(window.show(second.fd(), 0)));
    *pointer = std::byte{3};
    EXPECT_EQ(second.address()[100], std::byte{3});
}

TEST(Segment, ATakenAddressIsAnError) {
    std::string error;
    Segment first;
    Segment second;
    ASSERT_TRUE(good(first.create("first", kBytes)));
    ASSERT_TRUE(good(first.map_at(nullptr)));
    std::memset(first.address(), 5, kBytes);
    ASSERT_TRUE(good(second.create("second", kBytes)));
    error = line_of(second.map_at(first.address()));
    EXPECT_NE(error, "");
    EXPECT_NE(error.find("cannot map"), std::string::npos) << error;
    EXPECT_EQ(first.address()[0], std::byte{5}) << "what was there is untouched";
}

}  // namespace
}  // namespace sft
