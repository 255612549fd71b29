#include "tools/oshrun/launch_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(LaunchCommand, TheWholeLine) {
    EXPECT_EQ(launch_command(options(4, 1), facts()), (Words{"/usr/bin/mpirun.openmpi",
                                                             "--oversubscribe",
                                                             "--enable-recovery",
                                                             "--mca",
                                                             "orte_tmpdir_base",
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

TEST(LaunchCommand, ArgumentsComeThroughAsTheyAre) {
    for (const char* word : {"", ":", "=", "==", "=:", "a:b", "::", "-n", "plain"}) {
        EXPECT_EQ(decode_argument(encode_argument(word)), word);
        EXPECT_NE(encode_argument(word), ":");
    }
}

}  // namespace
}  // namespace sft::tools
