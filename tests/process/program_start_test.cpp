// The start-up of the program of one PE, beside an oshrun that the test plays. What is recorded and repeated there is
// in tests/ops/startup_log_test.cpp and tests/startup.
#include "shmem_ft/process/program_start.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/instruments.hpp"
#include "tests/process/guardian.hpp"
#include "tests/recovery/nobody.hpp"

namespace sft {
namespace {

constexpr std::int32_t kPes = 2;
constexpr std::size_t kHeapBytes = std::size_t{1} << 20;

// The standard input as it was, when the test is over.
class InputKept {
public:
    InputKept() : kept_(::dup(STDIN_FILENO)) {}
    ~InputKept() {
        ::dup2(kept_, STDIN_FILENO);
        ::close(kept_);
    }
    InputKept(const InputKept&) = delete;
    InputKept& operator=(const InputKept&) = delete;

private:
    int kept_;
};

class ProgramStartTest : public ::testing::Test {
protected:
    ProgramStartTest() {
        EXPECT_TRUE(good(control_.create(kPes, kPes + 1)));
        engine_.peers.n_pes = kPes;
        engine_.peers.me = PeId(0);
        engine_.peers.entries = entries_.data();
    }
    ~ProgramStartTest() override { attach_engine(nullptr); }

    void create_memory(std::size_t record_bytes) {
        SymmetricMemory::Options options;
        options.globals = GlobalsMode::no;
        options.heap_base = kHeapBaseUnderThreadSanitizer;  // free without it as well
        options.heap_bytes = kHeapBytes;
        options.record_bytes = record_bytes;
        ASSERT_TRUE(good(memory_.create(options)));
        protector_.emplace(memory_.live());
        ASSERT_TRUE(good(protector_->create(BackupMode::double_copy, kPes)));
        status_.emplace(StatusPublisher::Options{
            .control = &control_, .coordinator = &alone_.coordinator, .protector = &*protector_, .self = ProcId(0)});
    }
    void open(ProgramStart& start, const OwnPe& me, std::uint32_t life = 1) {
        ProgramStart::Options options;
        options.engine = &engine_;
        options.memory = &memory_;
        options.peers = &peers_;
        options.control = &control_;
        options.status = &*status_;
        options.channel = &channel_;
        options.job_socket = guardian_.socket().name();
        options.self = ProcId(0);
        options.me = &me;
        options.life = life;
        options.phase_changed = [this] { ++n_changed_; };
        options.report_span = [this](const char* name, std::int64_t begin_ns, std::uint64_t version) {
            EXPECT_GT(begin_ns, 0);
            EXPECT_LE(begin_ns, now_ns());
            spans_.push_back(std::string(name) + " " + std::to_string(version));
        };
        start.open(options);
    }
    [[nodiscard]] StartupPhase shown() {
        ProcessStatus status;
        EXPECT_TRUE(control_.slot(ProcId(0)).status.read(status));
        return static_cast<StartupPhase>(status.startup);
    }
    // Oshrun takes the line for input, which must come, and answers with `descriptor`.
    [[nodiscard]] std::thread answer_input(int descriptor) {
        return std::thread([this, descriptor] {
            pollfd entry{.fd = guardian_.socket().fd(), .events = POLLIN, .revents = 0};
            ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
            const std::optional<tools::JobSocket::Peer> peer = guardian_.socket().accept();
            ASSERT_TRUE(peer);
            entry.fd = peer->fd.get();
            ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
            ASSERT_EQ(tools::JobSocket::receive(*peer, wanted_), tools::JobSocket::Received::event);
            tools::JobSocket::answer(*peer, descriptor);
        });
    }

