// oshrun: runs an OpenSHMEM program with spare processes, and answers for its outcome. See docs/oshrun.md.
//
// Processes:  oshrun (front) -- guardian -- mpirun -- the processes of the job
//             on every other host: an agent (agent.hpp), which talks to the guardian
//
// The front process checks everything that can be checked before anything is started.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "base/topology.hpp"
#include "tools/common/text.hpp"
#include "tools/common/version.hpp"
#include "tools/oshrun/exec_daemon.hpp"
#include "tools/oshrun/exec_pe.hpp"
#include "tools/oshrun/footing.hpp"
#include "tools/oshrun/front.hpp"
#include "tools/oshrun/guardian.hpp"
#include "tools/oshrun/host_environment.hpp"
#include "tools/oshrun/job_environment.hpp"
#include "tools/oshrun/joining.hpp"
#include "tools/oshrun/launch_command.hpp"
#include "tools/oshrun/launcher_args.hpp"
#include "tools/oshrun/launcher_door.hpp"
#include "tools/oshrun/options.hpp"
#include "tools/oshrun/placement.hpp"
#include "tools/oshrun/preflight.hpp"
#include "tools/oshrun/process_tree.hpp"
#include "tools/oshrun/program_image.hpp"
#include "tools/oshrun/restarting.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

int refuse(const Refusal& refusal) {
    print_line("oshrun: " + refusal.line);
    return refusal.exit_code;
}

// What nobody has foreseen is one line, too.
int told(const std::function<int()>& action) {
    try {
        return action();
    } catch (const std::bad_alloc&) {
        return refuse({EXIT_FAILURE, "out of memory (ulimit -v bounds it, too)"});
    } catch (const std::exception& error) {
        return refuse({EXIT_FAILURE, error.what()});
    }
}

int print_out(std::string_view text) {
    fmt::print("{}", text);
    if (std::fflush(stdout) != 0) {
        return refuse({EXIT_FAILURE, fmt::format("standard output: {}", strerrordesc_np(errno))});
    }
    return EXIT_SUCCESS;
}

std::vector<std::string> environment_names() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        names.emplace_back(*entry, std::strcspn(*entry, "="));
    }
    return names;
}

// Standard descriptors that are closed would be taken by our own files, and then written to by the processes.
void open_standard_descriptors() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(fd, F_GETFD) < 0) {
            [[maybe_unused]] const int opened = open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
        }
    }
}

// Variables that are set by -x count for the checks here too.
void apply_exports(const Options& options) {
    for (const ExportedVariable& variable : options.exports) {
        if (variable.has_value) {
            setenv(variable.name.c_str(), variable.value.c_str(), 1);
        } else if (std::getenv(variable.name.c_str()) == nullptr) {
            print_line(
                fmt::format("oshrun: warning: -x {}: not set here, so there is nothing to pass on", variable.name));
        }
    }
}

PlacementTask placement_task(const Options& options, const std::vector<HostSlots>& hosts) {
    return {.hosts = hosts,
            .pes = options.pes,
            .spares = options.spares,
            .spare_nodes = options.spare_nodes,
            .is_by_node = options.maps_by_node};
}

// By rank: the name of the host where it is to run. Empty: the launcher decides.
std::vector<std::string> choose_rank_hosts(const Options& options, const std::vector<HostSlots>& hosts) {
    std::vector<std::string> names;
    if (hosts.empty() || launcher_places_processes(options)) {
        return names;
    }
    for (const int host : place(placement_task(options, hosts))) {
        names.push_back(hosts[static_cast<std::size_t>(host)].name);
    }
    return names;
}

