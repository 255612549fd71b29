#include "base/memory_domain.hpp"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

namespace sft {
namespace {

// The real processors, in a machine that is described by HWLOC_SYNTHETIC; the test needs two of them.
class MemoryDomain : public testing::Test {
protected:
    void SetUp() override {
        CPU_ZERO(&before_);
        ASSERT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
        if (!CPU_ISSET(0, &before_) || !CPU_ISSET(1, &before_)) {
            GTEST_SKIP() << "needs the processors 0 and 1";
        }
        ::setenv("HWLOC_THISSYSTEM", "1", 1);
    }
    void TearDown() override {
        ::sched_setaffinity(0, sizeof before_, &before_);
        ::unsetenv("HWLOC_SYNTHETIC");
        ::unsetenv("HWLOC_THISSYSTEM");
    }
    static DomainId bound_to(const char* machine, const std::vector<int>& processors) {
        cpu_set_t mask;
        CPU_ZERO(&mask);
        for (const int processor : processors) {
            CPU_SET(processor, &mask);
        }
        EXPECT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
        ::setenv("HWLOC_SYNTHETIC", machine, 1);
        return find_memory_domain();
    }

private:
    cpu_set_t before_;
};

TEST_F(MemoryDomain, IsThatOfTheProcessorsOfTheProcess) {
    EXPECT_EQ(bound_to("numa:2 core:1 pu:1", {0}), DomainId(0));
    EXPECT_EQ(bound_to("numa:2 core:1 pu:1", {1}), DomainId(1));
    EXPECT_EQ(bound_to("pack:2 [numa(indexes=7,4)] core:1 pu:1", {0}), DomainId(7));
}

TEST_F(MemoryDomain, IsUnknownToWhoIsBoundToSeveral) { EXPECT_EQ(bound_to("numa:2 core:1 pu:1", {0, 1}), kNoDomain); }

TEST_F(MemoryDomain, IsUnknownWhereThereIsOne) {
    EXPECT_EQ(bound_to("numa:1 core:2 pu:1", {1}), kNoDomain);
    EXPECT_EQ(bound_to("[numa] core:2 pu:1", {0}), kNoDomain);
}

TEST_F(MemoryDomain, IsTheFirstOfSeveralKindsBesideTheSameProcessors) {
    EXPECT_EQ(bound_to("pack:2 [numa] [numa] core:1 pu:1", {1}), DomainId(2));
    // One that all share says nothing of where a process is.
    EXPECT_EQ(bound_to("[numa] pack:2 [numa] core:1 pu:1", {1}), DomainId(1));
}

// Shadows are written by their owners: without this they would be in the domains of these.
TEST(PlaceInDomain, HoldsForEveryMappingOfTheFile) {
    const std::size_t bytes = 1U << 20;
    const int fd = ::memfd_create("placed", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    EXPECT_FALSE(place_in_domain(fd, 0, bytes, kNoDomain));
    EXPECT_FALSE(place_in_domain(fd, 0, bytes, DomainId(1 << 20)));
    if (!place_in_domain(fd, 0, bytes, DomainId(0))) {
        ::close(fd);
        GTEST_SKIP() << "this system does not permit memory policies";
    }
    void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(address, MAP_FAILED);
    int mode = -1;
    unsigned long mask[16] = {};
    ASSERT_EQ(::syscall(SYS_get_mempolicy, &mode, mask, 1024, static_cast<char*>(address) + bytes / 2, MPOL_F_ADDR), 0);
    EXPECT_EQ(mode, MPOL_PREFERRED);
    EXPECT_EQ(mask[0], 1U);
    ::munmap(address, bytes);
    ::close(fd);
}

TEST(PlaceInDomain, LeavesThePolicyOfTheUserAlone) {
    unsigned long mask[16] = {1};
    if (::syscall(SYS_set_mempolicy, MPOL_BIND, mask, 1024) != 0) {
        GTEST_SKIP() << "this system does not permit memory policies";
    }
    const int fd = ::memfd_create("placed", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, 4096), 0);
    EXPECT_FALSE(place_in_domain(fd, 0, 4096, DomainId(0)));
    EXPECT_EQ(::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0), 0);
    ::close(fd);
}

}  // namespace
}  // namespace sft
