// shmem-ft: looks at settings, programs, the system and running jobs, and runs programs under campaigns of faults. See
// docs/man/shmem-ft.1.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/text.hpp"
#include "tools/common/version.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "tools/shmem-ft/refusal.hpp"

namespace sft::tools {
namespace {

constexpr int kProcessesMax = 4095;
constexpr double kWatchSecondsMin = 0.1;
constexpr double kWatchSecondsMax = 86400;
constexpr std::array<std::string_view, 13> kSubcommands = {"config", "extract", "globals", "info",   "lab",
                                                           "list",   "plan",    "points",  "remove", "show",
                                                           "status", "verify",  "version"};
constexpr std::array<std::string_view, 5> kOfStored = {"extract", "list", "remove", "show", "verify"};

constexpr const char* kHelp = R"(Usage: shmem-ft COMMAND [OPTIONS]

  config               all settings of the library: value, origin, default, accepted values
    --markdown           as the text of docs/config.md
  globals PROGRAM      the globals that a checkpoint of PROGRAM holds: name, size, section;
                       what it leaves out and why; types that deserve a look (with -g)
    --all                all of them, not only the largest
  list DIR             the versions that are stored in DIR (SHMEM_FT_STORE)
  show VERSION         what the version whose folder that is was stored by and with, and
                       where its parts lie in the files
  verify DIR|VERSION   whether all is there and fits its checksums
  remove DIR|VERSION   all versions in DIR, or that one
  extract VERSION --output FILE
                       a piece of the memory of one PE
    --pe N               of that PE (default: 0)
    --global NAME        that variable; --program FILE: if the program lies elsewhere now
    --range ADDRESS:BYTES
                         that piece of heap or globals
    --array NAME         what all PEs, or the one of --pe, have of an array of the job
                         (shmem_ft_declare_array)
    --type TYPE          as a file of NumPy: <f8, <i4, <u8
  lab [OPTIONS] -- PROGRAM...
                       run a program under a campaign of faults and compare what it prints
                       (shmem-ft lab --help)
  plan --hosts HOSTS   what a job on these hosts (node[1-4]:2,login) would be like: who keeps
                       copies of whom, which hosts may be lost at one moment
    -n PES, --spares S, --spare-nodes N, --map-by node|slot
                         as of oshrun
    --backup MODE        instead of SHMEM_FT_BACKUP_MODE
    --topology FILE      instead of SHMEM_FT_TOPOLOGY: which hosts are lost together, and
                         what has to be survived: if it is not, the exit status is 1
    --state SIZE         what a PE has in its symmetric memory (2GiB): how much memory that takes
    --mtbf DAYS          each host is lost once in so many days: how likely the job is to be lost
    --mtbf LEVEL=DAYS    the same of each domain of a level of the topology
    --window SECONDS     until the job is protected again after a loss (default: 60)
    --run DAYS           what that means for a run of that length
    --lost HOSTS         and what it is like when these are lost at one moment (node[3-4], or
                         LEVEL=DOMAIN for a domain of the topology)
    --svg FILE           draws it, as it is behind that loss if there is one; -: to stdout
    --json               for programs
  plan PID|NAME        the same of a running job, as it is now: where its PEs and spares are,
                       and what may be lost; with the options from --state on
  points               the points at which faults can happen: number, name, meaning
    --markdown           as the table of docs/fault-lab.md
  status [PID|NAME...] running jobs: what is committed, how many losses they survive now
                       and why not more, every PE and its copy, deaths; a pid is one of a
                       job's processes or its oshrun, a name that of its program
    --json               for programs
    --all-users          jobs of others too, as root; what they say is not to be trusted
    --watch SECONDS      again and again, until the jobs have ended
  info                 version, build, transports, launcher, kernel, memory, and every setting
                       with its origin; shmem_info is the same
    --json               for programs
  version              the version