std::optional<Refusal> settle_counts(Options& options, const std::vector<HostSlots>& hosts, Config& config) {
    if (options.on_demand == OnDemandPolicy::always && std::getenv("SHMEM_FT_UNREPLACED") == nullptr) {
        set_for_job("SHMEM_FT_UNREPLACED", "wait");
    }
    if (options.is_quiet) {
        set_for_job("SHMEM_FT_QUIET", "1");
    }
    if (const Result<> loaded = load_config(config); !loaded) {
        return Refusal{kExitUsage, loaded.error().line};
    }
    if (!config.topology.empty()) {
        if (const Result<Topology> read = Topology::read(config.topology); !read) {
            return Refusal{kExitUsage, "SHMEM_FT_TOPOLOGY: " + read.error().line};
        }
    }
    if (options.spares < 0 && (options.spare_nodes == 0 || std::getenv("SHMEM_FT_SPARES") != nullptr)) {
        options.spares = static_cast<int>(config.spares);
    }
    count_by_hosts(options, hosts);
    if (options.pes == 0) {
        options.pes = static_cast<int>(usable_cores());
    }
    if (!hosts.empty()) {
        if (const auto line = lack_of_room(placement_task(options, hosts))) {
            return Refusal{kExitUsage, *line};
        }
    }
    const std::vector<std::string> names = choose_rank_hosts(options, hosts);
    const auto here = !names.empty() ? static_cast<int>(std::count(names.begin(), names.end(), own_host_name()))
                      : may_use_other_hosts(options, hosts) ? 0  // nobody here knows
                                                            : options.pes + options.spares;
    return check_limits({options.pes, options.spares, here}, read_system_limits());
}

// By which agents of other hosts reach the guardian; none if all processes are to be here.
Result<> open_entrance_if_needed(const Options& options, const Config& config, const std::vector<HostSlots>& hosts,
                                 std::optional<AgentEntrance>& entrance) {
    std::optional<std::string> address;
    std::string reason;
    if (may_use_other_hosts(options, hosts)) {
        // Hosts that only the launcher knows may turn out to be this one.
        address =
            own_address(config.interface, hosts.empty() ? Reach::perhaps_this_host_only : Reach::other_hosts, reason);
    } else if (config.pretend_nodes > 1) {
        address = "127.0.0.1";
    } else {
        return {};
    }
    if (address) {
        entrance = open_entrance(*address, reason);
    }
    if (!entrance) {
        return fails(reason);
    }
    set_for_job(kGuardianVariable, to_text(entrance->address));
    return {};
}

// For the launcher. Empty: it decides.
std::string write_rank_hosts(const Options& options, const std::vector<std::string>& names,
                             const std::string& temp_dir) {
    if (names.empty()) {
        return {};
    }
    const std::string path = temp_dir + "/hosts";
    std::ofstream file(path);
    for (const std::string& name : names) {
        file << name << '\n';
    }
    if (options.launcher == LauncherKind::srun) {
        setenv("SLURM_HOSTFILE", path.c_str(), 1);
    }
    return path;
}

std::optional<Refusal> open_events_file(const std::string& path, bool goes_on, Fd& file) {
    if (path.empty()) {
        return std::nullopt;
    }
    file = Fd(open(path.c_str(), O_WRONLY | O_CREAT | (goes_on ? 0 : O_TRUNC) | O_APPEND | O_CLOEXEC, 0666));
    if (!file) {
        return Refusal{kExitUsage, fmt::format("--events {}: cannot be written: {}", path, strerrordesc_np(errno))};
    }
    set_for_job("SHMEM_FT_EVENTS", "1");
    return std::nullopt;
}

std::optional<Refusal> make_temp_dir(std::string& path) {
    const char* base = std::getenv("TMPDIR");
    const std::string folder = base == nullptr || *base == '\0' ? "/tmp" : base;
    path = folder + "/oshrun-XXXXXX";
    const char* origin = base == nullptr ? "" : " (TMPDIR)";
    if (mkdtemp(path.data()) == nullptr) {
        return Refusal{EXIT_FAILURE, fmt::format("cannot create a temporary folder in {}{}: {}", folder, origin,
                                                 strerrordesc_np(errno))};
    }
    const int problem = problem_of_room(path, kLauncherBytes);
    if (problem != 0) {
        rmdir(path.c_str());
        return Refusal{EXIT_FAILURE,
                       fmt::format("{}{}: no room for the {} MiB that the launcher needs there: {}: make room, or set "
                                   "TMPDIR to another folder",
                                   folder, origin, kLauncherBytes >> 20, strerrordesc_np(problem))};
    }
    return std::nullopt;
}

