// What a process does with its memory and its copies, with a keeper that is a real process: alive and well, dead, or
// alive with a store that cannot be opened.
#include "recovery/memory_actions.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "recovery/membership/message.hpp"
#include "recovery/membership/scheme.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/recovery/nobody.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::int32_t kPes = 2;
constexpr std::int32_t kProcesses = 3;
constexpr ProcId kSelf{0};  // PE 0
constexpr int kEnded = 77;

// This process as PE 0, and a child that keeps for it.
class Job {
public:
    Job() { start(); }
    ~Job() {
        if (child_ > 0) {
            end_keeper();
        }
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    void start() {
        ASSERT_TRUE(good(control_.create(kPes, kProcesses)));
        const std::optional<MailToken> token = make_mail_token();
        ASSERT_TRUE(token);
        ASSERT_TRUE(good(mailbox_.open({.token = *token, .self = kSelf, .bytes_max = kMessageBytesMax})));
        coordinator_ = std::make_unique<Coordinator>(
            Coordinator::Options{.shape = {.n_pes = kPes, .n_processes = kProcesses, .scheme = &one_partner()},
                                 .self = kSelf,
                                 .mailbox = &mailbox_,
                                 .actions = &nobody_,
                                 .observer = &nobody_});
        keeper_ = first_holder(sources_of(coordinator_->shape(), coordinator_->state(), PeId(0)));
        ASSERT_NE(keeper_, kNoProc);
        ASSERT_NE(keeper_, kSelf);
        ASSERT_TRUE(good(store_.create(BackupMode::double_copy, live_.state, kPes)));
        ASSERT_TRUE(good(protector_.create(BackupMode::double_copy, kPes)));
        child_ = ::fork();
        if (child_ == 0) {  // it has the store's descriptor
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                ::pause();
            }
        }
        for (std::int32_t process = 0; process < kProcesses; ++process) {
            enter(ProcId(process), ProcId(process) == keeper_ ? child_ : ::getpid());
        }
        peers_.open({.control = &control_,
                     .n_pes = kPes,
                     .heap = live_.state.heap,
                     .heap_window_bytes = live_.heap.bytes(),
                     .globals = {},
                     .gate = &gate_,
                     .is_dead = [this](ProcId process) { return coordinator_->is_dead(process); },
                     .is_remote = [](ProcId) { return false; }});
        ASSERT_TRUE(good(peers_.reserve(PeId(0))));
        me_.take(PeId(0));
        open_actions();
    }

    void enter(ProcId process, pid_t pid) {
        ProcessSlot& slot = control_.slot(process);
        slot.pid = pid;
        slot.start_time = process_start_time(pid);
        slot.heap_fd = live_.heap.fd();
        slot.globals_fd = -1;
        slot.store_fd = store_.fd();
    }
    void open_actions() {
        actions_.open({.coordinator = coordinator_.get(),
                       .protector = &protector_,
                       .peers = &peers_,
                       .init_calls = &init_calls_,
                       .control = &control_,
                       .me = &me_,
                       .saved_init_calls = &saved_init_calls_,
                       .is_remote = [](ProcId) { return false; },
                       .before_replicating = [this] { called_ += "before "; },
                       .committed = [this](Version version) { called_ += format("committed %u ", version.value()); },
                       .restored = [this] { called_ += "restored "; },
                       .after_restoring = [this] { called_ += "after "; },
                       .reset_channels = [this](const JobState&) { called_ += "reset "; },
                       .end_job =
                           [](const std::string& line) {
                               std::fprintf(stderr, "%s\n", line.c_str());
                               ::_exit(kEnded);
                           }});
    }
    void end_keeper() {
        ::kill(child_, SIGKILL);
        ::waitpid(child_, nullptr, 0);
        child_ = 0;
    }
    [[nodiscard]] JobState state_of(Version version) const {
        JobState state = coordinator_->state();
        state.version = version;
        return state;
    }
    // What it calls of the rest of the library, in order.
    [[nodiscard]] std::string called() { return std::exchange(called_, ""); }

    LiveMemory live_{8};
    ControlSegment control_;
    Mailbox mailbox_;
    Nobody nobody_;
    std::unique_ptr<Coordinator> coordinator_;
    BackupStore store_;  // the keeper's
    Protector protector_{live_.state};
    FaultGate gate_;
    PeerMap peers_;
    OwnPe me_;
    InitCalls init_calls_;
    std::uint64_t saved_init_calls_ = 0;
    MemoryActions actions_;
    ProcId keeper_ = kNoProc;
    pid_t child_ = 0;
    std::string called_;
};

