// Fabrics between real processes of which some are killed or stopped.
#include <fcntl.h>

#include "tests/transport/fabric_test.hpp"

namespace sft {
namespace {

class FabricFaultsTest : public FabricTest {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricFaultsTest);
INSTANTIATE_TEST_SUITE_P(Built, FabricFaultsTest, FabricTest::all(), FabricTest::name_of);

constexpr std::size_t kHuge = 64 << 20;

// The other library's opinion of a death is nobody's business.
class SilentStderr {
public:
    SilentStderr() : memory_(::memfd_create("stderr", MFD_CLOEXEC)), kept_(::dup(STDERR_FILENO)) {
        ::dup2(memory_, STDERR_FILENO);
    }
    ~SilentStderr() {
        ::dup2(kept_, STDERR_FILENO);
        std::string text(static_cast<std::size_t>(::lseek(memory_, 0, SEEK_END)), ' ');
        [[maybe_unused]] const auto read = ::pread(memory_, text.data(), text.size(), 0);
        EXPECT_EQ(text, "");
        ::close(memory_);
        ::close(kept_);
    }
    SilentStderr(const SilentStderr&) = delete;
    SilentStderr& operator=(const SilentStderr&) = delete;

private:
    int memory_;
    int kept_;
};

void stop(const Child& child) {
    ::kill(child.pid(), SIGSTOP);
    int status = 0;
    ::waitpid(child.pid(), &status, WUNTRACED);
}

// Processes 0 and 1 go on while 2 is killed, which both have been talking to. Process 2 sends without end once they
// have heard of each other only: libfabric 1.17 empties its queue when it closes one of two connections that were made
// at once, and in the middle of a stream without end that takes as long as the stream. A job's streams wait for
// answers.
TEST_P(FabricFaultsTest, TheOthersGoOnWhenOneIsKilled) {
    for (std::int32_t self = 0; self < 2; ++self) {
        start(self, 3, [&, self](Node& node) {
            const SilentStderr silence;
            Recorder& seen = node.recorder;
            const auto exchange = [&](std::uint32_t n) {
                for (std::uint32_t i = 0; i < n; ++i) {
                    EXPECT_NE(node.send(1 - self, i % 10 == 0 ? 300'000 : 100), Fabric::Sent::gone);
                }
            };
            for (int i = 0; i < 20; ++i) {
                EXPECT_NE(node.send(2, 50), Fabric::Sent::gone);
                EXPECT_NE(node.send(2, 300'000), Fabric::Sent::gone);
            }
            exchange(20);
            EXPECT_TRUE(node.until([&] { return seen.next[1 - self] == 20; }));
            ++board->step;
            EXPECT_TRUE(node.until([&] { return seen.next[2] >= 10; }));
            ++board->step;
            node.wait([&] { return board->step == 100; });  // it is dead now
            for (int i = 0; i < 50; ++i) {
                (void)node.send(2, i % 2 == 0 ? 50 : 300'000);  // gone, or lost
                node.fabric->progress();
            }
            node.fabric->retire_peer(ProcId(2));
            for (const auto& [ticket, large] : seen.places) {
                EXPECT_NE(large.head.from, 2) << "a place was not given back";
            }
            EXPECT_EQ(node.send(2, 10), Fabric::Sent::gone);
            exchange(50);
            EXPECT_TRUE(node.until([&] { return seen.next[1 - self] == 70; }));
            node.fabric->retire_peer(ProcId(2));  // again: nothing happens
            return node.finish(2);
        });
    }
    start(2, 3, [&](Node& node) {
        node.wait([&] { return board->step >= 2; });
        for (std::uint32_t i = 0;; ++i) {
            for (std::int32_t to = 0; to < 2; ++to) {
                if (node.recorder.pending.size() < 20) {
                    EXPECT_NE(node.send(to, i % 5 == 0 ? 500'000 : 100), Fabric::Sent::gone);
                }
            }
            node.fabric->progress();
        }
        return 0;
    });
    const std::int64_t end_ns = now_ns() + kPatienceNs;
    while (board->step != 4 && now_ns() < end_ns) {
        ::sched_yield();
    }
    EXPECT_EQ(board->step, 4);
    children[2]->end(SIGKILL);
    board->step = 100;
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(children[i]->end(), 0) << "process " << i;
    }
}

// Process 1 dies while both have much under way to each other: process 0 has data to read, so that it is its own
// sending in the middle of a message that meets the reset. UCX with zero copy over TCP completes such a message twice,
// and ends the process.
TEST_P(FabricFaultsTest, AResetInTheMiddleOfAMessage) {
    start(0, 2, [&](Node& node) {
        const SilentStderr silence;
        Recorder& seen = node.recorder;
        EXPECT_NE(node.send(1, 10), Fabric::Sent::gone);
        EXPECT_TRUE(node.until([&] { return seen.n_heads == 1 && seen.pending.empty(); }));
        board->step = 1;
        while (board->step != 2) {  // without progress: so there is data to read; process 1 is stopped now
            ::sched_yield();
        }
        for (int i = 0; i < 300; ++i) {
            EXPECT_NE(node.send(1, 50'000), Fabric::Sent::gone);
        }
        EXPECT_FALSE(seen.pending.empty()) << "then this shows nothing";
        board->step = 3;
        while (board->step != 4) {  // it is dead now
            ::sched_yield();
        }
        EXPECT_TRUE(node.until([&] { return node.send(1, 10) == Fabric::Sent::gone; }));
        EXPECT_GT(seen.n_heads, 1U) << "then this shows nothing";
        node.fabric->retire_peer(ProcId(1));
        EXPECT_TRUE(seen.pending.empty());
        return 0;
    });
    start(1, 2, [&](Node& node) {
        EXPECT_NE(node.send(0, 10), Fabric::Sent::gone);
        EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == 1 && node.recorder.pending.empty(); }));
        node.wait([&] { return board->step == 1; });
        while (node.recorder.pending.size() < 100) {  // more than the system takes
            EXPECT_NE(node.send(0, 50'000), Fabric::Sent::gone);
        }
        board->step = -1;
        for (;;) {
            ::sched_yield();
        }
        return 0;
    });
    while (board->step != -1) {
        ::sched_yield();
    }
    stop(*children[1]);
    board->step = 2;
    while (board->step != 3) {
        ::sched_yield();
    }
    children[1]->end(SIGKILL);
    board->step = 4;
    EXPECT_EQ(children[0]->end(), 0);
}

TEST_P(FabricFaultsTest, EverythingUnderWayToAForgottenProcessIsGivenBack) {
    start(0, 2, [&](Node& node) {
        EXPECT_NE(node.send(1, 10), Fabric::Sent::gone);
        EXPECT_TRUE(node.until([&] { return node.recorder.pending.empty(); }));
        node.wait([&] { return board->step == 2; });  // it is stopped now
        for (int i = 0; i < 300; ++i) {
            EXPECT_NE(node.send(1, i % 2 == 0 ? 5000 : 1 << 20), Fabric::Sent::gone);
            node.fabric->progress();
        }
        EXPECT_FALSE(node.recorder.pending.empty()) << "then this shows nothing";
        node.fabric->retire_peer(ProcId(1));
        EXPECT_TRUE(node.recorder.pending.empty());
        board->step = 3;
        return 0;
    });
    start(1, 2, [&](Node& node) {
        EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == 1; }));
        board->step = 1;
        node.wait([&] { return board->step == 3; });
        return 0;
    });
    while (board->step != 1) {
        ::sched_yield();
    }
    stop(*children[1]);
    board->step = 2;
    EXPECT_EQ(children[0]->end(), 0);
    children[1]->end(SIGKILL);
}

// Process 1 sends a huge message to process 0 and is stopped in the middle of it. Process 0 forgets it; what process 1
// does when it runs again must not change the memory that was meant for the message.
void receive_and_forget(Node& node, Board& board, bool talks_back) {
    Recorder& seen = node.recorder;
    seen.keeps_places = true;
    if (talks_back) {
        EXPECT_NE(node.send(1, 10), Fabric::Sent::gone);
    }
    EXPECT_TRUE(node.until([&] { return !seen.places.empty(); }));
    std::vector<std::byte>& memory = seen.places.begin()->second.memory;
    const std::vector<std::byte> whole = content(1, 0, kHuge);
    node.wait([&] { return memory[100'000] == whole[100'000] && memory[100'001] == whole[100'001]; });
    EXPECT_EQ(seen.n_whole, 0U) << "it is not in the middle any more";
    board.step = 1;
    while (board.step != 2) {  // without progress: so there is data on the way
        ::sched_yield();
    }
    node.fabric->retire_peer(ProcId(1));
    EXPECT_EQ(seen.n_cut, 1U);
    EXPECT_NE(memory, whole) << "then this shows nothing";
    std::fill(memory.begin(), memory.end(), std::byte{0x5a});
    const std::size_t n_heads = seen.n_heads;
    board.step = 3;
    const std::int64_t end_ns = now_ns() + 1'000'000'000;
    node.wait([&] { return now_ns() > end_ns; });
    EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
    EXPECT_EQ(seen.n_heads, n_heads) << "something was delivered";
    EXPECT_EQ(seen.n_cut + seen.n_whole, 1U);
    board.step = 4;
}

class FabricStopTest : public FabricTest {
protected:
    void run(bool talks_back) {
        start(0, 2, [&](Node& node) {
            receive_and_forget(node, *board, talks_back);
            return 0;
        });
        start(1, 2, [&](Node& node) {
            EXPECT_NE(node.send(0, kHuge), Fabric::Sent::gone);
            node.wait([&] { return board->step >= 3; });
            node.wait([&] {
                (void)node.send(0, 100);
                (void)node.send(0, 300'000);
                return board->step >= 4;
            });
            return 0;
        });
        while (board->step != 1) {
            ::sched_yield();
        }
        stop(*children[1]);
        board->step = 2;
        while (board->step != 3) {
            ::sched_yield();
        }
        kill(children[1]->pid(), SIGCONT);
        expect_all_end_well();
    }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricStopTest);
INSTANTIATE_TEST_SUITE_P(Built, FabricStopTest, FabricTest::all(), FabricTest::name_of);

TEST_P(FabricStopTest, NothingIsWrittenAfterForgetting) { run(true); }
TEST_P(FabricStopTest, NothingIsWrittenAfterForgettingOneThatOnlyReceived) { run(false); }

}  // namespace
}  // namespace sft
