#include "base/process_watch.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <vector>

namespace sft {
namespace {

// A forked child that waits until it is let go, then does `body`, with a pidfd opened meanwhile.
class Child {
public:
    explicit Child(const std::function<void()>& body) {
        int gate[2];
        EXPECT_EQ(pipe(gate), 0);
        pid_ = fork();
        if (pid_ == 0) {
            close(gate[1]);
            char byte;
            [[maybe_unused]] const ssize_t bytes = read(gate[0], &byte, 1);
            body();
            _exit(0);
        }
        close(gate[0]);
        gate_ = gate[1];
        start_time_ = process_start_time(pid_);
        pidfd_ = open_process(pid_, start_time_).fd;
    }
    ~Child() {
        release();
        reap();
        close(pidfd_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void release() {
        if (gate_ >= 0) {
            close(gate_);
            gate_ = -1;
        }
    }
    void await_end() {
        release();
        pollfd entry{.fd = pidfd_, .events = POLLIN, .revents = 0};
        ASSERT_EQ(poll(&entry, 1, 20000), 1);
    }
    void reap() {
        if (!reaped_) {
            waitpid(pid_, nullptr, 0);
            reaped_ = true;
        }
    }

    [[nodiscard]] FailureReason reason() const { return reason_of_end(pidfd_, pid_); }
    [[nodiscard]] int pidfd() const { return pidfd_; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] std::uint64_t start_time() const { return start_time_; }

private:
    pid_t pid_ = -1;
    int pidfd_ = -1;
    int gate_ = -1;
    std::uint64_t start_time_ = 0;
    bool reaped_ = false;
};

struct EndCase {
    const char* name;
    std::function<void()> body;
    FailureReason expected;
};

std::vector<EndCase> end_cases() {
    return {
        {"exit 0", [] { _exit(0); }, {FailureKind::exited, 0}},
        {"exit 3", [] { _exit(3); }, {FailureKind::exited, 3}},
        {"exit 255", [] { _exit(255); }, {FailureKind::exited, 255}},
        {"SIGKILL", [] { raise(SIGKILL); }, {FailureKind::signal, SIGKILL}},
        {"SIGTERM", [] { raise(SIGTERM); }, {FailureKind::signal, SIGTERM}},
        // A core dump sets a bit in the status that is no part of the signal's number.
        {"SIGABRT",
         [] {
             signal(SIGABRT, SIG_DFL);
             raise(SIGABRT);
         },
         {FailureKind::signal, SIGABRT}},
        {"exit of a second thread",
         [] {
             pthread_t thread;
             pthread_create(
                 &thread, nullptr, [](void*) -> void* { _exit(9); }, nullptr);
             pthread_join(thread, nullptr);
         },
         {FailureKind::exited, 9}},
    };
}

// After the reaping only the pidfd tells, and only from Linux 6.15 on.
bool kernel_keeps_status() {
    Child child([] { _exit(1); });
    child.await_end();
    child.reap();
    return child.reason().kind != FailureKind::died;
}

TEST(ReasonOfEnd, OfAProcessThatIsNotYetReaped) {
    for (const EndCase& item : end_cases()) {
        Child child(item.body);
        ASSERT_GE(child.pidfd(), 0) << item.name;
        child.await_end();
        EXPECT_EQ(child.reason(), item.expected) << item.name << ": " << describe(child.reason());
    }
}

TEST(ReasonOfEnd, OfAProcessThatIsReaped) {
    const bool is_kept = kernel_keeps_status();
    for (const EndCase& item : end_cases()) {
        Child child(item.body);
        ASSERT_GE(child.pidfd(), 0) << item.name;
        child.await_end();
        child.reap();
        const FailureReason expected = is_kept ? item.expected : FailureReason{FailureKind::died, 0};
        EXPECT_EQ(child.reason(), expected) << item.name << ": " << describe(child.reason());
    }
}

TEST(ReasonOfEnd, WhileSomebodyReapsAtTheSameTime) {
    const bool is_kept = kernel_keeps_status();
    for (int i = 0; i < 200; ++i) {
        Child child([] { _exit(5); });
        child.await_end();
        const pid_t pid = child.pid();
        pthread_t reaper;
        pthread_create(
            &reaper, nullptr,
            [](void* argument) -> void* {
                waitpid(static_cast<pid_t>(reinterpret_cast<std::intptr_t>(argument)), nullptr, 0);
                return nullptr;
            },
            reinterpret_cast<void*>(static_cast<std::intptr_t>(pid)));
        const FailureReason reason = child.reason();
        pthread_join(reaper, nullptr);
        if (is_kept || reason.kind != FailureKind::died) {
            EXPECT_EQ(reason, (FailureReason{FailureKind::exited, 5}));
        }
    }
}

TEST(OpenProcess, NamesAProcessByPidAndStartTime) {
    EXPECT_EQ(open_process(getpid(), process_start_time(getpid()) + 1).reach, Reach::gone);
    // The number says as much as the start time, where the kernel has it, and a wrong one nothing.
    EXPECT_EQ(open_process(getpid(), process_start_time(getpid()) + 1, own_pidfd_number() + 1).reach, Reach::gone);
    if (own_pidfd_number() != 0) {
        const Opening numbered = open_process(getpid(), process_start_time(getpid()) + 1, own_pidfd_number());
        EXPECT_EQ(numbered.reach, Reach::opened);
        close(numbered.fd);
    }
    const Opening opening = open_process(getpid(), process_start_time(getpid()));
    EXPECT_EQ(opening.reach, Reach::opened);
    EXPECT_GE(opening.fd, 0);
    close(opening.fd);
}

TEST(OpenProcess, AProcessThatIsGone) {
    pid_t pid;
    std::uint64_t start_time;
    {
        Child child([] {});
        pid = child.pid();
        start_time = child.start_time();
        EXPECT_GT(start_time, 0U);
    }
    EXPECT_EQ(open_process(pid, start_time).reach, Reach::gone);
    EXPECT_EQ(open_descriptor_of(pid, start_time, 0).reach, Reach::gone);
    EXPECT_EQ(process_start_time(pid), 0U);
}

TEST(OpenProcess, AZombieCanStillBeOpened) {
    Child child([] { _exit(4); });
    child.await_end();
    EXPECT_EQ(look_at_process(child.pid(), child.start_time()).reach, Reach::gone);
    const int pidfd = open_process(child.pid(), child.start_time()).fd;
    ASSERT_GE(pidfd, 0);
    EXPECT_EQ(reason_of_end(pidfd, child.pid()), (FailureReason{FailureKind::exited, 4}));
    close(pidfd);
}

// Leaves that many descriptors to be had, until it goes.
class Shortage {
public:
    explicit Shortage(int left) {
        getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit few{64, before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) {
            taken_.push_back(fd);
        }
        for (; left > 0; --left) {
            close(taken_.back());
            taken_.pop_back();
        }
    }
    ~Shortage() {
        for (const int fd : taken_) {
            close(fd);
        }
        setrlimit(RLIMIT_NOFILE, &before_);
    }
    Shortage(const Shortage&) = delete;
    Shortage& operator=(const Shortage&) = delete;

private:
    rlimit before_{};
    std::vector<int> taken_;
};

// With no or one descriptor left everything failed like this for a process that was gone, so it was taken for gone.
TEST(EndProcess, AlsoOneThatIsStoppedIsGoneAfterIt) {
    constexpr int kBound_ms = 10'000;
    Child child([] { raise(SIGSTOP); });
    child.release();
    siginfo_t stopped{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &stopped, WSTOPPED), 0);
    EXPECT_TRUE(end_process(child.pid(), child.start_time() + 1, kBound_ms)) << "that one is gone";
    EXPECT_EQ(look_at_process(child.pid(), child.start_time()).reach, Reach::opened) << "this one is somebody else";
    EXPECT_TRUE(end_process(child.pid(), child.start_time(), kBound_ms));
    EXPECT_EQ(look_at_process(child.pid(), child.start_time()).reach, Reach::gone);
    EXPECT_TRUE(end_process(child.pid(), child.start_time(), kBound_ms)) << "nothing is left to do";
}

TEST(Shortage, OfDescriptorsKillsNobody) {
    Child child([] { pause(); });
    for (const int left : {0, 1}) {
        const Shortage shortage(left);
        for (const Opening& opening : {open_process(child.pid(), child.start_time()),
                                       open_descriptor_of(child.pid(), child.start_time(), STDERR_FILENO)}) {
            EXPECT_EQ(opening.reach, Reach::cannot_be_opened) << left;
            EXPECT_EQ(opening.error, EMFILE) << left;
        }
    }
    {
        const Shortage shortage(2);
        const Opening opening = open_process(child.pid(), child.start_time());
        EXPECT_EQ(opening.reach, Reach::opened);
        close(opening.fd);
    }
    EXPECT_NE(describe_error(EMFILE).find("ulimit -n"), std::string::npos);
    kill(child.pid(), SIGKILL);
}

TEST(OpenDescriptor, OfSomebodyWithTheSamePidIsNotTaken) {
    Child child([] { pause(); });
    EXPECT_EQ(open_descriptor_of(child.pid(), child.start_time() + 1, STDERR_FILENO).reach, Reach::gone);
    const Opening opening = open_descriptor_of(child.pid(), child.start_time(), STDERR_FILENO);
    // The output of a test may be a socket, which cannot be opened this way.
    EXPECT_NE(opening.reach, Reach::gone);
    const Opening closed = open_descriptor_of(child.pid(), child.start_time(), 1000);
    EXPECT_EQ(closed.reach, Reach::cannot_be_opened);
    EXPECT_EQ(closed.error, ENOENT);
    close(opening.fd);
    kill(child.pid(), SIGKILL);
}

// It was taken for one that lives and cannot be opened, as long as nobody had waited for it.
TEST(OpenDescriptor, OfOneThatHasJustEndedIsGone) {
    Child child([] { pause(); });
    kill(child.pid(), SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(open_descriptor_of(child.pid(), child.start_time(), STDERR_FILENO).reach, Reach::gone);
}

TEST(StartTime, ANameWithSpacesAndBracketsDoesNotConfuse) {
    Child child([] { pause(); });
    const std::uint64_t before = process_start_time(getpid());
    char old_name[16];
    prctl(PR_GET_NAME, old_name);
    prctl(PR_SET_NAME, "a) R 1 (b) 2");
    EXPECT_EQ(process_start_time(getpid()), before);
    prctl(PR_SET_NAME, old_name);
    kill(child.pid(), SIGKILL);
}

TEST(Describe, EveryKind) {
    EXPECT_EQ(describe({FailureKind::signal, 9}), "killed by signal 9 (Killed)");
    EXPECT_EQ(describe({FailureKind::signal, 34}), "killed by signal 34 (no standard signal)");
    EXPECT_EQ(describe({FailureKind::exited, 3}), "exited with code 3 without shmem_finalize");
    EXPECT_EQ(describe({FailureKind::hung, 0}), "hung");
    EXPECT_EQ(describe({FailureKind::died, 0}), "died (the system did not tell how)");
    EXPECT_EQ(FailureReason::from_status(FailureReason{FailureKind::exited, 255}.status()),
              (FailureReason{FailureKind::exited, 255}));
}

}  // namespace
}  // namespace sft
