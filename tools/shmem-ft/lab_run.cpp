#include "tools/shmem-ft/lab_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.hpp"
#include "base/job_channel.hpp"
#include "tools/common/fd.hpp"
#include "tools/common/text.hpp"

namespace sft::tools {
namespace {

namespace fs = std::filesystem;

constexpr double kPatienceS = 10;  // for oshrun to clean up after SIGTERM
constexpr std::string_view kOwnVariables[] = {"SHMEM_FT_FAULTS=", "SHMEM_FT_FAULTS_FILE=", "SHMEM_FT_FAULT_VISITS="};

std::string contents_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::vector<std::string> arguments_of(const JobCommand& job) {
    std::vector<std::string> words = {"-n", std::to_string(job.pes), "--spares", std::to_string(job.spares)};
    words.emplace_back("--");
    words.insert(words.end(), job.program.begin(), job.program.end());
    return words;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

std::vector<std::string> environment_of(const FaultSchedule& schedule, const std::string& visits) {
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        if (std::none_of(std::begin(kOwnVariables), std::end(kOwnVariables),
                         [text](std::string_view own) { return text.starts_with(own); })) {
            variables.emplace_back(text);
        }
    }
    if (!schedule.empty()) {
        variables.push_back(fmt::format("{}{}", kOwnVariables[0], to_string(schedule)));
    }
    variables.push_back(fmt::format("{}{}", kOwnVariables[2], visits));
    return variables;
}

// oshrun with its streams in files; -1 with errno set.
pid_t start(const JobCommand& job, const FaultSchedule& schedule, const fs::path& folder) {
    std::vector<std::string> words = {job.oshrun, "--events", folder / "events"};
    const std::vector<std::string> rest = arguments_of(job);
    words.insert(words.end(), rest.begin(), rest.end());
    std::vector<std::string> variables = environment_of(schedule, folder / "visits");
    const std::vector<char*> arguments = pointers_to(words);
    const std::vector<char*> environment = pointers_to(variables);

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    const std::string output = folder / "stdout";
    const std::string errors = folder / "stderr";
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    // This program blocks the signals that it waits for.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = -1;
    const int problem =
        posix_spawn(&pid, job.oshrun.c_str(), &actions, &attributes, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    errno = problem;
    return problem == 0 ? pid : -1;
}

enum class Awaited { ended, timeout, cancelled };

Awaited await_end(int pidfd, int cancel_fd, double seconds) {
    const std::int64_t deadline_ns = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
    for (;;) {
        const std::int64_t left_ms = (deadline_ns - now_ns()) / kNsPerMs;
        if (left_ms <= 0) {
            return Awaited::timeout;
        }
        pollfd polled[] = {{pidfd, POLLIN, 0}, {cancel_fd, POLLIN, 0}};
        const int ready = poll(polled, 2, static_cast<int>(std::min<std::int64_t>(left_ms, 1'000'000)));
        if (ready > 0 && polled[0].revents != 0) {
            return Awaited::ended;
        }
        if (ready > 0 && polled[1].revents != 0) {
            return Awaited::cancelled;
        }
    }
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void read_visits(const fs::path& path, RunRecord& record) {
    const std::string bytes = contents_of(path);
    if (bytes.size() != sizeof(FaultVisits)) {
        return;
    }
    // Copied to where the alignment is right.
    const auto copy = std::make_unique<FaultVisits>();
    std::memcpy(static_cast<void*>(copy.get()), bytes.data(), sizeof(FaultVisits));
    const FaultVisits& visits = *copy;
    if (visits.magic != kFaultVisitsMagic) {
        return;
    }
    ProcessRecord process;
    process.process = visits.process;
    process.pe = visits.pe;
    process.incarnation = visits.incarnation;
    process.phase = visits.phase;
    for (const FaultPointInfo& info : fault_point_infos()) {
        const auto number = static_cast<std::uint32_t>(info.point);
        if (visits.last_point == number) {
            process.last_point = info.name;
        }
        if (visits.visits[number] != 0) {
            process.visits[info.point] = visits.visits[number];
        }
    }
    for (std::size_t entry = 0; entry < kFaultEntriesMax; ++entry) {
        const FaultFired& fired = visits.fired[entry];
        if (fired.count != 0) {
            record.faults.push_back(
                {entry, visits.process, fired.pe, fired.keeper, fired.time_ns, fired.phase, INT64_MAX});
        }
    }
    record.processes.push_back(std::move(process));
}

void note_seen(int process, std::int64_t at_ns, RunRecord& record) {
    for (HappenedFault& fault : record.faults) {
        if (fault.process == process) {
            fault.seen_ns = std::min(fault.seen_ns, at_ns);
        }
    }
}

void read_events(const fs::path& path, RunRecord& record) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        const std::string event = json.is_object() ? json.value("event", "") : "";
        if (event == "initialized") {
            if (const NodeId node = node_of_word(json.value("value", std::uint64_t{0})); node != kNoNode) {
                record.nodes[json.value("rank", -1)] = node;
            }
        } else if (event == "failure_seen") {  // by another process of the job
            note_seen(json.value("value", -1), json.value("begin_ns", std::int64_t{0}), record);
        } else if (event == "ended") {  // by its parent
            note_seen(json.value("rank", -1), json.value("t_ns", std::int64_t{0}), record);
        }
        if (event != "span") {
            continue;
        }
        const std::string name = json.value("text", "");
        const TimeSpan span{json.value("value", std::uint64_t{0}), json.value("begin_ns", std::int64_t{0}),
                            json.value("end_ns", std::int64_t{0})};
        if (name == "checkpoint") {
            record.commits.push_back(span);
        } else if (name == "restart") {
            record.restarts.push_back(span);
        } else if (name == "initialise") {
            record.initialisations.push_back(span);
        } else if (name == phase_name(ProgramPhase::start_up) || name == phase_name(ProgramPhase::replay)) {
            const bool is_first = name == phase_name(ProgramPhase::start_up);
            record.phases.push_back({is_first ? ProgramPhase::start_up : ProgramPhase::replay, json.value("pe", -1),
                                     span.begin_ns, span.end_ns});
        }
    }
}

// Processes of this run are known by the name of its files in their environment.
std::vector<int> find_left_behind(const std::string& mark) {
    std::vector<int> pids;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
        const auto pid = parse_number(entry.path().filename().string(), 1, 1L << 30);
        if (pid && contents_of(entry.path() / "environ").find(mark) != std::string::npos) {
            pids.push_back(static_cast<int>(*pid));
        }
    }
    return pids;
}

void collect_visits(const fs::path& folder, RunRecord& record) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        if (entry.path().filename().string().starts_with("visits.")) {
            read_visits(entry.path(), record);
        }
    }
    std::sort(record.processes.begin(), record.processes.end(),
              [](const ProcessRecord& a, const ProcessRecord& b) { return a.process < b.process; });
    std::sort(record.faults.begin(), record.faults.end(),
              [](const HappenedFault& a, const HappenedFault& b) { return a.time_ns < b.time_ns; });
}

