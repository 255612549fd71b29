// The service thread with a real process to be watched, and without a job.
#include "recovery/detection/failure_service.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "recovery/membership/message.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr ProcId kChild{0};  // holds the only PE
constexpr ProcId kSelf{1};   // its spare
constexpr std::chrono::seconds kPatience{20};

// What the service and the agreement have told.
class Told final : public JobObserver, public ServiceHost, public CheckpointActions {
public:
    // JobObserver
    void heard_of_death(const Death& death) override {
        note([&] { deaths.push_back(death); });
    }
    void decided(const JobState& /*before*/, const JobState& /*after*/) override {}
    void must_stop(const Stop& /*why*/) override {
        note([&] { is_stopped = true; });
    }
    void awaits_spares(const std::vector<PeId>& /*pes*/) override {}

    // ServiceHost
    bool is_remote(ProcId /*process*/) const noexcept override { return false; }
    PeId own_pe() const noexcept override { return kNoPe; }
    void service_woken(std::int64_t /*now_ns*/) noexcept override {
        note([&] { ++n_woken; });
    }
    int service_timeout_ms(std::int64_t /*now_ns*/) const noexcept override { return timeout_ms.load(); }
    void end_by_service(const std::string& line) noexcept override {
        note([&] { last_line = line; });
    }
    void before_kill() noexcept override {}

    // CheckpointActions
    void replicate(Version /*version*/) override {}
    void update_local_copy(Version /*version*/) override {}
    Outcome restore(const JobState& /*state*/) override { return Outcome::ok; }
    Outcome protect(const JobState& /*state*/) override { return Outcome::ok; }

    template <class Condition>
    [[nodiscard]] bool await(Condition condition) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, kPatience, condition);
    }

    std::vector<Death> deaths;
    bool is_stopped = false;
    std::atomic<int> n_woken{0};
    std::string last_line;
    std::atomic<int> timeout_ms{-1};

private:
    template <class Change>
    void note(Change change) {
        const std::lock_guard lock(mutex_);
        change();
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
};

class OneChild : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(good(control_.create(1, 2)));
        const std::optional<MailToken> token = make_mail_token();
        ASSERT_TRUE(token);
        ASSERT_TRUE(good(mailbox_.open({.token = *token, .self = kSelf, .bytes_max = kMessageBytesMax})));
        coordinator_ = std::make_unique<Coordinator>(Coordinator::Options{.shape = {.n_pes = 1, .n_processes = 2},
                                                                          .self = kSelf,
                                                                          .mailbox = &mailbox_,
                                                                          .actions = &told_,
                                                                          .observer = &told_});
        child_ = ::fork();
        if (child_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                ::pause();
            }
        }
        enter(kChild, child_);
        enter(kSelf, ::getpid());
    }
    void TearDown() override {
        if (service_ != nullptr) {
            service_->stop();
        }
        if (child_ > 0) {
            ::kill(child_, SIGKILL);
            ::waitpid(child_, nullptr, 0);
        }
    }

    void enter(ProcId process, pid_t pid) {
        ProcessSlot& slot = control_.slot(process);
        slot.pid = pid;
        slot.start_time = process_start_time(pid);
        slot.state.store(ProcessState::ready);
    }
    void create(std::int64_t hang_bound_ns = 0) {
        service_ = std::make_unique<FailureService>(FailureService::Options{.control = &control_,
                                                                            .coordinator = coordinator_.get(),
                                                                            .channel = &channel_,
                                                                            .host = &told_,
                                                                            .self = kSelf,
                                                                            .hang_bound_ns = hang_bound_ns});
    }
    void start(std::int64_t hang_bound_ns = 0) {
        create(hang_bound_ns);
        ASSERT_TRUE(service_->watch_processes());
        ASSERT_TRUE(service_->start());
    }
    [[nodiscard]] bool hears_of_death(FailureReason& reason) {
        const bool has_heard = told_.await([&] { return !told_.deaths.empty(); });
        if (has_heard) {
            EXPECT_EQ(told_.deaths.front().process, kChild);
            EXPECT_TRUE(told_.deaths.front().is_certain);
            reason = told_.deaths.front().reason;
        }
        return has_heard;
    }

    ControlSegment control_;
    Mailbox mailbox_;
    JobChannel channel_;
    Told told_;
    std::unique_ptr<Coordinator> coordinator_;
    std::unique_ptr<FailureService> service_;
    pid_t child_ = -1;
};

