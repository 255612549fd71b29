// Standard input that is given again (tools/oshrun/kept_input.hpp), to one PE after the other.

#include "tools/oshrun/kept_input.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "base/job_channel.hpp"

namespace sft::tools {
namespace {

// The thread that reads may outlive the KeptInput. Of a job it is standard input that it reads, which stays; here the
// descriptor stays as well, or the thread of one test would read what is another's.
struct Source {
    Fd out;
    Fd in;
    ~Source() { static_cast<void>(out.release()); }
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    Source() {
        std::array<int, 2> ends{-1, -1};
        EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
        out = Fd(ends[0]);
        in = Fd(ends[1]);
    }
    void say(const std::string& text) const {
        ASSERT_EQ(write(in.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
};

// Exactly that many bytes, or all up to the end.
std::string take(const Fd& fd, std::size_t bytes_max) {
    std::string all;
    std::array<char, 4096> buffer;
    while (all.size() < bytes_max) {
        const ssize_t bytes = read(fd.get(), buffer.data(), std::min(buffer.size(), bytes_max - all.size()));
        if (bytes <= 0) {
            break;
        }
        all.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
    return all;
}

TEST(KeptInput, OneAfterTheOther) {
    Source source;
    KeptInput input(source.out.get());
    Fd reader = input.begin(file_identity(source.out.get()));
    ASSERT_TRUE(reader);
    source.say("start-up, loop, rest");
    EXPECT_EQ(take(reader, 8), "start-up");
    input.end_start_up();
    EXPECT_EQ(take(reader, 6), ", loop");
    reader = input.give_again();
    EXPECT_EQ(take(reader, 5), "start");  // and it dies
    reader = input.give_again();
    EXPECT_EQ(take(reader, 8 + 2), "start-up, ");  // behind the start-up now
    reader = input.give_again();
    source.say(" and end");
    EXPECT_EQ(take(reader, 8 + 4), "start-uprest");
    EXPECT_EQ(take(reader, 8), " and end");
    const Fd nobody_before_it_reads = input.give_again();
    source.in.reset();
    reader = input.give_again();
    EXPECT_EQ(take(reader, 1000), "start-up");
    reader = input.give_again();  // after the end, too
    EXPECT_EQ(take(reader, 1000), "start-up");
    EXPECT_FALSE(input.take_excess());
}

// PE 0 dies between the commit and telling of it.
TEST(KeptInput, NotToldOfTheCommit) {
    const Source source;
    KeptInput input(source.out.get());
    Fd reader = input.begin(file_identity(source.out.get()));
    source.say("all of it");
    EXPECT_EQ(take(reader, 3), "all");
    reader = input.give_again();
    EXPECT_EQ(take(reader, 9), "all of it");
    reader = input.give_again();
    EXPECT_EQ(take(reader, 3), "all");
}

// Somebody who has put something else in its place keeps that, and what comes through the pipe stays there.
TEST(KeptInput, AnotherInputThanTheJobs) {
    const Source source;
    const Source other;
    source.say("x");
    KeptInput input(source.out.get());
    EXPECT_FALSE(input.begin(file_identity(other.out.get())));
    EXPECT_FALSE(input.begin(""));
    EXPECT_FALSE(input.give_again());
    pollfd entry{.fd = source.out.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, 0), 1);
    const Fd null(open("/dev/null", O_RDONLY));
    KeptInput of_null(null.get());
    EXPECT_FALSE(of_null.begin(file_identity(null.get())));
    EXPECT_FALSE(of_null.give_again());
}

TEST(KeptInput, FileFromWhereItWas) {
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    const Fd fd(dup(fileno(file)));
    ASSERT_EQ(write(fd.get(), "before, after", 13), 13);
    ASSERT_EQ(lseek(fd.get(), 8, SEEK_SET), 8);
    KeptInput input(fd.get());
    EXPECT_FALSE(input.begin(file_identity(fd.get())));
    EXPECT_EQ(take(fd, 3), "aft");
    input.end_start_up();
    for (int times = 0; times < 2; ++times) {
        const Fd again = input.give_again();
        ASSERT_TRUE(again);
        EXPECT_EQ(take(again, 100), "after");
    }
    EXPECT_EQ(take(fd, 100), "er");  // a description of its own
    std::fclose(file);
}

}  // namespace
}  // namespace sft::tools