void collect_words(const fs::path& folder, RunRecord& record) {
    record.output = contents_of(folder / "stdout");
    record.errors = contents_of(folder / "stderr");
    read_events(folder / "events", record);  // of the faults that collect_visits() has found
    std::sort(record.phases.begin(), record.phases.end(),
              [](const PhaseSpan& a, const PhaseSpan& b) { return a.begin_ns < b.begin_ns; });
}

}  // namespace

const char* phase_name(ProgramPhase phase) noexcept {
    switch (phase) {
        case ProgramPhase::none: return "";
        case ProgramPhase::start_up: return "start-up";
        case ProgramPhase::replay: return "replay";
        case ProgramPhase::running: return "running";
    }
    return "";
}

std::string reproduction(const JobCommand& job, const FaultSchedule& schedule) {
    std::vector<std::string> words = {job.oshrun};
    const std::vector<std::string> rest = arguments_of(job);
    words.insert(words.end(), rest.begin(), rest.end());
    return schedule.empty()
               ? shell_quoted(words)
               : fmt::format("SHMEM_FT_FAULTS={} {}", shell_quoted(to_string(schedule)), shell_quoted(words));
}

Result<> run_job(const JobCommand& job, const FaultSchedule& schedule, const std::string& folder,
                 const RunLimits& limits, RunRecord& record) {
    const std::int64_t begin_ns = now_ns();
    const pid_t pid = start(job, schedule, folder);
    if (pid < 0) {
        return fails(fmt::format("cannot run {}: {}", job.oshrun, std::strerror(errno)));
    }
    const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    const Awaited awaited = await_end(pidfd.get(), limits.cancel_fd, limits.timeout_s);
    record.seconds = static_cast<double>(now_ns() - begin_ns) / 1e9;
    // Before anybody is ended: launchers let stopped processes go on first, and the living move on when others die.
    collect_visits(folder, record);
    if (awaited != Awaited::ended) {
        record.is_hang = awaited == Awaited::timeout;
        record.is_cancelled = awaited == Awaited::cancelled;
        kill(pid, SIGTERM);
        if (await_end(pidfd.get(), -1, kPatienceS) != Awaited::ended) {
            kill(pid, SIGKILL);  // its guardian ends the job then
        }
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    record.exit_code = exit_code_of(status);
    record.left_behind = find_left_behind((fs::path(folder) / "visits").string());
    collect_words(folder, record);
    return {};
}

}  // namespace sft::tools
