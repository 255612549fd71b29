#include "base/memory_left.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sft {
namespace {

constexpr std::uint64_t kMebi = 1 << 20;

// A kernel that tells what a test wants.
class MemoryLeftTest : public testing::Test {
protected:
    MemoryLeftTest() {
        char name[] = "/tmp/memory-left-XXXXXX";
        folder_ = ::mkdtemp(name);
        files_ = {folder_ + "/proc", folder_ + "/groups"};
        write("proc/meminfo", "MemTotal:       4194304 kB\nMemFree:  100 kB\nMemAvailable:   2097152 kB\n");
        write("proc/vmstat", "oom_kills_else 9\noom_kill 7\n");
    }
    ~MemoryLeftTest() override { std::filesystem::remove_all(folder_); }

    void write(const std::string& path, const std::string& text) {
        std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + path).parent_path());
        std::ofstream(folder_ + "/" + path) << text;
    }
    void limit_v2(const std::string& group, const std::string& max, std::uint64_t current, std::uint64_t cached) {
        write("groups" + group + "/memory.max", max + "\n");
        write("groups" + group + "/memory.current", std::to_string(current) + "\n");
        write("groups" + group + "/memory.stat",
              "anon 1\nfile 5\ninactive_file " + std::to_string(cached) + "\nactive_file 0\n");
    }

    std::string folder_;
    MemoryFiles files_;
};

TEST_F(MemoryLeftTest, OfTheNode) {
    const MemoryLeft left = memory_left(files_);
    EXPECT_EQ(left.bytes, 2048 * kMebi);
    EXPECT_EQ(left.limit, 4096 * kMebi);
    EXPECT_EQ(left.group, "");
    EXPECT_EQ(out_of_memory_kills(files_), 7U);
}

TEST_F(MemoryLeftTest, NobodyTells) {
    std::filesystem::remove(folder_ + "/proc/meminfo");
    std::filesystem::remove(folder_ + "/proc/vmstat");
    EXPECT_EQ(memory_left(files_).bytes, UINT64_MAX);
    EXPECT_EQ(out_of_memory_kills(files_), 0U);
}

TEST_F(MemoryLeftTest, TheTightestGroupCounts) {
    write("proc/self/cgroup", "0::/outer/inner\n");
    limit_v2("/outer/inner", "max", 100 * kMebi, 0);
    limit_v2("/outer", std::to_string(500 * kMebi), 300 * kMebi, 100 * kMebi);
    MemoryLeft left = memory_left(files_);
    EXPECT_EQ(left.bytes, 300 * kMebi) << "what is only cached can be had";
    EXPECT_EQ(left.limit, 500 * kMebi);
    EXPECT_EQ(left.group, "/outer");
    limit_v2("/outer/inner", std::to_string(150 * kMebi), 100 * kMebi, 0);
    left = memory_left(files_);
    EXPECT_EQ(left.bytes, 50 * kMebi);
    EXPECT_EQ(left.group, "/outer/inner");
    limit_v2("/outer/inner", std::to_string(50 * kMebi), 100 * kMebi, 0);
    EXPECT_EQ(memory_left(files_).bytes, 0U) << "a limit that has been lowered";
    limit_v2("/outer/inner", std::to_string(3000 * kMebi), 0, 0);
    limit_v2("/outer", std::to_string(3000 * kMebi), 0, 0);
    EXPECT_EQ(memory_left(files_).group, "") << "the node has less";
}

TEST_F(MemoryLeftTest, VersionOne) {
    write("proc/self/cgroup", "5:cpuset,cpu:/a\n4:memory:/job\n0::/else\n");
    write("groups/memory/job/memory.limit_in_bytes", std::to_string(200 * kMebi));
    write("groups/memory/job/memory.usage_in_bytes", std::to_string(60 * kMebi));
    write("groups/memory/job/memory.stat", "inactive_file 5\ntotal_inactive_file 10485760\ntotal_active_file 10485760");
    write("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write("groups/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    const MemoryLeft left = memory_left(files_);
    EXPECT_EQ(left.bytes, 160 * kMebi);
    EXPECT_EQ(left.group, "/job");
    EXPECT_EQ(out_of_memory_kills(files_), 3U);
}

// In a container its own group is the topmost one that is seen, under a path of outside.
TEST_F(MemoryLeftTest, AContainer) {
    write("proc/self/cgroup", "0::/docker/abc\n");
    limit_v2("", std::to_string(100 * kMebi), 40 * kMebi, 0);
    write("groups/memory.events", "low 0\noom 5\noom_kill 2\n");
    const MemoryLeft left = memory_left(files_);
    EXPECT_EQ(left.bytes, 60 * kMebi);
    EXPECT_EQ(left.group, "/");
    EXPECT_EQ(out_of_memory_kills(files_), 2U);
}

TEST_F(MemoryLeftTest, Text) {
    EXPECT_EQ(memory_text(0), "0 MiB");
    EXPECT_EQ(memory_text(512 * kMebi), "512 MiB");
    EXPECT_EQ(memory_text(1536 * kMebi), "1.5 GiB");
}

TEST_F(MemoryLeftTest, OfThisMachine) {
    const MemoryLeft left = memory_left();
    EXPECT_GT(left.bytes, 0U);
    EXPECT_LE(left.bytes, left.limit);
}

}  // namespace
}  // namespace sft