TEST_F(OneChild, ADeathIsHeardOfOnce) {
    start();
    ::kill(child_, SIGTERM);
    FailureReason reason;
    ASSERT_TRUE(hears_of_death(reason));
    EXPECT_EQ(reason, (FailureReason{FailureKind::signal, SIGTERM}));
    service_->stop();
    EXPECT_EQ(told_.deaths.size(), 1U);
    EXPECT_TRUE(coordinator_->is_dead(kChild));
}

TEST_F(OneChild, WhoWasDeadBeforeAnybodyWatchedIsHeardOf) {
    control_.slot(kChild).start_time += 1;  // somebody else has its pid by now
    start();
    FailureReason reason;
    ASSERT_TRUE(hears_of_death(reason));
    EXPECT_EQ(reason.kind, FailureKind::died);
}

TEST_F(OneChild, WhoWasThroughHasLeftAndIsNotDead) {
    start();
    control_.slot(kChild).state.store(ProcessState::finalized);
    ::kill(child_, SIGKILL);
    // It keeps the only copy, so it takes part in what is decided, and the end has been decided without it.
    ASSERT_TRUE(told_.await([&] { return told_.is_stopped; }));
    EXPECT_FALSE(coordinator_->is_dead(kChild));
    EXPECT_TRUE(told_.deaths.empty());
}

TEST_F(OneChild, WhoStandsStillIsKilledAndThenDead) {
    control_.slot(kChild).heartbeat.store(1);  // it was through its start
    start(200'000'000);
    FailureReason reason;
    ASSERT_TRUE(hears_of_death(reason));
    EXPECT_EQ(reason.kind, FailureKind::hung);
    int status = 0;
    ASSERT_EQ(::waitpid(child_, &status, WNOHANG), child_) << "it was killed before it was declared dead";
    EXPECT_TRUE(WIFSIGNALED(status));
    child_ = -1;
}

TEST_F(OneChild, TheOwnHeartbeatMovesUntilExit) {
    start(100'000'000);
    std::atomic<std::uint32_t>& heartbeat = control_.slot(kSelf).heartbeat;
    ASSERT_TRUE(told_.await([&] { return heartbeat.load() >= 3; }));
    control_.slot(kSelf).exit_status.store(1);
    service_->wake();
    const int n_woken = told_.n_woken.load();
    ASSERT_TRUE(told_.await([&] { return told_.n_woken > n_woken + 1; }));
    const std::uint32_t seen = heartbeat.load();
    ASSERT_TRUE(told_.await([&] { return !told_.deaths.empty() || told_.n_woken > n_woken + 4; }));
    EXPECT_EQ(heartbeat.load(), seen);
}

TEST_F(OneChild, ADescriptorOfSomebodyElse) {
    create();
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    std::atomic<std::uint64_t> heard{0};
    service_->watch_descriptor(fd, [&] {
        std::uint64_t count = 0;
        if (::read(fd, &count, sizeof count) == sizeof count) {
            heard.fetch_add(count);
        }
        told_.service_woken(0);
    });
    ASSERT_TRUE(service_->watch_processes());
    ASSERT_TRUE(service_->start());
    const std::uint64_t two = 2;
    ASSERT_EQ(::write(fd, &two, sizeof two), static_cast<ssize_t>(sizeof two));
    EXPECT_TRUE(told_.await([&] { return heard.load() == 2; }));
    service_->stop();
    ::close(fd);
}

TEST_F(OneChild, TheHostChoosesWhenTheThreadWakes) {
    told_.timeout_ms.store(1);
    start();
    EXPECT_TRUE(told_.await([&] { return told_.n_woken >= 3; }));
}

