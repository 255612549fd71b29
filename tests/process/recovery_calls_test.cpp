// The calls of shmem_ft.h in a job of one PE, whose agreement is with itself: what is done before and after it. What
// several PEs agree on is in tests/recovery and the simulator, whole recoveries in tests/fault.
#include "shmem_ft/process/recovery_calls.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/instruments.hpp"
#include "base/report.hpp"
#include "tests/ops/harness.hpp"
#include "tests/process/guardian.hpp"
#include "tests/recovery/nobody.hpp"

namespace sft {
namespace {

class RecoveryCallsTest : public ::testing::Test {
protected:
    RecoveryCallsTest() {
        EXPECT_TRUE(good(load_config(config_)));
        config_.memory_domains = false;
        config_.events = true;  // each span is an event for oshrun
        EXPECT_TRUE(good(control_.create(1, 1)));
        EXPECT_TRUE(
            good(memory_.create({.globals = GlobalsMode::no,
                                 .heap_base = kHeapBaseUnderThreadSanitizer,  // free without it as well
                                 .heap_bytes = std::size_t{1} << 20,
                                 .library = {reinterpret_cast<std::uintptr_t>(library_.data()), library_.size()}})));
        EXPECT_TRUE(good(protector_.create(BackupMode::double_copy, 1)));
        bootstrap_.join_existing(ProcId(0), 1, true);
    }
    ~RecoveryCallsTest() override { attach_engine(nullptr); }

    // After what the test has changed in the settings.
    void open() {
        guardian_.connect(channel_);
        fault_policy_.open({.action = config_.on_fault,
                            .me = [this] { return me_.get(); },
                            .has_joined = [this] { return me_.has_joined(); },
                            .agree = [this] { return calls_.check_status(); },
                            .end_job = [this](const std::string& line) { job_exit_.fail_job(line); }});
        lines_.open({.coordinator = &coordinator_, .control = &control_});
        peers_.open({.control = &control_,
                     .n_pes = 1,
                     .heap = memory_.live().heap,
                     .heap_window_bytes = memory_.heap_segment().bytes(),
                     .globals = {},
                     .gate = &engine_.gate,
                     .is_dead = [](ProcId) { return false; },
                     .is_remote = [](ProcId) { return false; }});
        program_start_.open({.engine = &engine_,
                             .memory = &memory_,
                             .peers = &peers_,
                             .control = &control_,
                             .status = &status_,
                             .channel = &channel_,
                             .self = ProcId(0),
                             .me = &me_,
                             .phase_changed = [] {},
                             .report_span = [](const char*, std::int64_t, std::uint64_t) {}});
        actions_.open({.coordinator = &coordinator_,
                       .protector = &protector_,
                       .peers = &peers_,
                       .init_calls = &init_calls_,
                       .control = &control_,
                       .me = &me_,
                       .saved_init_calls = &engine_.init_calls,
                       .before_replicating = [] {}});
        job_exit_.open({.self = ProcId(0),
                        .slot = &slot_,
                        .gate = &engine_.gate,
                        .coordinator = &coordinator_,
                        .explain = [](const JobState&) { return std::string(); },
                        .tell_data_lost = [](const std::vector<PeId>&) {},
                        .say_goodbye = [](Stage) {}});
        calls_.open({.config = &config_,
                     .take_notes = [] {},
                     .start_idle_work = [] { return Result<>(); },
                     .me = &me_,
                     .channel = &channel_,
                     .engine = &engine_,
                     .links = &links_,
                     .peers = &peers_,
                     .protector = &protector_,
                     .heap_guard = &heap_guard_,
                     .memory = &memory_,
                     .coordinator = &coordinator_,
                     .actions = &actions_,
                     .init_calls = &init_calls_,
                     .program_start = &program_start_,
                     .storage = &storage_,
                     .checks = &checks_,
                     .fault_policy = &fault_policy_,
                     .spare_wait = &spare_wait_,
                     .status = &status_,
                     .lines = &lines_,
                     .job_exit = &job_exit_});
    }
    [[nodiscard]] std::uint64_t version() const { return coordinator_.state().version.value(); }
    // Names of the spans that oshrun has been told since the last look, and their values.
    [[nodiscard]] std::vector<std::string> spans() {
        std::vector<std::string> found;
        for (JobEvent event = guardian_.told(); event.kind != JobEventKind{}; event = guardian_.told()) {
            if (event.kind == JobEventKind::span) {
                EXPECT_LE(event.begin_ns, event.end_ns);
                found.push_back(std::string(event.text) + " " + std::to_string(event.value));
            }
        }
        return found;
    }

