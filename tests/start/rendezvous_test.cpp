// How the processes of a node meet, with oshrun and later on through one of them. Between nodes: cluster tests.
#include "shmem_ft/start/rendezvous.hpp"

#include <fcntl.h>

#include <set>

#include "base/report.hpp"
#include "tests/start/meeting_job.hpp"

namespace sft {
namespace {

// Every process sends to every other one by its mailbox, and hears all of them.
void exchange_mail(MeetingProcess& process, std::int32_t n) {
    const std::byte word[] = {static_cast<std::byte>(process.rank)};
    std::set<ProcId> heard{process.bootstrap.self()};
    for (std::int32_t other = 0; other < n; ++other) {
        if (other != process.rank) {
            process.mailbox.send(ProcId(other), word);
        }
    }
    await([&] {
        process.mailbox.flush();
        process.mailbox.pump([&](ProcId from, std::span<const std::byte> message) {
            EXPECT_EQ(static_cast<std::int32_t>(message.front()), from.value());
            heard.insert(from);
        });
        return heard.size() == static_cast<std::size_t>(n);
    });
}

TEST_F(MeetingTest, AllFindEachOther) {
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        start(rank, 3, [this](MeetingProcess& process) {
            process.config.spares = 1;
            ASSERT_TRUE(good(process.meet()));
            EXPECT_EQ(process.told_pes, 2);
            EXPECT_EQ(process.control.n_pes(), 2);
            EXPECT_EQ(process.control.n_processes(), 3);
            for (std::int32_t other = 0; other < 3; ++other) {
                const ProcessSlot& slot = process.control.slot(ProcId(other));
                EXPECT_EQ(slot.state.load(), ProcessState::ready);
                EXPECT_EQ(slot.pid, board->pids[static_cast<std::size_t>(other)]);
                EXPECT_EQ(slot.start_time, process_start_time(slot.pid));
                EXPECT_EQ(slot.store_fd, 1000 + other);
                EXPECT_EQ(slot.heap_fd, -1);
            }
            EXPECT_EQ(process.rendezvous.everybody_else().size(), 2U);
            EXPECT_EQ(process.rendezvous.domains(), nullptr);
            EXPECT_EQ(process.links.network(), nullptr);
            // The memory of the node is made by the lowest, and opened by the others.
            EXPECT_EQ(process.n_made, process.rank == 0 ? 1 : 0);
            EXPECT_EQ(process.opened_of, process.rank == 0 ? 0 : board->pids[0].load());
            exchange_mail(process, 3);
            stay(process);
        });
    }
    serve([this] { return board->n_there == 3; });
    EXPECT_EQ(n_told(JobEventKind::hello), 3);
    end_all();
}

TEST_F(MeetingTest, AnOnlyPeHasMemoryOfTheNodeIfThereIsASpare) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        start(rank, 2, [this](MeetingProcess& process) {
            process.config.spares = 1;
            ASSERT_TRUE(good(process.meet()));
            EXPECT_EQ(process.n_made, process.rank == 0 ? 1 : 0);
            EXPECT_EQ(process.opened_of, process.rank == 0 ? 0 : board->pids[0].load());
            stay(process);
        });
    }
    serve([this] { return board->n_there == 2; });
    end_all();
}

TEST_F(MeetingTest, AnOnlyProcessMakesNoMemoryOfTheNode) {
    start(0, 1, [this](MeetingProcess& process) {
        ASSERT_TRUE(good(process.meet()));
        EXPECT_EQ(process.n_made, 0);
        EXPECT_EQ(process.control.header().node_file_bytes, 0U);
        stay(process);
    });
    serve([this] { return board->n_there == 1; });
    end_all();
}

TEST_F(MeetingTest, WhoDiffersFromProcess0IsNamed) {
    start(0, 2, [this](MeetingProcess& process) {
        ASSERT_TRUE(good(process.meet()));
        EXPECT_EQ(process.state_of(1), ProcessState::starting);
        stay(process);
    });
    start(1, 2, [](MeetingProcess& process) {
        process.own.heap.bytes *= 2;
        const std::string line = line_of(process.meet());
        EXPECT_EQ(line.rfind("process 1 has another symmetric heap than process 0", 0), 0U) << line;
        EXPECT_EQ(process.control.fd(), -1) << "it has no place in a job that it does not fit in";
    });
    serve([this] { return board->n_there == 1; });
    end_all();
}

