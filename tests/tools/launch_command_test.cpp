#include "tools/oshrun/launch_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/oshrun/exec_daemon.hpp"
#include "tools/oshrun/launcher_args.hpp"

namespace sft::tools {
namespace {

using Words = std::vector<std::string>;

LaunchFacts facts() {
    LaunchFacts facts;
    facts.launcher_path = "/usr/bin/mpirun.openmpi";
    facts.own_path = "/opt/bin/oshrun";
    facts.program_path = "/home/me/prog";
    facts.temp_dir = "/tmp/oshrun-abc";
    facts.cores = 8;
    facts.environment_names = {"HOME", "SHMEM_FT_SPARES", "SMA_DEBUG", "SHMEMISH", "LD_LIBRARY_PATH", "MINE"};
    return facts;
}

Options options(int pes, int spares) {
    Options options;
    options.pes = pes;
    options.spares = spares;
    options.command = {"./prog", "a", ":", "=b", ""};
    return options;
}

bool contains(const Words& words, const Words& part) {
    return std::search(words.begin(), words.end(), part.begin(), part.end()) != words.end();
}

TEST(LaunchCommand, DaemonsOfOtherHostsAreStartedByOshrun) {
    LaunchFacts there = facts();
    EXPECT_FALSE(contains(launch_command(options(2, 0), there), {"orte_launch_agent"}));
    there.daemon_path = "/usr/bin/orted";
    const Words words = {"--mca", "orte_launch_agent", "/opt/bin/oshrun", "--mca", "oshrun_daemon", "/usr/bin/orted"};
    EXPECT_TRUE(contains(launch_command(options(2, 0), there), words));
    // The launcher divides it at blanks.
    there.own_path = "/opt/my tools/oshrun";
    EXPECT_FALSE(contains(launch_command(options(2, 0), there), {"orte_launch_agent"}));
    there.own_path = "/opt/bin/oshrun";
    Options chosen = options(2, 0);
    chosen.launcher_args = {"--launch-agent", "mine"};
    EXPECT_FALSE(contains(launch_command(chosen, there), {"orte_launch_agent"}));
}

TEST(LaunchCommand, TheLauncherIsKeptToOneAddress) {
    const Words setting = {"--mca", "oob_tcp_if_include", "10.0.0.1/32", "--mca", "oshrun_door", "10.0.0.1"};
    Options by_mpirun = options(2, 0);
    by_mpirun.launcher = LauncherKind::mpirun;
    LaunchFacts here = facts();
    here.door_address = "10.0.0.1";
    EXPECT_TRUE(has_door(by_mpirun, here));
    EXPECT_FALSE(contains(launch_command(by_mpirun, here), {"oob_tcp_if_include"})) << "nobody else has to be told";
    LaunchFacts there = here;
    there.has_other_hosts = true;
    EXPECT_FALSE(has_door(by_mpirun, there))
        << "its daemons would be told of an interface that their hosts do not have";
    EXPECT_FALSE(contains(launch_command(by_mpirun, there), {"oob_tcp_if_include"}));
    there.daemon_path = "/usr/bin/orted";
    EXPECT_TRUE(contains(launch_command(by_mpirun, there), setting));

    Options chosen = by_mpirun;
    chosen.launcher_args = {"--mca", "oob_tcp_if_exclude", "eth1"};
    EXPECT_FALSE(has_door(chosen, there));
    EXPECT_FALSE(contains(launch_command(chosen, there), setting));
    LaunchFacts by_variable = there;
    by_variable.environment_names.emplace_back("OMPI_MCA_oob_tcp_if_include");
    EXPECT_FALSE(has_door(by_mpirun, by_variable));
    Options other = by_mpirun;
    other.launcher = LauncherKind::prterun;
    EXPECT_FALSE(has_door(other, there));
    there.door_address = "fd00::1";
    EXPECT_FALSE(has_door(by_mpirun, there)) << "Open MPI 4 cannot be told";
    there.door_address.clear();
    EXPECT_FALSE(has_door(by_mpirun, there));
}

TEST(LaunchCommand, TheWordsOfADaemon) {
    const auto is_one = [](std::vector<const char*> words) {
        return is_for_daemon(static_cast<int>(words.size()), const_cast<char**>(words.data()));
    };
    EXPECT_TRUE(is_one({"oshrun", "-mca", "ess", "env", "--mca", "oshrun_daemon", "/usr/bin/orted"}));
    EXPECT_FALSE(is_one({"oshrun", "-mca", "ess", "env"}));
    EXPECT_FALSE(is_one({"oshrun", "-n", "2", "prog", "-mca", "oshrun_daemon", "x"})) << "arguments of a program";
    EXPECT_FALSE(is_one({"oshrun"}));
}

TEST(LauncherArgs, WordsThatWouldBeTheProgram) {
    const auto word = [](const Words& words) { return word_taken_for_program(LauncherKind::mpirun, words); };
    EXPECT_EQ(word({"abc"}), "abc");
    EXPECT_EQ(word({"--tag-output", "abc"}), "abc");
    EXPECT_EQ(word({"-tag-output", "--bind-to", "core", "--mca", "a", "b"}), std::nullopt);
    EXPECT_EQ(word({"--something-new", "its-value"}), std::nullopt);
    EXPECT_EQ(word({""}), "");
    EXPECT_EQ(word({}), std::nullopt);
    EXPECT_EQ(word_taken_for_program(LauncherKind::srun, {"--tag-output", "abc"}), std::nullopt);
}

TEST(LaunchCommand, TheWholeLine) {
    EXPECT_EQ(launch_command(options(4, 1), facts()), (Words{"/usr/bin/mpirun.openmpi",
                                                             "--oversubscribe",
                                                             "--enable-recovery",
                                                             "--mca",
                                                             "orte_local_tmpdir_base",
                                                             "/tmp/oshrun-abc",
                                                             "--stdin",
                                                             "none",
                                                             "-x",
                                                             "LD_LIBRARY_PATH",
                                                             "-x",
                                                             "SHMEM_FT_SPARES",
                                                             "-x",
                                                             "SMA_DEBUG",
                                                             "-n",
                                                             "5",
                                                             "/opt/bin/oshrun",
                                                             "--exec-pe",
                                                             "/home/me/prog",
                                                             "./prog",
                                                             "a",
                                                             "=:",
                                                             "==b",
                                                             ""}));
}

TEST(LaunchCommand, SettingsOfTheLibrariesBelowReachAllHosts) {
    LaunchFacts with_settings = facts();
    with_settings.environment_names = {"UCX_TLS", "FI_PROVIDER", "UCXTRA", "FILES"};
    const Words words = launch_command(options(2, 0), with_settings);
    EXPECT_TRUE(contains(words, {"-x", "UCX_TLS"}));
    EXPECT_TRUE(contains(words, {"-x", "FI_PROVIDER"}));
    EXPECT_EQ(std::count(words.begin(), words.end(), "-x"), 2);
}

TEST(LaunchCommand, RootHasToBeAllowed) {
    LaunchFacts as_root = facts();
    as_root.is_root = true;
    EXPECT_EQ(launch_command(options(1, 0), as_root)[1], "--allow-run-as-root");
}

TEST(LaunchCommand, NoBindingWithMoreProcessesThanCores) {
    EXPECT_TRUE(contains(launch_command(options(8, 1), facts()), {"--bind-to", "none"}));
    EXPECT_FALSE(contains(launch_command(options(8, 0), facts()), {"--bind-to"}));
    Options own = options(8, 1);
    own.launcher_args = {"--bind-to", "core"};
    const Words words = launch_command(own, facts());
    EXPECT_FALSE(contains(words, {"--bind-to", "none"}));
    EXPECT_TRUE(contains(words, {"--bind-to", "core", "-n", "9"}));
}

TEST(LaunchCommand, ExportedNamesOnceAndOnlyIfTheyAreSet) {
    Options own = options(1, 0);
    own.exports = {{"MINE", "", false}, {"MINE", "", false}, {"UNSET", "", false}, {"SMA_DEBUG", "1", true}};
    const Words words = launch_command(own, facts());
    EXPECT_EQ(std::count(words.begin(), words.end(), "MINE"), 1);
    EXPECT_EQ(std::count(words.begin(), words.end(), "SMA_DEBUG"), 1);
    EXPECT_EQ(std::count(words.begin(), words.end(), "UNSET"), 0);
    EXPECT_EQ(std::count(words.begin(), words.end(), "HOME"), 0);
}

TEST(LaunchCommand, StandardInputIsNotTheLaunchersUnlessAskedFor) {
    EXPECT_FALSE(launcher_reads_stdin(options(1, 0)));
    Options own = options(1, 0);
    own.launcher_args = {"--stdin", "1"};
    EXPECT_TRUE(launcher_reads_stdin(own));
    EXPECT_FALSE(contains(launch_command(own, facts()), {"--stdin", "none"}));
}

TEST(LaunchCommand, ProcessesGoWhereTheListSays) {
    LaunchFacts with_hosts = facts();
    with_hosts.rank_hosts_file = "/tmp/oshrun-abc/hosts";
    const Words words = launch_command(options(2, 1), with_hosts);
    EXPECT_TRUE(contains(words, {"--hostfile", "/tmp/oshrun-abc/hosts", "--map-by", "seq", "--bind-to", "none"}));
    Options own = options(2, 1);
    EXPECT_FALSE(launcher_places_processes(own));
    own.launcher_args = {"--map-by", "socket"};
    EXPECT_TRUE(launcher_places_processes(own));
}

TEST(LaunchCommand, TheSecretGoesByTheEnvironment) {
    LaunchFacts with_agents = facts();
    with_agents.environment_names.emplace_back("OSHRUN_GUARDIAN");
    EXPECT_TRUE(contains(launch_command(options(2, 0), with_agents), {"-x", "OSHRUN_GUARDIAN"}));
}

TEST(LaunchCommand, InsideSlurmTheDaemonsOutliveEachOther) {
    LaunchFacts in_slurm = facts();
    in_slurm.is_inside_slurm = true;
    EXPECT_TRUE(contains(launch_command(options(2, 0), in_slurm),
                         {"--mca", "plm_slurm_args", "--no-kill --kill-on-bad-exit=0"}));
}

TEST(LaunchCommand, Prterun) {
    LaunchFacts with_hosts = facts();
    with_hosts.launcher_path = "/usr/bin/prterun";
    with_hosts.environment_names = {"SHMEM_FT_SPARES"};
    Options own = options(2, 1);
    own.launcher = LauncherKind::prterun;
    own.command = {"./prog"};
    const Words end = {"--stdin",   "none",          "-x",    "SHMEM_FT_SPARES", "-n", "3", "/opt/bin/oshrun",
                       "--exec-pe", "/home/me/prog", "./prog"};
    Words plain = {"/usr/bin/prterun", "--runtime-options", "recoverable", "--prtemca",
                   "prte_tmpdir_base", "/tmp/oshrun-abc",   "--map-by",    "slot:oversubscribe"};
    plain.insert(plain.end(), end.begin(), end.end());
    EXPECT_EQ(launch_command(own, with_hosts), plain);
    with_hosts.rank_hosts_file = "/tmp/hosts";
    EXPECT_TRUE(contains(launch_command(own, with_hosts), {"--hostfile", "/tmp/hosts", "--map-by",
                                                           "seq:file=/tmp/hosts:oversubscribe", "--bind-to", "none"}));
}

TEST(LaunchCommand, Srun) {
    LaunchFacts with_hosts = facts();
    with_hosts.launcher_path = "/usr/bin/srun";
    Options own = options(2, 1);
    own.launcher = LauncherKind::srun;
    own.command = {"./prog"};
    EXPECT_EQ(launch_command(own, with_hosts),
              (Words{"/usr/bin/srun", "--mpi=pmix", "--no-kill", "--kill-on-bad-exit=0", "--overcommit", "--input=none",
                     "-n", "3", "/opt/bin/oshrun", "--exec-pe", "/home/me/prog", "./prog"}));
    with_hosts.rank_hosts_file = "/tmp/hosts";
    EXPECT_TRUE(contains(launch_command(own, with_hosts), {"--distribution=arbitrary"}));
}

TEST(LaunchCommand, ArgumentsComeThroughAsTheyAre) {
    for (const char* word : {"", ":", "=", "==", "=:", "a:b", "::", "-n", "plain"}) {
        EXPECT_EQ(decode_argument(encode_argument(word)), word);
        EXPECT_NE(encode_argument(word), ":");
    }
}

}  // namespace
}  // namespace sft::tools
