#include "tools/oshrun/joining.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "tools/common/text.hpp"
#include "tools/oshrun/options.hpp"
#include "tools/oshrun/process_tree.hpp"

namespace sft::tools {
namespace {

constexpr int kExitExecFailed = 127;

bool is_same_program(pid_t one, pid_t other) {
    std::error_code ignored;
    const auto program_of = [&](pid_t pid) {
        return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), ignored);
    };
    return !program_of(one).empty() && program_of(one) == program_of(other);
}

// Listening sockets have the guardian's pid in their names (see JobSocket::open).
std::optional<std::string> socket_of(std::int32_t job) {
    std::ifstream file("/proc/net/unix");
    std::string line;
    while (std::getline(file, line)) {
        const std::size_t at = line.rfind(" @shmem-ft-");
        int guardian = 0;
        int length = 0;
        if (at == std::string::npos ||
            std::sscanf(line.c_str() + at, " @shmem-ft-%d-%*16[0-9a-f]%n", &guardian, &length) != 1 || length == 0 ||
            line.size() != at + static_cast<std::size_t>(length)) {
            continue;
        }
        const pid_t front = parent_of(guardian).pid;
        // With --retries the user's oshrun is one further up.
        const pid_t above = parent_of(front).pid;
        if (guardian == job || front == job || (above == job && is_same_program(front, above))) {
            return line.substr(at + 2);
        }
    }
    return std::nullopt;
}

struct Joiner {
    std::vector<char*> words;
    std::vector<char*> environment;
    int stdout_fd = -1;
    int stderr_fd = -1;
};

[[noreturn]] void become_joiner(const Joiner& joiner, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(kExitExecFailed);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    for (const auto& [fd, as] :
         {std::pair{joiner.stdout_fd, STDOUT_FILENO}, std::pair{joiner.stderr_fd, STDERR_FILENO}}) {
        if (fd >= 0) {
            dup2(fd, as);
        }
    }
    execve(joiner.words.front(), joiner.words.data(), joiner.environment.data());
    _exit(kExitExecFailed);
}

}  // namespace

int ask_to_join(const std::string& job, int count, const std::string& host) {
    const auto refuse = [&job](const std::string& why) {
        print_line(fmt::format("oshrun: --join {}: {}", job, why));
        return EXIT_FAILURE;
    };
    const auto pid = parse_number(job, 1, INT32_MAX);
    const std::optional<std::string> name = pid ? socket_of(static_cast<std::int32_t>(*pid)) : std::nullopt;
    if (!name) {
        return refuse("no job of that pid: the pid of an oshrun that runs is wanted");
    }
    JobChannel channel;
    if (const Result<> connected = channel.connect(*name); !connected) {
        return refuse(connected.error().line);
    }
    JobEvent question;
    question.kind = kEventJoin;
    question.code = count;
    std::snprintf(question.text, sizeof question.text, "%s", host.c_str());
    channel.report(question);
    JobEvent answer;
    ssize_t bytes;
    do {
        bytes = recv(channel.fd(), &answer, sizeof answer, 0);
    } while (bytes < 0 && errno == EINTR);
    if (bytes != sizeof answer || answer.kind != kEventJoin) {
        return refuse("the job has ended");
    }
    if (answer.code != 0) {
        return refuse({answer.text, strnlen(answer.text, sizeof answer.text)});
    }
    return EXIT_SUCCESS;
}

std::int32_t start_joiner(const JoinerTask& task) {
    std::vector<std::string> variables = {
        fmt::format("PMIX_RANK={}", task.rank),
        fmt::format("SHMEM_FT_JOIN={}:{}", task.donor_pid, task.donor_fd),
    };
    // Before the fork: another thread of this process may hold a lock of the allocator.
    Joiner joiner;
    joiner.stdout_fd = task.stdout_fd;
    joiner.stderr_fd = task.stderr_fd;
    for (std::string& variable : variables) {
        joiner.environment.push_back(variable.data());
    }
    for (char** entry = environ; *entry != nullptr; ++entry) {
        if (std::strncmp(*entry, "PMIX_RANK=", 10) != 0 && std::strncmp(*entry, "SHMEM_FT_JOIN=", 14) != 0) {
            joiner.environment.push_back(*entry);
        }
    }
    joiner.environment.push_back(nullptr);
    for (const std::string& word : task.command) {
        joiner.words.push_back(const_cast<char*>(word.c_str()));
    }
    joiner.words.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
        become_joiner(joiner, parent);
    }
    return pid;
}

void answer_join(const JobSocket::Peer& peer, const std::string& problem) {
    JobEvent answer;
    answer.kind = kEventJoin;
    answer.code = problem.empty() ? 0 : 1;
    std::snprintf(answer.text, sizeof answer.text, "%s", problem.c_str());
    [[maybe_unused]] const ssize_t sent = send(peer.fd.get(), &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace sft::tools
