// Processes of a test that come through the beginning of shmem_init, and oshrun's side of it, which the test plays.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "shmem_ft/start/rendezvous.hpp"
#include "tests/result.hpp"
#include "tests/transport/child.hpp"
#include "tools/oshrun/job_socket.hpp"

namespace sft {

inline constexpr std::int64_t kMeetingPatienceNs = 60'000'000'000;
inline constexpr std::int32_t kMeetingMax = 8;

// Memory that the processes of a test share.
struct MeetingBoard {
    std::atomic<int> n_there;
    std::atomic<int> may_end;
    std::array<std::atomic<int>, kMeetingMax> pids;
    std::array<std::atomic<int>, kMeetingMax> control_fds;
};

inline bool await(const std::function<bool()>& is_done) {
    const std::int64_t end_ns = now_ns() + kMeetingPatienceNs;
    while (!is_done()) {
        if (now_ns() > end_ns) {
            ADD_FAILURE() << "waited for too long";
            return false;
        }
        ::sched_yield();
    }
    return true;
}

// What one process of the job has, as far as it has come.
struct MeetingProcess {
    MeetingProcess(std::int32_t process, const std::string& job_socket) : rank(process) {
        EXPECT_TRUE(good(load_config(config)));
        config.job_socket = job_socket;
        config.memory_domains = false;
        node_file = ::memfd_create("test-node", MFD_CLOEXEC);
        own.heap = {0x10'0000'0000, 1U << 20};
        own.make_node_file = [this](std::int32_t) {
            ++n_made;
            EXPECT_EQ(::ftruncate(node_file, 8192), 0);
            return Result<Rendezvous::File>({.fd = node_file, .bytes = 8192});
        };
        own.open_node_file = [this](std::int32_t pid, std::uint64_t start_time, const Rendezvous::File& file) {
            EXPECT_EQ(start_time, process_start_time(pid));
            EXPECT_EQ(file.bytes, 8192U);
            opened_of = pid;
            return Result<>();
        };
        own.make_store = [this](std::int32_t n_pes) {
            told_pes = n_pes;
            Rendezvous::Files files;
            files.store.fd = 1000 + rank;
            files.node_file = node_file;
            return Result<Rendezvous::Files>(files);
        };
        own.open_links = [this](const JobCard& first) {
            NodeLinks::Own memory;
            memory.heap = own.heap;
            memory.message_bytes_max = 64;
            return links.open(first, memory);
        };
    }
    [[nodiscard]] Result<> meet() {
        return rendezvous.say_hello().then([this] { return rendezvous.connect(); }).then([this] {
            return rendezvous.meet(0, own);
        });
    }
    [[nodiscard]] Result<> join(std::int32_t pid, std::int32_t descriptor) {
        config.join = std::to_string(pid) + ":" + std::to_string(descriptor);
        return rendezvous.say_hello().then([this] { return rendezvous.attach(); }).then([this] {
            return rendezvous.join(own);
        });
    }
    [[nodiscard]] ProcessState state_of(std::int32_t process) const {
        return control.slot(ProcId(process)).state.load();
    }

    std::int32_t rank;
    Config config;
    JobChannel channel;
    Bootstrap bootstrap;
    ControlSegment control;
    Mailbox mailbox;
    NodeLinks links{{.config = &config, .bootstrap = &bootstrap, .control = &control, .mailbox = &mailbox}};
    Rendezvous rendezvous{{.config = &config,
                           .channel = &channel,
                           .bootstrap = &bootstrap,
                           .control = &control,
                           .links = &links,
                           .mailbox = &mailbox}};
    Rendezvous::Own own;
    int node_file = -1;
    int n_made = 0;
    int opened_of = 0;
    std::int32_t told_pes = 0;
};

class MeetingTest : public ::testing::Test {
protected:
    using Body = std::function<void(MeetingProcess&)>;

