// Small parts of the tools that need no file of their own: texts, limits, the order in which a job is ended, and the
// processes below a process.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/clock.hpp"
#include "base/process_watch.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/ending.hpp"
#include "tools/oshrun/line_pump.hpp"
#include "tools/oshrun/preflight.hpp"
#include "tools/oshrun/process_tree.hpp"
#include "tools/oshrun/stand_still.hpp"

namespace sft::tools {
namespace {

using Words = std::vector<std::string>;

TEST(Text, Numbers) {
    EXPECT_EQ(parse_number("12", 0, 100), 12);
    EXPECT_EQ(parse_number("0", 0, 100), 0);
    for (const char* text : {"", " 1", "1 ", "+1", "1.0", "101", "-1", "99999999999999999999"}) {
        EXPECT_EQ(parse_number(text, 0, 100), std::nullopt) << text;
    }
}

TEST(Text, Nearest) {
    constexpr std::string_view kWords[] = {"--spares", "--events", "-n"};
    EXPECT_EQ(nearest("--spare", kWords), "--spares");
    EXPECT_EQ(nearest("--evnets", kWords), "--events");
    EXPECT_EQ(nearest("--something-else", kWords), "");
}

TEST(Text, MadeHarmless) {
    EXPECT_EQ(harmless("plain \u00e4 \u20ac \U0001f600"), "plain \u00e4 \u20ac \U0001f600");
    EXPECT_EQ(harmless("a\nb\tc\x1b[2J\x7f"), "a?b?c?[2J?");
    EXPECT_EQ(harmless(std::string("a\0b", 3)), "a?b");
    EXPECT_EQ(harmless("\u009b31m \u202e \u2066"), "?31m ? ?") << "C1 and turned writing";
    EXPECT_EQ(harmless("\xff\xc0\x80\xe2\x82\xed\xa0\x80\xf5"), "?????????") << "no UTF-8";
    EXPECT_EQ(harmless(""), "");
}

TEST(Text, SplittingAndQuoting) {
    EXPECT_EQ(split_words("a  b\tc"), (Words{"a", "b", "c"}));
    EXPECT_EQ(split_words(" 'a b' \"c \\\"d\" e\\ f '' "), (Words{"a b", "c \"d", "e f", ""}));
    EXPECT_EQ(split_words(""), Words{});
    EXPECT_EQ(split_words("'a"), std::nullopt);
    const Words words = {"plain", "with blank", "it's", "", "$HOME", "a=b"};
    EXPECT_EQ(split_words(shell_quoted(words).substr(0)),
              std::optional(Words{"plain", "with blank", "it's", "", "$HOME", "a=b"}));
    EXPECT_EQ(shell_quoted("plain"), "plain");
    EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

SystemLimits generous() { return {.pid_max = 4'000'000, .user_processes = std::nullopt, .open_files = 1'000'000}; }

TEST(Limits, RoomInAFolder) {
    const std::string folder = testing::TempDir();
    EXPECT_EQ(problem_of_room(folder, 1U << 20), 0);
    EXPECT_NE(problem_of_room(folder, 1UL << 60), 0);
    EXPECT_EQ(problem_of_room(folder + "/no-such-folder", 1), ENOENT);
}

TEST(Limits, WhatASystemAllows) {
    EXPECT_EQ(check_limits({4, 1, 5}, generous()), std::nullopt);
    EXPECT_EQ(check_limits({4094, 0, 4094}, generous()), std::nullopt);
    EXPECT_EQ(check_limits({4094, 1, 4095}, generous())->line,
              "-n 4094 --spares 1: 4095 processes are more than the 4094 a job can have");
    SystemLimits limits = generous();
    limits.pid_max = 1000;
    EXPECT_NE(check_limits({500, 0, 500}, limits)->line.find("kernel.pid_max"), std::string::npos);
    limits = generous();
    limits.user_processes = 1000;
    EXPECT_NE(check_limits({500, 0, 500}, limits)->line.find("ulimit -u"), std::string::npos);
    limits = generous();
    limits.open_files = 1024;
    EXPECT_NE(check_limits({500, 0, 500}, limits)->line.find("ulimit -Hn"), std::string::npos);
    EXPECT_EQ(check_limits({16, 2, 18}, limits), std::nullopt);
    EXPECT_EQ(check_limits({500, 0, 500}, limits)->exit_code, 2);
    // What grows with the square of the processes of a host, and what each process maps of the others.
    limits = generous();
    limits.files_of_all = 2'000'000;
    EXPECT_EQ(
        check_limits({2000, 0, 2000}, limits)->line,
        "-n 2000: 2000 processes on one host need 4064000 open files (fs.file-max), of which this one has 2000000: "
        "raise the limit with sysctl, or use more hosts");
    EXPECT_EQ(check_limits({2000, 0, 1000}, limits), std::nullopt);
    limits = generous();
    limits.maps = 4000;
    EXPECT_NE(check_limits({2000, 0, 2000}, limits)->line.find("vm.max_map_count"), std::string::npos);
    EXPECT_EQ(check_limits({1800, 0, 1800}, limits), std::nullopt);
    limits.open_files = 1024;
    EXPECT_EQ(check_limits({500, 0, 500}, limits)->exit_code, 2);
    limits = generous();
    limits.memory = 8'000'000'000;
    EXPECT_EQ(
        check_limits({2000, 0, 2000}, limits)->line,
        "-n 2000: 2000 processes on one host need 11000 MB of memory before the program needs any, of which this one "
        "has 8000 left: use more hosts");
    EXPECT_EQ(check_limits({2000, 0, 1000}, limits), std::nullopt);
    limits.memory = 100'000'000;
    EXPECT_EQ(check_limits({16, 2, 18}, limits), std::nullopt);
}

TEST(Limits, AreReadFromTheSystem) {
    const SystemLimits limits = read_system_limits();
    EXPECT_GT(limits.pid_max, 0U);
    EXPECT_GT(limits.maps, 0U);
    EXPECT_GT(limits.memory.value_or(0), 1'000'000U);
    // Root without the capability, as in many containers, meets fs.file-max like everybody else.
    const pid_t child = fork();
    if (child == 0) {
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
        const bool is_dropped = syscall(SYS_capset, &header, none) == 0;
        _exit(is_dropped && read_system_limits().files_of_all ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(Preflight, Programs) {
    std::string path;
    EXPECT_EQ(find_program("/bin/sh", path), std::nullopt);
    EXPECT_EQ(path, "/bin/sh");
    EXPECT_EQ(find_program("sh", path), std::nullopt);
    EXPECT_TRUE(path.ends_with("/sh"));
    EXPECT_EQ(find_program("/nonexistent/x", path)->exit_code, 127);
    EXPECT_EQ(find_program("/tmp", path)->exit_code, 126);
    EXPECT_EQ(find_program("/etc/passwd", path)->exit_code, 126);
    EXPECT_EQ(find_program("no such program", path)->line,
              "'no such program': no such program in PATH or in this folder");
}

Words steps_until(Ending& ending, std::int64_t time_ns) {
    Words steps;
    while (const auto step = ending.take_step(time_ns)) {
        constexpr const char* kNames[] = {"ask", "kill", "ask launcher", "kill launcher"};
        steps.emplace_back(kNames[static_cast<int>(*step)]);
    }
    return steps;
}

TEST(Ending, AsksBeforeItKills) {
    constexpr std::int64_t kMs = 1'000'000;
    Ending ending(1000 * kMs);
    EXPECT_EQ(steps_until(ending, 1199 * kMs), Words{});
    EXPECT_EQ(ending.next_step_ns(), 1200 * kMs);
    EXPECT_EQ(steps_until(ending, 1200 * kMs), Words{"ask"});
    EXPECT_EQ(steps_until(ending, 2999 * kMs), Words{});
    EXPECT_EQ(steps_until(ending, 3000 * kMs), Words{"kill"});
    EXPECT_EQ(steps_until(ending, 60000 * kMs), (Words{"ask launcher", "kill launcher"}));
    EXPECT_EQ(ending.next_step_ns(), std::nullopt);
}

TEST(Ending, CanBeHurried) {
    constexpr std::int64_t kMs = 1'000'000;
    Ending ending(0);
    ending.skip_grace(0);
    EXPECT_EQ(steps_until(ending, 0), Words{"ask"});
    EXPECT_EQ(ending.next_step_ns(), 1800 * kMs);
    ending.hurry(100 * kMs);
    EXPECT_EQ(steps_until(ending, 100 * kMs), Words{"kill"});
}

// A child that starts a grandchild and ends at once, so that the grandchild becomes ours.
TEST(ProcessTree, OrphansAreFoundAndEnded) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t bystander = fork();
    if (bystander == 0) {
        while (true) {
            pause();
        }
    }
    const ProcessName spared{bystander, process_start_time(bystander)};
    const pid_t parent = fork();
    if (parent == 0) {
        std::signal(SIGTERM, SIG_IGN);  // its child is asked to end as soon as it is an orphan
        if (fork() == 0) {
            while (true) {
                pause();
            }
        }
        _exit(0);
    }
    EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
    const auto found = descendants_of(getpid(), {spared});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(descendants_of(getpid()).size(), 2U);

    const std::int64_t begin_ns = now_ns();
    end_descendants({.patience_ns = 100'000'000, .spared = {spared}});
    EXPECT_GE(now_ns() - begin_ns, 100'000'000) << "it was asked first";
    EXPECT_FALSE(send_signal(found[0], 0));
    EXPECT_TRUE(send_signal(spared, SIGKILL));
    EXPECT_FALSE(send_signal({getpid(), 1}, SIGKILL)) << "another start time is another process";
    end_descendants({});
    EXPECT_TRUE(descendants_of(getpid()).empty());
}

TEST(StandStill, OnlyWhoIsStoppedAtEveryLook) {
    using Pids = std::vector<std::int32_t>;
    StandStill watch(100);
    EXPECT_TRUE(watch.is_on());
    EXPECT_LT(watch.period_ns(), 100);
    EXPECT_EQ(watch.due({1, 2}, 1000), Pids());
    EXPECT_EQ(watch.due({1}, 1030), Pids());
    EXPECT_EQ(watch.due({1, 2}, 1065), Pids());  // 2 went on in between
    EXPECT_EQ(watch.due({1, 2}, 1099), Pids());
    EXPECT_EQ(watch.due({1, 2}, 1100), Pids({1}));
    EXPECT_EQ(watch.due({2}, 1135), Pids());
    EXPECT_EQ(watch.due({2}, 1165), Pids({2}));
    EXPECT_FALSE(StandStill(0).is_on());
}

// Everything of a job may be stopped and continued, and whoever looks may be the first to wake up.
TEST(StandStill, WhoeverWasStoppedItselfBeginsAnew) {
    using Pids = std::vector<std::int32_t>;
    StandStill watch(100);
    EXPECT_EQ(watch.due({1}, 1000), Pids());
    EXPECT_EQ(watch.due({1}, 1500), Pids());
    for (std::int64_t now = 1520; now < 1600; now += 20) {
        EXPECT_EQ(watch.due({1}, now), Pids());
    }
    EXPECT_EQ(watch.due({1}, 1600), Pids({1}));
}

TEST(OwnTime, MissedLooksShow) {
    OwnTime time(100);
    EXPECT_FALSE(time.was_away(100'000));
    EXPECT_FALSE(time.was_away(100'200));
    EXPECT_TRUE(time.was_away(100'401));
    EXPECT_FALSE(time.was_away(100'402));
    OwnTime never(0);
    EXPECT_FALSE(never.was_away(0));
    EXPECT_FALSE(never.was_away(1'000'000));
}

// The end of a stream that somebody else had open as well, a child that was not its program yet, was counted twice: the
// pump ended with another stream still open, whose process lost its output.
TEST(LinePump, EndsWithTheLastStreamOnly) {
    std::array<std::array<int, 2>, 2> streams{};
    std::array<int, 2> sink{};
    for (auto* ends : {&streams[0], &streams[1], &sink}) {
        ASSERT_EQ(pipe2(ends->data(), O_CLOEXEC), 0);
    }
    const Fd held(dup(streams[0][0]));
    std::vector<Fd> sources;
    sources.emplace_back(streams[0][0]);
    sources.emplace_back(streams[1][0]);
    const LinePump pump(std::move(sources), sink[1]);
    pollfd done{.fd = pump.done_fd(), .events = POLLIN, .revents = 0};
    close(streams[0][1]);
    EXPECT_EQ(poll(&done, 1, 300), 0) << "the other stream is open";
    ASSERT_EQ(write(streams[1][1], "said\n", 5), 5);
    std::array<char, 16> text{};
    pollfd out{.fd = sink[0], .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&out, 1, 20'000), 1);
    EXPECT_EQ(read(sink[0], text.data(), text.size()), 5);
    EXPECT_STREQ(text.data(), "said\n");
    close(streams[1][1]);
    EXPECT_EQ(poll(&done, 1, 20'000), 1);
    close(sink[0]);
    close(sink[1]);
}

}  // namespace
}  // namespace sft::tools