// Beside the launcher, as the launcher itself looks for it on other hosts; empty: it is not there, or the user has
// chosen how daemons are started.
std::string daemon_of_launcher(const std::string& launcher_path) {
    const std::string path = std::filesystem::path(launcher_path).parent_path() / "orted";
    const bool is_chosen = std::getenv("OMPI_MCA_orte_launch_agent") != nullptr;
    return !is_chosen && access(path.c_str(), X_OK) == 0 ? path : "";
}

// Everything that can be known before anything is started.
struct Found {
    Config config;
    std::vector<HostSlots> hosts;
    std::string program_path;
    std::string launcher_path;  // empty, if oshrun starts the processes itself
};

std::optional<Refusal> settle_launcher(Options& options, Found& found) {
    const std::string needed_for = needs_launcher(options, found.hosts, found.config.pretend_nodes);
    if (options.launcher == LauncherKind::own && !needed_for.empty()) {
        return Refusal{kExitUsage, "--launcher own: " + needed_for};
    }
    if (options.launcher == LauncherKind::automatic && needed_for.empty() && !is_linked_with_mpi(found.program_path)) {
        options.launcher = LauncherKind::own;
    }
    if (options.launcher == LauncherKind::own) {
        return std::nullopt;
    }
    if (auto refusal = find_launcher(options, found.launcher_path)) {
        return refusal;
    }
    if (const auto word = word_taken_for_program(options.launcher, options.launcher_args)) {
        return Refusal{kExitUsage,
                       fmt::format("--launcher-args {}: {} would take it for the program: it belongs to no option",
                                   shell_quoted(*word), launcher_name(options.launcher))};
    }
    return std::nullopt;
}

// A folder for the launcher, or what the guardian needs to be one.
std::optional<Refusal> prepare_launch(const Options& options, const std::string& program_path, GuardianTask& task) {
    if (options.launcher != LauncherKind::own) {
        return make_temp_dir(task.temp_dir);
    }
    const int processes = options.pes + options.spares;
    set_for_job("OSHRUN_LAUNCHED", std::to_string(processes));
    if (processes > 1) {
        // MPI_Init would make a world of each process, with the help of a daemon from there: better that it fails.
        set_for_job("OPAL_BINDIR", "/start-it-with-oshrun--launcher-mpirun");
    }
    task.own_launch = OwnLaunchTask{program_path, options.command, processes, -1};
    return std::nullopt;
}

LaunchFacts collect_facts(const std::string& temp_dir, const std::string& program_path,
                          const std::string& launcher_path) {
    LaunchFacts facts;
    facts.launcher_path = launcher_path;
    facts.own_path = std::filesystem::read_symlink("/proc/self/exe").string();
    // The launcher may be told to run the processes in another folder.
    facts.program_path = std::filesystem::absolute(program_path).string();
    facts.temp_dir = temp_dir;
    facts.is_inside_slurm = is_inside_slurm();
    facts.is_root = geteuid() == 0;
    facts.cores = usable_cores();
    facts.environment_names = environment_names();
    return facts;
}

// Where the launcher is to listen: where agents of other hosts reach the guardian.
std::optional<LauncherDoor> settle_door(const Options& options, const std::optional<AgentEntrance>& entrance,
                                        LaunchFacts& facts) {
    facts.door_address = facts.has_other_hosts && entrance ? entrance->address.address : "127.0.0.1";
    LauncherDoor door{door_module(), facts.door_address};
    if (door.module.empty()) {
        print_line(
            "oshrun: warning: launcher_door.so is missing (see docs/oshrun.md): the launcher listens at all "
            "interfaces of this host");
        facts.door_address.clear();
    }
    return has_door(options, facts) ? std::optional(std::move(door)) : std::nullopt;
}