TEST_F(MeetingTest, NoPeLeft) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        start(rank, 2, [this](MeetingProcess& process) {
            process.config.spares = 2;
            const std::string line = line_of(process.meet());
            EXPECT_EQ(line, "SHMEM_FT_SPARES=2 leaves no PE: the job has 2 processes");
            stay(process);
        });
    }
    serve([this] { return board->n_there == 2; });
    end_all();
}

TEST_F(MeetingTest, Process0EndsBeforeItHasMetAnybody) {
    start(0, 3, [](MeetingProcess& process) { EXPECT_TRUE(good(process.rendezvous.say_hello())); });
    for (std::int32_t rank = 1; rank < 3; ++rank) {
        start(rank, 3, [this](MeetingProcess& process) {
            EXPECT_EQ(line_of(process.meet()), "process 0 ended inside shmem_init");
            stay(process);
        });
    }
    serve([this] { return board->n_there == 2; });
    end_all();
}

TEST_F(MeetingTest, OshrunEndsBeforeTheyHaveMet) {
    lets_meet = false;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        start(rank, 2, [this](MeetingProcess& process) {
            EXPECT_EQ(line_of(process.meet()), "oshrun is gone");
            stay(process);
        });
    }
    serve([this] { return n_meeting == 2; });
    hang_up();
    await([this] { return board->n_there == 2; });
    end_all();
}

TEST_F(MeetingTest, MemoryOfTheNodeThatCannotBeOpenedIsNamed) {
    start(0, 2, [this](MeetingProcess& process) {
        EXPECT_TRUE(good(process.meet()));
        stay(process);
    });
    start(1, 2, [this](MeetingProcess& process) {
        process.own.open_node_file = [](std::int32_t, std::uint64_t, const Rendezvous::File&) {
            return Result<>(fails("no more memory"));
        };
        const std::string line = line_of(process.meet());  // behind which the other one's pid is on the board
        EXPECT_EQ(line, "cannot open the memory of the node, of the process with pid " +
                            std::to_string(board->pids[0]) + ": no more memory (in shmem_init)");
    });
    serve([this] { return board->n_there == 1; });
    end_all();
}

TEST_F(MeetingTest, WhatIsLateIsToldToOshrunWithHowFarItHasCome) {
    lets_meet = false;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
        start(rank, 2, [this](MeetingProcess& process) {
            process.config.start_timeout_ms = 100;
            ASSERT_TRUE(good(process.rendezvous.say_hello()));
            process.rendezvous.watch_start();
            ASSERT_TRUE(good(process.rendezvous.connect()));
            if (process.rank == 0) {
                EXPECT_EQ(line_of(process.rendezvous.meet(0, process.own)), "oshrun is gone");
            } else {
                stay(process);
            }
        });
    }
    serve([this] { return n_told(JobEventKind::start_late) == 2; });
    for (const JobEvent& event : events) {
        if (event.kind == JobEventKind::start_late) {
            const StartStep step = event.rank == 0 ? StartStep::meeting : StartStep::making_memory;
            EXPECT_EQ(event.code, static_cast<std::int32_t>(step)) << event.rank;
            EXPECT_STREQ(event.text, describe(step));
        }
    }
    hang_up();
    end_all();
}

TEST_F(MeetingTest, WithoutOshrunWhatIsLateEndsItself) {
    EXPECT_EXIT(
        {
            MeetingProcess process(0, "");
            process.config.start_timeout_ms = 50;
            EXPECT_TRUE(good(process.rendezvous.say_hello()));
            process.rendezvous.watch_start();
            ::pause();
        },
        testing::ExitedWithCode(kExitError),
        "^shmem-ft: error: process 0 on .* has not come through shmem_init within 50 ms .*: it connects to");
}

// ---- while the job runs ----

// A job of two PEs that is there, and a process beside it.
class JoiningTest : public MeetingTest {
protected:
    void begin_job() {
        for (std::int32_t rank = 0; rank < 2; ++rank) {
            start(rank, 2, [this](MeetingProcess& process) {
                ASSERT_TRUE(good(process.meet()));
                stay(process);
            });
        }
        serve([this] { return board->n_there == 2; });
    }
    [[nodiscard]] std::string refused(std::int32_t rank, const std::string& join) {
        ::setenv("PMIX_RANK", std::to_string(rank).c_str(), 1);
        MeetingProcess process(rank, "");
        process.config.join = join;
        return line_of(process.rendezvous.attach());
    }
};

