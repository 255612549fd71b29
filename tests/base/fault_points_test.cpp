// Fault points in a process of their own: what happens, how often, and what is left in the file of visits.

#include "base/faults/fault_points.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/faults/fault_visits.hpp"
#include "base/sanitizers.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr int kWentThrough = 42;

FaultSelf self_of(int process, int pe, unsigned incarnation) {
    FaultSelf self;
    self.process = ProcId(process);
    self.pe = PeId(pe);
    self.incarnation = incarnation;
    self.n_pes = 4;
    self.n_processes = 6;
    return self;
}

class FaultPointsTest : public testing::Test {
protected:
    // Runs `body` in a child as the given process with the schedule on; the status that waitpid tells.
    int run(const std::string& schedule, int process, const std::function<void()>& body) {
        const pid_t child = ::fork();
        if (child == 0) {
            Config config;
            config.fault_visits = prefix_;
            const Result<> started = parse_fault_schedule(schedule, config.fault_schedule).then([&] {
                return start_fault_points(config, ProcId(process));
            });
            if (!started) {
                ADD_FAILURE() << started.error().line;
                ::_exit(1);
            }
            set_fault_self(self_of(process, process < 4 ? process : -1, 0));
            body();
            ::_exit(kWentThrough);
        }
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        return status;
    }

    // The file that a process has left.
    FaultVisits* visits_of(int process) const {
        const std::string path = prefix_ + "." + std::to_string(process);
        const int fd = ::open(path.c_str(), O_RDONLY);
        EXPECT_GE(fd, 0) << path;
        void* memory = ::mmap(nullptr, sizeof(FaultVisits), PROT_READ, MAP_PRIVATE, fd, 0);
        ::close(fd);
        ::unlink(path.c_str());
        return static_cast<FaultVisits*>(memory);
    }

    std::string prefix_ = testing::TempDir() + "fault_points_test." + std::to_string(::getpid());
};

void visit(FaultPoint point, int times) {
    for (int i = 0; i < times; ++i) {
        fault_point(point);
    }
}

TEST_F(FaultPointsTest, OffNothingHappens) {
    EXPECT_FALSE(detail::g_fault_points_on.load());
    visit(FaultPoint::arrived, 3);
    Config config;
    EXPECT_TRUE(good(start_fault_points(config, ProcId(0))));
    EXPECT_FALSE(detail::g_fault_points_on.load());
}

