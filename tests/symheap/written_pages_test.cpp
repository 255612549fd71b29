// The kernel's answers, on memory that is watched. On systems that do not track there is nothing to be tested, which is
// said.
#include "symheap/written_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/pages.hpp"
#include "symheap/segment.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

using Pages = std::set<std::size_t>;

class WrittenPagesTest : public testing::Test {
protected:
    static constexpr std::size_t kPages = 64;

    void SetUp() override {
        if (const Result<std::int64_t> probed = WrittenPages::probe(); !probed) {
            GTEST_SKIP() << probed.error().line;
        }
        ASSERT_TRUE(good(segment_.create("watched", kPages * kPageBytes)));
        ASSERT_TRUE(good(segment_.map_at(nullptr)));
        memory_ = {{reinterpret_cast<std::uintptr_t>(segment_.address()), segment_.bytes()}, segment_.fd(), 0};
        ASSERT_TRUE(good(written_.open()));
        ASSERT_TRUE(good(written_.watch(memory_)));
    }
    void write(std::size_t page) {
        static_cast<volatile std::byte*>(static_cast<std::byte*>(segment_.address()))[page * kPageBytes + 8] =
            std::byte(1);
    }
    [[nodiscard]] Pages look() {
        Pages pages;
        const Result<> looked = written_.look(memory_, [&](std::size_t begin, std::size_t end, bool exists) {
            for (; exists && begin < end; begin += kPageBytes) {
                pages.insert(begin / kPageBytes);
            }
        });
        EXPECT_TRUE(good(looked));
        return pages;
    }

    Segment segment_;
    WrittenPages::Memory memory_;
    WrittenPages written_;
};

TEST_F(WrittenPagesTest, AreFoundOnceWhoeverOfTheProcessHasWritten) {
    write(3);
    EXPECT_EQ(look(), Pages{3});
    EXPECT_EQ(look(), Pages());
    std::thread([&] { write(3); }).join();
    write(5);
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    ASSERT_EQ(::write(pipe_ends[1], "x", 1), 1);
    ASSERT_EQ(::read(pipe_ends[0], segment_.address() + 9 * kPageBytes, 1), 1);
    EXPECT_EQ(look(), (Pages{3, 5, 9}));
    EXPECT_EQ(look(), Pages());
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
}

TEST_F(WrittenPagesTest, LoseNoneWithTheEntryOfAPage) {
    for (std::size_t page = 0; page < 8; ++page) {
        write(page);
    }
    EXPECT_EQ(look().size(), 8U);
    write(2);
    ASSERT_EQ(::madvise(segment_.address(), 8 * kPageBytes, MADV_DONTNEED), 0);
    EXPECT_TRUE(look().contains(2));
    write(4);
    ::madvise(segment_.address(), 8 * kPageBytes, MADV_PAGEOUT);
    EXPECT_TRUE(look().contains(4));
    EXPECT_EQ(look(), Pages());
}

// Memory that appears without this process, and goes again.
TEST_F(WrittenPagesTest, CountPagesThatOthersMake) {
    write(0);
    EXPECT_EQ(look(), Pages{0});
    const char byte = 1;
    ASSERT_EQ(::pwrite(segment_.fd(), &byte, 1, 20 * kPageBytes), 1);
    EXPECT_TRUE(look().contains(20));
    ASSERT_EQ(::pwrite(segment_.fd(), &byte, 1, 20 * kPageBytes), 1);
    EXPECT_EQ(look(), Pages()) << "this is what notes are for";
}

TEST_F(WrittenPagesTest, GoOnBehindAFork) {
    write(1);
    EXPECT_EQ(look(), Pages{1});
    const pid_t child = ::fork();
    if (child == 0) {
        write(2);  // through the child's own entries
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    write(1);
    EXPECT_TRUE(look().contains(1));
    write(7);
    EXPECT_TRUE(look().contains(7));
}

TEST_F(WrittenPagesTest, AnswerForMemoryThatIsMappedAnewIsRefused) {
    write(1);
    EXPECT_EQ(look(), Pages{1});
    ASSERT_NE(::mmap(segment_.address(), segment_.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     segment_.fd(), 0),
              MAP_FAILED);
    const Result<> looked = written_.look(memory_, [](std::size_t, std::size_t, bool) {});
    ASSERT_FALSE(looked);
    EXPECT_NE(looked.error().line.find("PAGEMAP_SCAN"), std::string::npos) << looked.error().line;
    ASSERT_TRUE(good(written_.watch(memory_)));
    EXPECT_TRUE(look().contains(1));
}

}  // namespace
}  // namespace sft
