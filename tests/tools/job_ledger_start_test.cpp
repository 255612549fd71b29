#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/tools/told_job.hpp"

namespace sft::tools {
namespace {

constexpr std::uint32_t kStart_ms = 60'000;
constexpr std::int64_t kStart = 60 * kSecond;

// PEs 0 and 1 on host a, 2 and 3 on host b.
Job two_hosts() { return {4, 0, {"a", "a", "b", "b"}, kStart_ms}; }

TEST(JobLedgerStart, ALauncherIsNotWaitedForForEver) {
    Job job = two_hosts();
    job.ledger.process_launched(0, Job::pid(0));
    EXPECT_FALSE(job.must_end());
    EXPECT_EQ(job.ledger.next_deadline_ns(), job.now + kStart);
    EXPECT_FALSE(job.must_end(kStart - 1));
    job.now += kStart - 1;
    job.ledger.process_launched(1, Job::pid(1));
    EXPECT_FALSE(job.must_end(1)) << "each process that comes is news";
    EXPECT_FALSE(job.must_end(kStart));
    EXPECT_TRUE(job.must_end(kStart + 1));
    EXPECT_EQ(
        job.outcome().line,
        "PE 2, PE 3 on b have not been started within 60000 ms (SHMEM_FT_START_TIMEOUT): is b up, can mpirun start "
        "programs there, are oshrun and the current folder there under the same paths, and can it connect to this "
        "host?");
}

TEST(JobLedgerStart, WithoutABoundAStartMayTakeAnyTime) {
    Job job(3, 0);
    job.ledger.process_launched(0, Job::pid(0));
    EXPECT_FALSE(job.must_end());
    EXPECT_FALSE(job.must_end(10'000 * kSecond));
    EXPECT_EQ(job.ledger.next_deadline_ns(), std::nullopt);
}

TEST(JobLedgerStart, NobodyIsLateBeforeSomebodyWaits) {
    Job job = two_hosts();
    job.launch();
    EXPECT_FALSE(job.must_end());
    EXPECT_FALSE(job.must_end(100 * kStart)) << "all work before they call shmem_init, or never do";
    job.now += 100 * kStart;
    job.hello(0);
    EXPECT_FALSE(job.must_end());
    EXPECT_FALSE(job.must_end(kStart));
    EXPECT_TRUE(job.must_end(kStart + kSecond));
    EXPECT_EQ(
        job.outcome().line,
        "PE 1 on a, PE 2, PE 3 on b have not called shmem_init within 60000 ms (SHMEM_FT_START_TIMEOUT) after the "
        "others");
}

TEST(JobLedgerStart, WhoSaysNothingInsideShmemInitIsToBlame) {
    Job job = two_hosts();
    job.launch().hello(0).hello(1).hello(2).hello(3);
    EXPECT_FALSE(job.must_end());
    for (const int rank : {0, 1, 3}) {
        job.report(rank, JobEventKind::start_late, rank == 3 ? 1 : 3, -1, "waits");
    }
    EXPECT_FALSE(job.must_end());
    EXPECT_TRUE(job.must_end(kStart + 2 * kSecond));
    EXPECT_EQ(
        job.outcome().line,
        "PE 2 on b stands still in shmem_init for 60000 ms (SHMEM_FT_START_TIMEOUT): stopped, or its host does not "
        "run");
}

TEST(JobLedgerStart, WhoHasComeLeastFarIsToBlame) {
    Job job = two_hosts();
    job.launch().hello(0).hello(1).hello(2).hello(3).init(0);
    for (const int rank : {1, 2, 3}) {
        job.report(rank, JobEventKind::start_late, rank == 2 ? 2 : 3, -1, rank == 2 ? "asks the launcher" : "waits");
    }
    EXPECT_FALSE(job.must_end());
    EXPECT_TRUE(job.must_end(kStart + kSecond));
    EXPECT_EQ(
        job.outcome().line,
        "PE 2 on b has not come through shmem_init within 60000 ms (SHMEM_FT_START_TIMEOUT): it asks the launcher");
}

TEST(JobLedgerStart, AJobThatHasStartedIsNeverLate) {
    Job job = two_hosts();
    job.start();
    EXPECT_FALSE(job.must_end());
    EXPECT_FALSE(job.must_end(100 * kStart));
    job.report(0, JobEventKind::finalized).hello(0);
    EXPECT_FALSE(job.must_end());
    EXPECT_FALSE(job.must_end(100 * kStart)) << "PE 0 initialises once more, the others may take their time";
}

TEST(JobLedgerStart, ErrorsOfTheStartNameTheHost) {
    Job job = two_hosts();
    job.ledger.name_host(1, "b");
    job.ledger.process_launched(2, {Job::pid(2), 1});
    job.ledger.exec_failed(2, ENOENT);
    EXPECT_EQ(job.outcome().line, "./prog: cannot be run on b: No such file or directory");

    Job linked = two_hosts();
    linked.launch().end(3, exited(127)).launcher();
    EXPECT_EQ(
        linked.outcome().line,
        "PE 3 on b exited with code 127 without calling shmem_init: is ./prog linked with the library (see oshcc)?");

    Job module = two_hosts();
    module.launch().hello(3).report(3, JobEventKind::unrecoverable, 70, -1, "no module");
    EXPECT_EQ(module.outcome().line, "PE 3 on b: no module");

    Job alone(2, 0);
    alone.ledger.name_host(0, "a");
    alone.launch().hello(1).report(1, JobEventKind::unrecoverable, 70, -1, "no module");
    EXPECT_EQ(alone.outcome().line, "no module") << "there is one host only";
}

}  // namespace
}  // namespace sft::tools