std::optional<Refusal> settle_restart(Options& options) {
    if (options.restart.empty()) {
        return std::nullopt;
    }
    const Result<RestartPoint> point = find_restart_point(options.restart);
    if (!point) {
        return Refusal{kExitUsage, "--restart: " + point.error().line};
    }
    const int n_pes = point->manifest.n_pes;
    if (options.pes != 0 && options.pes != n_pes) {
        const char* const way =
            point->manifest.arrays.empty() ? "" : ", or load its arrays (SHMEM_FT_LOAD instead of --restart)";
        return Refusal{kExitUsage, fmt::format("--restart: {} was stored by {} PEs: -n {} instead of -n {}{}",
                                               point->folder, n_pes, n_pes, options.pes, way)};
    }
    options.pes = n_pes;
    set_restart_point(*point);
    return std::nullopt;
}

std::optional<Refusal> look_round(Options& options, Found& found) {
    if (auto refusal = check_footing()) {
        return refusal;
    }
    apply_exports(options);
    if (auto refusal = settle_restart(options)) {
        return refusal;
    }
    if (const Result<> one = settle_load(); !one) {
        return Refusal{kExitUsage, one.error().line};
    }
    if (auto refusal = find_hosts(options, found.hosts)) {
        return refusal;
    }
    if (auto refusal = settle_counts(options, found.hosts, found.config)) {
        return refusal;
    }
    if (auto refusal = check_sizes(found.config.symmetric_size_bytes)) {
        return refusal;
    }
    raise_low_file_limit(options.pes + options.spares);
    if (auto refusal = find_program(options.command.front(), found.program_path)) {
        return refusal;
    }
    return settle_launcher(options, found);
}

// As told, but a guardian leaves nothing behind.
int told_after_cleaning(const std::string& temp_dir, const std::function<int()>& action) {
    constexpr std::int64_t kPatience_ns = 2'000'000'000;
    return told([&] {
        try {
            return action();
        } catch (...) {
            end_descendants({.patience_ns = kPatience_ns, .spared = {}});
            std::error_code ignored;
            std::filesystem::remove_all(temp_dir, ignored);
            throw;
        }
    });
}

void take_settings(const Options& options, const Config& config, GuardianTask& task) {
    task.hang_timeout_ms = config.hang_timeout_ms;
    task.node_timeout_ms = config.node_timeout_ms;
    task.is_realtime = config.realtime;
    task.is_quiet = options.is_quiet;
    task.on_demand = {options.on_demand != OnDemandPolicy::never, options.on_demand_limit};
    task.withholds_kill = std::getenv("OSHRUN_WITHHOLD_KILL") != nullptr;
    task.launcher_reads_stdin = launcher_reads_stdin(options);
}

