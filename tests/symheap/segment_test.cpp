// Windows keep their address when the memory behind them changes, and dead memory stays harmless.
#include "symheap/segment.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "base/pages.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::size_t kSegmentBytes = 64 * 1024;

TEST(Window, ShowsAnotherSegmentAtTheSameAddress) {
    Segment first;
    Segment second;
    ASSERT_TRUE(good(first.create("first", kSegmentBytes)));
    ASSERT_TRUE(good(first.map_at(nullptr)));
    ASSERT_TRUE(good(second.create("second", kSegmentBytes)));
    ASSERT_TRUE(good(second.map_at(nullptr)));
    Window window;
    ASSERT_TRUE(good(window.reserve(kSegmentBytes)));
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
    ASSERT_TRUE(good(first.create("first", kSegmentBytes)));
    ASSERT_TRUE(good(first.map_at(nullptr)));
    std::memset(first.address(), 5, kSegmentBytes);
    ASSERT_TRUE(good(second.create("second", kSegmentBytes)));
    error = line_of(second.map_at(first.address()));
    EXPECT_NE(error, "");
    EXPECT_NE(error.find("cannot map"), std::string::npos) << error;
    EXPECT_EQ(first.address()[0], std::byte{5}) << "what was there is untouched";
}

// ---- into a file that others have, too ----

class SegmentThatMoves : public testing::Test {
protected:
    static constexpr std::size_t kPages = 16;
    static constexpr std::size_t kPageBytes = 4096;
    static constexpr std::size_t kPlace = 5 * kPageBytes;  // in the other file

    SegmentThatMoves() {
        EXPECT_TRUE(file_.create("file", kPlace + kPages * kPageBytes + kPageBytes));
        EXPECT_TRUE(file_.map_at(nullptr));
        EXPECT_TRUE(segment_.create("segment", kPages * kPageBytes));
        EXPECT_TRUE(segment_.map_at(nullptr));
        segment_.address()[3 * kPageBytes + 7] = std::byte{42};
    }
    [[nodiscard]] std::byte in_file(std::size_t offset) const { return file_.address()[kPlace + offset]; }
    [[nodiscard]] long blocks_of_file() const {
        struct stat info {};
        EXPECT_EQ(::fstat(file_.fd(), &info), 0);
        return info.st_blocks;
    }

    Segment file_;
    Segment segment_;
};

TEST_F(SegmentThatMoves, TakesItsContentsAlongAndKeepsAddressAndNumber) {
    const std::byte* const address = segment_.address();
    const int fd = segment_.fd();
    ASSERT_TRUE(segment_.move_to(file_.fd(), kPlace, Segment::Contents::copied));
    EXPECT_EQ(segment_.address(), address);
    EXPECT_EQ(segment_.fd(), fd);
    EXPECT_EQ(segment_.offset(), kPlace);
    EXPECT_EQ(address[3 * kPageBytes + 7], std::byte{42});
    EXPECT_EQ(in_file(3 * kPageBytes + 7), std::byte{42});
    EXPECT_EQ(blocks_of_file(), static_cast<long>(kPageBytes) / 512) << "holes stay holes";
    segment_.address()[0] = std::byte{1};
    EXPECT_EQ(in_file(0), std::byte{1});
}

TEST_F(SegmentThatMoves, OrFindsWhatIsThere) {
    file_.address()[kPlace + 9] = std::byte{7};
    ASSERT_TRUE(segment_.move_to(file_.fd(), kPlace, Segment::Contents::lost));
    EXPECT_EQ(segment_.address()[9], std::byte{7});
    EXPECT_EQ(segment_.address()[3 * kPageBytes + 7], std::byte{0});
}

}  // namespace
}  // namespace sft