    MeetingTest() {
        void* const memory =
            ::mmap(nullptr, sizeof(MeetingBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
        board = new (memory) MeetingBoard{};
        EXPECT_TRUE(good(socket_.open_as("shmem-ft-test-" + std::to_string(::getpid()))));
    }
    ~MeetingTest() override {
        children_.clear();
        ::munmap(board, sizeof(MeetingBoard));
        ::unsetenv("OSHRUN_LAUNCHED");
        ::unsetenv("PMIX_RANK");
    }

    // A process of a job that begins with `n`.
    void start(std::int32_t rank, std::int32_t n, const Body& body) {
        children_[rank] = std::make_unique<Child>([&] {
            ::setenv("OSHRUN_LAUNCHED", std::to_string(n).c_str(), 1);
            ::setenv("PMIX_RANK", std::to_string(rank).c_str(), 1);
            board->pids.at(static_cast<std::size_t>(rank)) = ::getpid();
            MeetingProcess process(rank, socket_.name());
            body(process);
            return 0;
        });
    }
    // Stays there until the test lets it go.
    void stay(const MeetingProcess& process) {
        board->control_fds.at(static_cast<std::size_t>(process.rank)) = process.control.fd();
        ++board->n_there;
        await([this] { return board->may_end != 0; });
    }
    void end_all() {
        board->may_end = 1;
        for (const auto& [rank, child] : children_) {
            EXPECT_EQ(child->end(), 0) << "process " << rank;
        }
    }
    void kill(std::int32_t rank) {
        children_.at(rank)->end(SIGKILL);
        children_.erase(rank);
    }

    // Hears what they say, and lets those that live meet, as oshrun does; is_done is looked at now and then.
    void serve(const std::function<bool()>& is_done) {
        await([&] {
            while (std::optional<tools::JobSocket::Peer> peer = socket_.accept()) {
                lines_.push_back({std::move(*peer), std::nullopt, false});
            }
            for (Line& line : lines_) {
                hear(line);
            }
            std::erase_if(lines_, [](const Line& line) { return !line.peer.fd; });
            let_meet();
            return is_done();
        });
    }
    [[nodiscard]] std::size_t n_lines() const { return lines_.size(); }
    void hang_up() { lines_.clear(); }
    [[nodiscard]] int n_told(JobEventKind kind) const {
        const auto is_it = [kind](const JobEvent& event) { return event.kind == kind; };
        return static_cast<int>(std::count_if(events.begin(), events.end(), is_it));
    }

    MeetingBoard* board = nullptr;
    std::vector<JobEvent> events;  // all but meetings
    bool lets_meet = true;
    bool lets_join = true;
    int n_meeting = 0;  // that wait for an answer

private:
    struct Line {
        tools::JobSocket::Peer peer;
        std::optional<JobEvent> meeting;
        bool wants_to_join = false;
    };
    void hear(Line& line) {
        JobEvent event;
        tools::JobSocket::Received received;
        while ((received = tools::JobSocket::receive(line.peer, event)) == tools::JobSocket::Received::event) {
            if (event.kind == JobEventKind::meeting) {
                line.meeting = event;
            } else {
                line.wants_to_join |= event.kind == JobEventKind::join_ready;
                events.push_back(event);
            }
        }
        if (received == tools::JobSocket::Received::closed) {
            line.peer.fd.reset();
        } else if (lets_join && std::exchange(line.wants_to_join, false)) {
            tools::JobSocket::answer(line.peer);
        }
    }
    void let_meet() {
        n_meeting = 0;
        auto first = lines_.end();
        for (auto line = lines_.begin(); line != lines_.end(); ++line) {
            n_meeting += line->meeting ? 1 : 0;
            first = line->meeting && line->meeting->rank == 0 ? line : first;
        }
        int n_alive = 0;
        for (const auto& [rank, child] : children_) {
            n_alive += is_alive(child->pid()) ? 1 : 0;
        }
        if (!lets_meet || n_meeting == 0 || n_meeting < n_alive) {
            return;
        }
        JobEvent answer = first == lines_.end() ? JobEvent() : *first->meeting;
        answer.kind = JobEventKind::meeting;
        answer.code = first == lines_.end() ? 1 : 0;
        for (Line& line : lines_) {
            if (std::exchange(line.meeting, std::nullopt)) {
                EXPECT_EQ(::write(line.peer.fd.get(), &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
            }
        }
    }
    [[nodiscard]] static bool is_alive(pid_t pid) {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
    }

    tools::JobSocket socket_;
    std::vector<Line> lines_;
    std::map<std::int32_t, std::unique_ptr<Child>> children_;
};

}  // namespace sft