TEST_F(OneChild, WhoIsStillStartingHasEnded) {
    control_.slot(kChild).state.store(ProcessState::starting);
    create();
    const Result<> watched = service_->watch_processes();
    ASSERT_FALSE(watched);
    EXPECT_EQ(watched.error().line, "process 0 of the job ended inside shmem_init");
}

TEST_F(OneChild, OnOneNodeThereIsNobodyToBeCutOffFrom) {
    create();
    EXPECT_TRUE(service_->has_lease());
}

TEST_F(OneChild, StopBeforeStartAndTwice) {
    create();
    service_->stop();
    service_.reset();
    start();
    service_->stop();
    service_->stop();
}

TEST_F(OneChild, TwoNodesTheLeaseIsTheLowestOnesAndEnds) {
    const Lease lease({.control = &control_, .self = kSelf, .bound_ns = 100, .is_one_node = false});
    Lease other({.control = &control_, .self = kChild, .bound_ns = 100, .is_one_node = false});
    other.begin(1000, false);
    EXPECT_TRUE(lease.is_held(1099));
    EXPECT_FALSE(lease.is_held(1100));
    other.renew(NodeWatch::kAlways);
    EXPECT_TRUE(lease.is_held(1'000'000));
    other.begin(1000, true);
    control_.slot(kSelf).lease_ns.store(NodeWatch::kNever);
    EXPECT_FALSE(lease.is_held(1000)) << "it has just joined";
}

TEST_F(OneChild, AWatchIsKilledAndItsEndTakenOnce) {
    ProcessWatches watches(control_);
    EXPECT_EQ(watches.watch(kChild).reach, Reach::opened);
    EXPECT_TRUE(watches.is_watched(kChild));
    EXPECT_FALSE(watches.is_watched(kSelf));
    EXPECT_TRUE(watches.ended().empty());
    watches.kill(kSelf);  // nothing happens
    watches.kill(kChild);
    pollfd polled{watches.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&polled, 1, 20'000), 1);
    EXPECT_EQ(watches.ended(), std::vector<ProcId>{kChild});
    EXPECT_EQ(watches.ended(), std::vector<ProcId>{kChild}) << "until its end is taken";
    EXPECT_EQ(watches.take_end(kChild), (FailureReason{FailureKind::signal, SIGKILL}));
    EXPECT_FALSE(watches.is_watched(kChild));
    EXPECT_TRUE(watches.ended().empty());
    EXPECT_DEATH(static_cast<void>(watches.take_end(kChild)), "is_watched");
}

// A child made by fork() has the descriptors as well, which keeps them in a set of epoll that nobody takes them out of.
TEST_F(OneChild, AnEndThatIsTakenIsNotFoundAgainThoughAChildHasItsDescriptorOpen) {
    ProcessWatches watches(control_);
    ASSERT_EQ(watches.watch(kChild).reach, Reach::opened);
    int held[2];
    ASSERT_EQ(::pipe(held), 0);
    const pid_t other = ::fork();
    if (other == 0) {
        char byte = 0;
        ::close(held[1]);
        [[maybe_unused]] const auto n = ::read(held[0], &byte, 1);
        ::_exit(0);
    }
    watches.kill(kChild);
    pollfd polled{watches.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&polled, 1, 20'000), 1);
    static_cast<void>(watches.take_end(kChild));
    EXPECT_EQ(::poll(&polled, 1, 0), 0);
    EXPECT_TRUE(watches.ended().empty());
    ::close(held[0]);
    ::close(held[1]);
    ::waitpid(other, nullptr, 0);
}

TEST(UnseenLosses, NewOnesThatNobodyHasSeen) {
    const Death seen{ProcId(1), {FailureKind::signal, 9}, true};
    const Death lost{ProcId(2), {FailureKind::unreachable, 0}, false};
    const Death later{ProcId(3), {FailureKind::unreachable, 0}, false};
    EXPECT_TRUE(unseen_losses({}, std::vector<Death>{seen}).empty());
    EXPECT_EQ(unseen_losses(std::vector<Death>{lost}, std::vector<Death>{lost, seen, later}),
              std::vector<ProcId>{ProcId(3)});
}

}  // namespace
}  // namespace sft