    alignas(64) std::array<std::byte, 256> library_{};
    Config config_;
    OwnPe me_{PeId(0)};
    JobChannel channel_;
    Guardian guardian_;
    Bootstrap bootstrap_;
    ControlSegment control_;
    ProcessSlot slot_{};  // the segment is not there in the children of death tests
    Alone alone_;
    Coordinator& coordinator_ = alone_.coordinator;
    NodeLinks links_{{.config = &config_, .bootstrap = &bootstrap_, .control = &control_, .mailbox = &alone_.mailbox}};
    SymmetricMemory memory_;
    Protector protector_{memory_.live()};
    sft::testing::Job job_{1, 4096};
    Engine& engine_ = job_.engine(0);
    PeerMap peers_;
    HeapGuard heap_guard_;
    CallChecks checks_;
    ProgramStart program_start_;
    Storage storage_;
    InitCalls init_calls_;
    MemoryActions actions_;
    StatusPublisher status_{
        {.control = &control_, .coordinator = &coordinator_, .protector = &protector_, .self = ProcId(0)}};
    FaultPolicy fault_policy_;
    SpareWait spare_wait_;
    JobLines lines_;
    JobExit job_exit_{channel_, me_};
    RecoveryCalls calls_;
};

using RecoveryCallsDeathTest = RecoveryCallsTest;

struct Told {
    std::vector<std::string> events;
    int refuses = 0;  // the event that it does not return 0 to
};

int note(int event, unsigned long long version, void* context) {
    Told& told = *static_cast<Told*>(context);
    told.events.push_back(std::to_string(event) + " of " + std::to_string(version));
    return event == told.refuses ? 7 : 0;
}

TEST_F(RecoveryCallsTest, EachCallMakesAVersionAndTellsTheProgram) {
    open();
    Told told;
    ASSERT_TRUE(calls_.on_version(&note, &told));
    EXPECT_EQ(calls_.checkpoint_all(), 0);
    EXPECT_EQ(version(), 1U);
    EXPECT_EQ(calls_.checkpoint_all(), 0);
    EXPECT_EQ(version(), 2U);
    EXPECT_EQ(told.events, (std::vector<std::string>{"1 of 1", "2 of 1", "1 of 2", "2 of 2"}));
    EXPECT_EQ(spans(), (std::vector<std::string>{"checkpoint 1", "checkpoint 2"}));
}

// The first one is made in the call, since it ends the start-up.
TEST_F(RecoveryCallsTest, WhatIsMadeInTheBackgroundIsHeardOfLater) {
    open();
    Told told;
    ASSERT_TRUE(calls_.on_version(&note, &told));
    EXPECT_EQ(calls_.checkpoint_wait(), 0) << "there is nothing to wait for";
    EXPECT_EQ(calls_.checkpoint_test(), 0);
    EXPECT_EQ(calls_.checkpoint_nb(), 0);
    EXPECT_EQ(version(), 1U);
    EXPECT_EQ(told.events, (std::vector<std::string>{"1 of 1", "2 of 1"}));
    told.events.clear();
    EXPECT_EQ(calls_.checkpoint_nb(), 0);
    EXPECT_EQ(told.events, (std::vector<std::string>{"1 of 2"}));
    EXPECT_EQ(calls_.checkpoint_wait(), 0);
    EXPECT_EQ(version(), 2U);
    EXPECT_EQ(told.events, (std::vector<std::string>{"1 of 2", "2 of 2"}));
    EXPECT_EQ(calls_.checkpoint_nb(), 0);
    for (int asked = kPending; asked == kPending;) {
        asked = calls_.checkpoint_test();
        EXPECT_TRUE(asked == 0 || asked == kPending);
    }
    EXPECT_EQ(version(), 3U);
    EXPECT_EQ(spans(), (std::vector<std::string>{"checkpoint 1", "checkpoint 2", "checkpoint 3"}));
}

TEST_F(RecoveryCallsTest, EveryOtherCallWaitsForWhatIsMadeInTheBackground) {
    open();
    Told told;
    ASSERT_TRUE(calls_.on_version(&note, &told));
    EXPECT_EQ(calls_.checkpoint_all(), 0);
    EXPECT_EQ(calls_.checkpoint_nb(), 0);
    EXPECT_EQ(calls_.checkpoint_nb(), 0);
    EXPECT_EQ(calls_.checkpoint_all(), 0);
    EXPECT_EQ(version(), 4U);
    EXPECT_EQ(calls_.checkpoint_nb(), 0);
    calls_.finish([] {});
    EXPECT_EQ(version(), 5U);
    EXPECT_EQ(told.events.size(), 10U);
    EXPECT_EQ(told.events.back(), "2 of 5");
}

TEST_F(RecoveryCallsTest, OfCallsThatAreNotDueNothingComes) {
    config_.interval = {.kind = CheckpointInterval::Kind::calls, .amount = 3};
    open();
    Told told;
    ASSERT_TRUE(calls_.on_version(&note, &told));
    std::vector<std::uint64_t> versions;
    for (int call = 0; call < 7; ++call) {
        EXPECT_EQ(calls_.checkpoint_all(), 0);
        versions.push_back(version());
    }
    EXPECT_EQ(versions, (std::vector<std::uint64_t>{1, 1, 1, 2, 2, 2, 3}));
    EXPECT_EQ(told.events.size(), 6U);
}

TEST_F(RecoveryCallsTest, ASubstituteThatHasNotJoinedMakesNone) {
    open();
    OwnPe spare;
    spare.become_spare();
    spare.take(PeId(0));
    RecoveryCalls::Options options;
    options.config = &config_;
    options.me = &spare;
    options.coordinator = &coordinator_;
    options.actions = &actions_;
    options.job_exit = &job_exit_;
    options.heap_guard = &heap_guard_;
    calls_.open(options);
    EXPECT_EQ(calls_.checkpoint_all(), kFailure);
    EXPECT_EQ(version(), 0U);
}

TEST_F(RecoveryCallsTest, PrivateMemoryIsSavedBehindTheHandlersAndOnlyBeforeTheFirstVersion) {
    open();
    static long counted;
    counted = 0;
    ASSERT_TRUE(calls_.on_version(
        [](int event, unsigned long long, void*) {
            counted += event == 1 ? 10 : 1000;
            return 0;
        },
        nullptr));
    EXPECT_TRUE(calls_.may_include());
    auto* const place = reinterpret_cast<long*>(memory_.heap().begin);
    ASSERT_TRUE(calls_.include(&counted, place, sizeof counted));
    EXPECT_EQ(calls_.checkpoint_all(), 0);
    EXPECT_EQ(*place, 10);
    EXPECT_EQ(counted, 1010);
    EXPECT_EQ(calls_.checkpoint_all(), 0);
    EXPECT_EQ(*place, 1020);
    EXPECT_FALSE(calls_.may_include());
}

// The limit is below what is in use already, so there never is room; said once, not by every call.
TEST_F(RecoveryCallsTest, WithoutRoomForCopiesTheLastVersionStays) {
    config_.memory_limit_bytes = 1;
    open();
    BackupStore::KeeperLocation self;  // it keeps its own copy
    self.process = ProcId(0);
    self.pid = ::getpid();
    self.start_time = process_start_time(self.pid);
    self.store_fd = protector_.store().segment().fd();
    ASSERT_TRUE(good(protector_.use_keeper(self, PeId(0))));
    std::memset(reinterpret_cast<void*>(memory_.heap().begin), 1, std::size_t{1} << 19);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(calls_.checkpoint_all(), kOutOfMemory);
    EXPECT_EQ(calls_.checkpoint_all(), kOutOfMemory);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(version(), 0U);
    EXPECT_EQ(said.rfind("shmem-ft: warning: no checkpoint: the copies of the 1 PEs on node 0 take ", 0), 0U) << said;
    EXPECT_NE(said.find("SHMEM_FT_MEMORY_LIMIT is 0 MiB"), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
    config_.memory_limit_bytes = 0;
    EXPECT_EQ(calls_.checkpoint_all(), 0) << "it is asked again";
    EXPECT_EQ(version(), 1U);
}

TEST_F(RecoveryCallsTest, NobodyHasFailed) {
    open();
    int some = 0;
    int* pes = &some;
    int* status = &some;
    std::size_t n = 5;
    calls_.query_fault(&pes, &status, &n);
    EXPECT_EQ(n, 0U);
    EXPECT_EQ(pes, nullptr);
    EXPECT_EQ(status, nullptr);
    EXPECT_FALSE(calls_.check_status());
}

TEST_F(RecoveryCallsTest, WhatIsInitialisedCountsUntilTheNextVersion) {
    open();
    EXPECT_EQ(calls_.algo_init(), 1);
    EXPECT_TRUE(spans().empty()) << "there is nothing to go back to yet";
    EXPECT_EQ(calls_.checkpoint_all(), 0);
    EXPECT_EQ(calls_.algo_init(), 1);
    EXPECT_EQ(spans(), (std::vector<std::string>{"checkpoint 1", "initialise 1"}));
    EXPECT_TRUE(init_calls_.is_ahead());
}

TEST_F(RecoveryCallsTest, TheEndIsAgreedOnBeforeAnythingIsTakenDown) {
    config_.quiet = true;
    open();
    bool has_left = false;
    calls_.finish([&] {
        has_left = true;
        EXPECT_EQ(coordinator_.state().stage, Stage::finished);
    });
    EXPECT_TRUE(has_left);
}

TEST_F(RecoveryCallsDeathTest, HandlerThatRefusesEndsTheJobWithOneLine) {
    const auto refuse = [this](int event) {
        open();
        channel_.close();  // it says the line itself
        Told told;
        told.refuses = event;
        static_cast<void>(calls_.on_version(&note, &told));
        static_cast<void>(calls_.checkpoint_all());
    };
    const std::string line = "^shmem-ft: error: PE 0: a handler of shmem_ft_on_version returned 7 ";
    EXPECT_EXIT(refuse(1), ::testing::ExitedWithCode(kExitError), line + "before version 1\n$");
    EXPECT_EXIT(refuse(2), ::testing::ExitedWithCode(kExitError), line + "after version 1\n$");
}

TEST_F(RecoveryCallsDeathTest, ThereIsNothingToRecoverFrom) {
    EXPECT_EXIT(
        {
            open();
            channel_.close();
            calls_.recover();
        },
        ::testing::ExitedWithCode(kExitError),
        "^shmem-ft: error: PE 0: shmem_ft_recover was called although no PE has failed");
}

}  // namespace
}  // namespace sft