TEST_F(FaultPointsTest, KillsAtTheVisitAndLeavesTheCountBehind) {
    const int status = run("kill pe 1 at arrived visit 3", 1, [] {
        visit(FaultPoint::updated, 2);
        visit(FaultPoint::arrived, 5);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    const FaultVisits* left = visits_of(1);
    EXPECT_EQ(left->magic, kFaultVisitsMagic);
    EXPECT_EQ(left->process, 1);
    EXPECT_EQ(left->pe, 1);
    EXPECT_EQ(left->visits[static_cast<int>(FaultPoint::arrived)], 3U);
    EXPECT_EQ(left->visits[static_cast<int>(FaultPoint::updated)], 2U);
    EXPECT_EQ(left->last_point, static_cast<unsigned>(FaultPoint::arrived));
    EXPECT_EQ(left->fired[0].count, 1U);
    EXPECT_EQ(left->fired[0].pe, 1);
    EXPECT_GT(left->fired[0].time_ns, 0);
}

TEST_F(FaultPointsTest, OthersGoOn) {
    const int status = run("kill pe 1 at arrived", 2, [] { visit(FaultPoint::arrived, 5); });
    EXPECT_EQ(WEXITSTATUS(status), kWentThrough);
    EXPECT_EQ(visits_of(2)->fired[0].count, 0U);
}

TEST_F(FaultPointsTest, TheOtherDeaths) {
    const auto body = [] { visit(FaultPoint::arrived, 1); };
    int status = run("exit 7 pe 1 at arrived", 1, body);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
    status = run("abort pe 1 at arrived", 1, body);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
#if !SFT_ADDRESS_SANITIZER && !SFT_THREAD_SANITIZER
    status = run("segv pe 1 at arrived", 1, body);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
#endif
    visits_of(1);
}

TEST_F(FaultPointsTest, ADelayTakesItsTime) {
    const int status = run("delay 60 ms pe 1 at arrived every", 1, [] {
        const std::int64_t begin = now_ns();
        visit(FaultPoint::arrived, 2);
        const std::int64_t took = now_ns() - begin;
        ::_exit(took >= 120'000'000 && took < 20'000'000'000 ? kWentThrough : 1);
    });
    EXPECT_EQ(WEXITSTATUS(status), kWentThrough);
    visits_of(1);
}

TEST_F(FaultPointsTest, AStoppedProcessStopsAndGoesOn) {
    const int status = run("stop 100 ms pe 1 at arrived", 1, [] {
        // Another thread stands still too: that is what makes a stop different from a delay.
        std::atomic<bool> runs{false};
        std::atomic<bool> over{false};
        std::int64_t longest = 0;
        std::thread other([&] {
            std::int64_t last = now_ns();
            runs.store(true);
            // Once more after the end: the stop may have come between the look at the clock and the look at `over`.
            for (bool is_last = false; !is_last;) {
                is_last = over.load();
                const std::int64_t now = now_ns();
                longest = std::max(longest, now - last);
                last = now;
            }
        });
        while (!runs.load()) {
        }
        visit(FaultPoint::arrived, 2);
        over.store(true);
        other.join();
        ::_exit(longest >= 90'000'000 ? kWentThrough : 1);
    });
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kWentThrough);
    visits_of(1);
}

TEST_F(FaultPointsTest, TheJobSharesWhatHasHappened) {
    auto* fired = static_cast<std::atomic<std::uint64_t>*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const auto as_leader = [&](int process) {
        return run("kill leader at arrived", process, [&] {
            FaultSelf self = self_of(process, process, 0);
            self.fired = fired;
            self.leads = [](void*) { return true; };
            set_fault_self(self);
            visit(FaultPoint::arrived, 1);
        });
    };
    EXPECT_TRUE(WIFSIGNALED(as_leader(0)));
    EXPECT_EQ(WEXITSTATUS(as_leader(1)), kWentThrough) << "the next leader meets the fault of the first";
    visits_of(0);
    visits_of(1);
    ::munmap(fired, 4096);
}

TEST_F(FaultPointsTest, ASubstitutesVisitsAreThoseAsThePe) {
    const int status = run("kill pe 1 at arrived visit 2 incarnation 1", 4, [] {
        visit(FaultPoint::arrived, 5);  // asleep
        set_fault_self(self_of(4, 1, 1));
        visit(FaultPoint::arrived, 5);
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    const FaultVisits* left = visits_of(4);
    EXPECT_EQ(left->visits[static_cast<int>(FaultPoint::arrived)], 7U);
    EXPECT_EQ(left->incarnation, 1U);
}

TEST_F(FaultPointsTest, PartnersAreAskedFor) {
    const auto as_keeper_of_2 = [](const char*) {
        FaultSelf self = self_of(1, 1, 0);
        self.keeper = [](void*, PeId pe) { return pe == PeId(2) ? ProcId(1) : ProcId(0); };
        set_fault_self(self);
        visit(FaultPoint::arrived, 1);
    };
    EXPECT_TRUE(WIFSIGNALED(run("kill partner of pe 2 at arrived", 1, [&] { as_keeper_of_2(""); })));
    EXPECT_TRUE(WIFEXITED(run("kill partner of pe 3 at arrived", 1, [&] { as_keeper_of_2(""); })));
    EXPECT_TRUE(WIFEXITED(run("kill partner of pe 400 at arrived", 1, [&] { as_keeper_of_2(""); })));
    visits_of(1);
}

TEST_F(FaultPointsTest, HooksGetCopyAndSeed) {
    const int status = run("flip local seed 5 of pe 1 at arrived", 1, [] {
        bool right = false;
        FaultHook hook;
        hook.context = &right;
        hook.flip = [](void* context, FaultCopy copy, std::uint64_t seed) {
            *static_cast<bool*>(context) = copy == FaultCopy::local && seed == 5;
            return true;
        };
        set_fault_hook(hook);
        visit(FaultPoint::arrived, 1);
        ::_exit(right ? kWentThrough : 1);
    });
    EXPECT_EQ(WEXITSTATUS(status), kWentThrough);
    visits_of(1);
}

TEST_F(FaultPointsTest, WhatCannotBeDoneHasNotHappened) {
    const int status = run("flip pe 1 at arrived; cut pe 1 at arrived", 1, [] { visit(FaultPoint::arrived, 1); });
    EXPECT_EQ(WEXITSTATUS(status), kWentThrough);
    const FaultVisits* left = visits_of(1);
    EXPECT_EQ(left->fired[0].count, 0U);
    EXPECT_EQ(left->fired[1].count, 0U);
}

TEST_F(FaultPointsTest, ChildrenOfAProcessAreNoVictims) {
    const int status = run("kill pe 1 at arrived", 1, [] {
        const pid_t child = ::fork();
        if (child == 0) {
            visit(FaultPoint::arrived, 1);
            ::_exit(kWentThrough);
        }
        int of_child = 0;
        ::waitpid(child, &of_child, 0);
        ::_exit(WIFEXITED(of_child) ? WEXITSTATUS(of_child) : 1);
    });
    EXPECT_EQ(WEXITSTATUS(status), kWentThrough);
    visits_of(1);
}

TEST_F(FaultPointsTest, AFileThatCannotBeWrittenIsNamed) {
    Config config;
    config.fault_visits = testing::TempDir() + "no/such/folder/visits";
    EXPECT_EQ(line_of(start_fault_points(config, ProcId(3))),
              "SHMEM_FT_FAULT_VISITS: cannot write " + config.fault_visits + ".3: No such file or directory");
}

// The variable wrote wherever it was told: over any file, and through links that others had laid.
TEST_F(FaultPointsTest, WhatIsNoFileOfCountersIsLeftAlone) {
    const std::string victim = prefix_ + "victim";
    const std::string path = prefix_ + ".3";
    Config config;
    config.fault_visits = prefix_;
    std::string error;
    const auto write_victim = [&] { std::ofstream(victim) << "dear to somebody"; };
    const auto read_victim = [&] {
        std::string text;
        std::getline(std::ifstream(victim), text);
        return text;
    };
    write_victim();
    const auto refuses = [&](const char* what) {
        error.clear();
        EXPECT_EQ(line_of(start_fault_points(config, ProcId(3))),
                  "SHMEM_FT_FAULT_VISITS: cannot write " + path +
                      ": there is something else under that name: remove it, or give another name")
            << what;
        EXPECT_EQ(read_victim(), "dear to somebody") << what;
        ::unlink(path.c_str());
    };
    ASSERT_EQ(::symlink(victim.c_str(), path.c_str()), 0);
    refuses("a link to a file");
    ASSERT_EQ(::symlink((victim + "-to-be").c_str(), path.c_str()), 0);
    refuses("a link to nothing");
    EXPECT_NE(::access((victim + "-to-be").c_str(), F_OK), 0) << "made through a link";
    ASSERT_EQ(::link(victim.c_str(), path.c_str()), 0);
    refuses("a second name of a file");
    std::ofstream(path) << "mine";
    refuses("a file of something else");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    refuses("a pipe that nobody reads");
    ::unlink(victim.c_str());
}

TEST_F(FaultPointsTest, ACallFailsWithTheErrorOfTheSchedule) {
    const int status = run("fail ENFILE 2 times process 1 at call_socket visit 2", 1, [] {
        for (const bool is_due : {false, true, true, false}) {
            errno = 0;
            if (fails(FaultPoint::call_socket) != is_due || errno != (is_due ? ENFILE : 0)) {
                ::_exit(1);
            }
        }
    });
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kWentThrough);
    ::unlink((prefix_ + ".1").c_str());
}

}  // namespace
}  // namespace sft