  -h, --help           print this text

Exit status: 0; 1 when a program cannot be read, a run of the lab failed or no job is running; 2 for wrong options or
settings.
)";

// What is given to the commands besides lab.
struct Commands {
    bool wants_help = false;
    ConfigCommand config;
    GlobalsCommand globals;
    InfoCommand info;
    PlanCommand plan;
    PointsCommand points;
    StatusCommand status;
    StoredCommand stored;
};

void describe_to(CLI::App& app, Commands& commands) {
    app.set_help_flag();
    CLI::App* config = app.add_subcommand("config");
    config->add_flag("--markdown", commands.config.as_markdown);
    CLI::App* globals = app.add_subcommand("globals");
    globals->add_option("program", commands.globals.program);
    globals->add_flag("--all", commands.globals.show_all);
    CLI::App* plan = app.add_subcommand("plan");
    plan->add_option("--hosts,--host", commands.plan.hosts);
    plan->add_option("--topology", commands.plan.topology);
    plan->add_option("--backup", commands.plan.backup);
    plan->add_option("-n,--np", commands.plan.pes)->check(CLI::Range(1, kProcessesMax));
    plan->add_option("--spares", commands.plan.spares)->check(CLI::Range(0, kProcessesMax));
    plan->add_option("--spare-nodes", commands.plan.spare_nodes)->check(CLI::Range(0, kProcessesMax));
    plan->add_option_function<std::string>(
            "--map-by", [&commands](const std::string& how) { commands.plan.is_by_node = how == "node"; })
        ->check(CLI::IsMember({"node", "slot"}));
    plan->add_flag("--json", commands.plan.as_json);
    plan->add_option("--mtbf", commands.plan.mtbf);
    plan->add_option("--state", commands.plan.state_bytes)
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::PositiveNumber);
    plan->add_option("--window", commands.plan.window_s)->check(CLI::PositiveNumber);
    plan->add_option("--run", commands.plan.run_days)->check(CLI::PositiveNumber);
    plan->add_option("--lost", commands.plan.lost);
    plan->add_option("--svg", commands.plan.svg);
    plan->add_option("job", commands.plan.job);
    CLI::App* points = app.add_subcommand("points");
    points->add_flag("--markdown", commands.points.as_markdown);
    CLI::App* status = app.add_subcommand("status");
    status->add_option("which", commands.status.words);
    status->add_flag("--json", commands.status.as_json);
    status->add_flag("--all-users", commands.status.of_all_users);
    status->add_option("--watch", commands.status.watch_seconds)->check(CLI::Range(kWatchSecondsMin, kWatchSecondsMax));
    CLI::App* info = app.add_subcommand("info");
    info->add_flag("--json", commands.info.as_json);
    for (const std::string_view word : kOfStored) {
        CLI::App* stored = app.add_subcommand(std::string(word));
        stored->add_option("path", commands.stored.path);
        stored->set_help_flag();
        stored->add_flag("-h,--help", commands.wants_help);
        if (word == "extract") {
            stored->add_option("--pe", commands.stored.pe)->check(CLI::Range(0, kProcessesMax));
            stored->add_option("--global", commands.stored.global);
            stored->add_option("--range", commands.stored.range);
            stored->add_option("--array", commands.stored.array);
            stored->add_option("--program", commands.stored.program);
            stored->add_option("--type", commands.stored.type);
            stored->add_option("--output", commands.stored.output);
        }
    }
    for (CLI::App* command : {config, globals, info, plan, points, status}) {
        command->set_help_flag();
        command->add_flag("-h,--help", commands.wants_help);
    }
}

int carry_out(std::string_view word, const Commands& commands) {
    if (commands.wants_help) {
        fmt::print("{}", kHelp);
        return EXIT_SUCCESS;
    }
    if (std::find(kOfStored.begin(), kOfStored.end(), word) != kOfStored.end()) {
        return run_stored(word, commands.stored);
    }
    if (word == "config") {
        return run_config(commands.config);
    }
    if (word == "plan") {
        return run_plan(commands.plan);
    }
    if (word == "points") {
        return run_points(commands.points);
    }
    if (word == "status") {
        return run_status(commands.status);
    }
    if (word == "info") {
        return run_info(commands.info);
    }
    if (commands.globals.program.empty()) {
        return refuse("globals: no program given: shmem-ft globals PROGRAM");
    }
    return run_globals(commands.globals);
}

int run(int argc, char** argv) {
    if (argc < 2) {
        return refuse(fmt::format("no command given: one of {} (see shmem-ft --help)", fmt::join(kSubcommands, ", ")));
    }
    const std::string word = argv[1];
    if (word == "-h" || word == "--help" || word == "help") {
        fmt::print("{}", kHelp);
        return EXIT_SUCCESS;
    }
    if (word == "version" || word == "--version" || word == "-V") {
        fmt::print("shmem-ft {}\n", kVersion);
        return EXIT_SUCCESS;
    }
    if (std::find(kSubcommands.begin(), kSubcommands.end(), word) == kSubcommands.end()) {
        const std::string suggestion = nearest(word, kSubcommands);
        return refuse(suggestion.empty()
                          ? fmt::format("{}: no such command: one of {}", word, fmt::join(kSubcommands, ", "))
                          : fmt::format("{}: no such command; did you mean {}?", word, suggestion));
    }

    if (word == "lab") {
        return run_lab({argv + 2, argv + argc});
    }

    CLI::App app;
    Commands commands;
    describe_to(app, commands);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ExtrasError&) {
        const auto extras = app.remaining(true);
        return refuse(
            fmt::format("{}: {} does not take that (see shmem-ft --help)", extras.empty() ? "" : extras.front(), word));
    } catch (const CLI::ParseError& error) {
        return refuse(error.what());
    }
    return carry_out(word, commands);
}

}  // namespace
}  // namespace sft::tools

// Under the name that this program has in other OpenSHMEM libraries it is its command `info`.
int main(int argc, char** argv) {
    std::signal(SIGCHLD,
                SIG_DFL);  // a parent that ignores it makes us ignore it too, and the laboratory waits for children
    const std::string_view path = argc > 0 ? argv[0] : "";
    if (path.substr(path.rfind('/') + 1) != "shmem_info") {
        return sft::tools::run(argc, argv);
    }
    std::string command = "info";
    std::vector<char*> words(argv, argv + argc);
    words.insert(words.begin() + 1, command.data());
    words.push_back(nullptr);
    return sft::tools::run(argc + 1, words.data());
}
