// Pages with an error of memory: found by reading, given back, and nothing else.
#include "symheap/unreadable_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <vector>

#include "base/pages.hpp"

namespace sft {
namespace {

constexpr std::size_t kPages = 1000;

// Places of pages that fail, as a machine would have them; and how much was read. Of one test at a time.
std::set<off_t> g_bad;
std::size_t g_read_bytes = 0;
int g_error = EIO;

ssize_t read_with_errors(int fd, void* to, std::size_t bytes, off_t from) {
    g_read_bytes += bytes;
    const auto first = g_bad.lower_bound(from);
    if (first != g_bad.end() && *first < from + static_cast<off_t>(bytes)) {
        errno = g_error;
        return -1;
    }
    return ::pread(fd, to, bytes, from);
}

class UnreadablePages : public testing::Test {
protected:
    void SetUp() override {
        g_bad.clear();
        g_read_bytes = 0;
        g_error = EIO;
        fd_ = ::memfd_create("test", MFD_CLOEXEC);
        ASSERT_GE(fd_, 0);
        ASSERT_EQ(::ftruncate(fd_, kPages * kPageBytes), 0);
    }
    void TearDown() override { ::close(fd_); }

    void fill(std::size_t first, std::size_t end) const {
        const std::vector<char> page(kPageBytes, 'x');
        for (std::size_t i = first; i < end; ++i) {
            ASSERT_EQ(::pwrite(fd_, page.data(), kPageBytes, static_cast<off_t>(i * kPageBytes)),
                      static_cast<ssize_t>(kPageBytes));
        }
    }
    [[nodiscard]] char first_of(std::size_t page) const {
        char byte = '?';
        EXPECT_EQ(::pread(fd_, &byte, 1, static_cast<off_t>(page * kPageBytes)), 1);
        return byte;
    }

    int fd_ = -1;
};

TEST_F(UnreadablePages, AreGivenBackAndNoOthers) {
    fill(0, kPages);
    const std::array<std::size_t, 4> bad = {3, 4, 700, kPages - 1};
    for (const std::size_t page : bad) {
        g_bad.insert(static_cast<off_t>(page * kPageBytes));
    }
    EXPECT_EQ(drop_unreadable(fd_, 0, kPages * kPageBytes, read_with_errors), bad.size());
    for (std::size_t page = 0; page < kPages; ++page) {
        const bool is_bad = std::find(bad.begin(), bad.end(), page) != bad.end();
        EXPECT_EQ(first_of(page), is_bad ? '\0' : 'x') << page;
    }
}

TEST_F(UnreadablePages, OnlyThatPartIsLookedAt) {
    fill(0, kPages);
    g_bad = {static_cast<off_t>(9 * kPageBytes), static_cast<off_t>(20 * kPageBytes)};
    EXPECT_EQ(drop_unreadable(fd_, 10 * kPageBytes, 10 * kPageBytes, read_with_errors), 0U);
    EXPECT_EQ(g_read_bytes, 10 * kPageBytes);
    EXPECT_EQ(first_of(9), 'x');
}

TEST_F(UnreadablePages, HolesAreNotRead) {
    fill(100, 102);
    EXPECT_EQ(drop_unreadable(fd_, 0, kPages * kPageBytes, read_with_errors), 0U);
    EXPECT_EQ(g_read_bytes, 2 * kPageBytes);
}

TEST_F(UnreadablePages, AnotherFailureOfReadingIsNone) {
    fill(0, 10);
    g_bad = {0};
    g_error = EINTR;
    EXPECT_EQ(drop_unreadable(fd_, 0, kPages * kPageBytes, read_with_errors), 0U);
    EXPECT_EQ(first_of(0), 'x');
}

TEST_F(UnreadablePages, TheSystemsOwnReading) {
    fill(0, 10);
    EXPECT_EQ(drop_unreadable(fd_, 0, kPages * kPageBytes), 0U);
    EXPECT_EQ(first_of(9), 'x');
}

}  // namespace
}  // namespace sft