// note: of who may start the job again, which it has done `attempt` times.
int run(Options options, int attempt, RetryNote* note) {
    if (note == nullptr) {
        leave_surrounding_job();
    }
    Found found;
    if (const auto refusal = look_round(options, found)) {
        return refuse(*refusal);
    }
    GuardianTask task;
    task.retry_note = note;
    if (const auto refusal = open_events_file(options.events_path, attempt > 0, task.events_file)) {
        return refuse(*refusal);
    }
    block_end_signals();  // from here on there is something to clean up
    if (const auto refusal = prepare_launch(options, found.program_path, task)) {
        return refuse(*refusal);
    }
    const Result<std::uint64_t> number = JobSocket::draw_number();
    if (!number) {
        return refuse({EXIT_FAILURE, number.error().line});
    }
    set_for_job("SHMEM_FT_SPARES", std::to_string(options.spares));
    const int on_demand = options.on_demand == OnDemandPolicy::never ? 0 : options.on_demand_limit;
    set_for_job("SHMEM_FT_ON_DEMAND", std::to_string(std::min(on_demand, kJoinersMax)));
    const std::string temp_dir = task.temp_dir;
    const auto guard = [&](GuardianLink link) {
        const Result<> opened = task.socket.open_as(JobSocket::name_of(getpid(), *number)).then([&] {
            return open_entrance_if_needed(options, found.config, found.hosts, task.entrance);
        });
        if (!opened) {
            print_line("oshrun: " + opened.error().line);
            std::error_code ignored;
            std::filesystem::remove_all(temp_dir, ignored);
            return EXIT_FAILURE;
        }
        set_for_job("SHMEM_FT_JOB_SOCKET", task.socket.name());
        task.shape = {options.pes,
                      options.spares,
                      options.command.front(),
                      launcher_name(options.launcher),
                      choose_rank_hosts(options, found.hosts),
                      found.config.start_timeout_ms};
        LaunchFacts facts = collect_facts(temp_dir, found.program_path, found.launcher_path);
        // Inside of Slurm srun starts the daemons, and a job step of oshrun's has not come up there.
        facts.has_other_hosts = may_use_other_hosts(options, found.hosts);
        if (facts.has_other_hosts) {
            facts.daemon_path = daemon_of_launcher(facts.launcher_path);
        }
        if (options.launcher == LauncherKind::mpirun) {
            task.door = settle_door(options, task.entrance, facts);
        }
        facts.rank_hosts_file = task.own_launch ? "" : write_rank_hosts(options, task.shape.hosts, temp_dir);
        task.launch_command = task.own_launch ? options.command : launch_command(options, facts);
        task.joiner_command = exec_pe_command(options, facts);
        if (options.is_verbose) {
            print_line("oshrun: " + shell_quoted(task.launch_command));
        }
        task.front = std::move(link.front);
        task.stdin_fd = link.stdin_fd;
        take_settings(options, found.config, task);
        return run_guardian(std::move(task));
    };
    const auto guardian = [&](GuardianLink link) {
        return told_after_cleaning(temp_dir, [&] { return guard(std::move(link)); });
    };
    const auto job_variable = [&](std::int32_t pid) {
        return "SHMEM_FT_JOB_SOCKET=" + JobSocket::name_of(pid, *number);
    };
    return run_front({temp_dir, guardian, job_variable});
}

int run_again_if_lost(Options options) {
    leave_surrounding_job();
    apply_exports(options);
    if (const auto refusal = settle_restart(options)) {
        return refuse(*refusal);
    }
    options.restart.clear();  // it is in the environment, and another attempt may go on from a later one
    return run_with_retries(options.retries, [&](int attempt, RetryNote& note) {
        return told([&] { return run(options, attempt, &note); });
    });
}

}  // namespace
}  // namespace sft::tools

int main(int argc, char** argv) {
    using namespace sft::tools;
    if (argc > 1 && std::strcmp(argv[1], kExecPeOption) == 0) {
        return exec_pe(argc, argv);
    }
    if (is_for_daemon(argc, argv)) {
        return exec_daemon(argc, argv);
    }
    settle_inherited_state();
    open_standard_descriptors();
    Options options;
    if (const auto parsed = parse_options({argv + 1, argv + argc}, options); !parsed) {
        return refuse({kExitUsage, parsed.error().line});
    }
    if (options.wants_help) {
        return print_out(help_text());
    }
    if (options.wants_version) {
        return print_out(fmt::format("oshrun (shmem-ft) {}\n", kVersion));
    }
    if (!options.join.empty()) {
        return ask_to_join(options.join, options.pes, options.host_list);
    }
    if (options.retries > 0) {
        return told([&] { return run_again_if_lost(std::move(options)); });
    }
    return told([&] { return run(std::move(options), 0, nullptr); });
}
