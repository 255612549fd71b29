// Only one process of a host can bind a name, so the name of the agent's socket is the lock too. Whoever has it gets in
// touch with the guardian and then splits off the agent, which keeps both; the others connect. If it dies in between,
// the name is free again.

#include "tools/oshrun/agent_start.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/agent.hpp"
#include "tools/oshrun/agent_roads.hpp"
#include "tools/oshrun/options.hpp"
#include "tools/oshrun/process_tree.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

constexpr int kHandshake_ms = 10'000;
// A connection that is closed before there is an answer may have been sent away to make room for others.
constexpr int kGreetingsMax = 5;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// 0: the guardian's own. Who joins a running job is where the guardian has chosen, and has been told its socket.
int pretended_node(int rank) {
    if (!variable("SHMEM_FT_JOIN").empty()) {
        return 0;
    }
    const auto nodes = parse_number(variable("SHMEM_FT_PRETEND_NODES"), 1, kProcessesMax);
    return nodes && rank >= 0 ? rank % static_cast<int>(*nodes) : 0;
}

// The guardian's welcome to a new agent. crowded: the connection has been closed without any answer.
enum class Welcome { given, refused, crowded };

Welcome shake_hands(FrameStream& stream, const GuardianAddress& guardian, int node, AgentTask& task,
                    std::string& error_line) {
    HelloFrame& hello = task.hello;
    hello.secret = guardian.agent_secret;
    hello.pid = getpid();  // until the agent has one
    hello.pretended_node = node > 0 ? node : -1;
    std::snprintf(hello.host, sizeof hello.host, "%s", own_host_name().c_str());
    std::string ignored;  // without it nobody is connected on by this host, and that is all
    if (auto listening = listen_on(local_address_of(stream.fd()), ignored)) {
        hello.port = listening->port;
        task.forward_listener = std::move(listening->fd);
    }
    const std::int64_t sent_ns = now_ns();
    const Reply reply = greet_guardian(stream, hello, guardian, kHandshake_ms, error_line);
    if (reply.kind != Reply::Kind::welcome) {
        return reply.kind == Reply::Kind::closed ? Welcome::crowded : Welcome::refused;
    }
    const WelcomeFrame& welcome = reply.welcome;
    const std::int64_t middle_ns = sent_ns + (now_ns() - sent_ns) / 2;
    const bool is_same_clock =
        boot_id() == std::string(welcome.boot_id, strnlen(welcome.boot_id, sizeof welcome.boot_id));
    task.clock_offset_ns = is_same_clock ? 0 : welcome.clock_ns - middle_ns;
    task.silence_ms = welcome.silence_ms;
    task.address = guardian;
    hello.number = welcome.number;
    return Welcome::given;
}

// Nobody waits for it, no terminal and no launcher: they would wait for the end of what it holds open.
void become_daemon(AgentTask task) {
    const pid_t child = fork();
    if (child != 0) {
        if (child > 0) {
            waitpid(child, nullptr, 0);
        }
        return;
    }
    setsid();
    if (fork() != 0) {
        _exit(0);
    }
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        dup2(nothing, fd);
    }
    _exit(run_agent(std::move(task)));
}

// REQUIRES: socket is bound and listens, so others queue up while this goes on.
Result<> start_agent(JobSocket socket, const GuardianAddress& guardian, int node) {
    constexpr timespec kBetweenGreetings{.tv_sec = 0, .tv_nsec = 20'000'000};
    AgentTask task;
    FrameStream stream;
    Welcome welcome = Welcome::crowded;
    std::string reason;
    for (int i = 0; welcome == Welcome::crowded && i < kGreetingsMax; ++i) {
        if (i > 0) {
            nanosleep(&kBetweenGreetings, nullptr);
        }
        task = AgentTask();
        stream = FrameStream(connect_to(guardian.address, guardian.port, kHandshake_ms, reason));
        welcome = stream.is_open() ? shake_hands(stream, guardian, node, task, reason) : Welcome::refused;
    }
    if (welcome != Welcome::given) {
        return fails(fmt::format("no connection from {} to oshrun on {}: {}", own_host_name(), guardian.host, reason));
    }
    task.is_realtime = variable("SHMEM_FT_REALTIME") != "0";
    task.socket_name = socket.name();
    task.socket = std::move(socket);
    task.guardian = std::move(stream);
    // This process gives up its copies when the task goes.
    become_daemon(std::move(task));
    return {};
}

Result<> find_agent(const std::string& name, const GuardianAddress& guardian, int node, JobChannel& channel) {
    constexpr timespec kBetweenBindAndListen{.tv_sec = 0, .tv_nsec = kNsPerMs};
    const std::int64_t deadline_ns = now_ns() + kHandshake_ms * kNsPerMs;
    while (true) {
        if (channel.connect(name)) {
            return {};
        }
        JobSocket socket;
        if (Result<> opened = socket.open_as(name)) {
            if (Result<> done = start_agent(std::move(socket), guardian, node); !done) {
                return done;
            }
        } else if (opened.error().number != EADDRINUSE || now_ns() > deadline_ns) {
            return opened;
        }
        nanosleep(&kBetweenBindAndListen, nullptr);
    }
}

}  // namespace

Result<> connect_to_watcher(int rank, JobChannel& channel) {
    const std::string name = variable("SHMEM_FT_JOB_SOCKET");
    const auto guardian = parse_guardian_address(variable(kGuardianVariable));
    const int node = guardian ? pretended_node(rank) : 0;
    unsetenv(kGuardianVariable);
    Result<> connected = node == 0 ? channel.connect(name) : fails("");
    if (connected) {
        return {};
    }
    if (!guardian) {
        return fails(
            connected.error().line +
            fmt::format("; if {} is not the host of oshrun: give the hosts of the job with --host or --hostfile",
                        own_host_name()));
    }
    const std::string agent_name = node == 0 ? name + "-agent" : fmt::format("{}-agent{}", name, node);
    setenv("SHMEM_FT_JOB_SOCKET", agent_name.c_str(), 1);
    return find_agent(agent_name, *guardian, node, channel);
}

}  // namespace sft::tools