class MemoryActionsTest : public testing::Test, public Job {};

TEST_F(MemoryActionsTest, AVersionIsMadeAndGoneBackTo) {
    ASSERT_TRUE(good(actions_.use_first_keepers()));
    EXPECT_EQ(protector_.keepers(), std::vector{keeper_});
    EXPECT_TRUE(init_calls_.enter(false));
    EXPECT_TRUE(init_calls_.is_ahead());
    live_.heap.address()[100] = std::byte(1);
    actions_.replicate(Version(1));
    EXPECT_EQ(called(), "before ");
    EXPECT_EQ(saved_init_calls_, 1U) << "it belongs to what is saved";
    EXPECT_TRUE(init_calls_.is_ahead()) << "it is not committed yet";
    actions_.update_local_copy(Version(1));
    EXPECT_EQ(called(), "committed 1 ");
    EXPECT_FALSE(init_calls_.is_ahead());
    live_.heap.address()[100] = std::byte(2);
    EXPECT_EQ(actions_.restore(state_of(Version(1))), CheckpointActions::Outcome::ok);
    EXPECT_EQ(live_.heap.address()[100], std::byte(1));
    EXPECT_EQ(called(), "restored after ");
}

TEST_F(MemoryActionsTest, AVersionThatNobodyHasIsCorruptAndSaysWhy) {
    ASSERT_TRUE(good(actions_.use_first_keepers()));
    actions_.replicate(Version(1));
    actions_.update_local_copy(Version(1));
    static_cast<void>(called());
    EXPECT_EQ(actions_.restore(state_of(Version(2))), CheckpointActions::Outcome::corrupt);
    EXPECT_NE(actions_.why_lost(), "");
    EXPECT_EQ(called(), "after ") << "whatever has been read is of no use";
}

TEST_F(MemoryActionsTest, AKeeperThatIsDeadAtTheStartIsNoError) {
    end_keeper();
    EXPECT_TRUE(good(actions_.use_first_keepers()));
    EXPECT_TRUE(protector_.keepers().empty());
}

TEST_F(MemoryActionsTest, AStoreThatCannotBeOpenedAtTheStartIsOne) {
    control_.slot(keeper_).store_fd = 999;
    const Result<> used = actions_.use_first_keepers();
    ASSERT_FALSE(used);
    EXPECT_EQ(used.error().failure, Failure::cannot_be_opened) << used.error().line;
}

TEST_F(MemoryActionsTest, WhoIsToKeepAndHasDiedIsDecidedAbout) {
    end_keeper();
    coordinator_->process_died(Death{.process = keeper_, .reason = {}, .is_certain = true});
    EXPECT_EQ(actions_.protect(state_of(Version(1))), CheckpointActions::Outcome::source_gone);
    EXPECT_EQ(called(), "") << "nobody is protected";
}

// The holder of the other PE has changed, and with it who keeps for this one.
TEST_F(MemoryActionsTest, WhoIsProtectedAnewHasItsCopyThere) {
    constexpr ProcId kNext{2};
    live_.heap.address()[100] = std::byte(3);
    JobState state = state_of(Version(1));
    state.replacements = {Replacement{.pe = PeId(1), .process = kNext}};
    ASSERT_EQ(first_holder(targets_of(coordinator_->shape(), state, PeId(0))), kNext);
    EXPECT_EQ(actions_.protect(state), CheckpointActions::Outcome::ok);
    EXPECT_EQ(called(), "reset ");
    EXPECT_EQ(protector_.keepers(), std::vector{kNext});
    LiveMemory substitute(8);
    const BackupStore::KeeperLocation location{
        .pid = ::getpid(), .start_time = process_start_time(::getpid()), .store_fd = store_.fd(), .process = kNext};
    EXPECT_EQ(BackupStore::fetch(location, PeId(0), Version(1), substitute.state), BackupStore::Fetched::done);
    EXPECT_EQ(substitute.heap.address()[100], std::byte(3));
}

// Nobody would decide anything about one that lives, so this process has to say what is wrong, after a while in which
// its death could have become known.
TEST(MemoryActionsDeathTest, WhoLivesAndCannotBeReachedEndsTheJobWithALine) {
    const auto protect = [] {
        Job job;
        job.control_.slot(job.keeper_).store_fd = 999;
        static_cast<void>(job.actions_.protect(job.state_of(Version(1))));
    };
    EXPECT_EXIT(protect(), testing::ExitedWithCode(kEnded), "PE 0 cannot reach the memory of process 1, which lives: ");
}

}  // namespace
}  // namespace sft