    ControlSegment control_;
    SymmetricMemory memory_;
    std::optional<Protector> protector_;
    PeerMap peers_;
    std::array<PeerEntry, kPes> entries_;
    Engine engine_;
    JobChannel channel_;
    Alone alone_;
    std::optional<StatusPublisher> status_;
    Guardian guardian_;
    JobEvent wanted_;
    int n_changed_ = 0;
    std::vector<std::string> spans_;
};

TEST_F(ProgramStartTest, WithoutARecordItOnlyHasABeginAndAnEnd) {
    create_memory(0);
    guardian_.connect(channel_);
    const OwnPe me(PeId(0));
    ProgramStart start;
    open(start, me);
    start.enter();
    EXPECT_EQ(start.phase(), ProgramPhase::start_up);
    start.record();
    EXPECT_EQ(engine_.startup, nullptr);
    start.close();
    start.end(Version(1));
    EXPECT_EQ(start.phase(), ProgramPhase::running);
    EXPECT_EQ(spans_, std::vector<std::string>{"start-up 1"});
    EXPECT_EQ(n_changed_, 1);
    EXPECT_EQ(guardian_.told().kind, JobEventKind{}) << "nobody waits for its end: no input is kept";
}

TEST_F(ProgramStartTest, RecordEndsWithTheFirstVersion) {
    create_memory(kBlockBytes);
    const OwnPe me(PeId(0));
    ProgramStart start;
    open(start, me);  // without oshrun
    start.enter();
    start.record();
    ASSERT_NE(engine_.startup, nullptr);
    EXPECT_TRUE(engine_.startup->is_recording());
    EXPECT_EQ(shown(), StartupPhase::recording);
    start.close();
    EXPECT_FALSE(engine_.startup->is_recording());
    EXPECT_EQ(shown(), StartupPhase::closed);
    EXPECT_EQ(start.phase(), ProgramPhase::start_up) << "the version is not committed yet";
    start.end(Version(1));
    EXPECT_EQ(engine_.startup, nullptr);
    EXPECT_EQ(g_fast_engine, &engine_) << "calls go the short way";
    EXPECT_EQ(start.phase(), ProgramPhase::running);
    EXPECT_EQ(spans_, std::vector<std::string>{"start-up 1"});
    start.end(Version(2));  // an attempt was repeated
    EXPECT_EQ(spans_.size(), 1U);
}

TEST_F(ProgramStartTest, OshrunKeepsTheInputOfPe0AndHearsOfTheEnd) {
    const InputKept input;
    create_memory(kBlockBytes);
    guardian_.connect(channel_);
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    ASSERT_EQ(::write(pipe_ends[1], "kept", 4), 4);
    const std::string before = file_identity(STDIN_FILENO);
    std::thread oshrun = answer_input(pipe_ends[0]);
    const OwnPe me(PeId(0));
    ProgramStart start;
    open(start, me);
    start.enter();
    start.record();
    oshrun.join();
    EXPECT_EQ(wanted_.kind, JobEventKind::input_wanted);
    EXPECT_EQ(wanted_.code, 0);
    EXPECT_EQ(std::string(wanted_.text), before);
    char text[5] = {};
    EXPECT_EQ(::read(STDIN_FILENO, text, 4), 4);
    EXPECT_STREQ(text, "kept");
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    start.close();
    EXPECT_EQ(guardian_.told().kind, JobEventKind{});
    start.end(Version(1));
    EXPECT_EQ(guardian_.told().kind, JobEventKind::start_up_over);
}

// Nobody asks for it: these would wait for an answer that the test does not give.
TEST_F(ProgramStartTest, OnlyPe0InItsFirstLifeAsksForInput) {
    create_memory(kBlockBytes);
    guardian_.connect(channel_);
    for (const auto& [pe, life] : {std::pair(PeId(1), 1U), std::pair(PeId(0), 2U)}) {
        const OwnPe me(pe);
        ProgramStart start;
        open(start, me, life);
        start.enter();
        start.record();
        EXPECT_TRUE(engine_.startup->is_recording());
        start.close();
        engine_.startup = nullptr;  // its version does not come: the record stays
        EXPECT_EQ(guardian_.told().kind, JobEventKind{});
    }
}

TEST_F(ProgramStartTest, ASubstituteRepeatsItUntilItJoins) {
    create_memory(kBlockBytes);
    const OwnPe dead(PeId(1));
    ProgramStart first;
    open(first, dead);
    first.enter();
    first.record();
    first.close();
    engine_.startup = nullptr;  // it is another process from here on, which has the front of its memory

    OwnPe me;
    me.become_spare();
    ProgramStart start;
    open(start, me);
    EXPECT_EQ(start.phase(), ProgramPhase::none) << "a sleeping spare";
    me.take(PeId(1));
    start.enter();
    EXPECT_EQ(start.phase(), ProgramPhase::replay);
    start.repeat();
    ASSERT_NE(engine_.startup, nullptr);
    EXPECT_TRUE(engine_.startup->is_replaying());
    EXPECT_EQ(shown(), StartupPhase::repeating);
    start.end_replay(Version(3));
    EXPECT_EQ(spans_, std::vector<std::string>{"replay 3"});
    start.end_replay(Version(3));  // the restart has been refused, and comes again
    EXPECT_EQ(spans_.size(), 1U);
    me.join();
    start.end(Version(3));
    EXPECT_EQ(engine_.startup, nullptr);
    EXPECT_EQ(start.phase(), ProgramPhase::running);
    EXPECT_EQ(spans_.size(), 1U) << "it has had no start-up of its own";
}

TEST_F(ProgramStartTest, ASurvivorHasNothingToRepeat) {
    create_memory(0);
    const OwnPe me(PeId(0));
    ProgramStart start;
    open(start, me);
    start.enter();
    start.end_replay(Version(1));
    EXPECT_TRUE(spans_.empty());
    EXPECT_EQ(start.phase(), ProgramPhase::start_up);
}

}  // namespace
}  // namespace sft
