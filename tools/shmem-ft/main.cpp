// shmem-ft: looks at settings, programs and the system, and runs programs under campaigns of faults. See
// docs/man/shmem-ft.1.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/common/text.hpp"
#include "tools/common/version.hpp"
#include "tools/shmem-ft/commands.hpp"

namespace sft::tools {
namespace {

constexpr int kExitUsage = 2;
constexpr std::array<std::string_view, 6> kSubcommands = {"config", "globals", "info", "lab", "points", "version"};

constexpr const char* kHelp = R"(Usage: shmem-ft COMMAND [OPTIONS]

  config               all settings of the library: value, origin, default, accepted values
    --markdown           as the text of docs/config.md
  globals PROGRAM      the globals that a checkpoint of PROGRAM holds: name, size, section;
                       what it leaves out and why; types that deserve a look (with -g)
    --all                all of them, not only the largest
  lab [OPTIONS] -- PROGRAM...
                       run a program under a campaign of faults and compare what it prints
                       (shmem-ft lab --help)
  points               the points at which faults can happen: number, name, meaning
    --markdown           as the table of docs/fault-lab.md
  info                 version, launcher, kernel and memory, for a report about a problem
  version              the version

  -h, --help           print this text

Exit status: 0; 1 when a program cannot be read or a run of the lab failed; 2 for wrong options or settings.
)";

int refuse(const std::string& line) {
    print_line("shmem-ft: error: " + line);
    return kExitUsage;
}

int run(int argc, char** argv) {
    if (argc < 2) {
        return refuse("no command given: config, globals, lab, points, info or version (see shmem-ft --help)");
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
                          ? fmt::format("{}: no such command: config, globals, lab, points, info or version", word)
                          : fmt::format("{}: no such command; did you mean {}?", word, suggestion));
    }

    if (word == "lab") {
        return run_lab({argv + 2, argv + argc});
    }

    CLI::App app;
    app.set_help_flag();
    bool wants_help = false;
    ConfigCommand config;
    GlobalsCommand globals;
    CLI::App* config_app = app.add_subcommand("config");
    config_app->add_flag("--markdown", config.as_markdown);
    CLI::App* globals_app = app.add_subcommand("globals");
    globals_app->add_option("program", globals.program);
    globals_app->add_flag("--all", globals.show_all);
    PointsCommand points;
    CLI::App* points_app = app.add_subcommand("points");
    points_app->add_flag("--markdown", points.as_markdown);
    CLI::App* info_app = app.add_subcommand("info");
    for (CLI::App* command : {config_app, globals_app, info_app, points_app}) {
        command->set_help_flag();
        command->add_flag("-h,--help", wants_help);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ExtrasError&) {
        const auto extras = app.remaining(true);
        return refuse(
            fmt::format("{}: {} does not take that (see shmem-ft --help)", extras.empty() ? "" : extras.front(), word));
    } catch (const CLI::ParseError& error) {
        return refuse(error.what());
    }
    if (wants_help) {
        fmt::print("{}", kHelp);
        return EXIT_SUCCESS;
    }
    if (word == "config") {
        return run_config(config);
    }
    if (word == "points") {
        return run_points(points);
    }
    if (word == "info") {
        return run_info();
    }
    if (globals.program.empty()) {
        return refuse("globals: no program given: shmem-ft globals PROGRAM");
    }
    return run_globals(globals);
}

}  // namespace
}  // namespace sft::tools

int main(int argc, char** argv) { return sft::tools::run(argc, argv); }
