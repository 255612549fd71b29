#include "tools/oshrun/options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/result.hpp"

namespace sft::tools {
namespace {

using Words = std::vector<std::string>;

Options parsed(const Words& words) {
    Options options;
    EXPECT_TRUE(good(parse_options(words, options)));
    return options;
}

std::string refused(const Words& words) {
    Options options;
    const std::string error_line = line_of(parse_options(words, options));
    EXPECT_NE(error_line, "");
    EXPECT_EQ(error_line.find('\n'), std::string::npos) << error_line;
    return error_line;
}

TEST(Options, NumberOfPes) {
    EXPECT_EQ(parsed({"-n", "4", "prog"}).pes, 4);
    EXPECT_EQ(parsed({"-n4", "prog"}).pes, 4);
    EXPECT_EQ(parsed({"-np", "4", "prog"}).pes, 4);
    EXPECT_EQ(parsed({"--np=4", "prog"}).pes, 4);
    EXPECT_EQ(parsed({"--np", "4", "prog"}).pes, 4);
    EXPECT_EQ(parsed({"prog"}).pes, 0);
    EXPECT_EQ(parsed({"prog"}).spares, -1);
    EXPECT_EQ(parsed({"-n", "2", "-n", "3", "prog"}).pes, 3);
}

TEST(Options, Spares) {
    EXPECT_EQ(parsed({"--spares", "2", "prog"}).spares, 2);
    EXPECT_EQ(parsed({"--spares=0", "prog"}).spares, 0);
    EXPECT_EQ(parsed({"-s", "1", "prog"}).spares, 1);
}

TEST(Options, AnotherAttempt) {
    EXPECT_EQ(parsed({"--restart", "/a", "--retries=3", "prog"}).restart, "/a");
    EXPECT_EQ(parsed({"--restart", "/a", "--retries=3", "prog"}).retries, 3);
    EXPECT_EQ(parsed({"prog"}).retries, 0);
    EXPECT_EQ(refused({"--retries", "x", "prog"}), "--retries x: not a number of retries from 0 to 4094");
    EXPECT_EQ(refused({"--restart=", "prog"}), "--restart: the name of the folder is empty");
}

TEST(Options, WhatFollowsTheProgramIsItsOwn) {
    EXPECT_EQ(parsed({"-n", "2", "prog", "-n", "3", "--spares", "x", "--", ":"}).command,
              (Words{"prog", "-n", "3", "--spares", "x", "--", ":"}));
    EXPECT_EQ(parsed({"-n", "2", "--", "prog", "--help"}).command, (Words{"prog", "--help"}));
    EXPECT_EQ(parsed({"--", "-n", "2"}).command, (Words{"-n", "2"}));
    EXPECT_EQ(parsed({"prog", ""}).command, (Words{"prog", ""}));
}

TEST(Options, Exports) {
    const Options options = parsed({"-x", "A=1=2", "-x", "B", "--export", "C=", "-xD=4", "prog"});
    ASSERT_EQ(options.exports.size(), 4U);
    EXPECT_EQ(options.exports[0].name, "A");
    EXPECT_EQ(options.exports[0].value, "1=2");
    EXPECT_TRUE(options.exports[0].has_value);
    EXPECT_FALSE(options.exports[1].has_value);
    EXPECT_TRUE(options.exports[2].has_value);
    EXPECT_EQ(options.exports[2].value, "");
    EXPECT_EQ(options.exports[3].name, "D");
    EXPECT_EQ(options.command, Words{"prog"});
}

TEST(Options, LauncherArguments) {
    const Options options = parsed({"-L", "--bind-to core", "--launcher-args", "--mca a 'b c'", "prog"});
    EXPECT_EQ(options.launcher_args, (Words{"--bind-to", "core", "--mca", "a", "b c"}));
}

TEST(Options, Flags) {
    const Options options = parsed({"--verbose", "--events", "file", "prog"});
    EXPECT_TRUE(options.is_verbose);
    EXPECT_EQ(options.events_path, "file");
    EXPECT_TRUE(parsed({"--help"}).wants_help);
    EXPECT_TRUE(parsed({"-h", "prog"}).wants_help);
    EXPECT_TRUE(parsed({"-V"}).wants_version);
}

TEST(Options, JoinTakesANumberOnly) {
    Options options;
    ASSERT_TRUE(good(parse_options({"--join", "123"}, options)));
    EXPECT_EQ(options.join, "123");
    EXPECT_EQ(options.pes, 1);
    ASSERT_TRUE(good(parse_options({"--join=123", "-n", "3"}, options)));
    EXPECT_EQ(options.pes, 3);
    EXPECT_EQ(line_of(parse_options({"--join", "123", "./program"}, options)),
              "--join takes -n and --host only: the program and its settings are those of the job");
}

TEST(Options, BadCountsNameTheValue) {
    for (const char* text : {"0", "-1", "abc", "", "1.5", "4095", "100000", "99999999999999999999", " 2", "2x"}) {
        EXPECT_EQ(refused({"-n", text, "prog"}), std::string("-n ") + text + ": not a number of PEs from 1 to 4094");
    }
    EXPECT_EQ(refused({"--spares", "-1", "prog"}), "--spares -1: not a number of spares from 0 to 4094");
    EXPECT_EQ(refused({"--spares=", "prog"}), "--spares : not a number of spares from 0 to 4094");
    EXPECT_EQ(refused({"--spares=-1", "prog"}), "--spares -1: not a number of spares from 0 to 4094");
    EXPECT_NE(refused({"--verbose=1", "prog"}).find("--verbose=1: no such option"), std::string::npos);
}

TEST(Options, UnknownOptionsComeWithAHint) {
    EXPECT_EQ(refused({"--spare", "1", "prog"}), "--spare: no such option; did you mean --spares?");
    EXPECT_EQ(refused({"--sparse=1", "prog"}), "--sparse=1: no such option; did you mean --spares?");
    EXPECT_EQ(refused({"-spares", "1", "prog"}), "-spares: no such option; did you mean --spares?");
    EXPECT_EQ(refused({"--verbos", "prog"}), "--verbos: no such option; did you mean --verbose?");
    EXPECT_EQ(refused({"-np4", "prog"}), "-np4: no such option; did you mean -np?");
    EXPECT_NE(refused({"-number", "prog"}).find("-number: no such option"), std::string::npos);
    EXPECT_NE(refused({"--bind-to", "core", "prog"}).find("--launcher-args"), std::string::npos);
}

TEST(Options, Hosts) {
    for (const char* name : {"--host", "-host", "-H"}) {
        EXPECT_EQ(parsed({name, "a:2,b", "prog"}).host_list, "a:2,b") << name;
    }
    for (const char* name : {"--hostfile", "-hostfile", "--machinefile", "-machinefile"}) {
        EXPECT_EQ(parsed({name, "list", "prog"}).hostfile, "list") << name;
    }
    EXPECT_EQ(parsed({"--hostfile=list", "prog"}).hostfile, "list");
    EXPECT_FALSE(parsed({"prog"}).maps_by_node);
    EXPECT_FALSE(parsed({"--map-by", "slot", "prog"}).maps_by_node);
    EXPECT_TRUE(parsed({"--map-by", "node", "prog"}).maps_by_node);
    EXPECT_EQ(refused({"--map-by", "core", "prog"}), "--map-by core: not one of slot, node");
    EXPECT_EQ(parsed({"--spare-nodes", "2", "prog"}).spare_nodes, 2);
    EXPECT_EQ(refused({"--spare-nodes", "-1", "prog"}), "--spare-nodes -1: not a number of hosts from 0 to 4094");
    EXPECT_EQ(refused({"--host", "a", "--hostfile", "b", "prog"}), "--host and --hostfile: one of them is enough");
    EXPECT_EQ(refused({"--host", "", "prog"}), "--host, --hostfile: the value is empty");
}

TEST(Options, Launcher) {
    EXPECT_EQ(parsed({"prog"}).launcher, LauncherKind::automatic);
    EXPECT_EQ(parsed({"--launcher", "prterun", "prog"}).launcher, LauncherKind::prterun);
    EXPECT_EQ(parsed({"--launcher=srun", "prog"}).launcher, LauncherKind::srun);
    EXPECT_EQ(refused({"--launcher", "mpiexec", "prog"}),
              "--launcher mpiexec: not one of auto, mpirun, prterun, srun, own");
}

TEST(Options, OnDemand) {
    EXPECT_EQ(parsed({"prog"}).on_demand, OnDemandPolicy::automatic);
    EXPECT_EQ(parsed({"--on-demand", "never", "prog"}).on_demand, OnDemandPolicy::never);
    EXPECT_EQ(parsed({"--on-demand=always", "--on-demand-limit", "3", "prog"}).on_demand, OnDemandPolicy::always);
    EXPECT_EQ(parsed({"--on-demand-limit", "3", "prog"}).on_demand_limit, 3);
    EXPECT_EQ(refused({"--on-demand", "yes", "prog"}), "--on-demand yes: not one of never, auto, always");
}

TEST(Options, MissingThings) {
    EXPECT_EQ(refused({}).substr(0, 16), "no program given");
    EXPECT_EQ(refused({"-n", "2"}).substr(0, 16), "no program given");
    EXPECT_EQ(refused({"-n", "2", "--"}).substr(0, 16), "no program given");
    EXPECT_EQ(refused({"-n", "2", ""}).substr(0, 16), "no program given");
    EXPECT_EQ(refused({"-n"}), "-n: its value is missing");
    EXPECT_EQ(refused({"-n", "2", "--events"}), "--events: its value is missing");
    EXPECT_EQ(refused({"--events=", "prog"}), "--events: the name of the file is empty");
}

TEST(Options, BadExports) {
    for (const char* text : {"=1", "1A=2", "A-B", ""}) {
        EXPECT_EQ(refused({"-x", text, "prog"}), std::string("-x ") + text + ": not NAME or NAME=VALUE");
    }
}

TEST(Options, BadLauncherArguments) {
    EXPECT_NE(refused({"-L", "--x 'y", "prog"}).find("a quote is not closed"), std::string::npos);
    EXPECT_NE(refused({"-L", "-np 8", "prog"}).find("given with -n and --spares"), std::string::npos);
}

TEST(Options, TheHelpTextNamesEveryOption) {
    const std::string help = help_text();
    for (const char* name : {"-n N", "-np N", "--np N", "--spares S", "-x NAME", "-L ARGS", "--launcher-args ARGS",
                             "--events FILE", "--verbose", "--help", "--version"}) {
        EXPECT_NE(help.find(name), std::string::npos) << name;
    }
}

}  // namespace
}  // namespace sft::tools