TEST_F(JoiningTest, OneMoreIsInWhenItIsItsTurn) {
    begin_job();
    lets_join = false;
    start(2, 0, [this](MeetingProcess& process) {
        ASSERT_TRUE(good(process.join(board->pids[1], board->control_fds[1])));
        EXPECT_EQ(process.bootstrap.self(), ProcId(2));
        EXPECT_EQ(process.told_pes, 2);
        EXPECT_EQ(process.n_made, 0);
        EXPECT_EQ(process.state_of(2), ProcessState::ready);
        EXPECT_EQ(process.rendezvous.everybody_else(), (std::vector<ProcId>{ProcId(0), ProcId(1)}));
        stay(process);
    });
    serve([this] { return n_told(JobEventKind::join_ready) == 1; });
    // In its slot there is nothing before it may.
    ControlSegment looked;
    ASSERT_TRUE(good(looked.look(board->pids[0], board->control_fds[0])));
    EXPECT_EQ(looked.slot(ProcId(2)).state.load(), ProcessState::starting);
    EXPECT_EQ(board->n_there, 2);
    lets_join = true;
    serve([this] { return board->n_there == 3; });
    start(3, 0, [this](MeetingProcess& process) {
        ASSERT_TRUE(good(process.join(board->pids[0], board->control_fds[0])));
        EXPECT_EQ(process.rendezvous.everybody_else().size(), 3U);
        stay(process);
    });
    serve([this] { return board->n_there == 4; });
    EXPECT_EQ(looked.slot(ProcId(2)).pid, board->pids[2]);
    EXPECT_EQ(looked.slot(ProcId(3)).pid, board->pids[3]);
    end_all();
}

// The memory of the node is opened from whoever lives, also if its maker is dead.
TEST_F(JoiningTest, WhoHasMadeTheMemoryOfTheNodeIsDead) {
    begin_job();
    kill(0);
    start(2, 0, [this](MeetingProcess& process) {
        std::vector<int> asked;
        process.own.open_node_file = [&](std::int32_t pid, std::uint64_t, const Rendezvous::File&) {
            asked.push_back(pid);
            return pid == board->pids[0] ? Result<>(fails("it is gone")) : Result<>();
        };
        ASSERT_TRUE(good(process.join(board->pids[1], board->control_fds[1])));
        EXPECT_EQ(asked, (std::vector<int>{board->pids[0], board->pids[1]}));
        stay(process);
    });
    serve([this] { return board->n_there == 3; });
    end_all();
}

TEST_F(JoiningTest, WhatDoesNotFitStaysOut) {
    begin_job();
    start(2, 0, [this](MeetingProcess& process) {
        process.config.spares = 1;
        const std::string line = line_of(process.join(board->pids[0], board->control_fds[0]));
        EXPECT_NE(line.find("SHMEM_FT_SPARES"), std::string::npos) << line;
        EXPECT_EQ(process.state_of(2), ProcessState::starting);
        stay(process);
    });
    serve([this] { return board->n_there == 3; });
    EXPECT_EQ(n_told(JobEventKind::join_ready), 0);
    end_all();
}

TEST_F(JoiningTest, OshrunEndsBeforeItsTurn) {
    begin_job();
    lets_join = false;
    start(2, 0, [this](MeetingProcess& process) {
        EXPECT_EQ(line_of(process.join(board->pids[0], board->control_fds[0])), "oshrun is gone");
        EXPECT_EQ(process.state_of(2), ProcessState::starting);
        stay(process);
    });
    serve([this] { return n_told(JobEventKind::join_ready) == 1; });
    hang_up();
    await([this] { return board->n_there == 3; });
    end_all();
}

TEST_F(JoiningTest, BadAddressesOfAJob) {
    begin_job();
    EXPECT_EQ(refused(2, "nonsense"), "SHMEM_FT_JOIN=nonsense: not PID:DESCRIPTOR");
    const std::string job = std::to_string(board->pids[0]) + ":" + std::to_string(board->control_fds[0]);
    const std::string room =
        " cannot join: the job has room for " + std::to_string(kJoinSlots) + " processes that join";
    EXPECT_EQ(refused(1, job), "process 1" + room);
    EXPECT_EQ(refused(2 + kJoinSlots, job), "process " + std::to_string(2 + kJoinSlots) + room);
    EXPECT_EQ(refused(1 + kJoinSlots, job), "");
    // A process that has the segment open, and is not of the job.
    const std::string path = "/proc/" + std::to_string(board->pids[0]) + "/fd/" + std::to_string(board->control_fds[0]);
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    const std::string other = std::to_string(::getpid()) + ":" + std::to_string(descriptor);
    EXPECT_EQ(refused(2, other),
              "SHMEM_FT_JOIN=" + other + ": the process with that pid is not of the job whose segment it has open");
    ::close(descriptor);
    end_all();
}

}  // namespace
}  // namespace sft
