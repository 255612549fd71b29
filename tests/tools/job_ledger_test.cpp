#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/result.hpp"
#include "tests/tools/told_job.hpp"

namespace sft::tools {
namespace {

TEST(JobLedger, AGoodJob) {
    Job job(2, 0);
    job.start().finish(1).finish(0);
    EXPECT_FALSE(job.must_end());
    EXPECT_EQ(job.launcher().outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, WhatAnotherAttemptMayMakeGood) {
    Job killed_one(2, 0);
    killed_one.start().end(0, killed(SIGKILL)).report(1, JobEventKind::unrecoverable, 70, -1, "no spare is left");
    EXPECT_TRUE(killed_one.ledger.is_worth_retry());
    Job lost_host(2, 0);
    lost_host.start();
    lost_host.ledger.host_lost(0, lost_host.now);
    EXPECT_TRUE(lost_host.ledger.is_worth_retry());
    Job replaced(1, 1);
    replaced.start().end(0, killed(SIGKILL)).report(1, JobEventKind::pe_taken, 0, 0).finish(1).launcher();
    EXPECT_FALSE(replaced.ledger.is_worth_retry()) << "it has ended well";
    Job own_error(2, 0);
    own_error.start().end(0, {FailureKind::exited, 3}).end(1, {FailureKind::exited, 70});
    EXPECT_FALSE(own_error.ledger.is_worth_retry());
    Job global(2, 0);
    global.start().report(0, JobEventKind::global_exit, 9).end(0, killed(SIGTERM)).end(1, killed(SIGTERM));
    EXPECT_FALSE(global.ledger.is_worth_retry());
    Job told(2, 0);
    told.start();
    told.ledger.told_to_end(SIGTERM);
    told.end(0, killed(SIGTERM)).end(1, killed(SIGTERM));
    EXPECT_FALSE(told.ledger.is_worth_retry());
    Job early(2, 0);
    early.hello(0).end(0, killed(SIGSEGV));
    EXPECT_FALSE(early.ledger.is_worth_retry()) << "it would do so again";
}

// Rank 2, with the pid of its rank, comes when the others run.
TEST(JobLedger, AHostThatIsLostBeforeAllHaveStartedEndsTheJob) {
    Job job(2, 0);
    job.ledger.process_launched(0, Job::pid(0));
    EXPECT_FALSE(job.must_end());
    job.ledger.host_lost(1, job.now);
    EXPECT_TRUE(job.must_end());
    EXPECT_NE(job.outcome().line.find("before all processes"), std::string::npos) << job.outcome().line;
}

TEST(JobLedger, ASpareThatJoinsCountsFromItsInitOn) {
    Job job(2, 0);
    job.start();
    job.ledger.process_joined(Job::pid(2));
    EXPECT_TRUE(job.ledger.is_joining(2));
    EXPECT_TRUE(job.ledger.is_joiner_running());
    EXPECT_EQ(job.ledger.next_to_join(), 2);
    EXPECT_TRUE(job.ledger.have_all_been_launched());
    job.hello(2).report(2, JobEventKind::unrecoverable, 70, -1, "it runs another program");
    EXPECT_FALSE(job.must_end()) << "that is not about the job";
    job.init(2);
    EXPECT_FALSE(job.ledger.is_joining(2));
    EXPECT_EQ(job.ledger.next_to_join(), std::nullopt);
    job.end(1, killed(SIGKILL)).report(2, JobEventKind::pe_taken, 0, 1);
    job.finish(0).launcher();
    EXPECT_FALSE(job.must_end()) << "the launcher does not know the last PE";
    EXPECT_FALSE(job.ledger.all_ended());
    job.finish(2);
    EXPECT_FALSE(job.ledger.is_joiner_running());
    EXPECT_EQ(job.outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, ASpareThatDiesJoiningIsNoFailure) {
    Job job(2, 0);
    job.start();
    job.ledger.process_joined(Job::pid(2));
    job.hello(2).end(2, killed(SIGKILL));
    EXPECT_FALSE(job.must_end(10 * kSecond));
    job.ledger.process_joined(Job::pid(3));
    job.ledger.exec_failed(3, ENOENT);
    job.end(3, exited(126));
    EXPECT_FALSE(job.must_end(10 * kSecond));
    EXPECT_EQ(job.finish(0).finish(1).launcher().outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, APeOfASpareThatJoinedMayFailTheJob) {
    Job job(2, 0);
    job.start();
    job.ledger.process_joined(Job::pid(2));
    job.hello(2).init(2).end(1, killed(SIGKILL)).report(2, JobEventKind::pe_taken, 0, 1);
    job.finish(0).launcher().end(2, exited(3));
    EXPECT_EQ(job.outcome(), (Outcome{3, "PE 1 exited with code 3 without calling shmem_finalize"}));
}

// The fault laboratory found the job to have failed although the second substitute had finished it.
TEST(JobLedger, ADeadSubstitutesReportMayComeLast) {
    Job job(2, 2);
    job.start().end(1, killed(SIGKILL));
    JobEvent taken;
    taken.kind = JobEventKind::pe_taken;
    taken.pe = 1;
    for (const auto& [rank, when_ns] : {std::pair{3, 20}, std::pair{2, 10}}) {
        taken.rank = rank;
        taken.pid = Job::pid(rank);
        taken.begin_ns = when_ns;
        job.ledger.event(taken, job.now);
    }
    job.finish(0).finish(3).end(2, killed(SIGKILL));
    EXPECT_EQ(job.launcher().outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, AReplacedDeathDoesNotCount) {
    Job job(2, 1);
    job.start().end(1, killed(SIGKILL)).report(2, JobEventKind::pe_taken, 0, 1).finish(0).finish(2);
    EXPECT_FALSE(job.must_end());
    EXPECT_EQ(job.launcher().outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, ASubstituteCanFailToo) {
    Job job(2, 1);
    job.start().end(1, killed(SIGKILL)).report(2, JobEventKind::pe_taken, 0, 1).finish(0).end(2, killed(SIGABRT));
    EXPECT_EQ(job.launcher().outcome(), (Outcome{128 + SIGABRT, "PE 1 was killed by signal 6 (Aborted)"}));
}

TEST(JobLedger, ADeadSleepingSpareDoesNotCount) {
    Job job(1, 2);
    job.start().end(2, killed(SIGKILL)).finish(0).finish(1);
    EXPECT_FALSE(job.must_end(100 * kSecond));
    EXPECT_EQ(job.launcher().outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, TheFirstFailingPeCounts) {
    Job job(3, 0);
    job.start().finish(0).end(2, exited(7)).end(1, killed(SIGSEGV));
    EXPECT_EQ(job.launcher().outcome(), (Outcome{7, "PE 2 exited with code 7 without calling shmem_finalize"}));
}

TEST(JobLedger, ExitZeroWithoutFinalizeIsAFailure) {
    Job job(1, 0);
    job.start().end(0, kGood);
    EXPECT_EQ(job.launcher().outcome(), (Outcome{1, "PE 0 exited with code 0 without calling shmem_finalize"}));
}

TEST(JobLedger, AFailureAfterFinalizeCounts) {
    Job job(2, 0);
    job.start().finish(0).report(1, JobEventKind::finalized).end(1, exited(3));
    EXPECT_EQ(job.launcher().outcome(), (Outcome{3, "PE 1 exited with code 3"}));
    Job other(1, 0);
    other.start().report(0, JobEventKind::finalized).end(0, killed(SIGSEGV));
    EXPECT_EQ(other.launcher().outcome(),
              (Outcome{139, "PE 0 was killed by signal 11 (Segmentation fault) after shmem_finalize"}));
}

TEST(JobLedger, GlobalExit) {
    Job job(2, 0);
    job.start().report(1, JobEventKind::global_exit, 99);
    EXPECT_TRUE(job.must_end());
    job.end(1, exited(99)).end(0, killed(SIGTERM)).launcher();
    EXPECT_EQ(job.outcome(), (Outcome{99, "PE 1 called shmem_global_exit(99)"}));

    Job quiet(2, 0);
    quiet.start().report(0, JobEventKind::global_exit, 0).end(0, kGood).end(1, killed(SIGTERM));
    EXPECT_TRUE(quiet.must_end());
    EXPECT_EQ(quiet.launcher().outcome(), (Outcome{0, ""}));

    Job large(1, 0);
    large.start().report(0, JobEventKind::global_exit, 256 + 5);
    EXPECT_EQ(large.outcome().exit_code, 5);
}

TEST(JobLedger, UnrecoverableHasTheStatusOfTheDeadPe) {
    Job job(3, 0);
    job.start().end(2, killed(SIGKILL));
    EXPECT_FALSE(job.must_end());
    job.report(0, JobEventKind::unrecoverable, 70, 0, "PE 2 was killed: no spare left");
    job.report(1, JobEventKind::unrecoverable, 70, 1, "something later");
    EXPECT_TRUE(job.must_end());
    EXPECT_EQ(job.outcome(), (Outcome{137, "PE 2 was killed: no spare left"}));
}

TEST(JobLedger, UnrecoverableIsNotAboutThoseThatTheLibraryEnds) {
    Job job(3, 0);
    job.start().end(0, exited(70)).end(1, exited(70)).end(2, killed(SIGKILL));
    job.report(0, JobEventKind::unrecoverable, 70, 0, "no spare left");
    EXPECT_EQ(job.outcome(), (Outcome{137, "no spare left"}));
}

TEST(JobLedger, UnrecoverableIsAboutThePeThatWasNotReplaced) {
    Job job(2, 1);
    job.start().end(0, killed(SIGSEGV)).report(2, JobEventKind::pe_taken, 0, 0).end(1, exited(4));
    job.report(2, JobEventKind::unrecoverable, 70, 0, "no spare left");
    EXPECT_EQ(job.outcome(), (Outcome{4, "no spare left"}));
}

TEST(JobLedger, UnrecoverableWithoutADeathHasTheLibrarysStatus) {
    Job job(2, 0);
    job.start().report(0, JobEventKind::unrecoverable, 70, 0, "PE 0: no such block");
    EXPECT_EQ(job.outcome(), (Outcome{70, "PE 0: no such block"}));
}

TEST(JobLedger, ADeathBeforeEverybodyIsInitialised) {
    Job job(3, 0);
    job.launch().hello(0).hello(1);
    EXPECT_FALSE(job.must_end());
    job.end(2, killed(SIGSEGV));
    EXPECT_TRUE(job.must_end());
    EXPECT_EQ(job.outcome(), (Outcome{139,
                                      "PE 2 was killed by signal 11 (Segmentation fault) before shmem_init was "
                                      "complete on all PEs"}));
}

TEST(JobLedger, AnEarlyEndBeforeTheFirstHelloIsJudgedWithIt) {
    Job job(2, 1);
    job.launch().end(2, kGood);
    EXPECT_FALSE(job.must_end());
    job.hello(0);
    EXPECT_TRUE(job.must_end());
    EXPECT_EQ(job.outcome(), (Outcome{1, "spare 0 exited with code 0 before shmem_init was complete on all PEs"}));
}

TEST(JobLedger, ReportsOfOthersMayBeLate) {
    // PE 0 has been initialised, so everybody was about to be.
    Job job(2, 0);
    job.launch().hello(0).hello(1).init(0).end(0, killed(SIGKILL));
    EXPECT_FALSE(job.must_end());
    ASSERT_TRUE(job.ledger.next_deadline_ns().has_value());
    job.init(1);
    EXPECT_FALSE(job.must_end(100 * kSecond));

    Job stuck(2, 0);
    stuck.launch().hello(0).hello(1).init(0).end(0, killed(SIGKILL));
    EXPECT_TRUE(stuck.must_end(JobLedger::kPatience_ns));
}

TEST(JobLedger, AQuickPeIsDoneBeforeOthersHaveReported) {
    Job job(2, 0);
    job.launch().hello(0).init(0).finish(0);
    EXPECT_FALSE(job.must_end(100 * kSecond));
    job.hello(1).init(1).finish(1);
    EXPECT_EQ(job.launcher().outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, ADeathAfterTheStartIsTheLibrarysMatter) {
    Job job(2, 1);
    job.start().end(0, killed(SIGKILL));
    EXPECT_FALSE(job.must_end(100 * kSecond));
    EXPECT_EQ(job.ledger.next_deadline_ns(), std::nullopt);
}

TEST(JobLedger, SleepersThatNobodyWillWake) {
    Job job(1, 1);
    job.start().end(0, killed(SIGKILL));
    EXPECT_FALSE(job.must_end());
    ASSERT_TRUE(job.ledger.next_deadline_ns().has_value());
    EXPECT_TRUE(job.ledger.must_end(*job.ledger.next_deadline_ns()));
    EXPECT_EQ(job.outcome(), (Outcome{137, "PE 0 was killed by signal 9 (Killed)"}));

    Job good(1, 1);
    good.start().finish(0);
    EXPECT_TRUE(good.must_end(JobLedger::kPatience_ns));
    EXPECT_EQ(good.outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, ANewGenerationIsJudgedByItself) {
    // The program finalises and initialises again; a spare has been used and the other has gone in the first round.
    Job job(2, 2);
    job.start().end(1, killed(SIGKILL)).report(2, JobEventKind::pe_taken, 0, 1);
    job.report(0, JobEventKind::finalized).report(2, JobEventKind::finalized).finish(3);
    job.hello(0).init(0).hello(2);
    EXPECT_FALSE(job.must_end(100 * kSecond));
    job.init(2).end(0, killed(SIGSEGV));
    EXPECT_EQ(job.finish(2).launcher().outcome(), (Outcome{139, "PE 0 was killed by signal 11 (Segmentation fault)"}));
}

TEST(JobLedger, NotLinkedWithTheLibrary) {
    Job job(2, 0);
    job.launch().end(0, kGood).end(1, kGood);
    EXPECT_FALSE(job.must_end(100 * kSecond));
    EXPECT_EQ(job.launcher().outcome(),
              (Outcome{1, "./prog ended without calling shmem_init: is it linked with the library (see oshcc)?"}));
}

TEST(JobLedger, NeverInitialisedAndFailed) {
    Job job(2, 0);
    job.launch().end(1, exited(127)).end(0, exited(1));
    EXPECT_EQ(job.launcher().outcome(), (Outcome{127,
                                                 "PE 1 exited with code 127 without calling shmem_init: is ./prog "
                                                 "linked with the library (see oshcc)?"}));
    // It has the library, which has told what was wrong; so nobody needs to be asked whether it is linked.
    Job told(1, 0);
    told.launch().end(0, exited(70));
    EXPECT_EQ(told.launcher().outcome(), (Outcome{70, "PE 0 exited with code 70 before it called shmem_init"}));
    Job crashed(1, 0);
    crashed.launch().end(0, killed(SIGBUS));
    EXPECT_EQ(crashed.launcher().outcome(),
              (Outcome{135, "PE 0 was killed by signal 7 (Bus error) before it called shmem_init"}));
}

TEST(JobLedger, TheProgramCannotBeRun) {
    Job job(2, 0);
    job.launch().ledger.exec_failed(0, ENOEXEC);
    EXPECT_TRUE(job.must_end());
    EXPECT_EQ(job.outcome(), (Outcome{126, "./prog: cannot be run: Exec format error"}));
}

TEST(JobLedger, TheLauncherFails) {
    Job job(2, 0);
    EXPECT_EQ(job.launcher(exited(213)).outcome(),
              (Outcome{213, "the launcher mpirun exited with code 213; the job has ended with it"}));
}

TEST(JobLedger, TheLauncherIsKilled) {
    Job job(2, 0);
    job.start().launcher(killed(SIGKILL));
    EXPECT_TRUE(job.must_end());
    job.end(0, exited(70)).end(1, exited(70));
    EXPECT_EQ(job.outcome(),
              (Outcome{137, "the launcher mpirun was killed by signal 9 (Killed); the job has ended with it"}));
}

TEST(JobLedger, ToldToEnd) {
    Job job(2, 0);
    job.start().ledger.told_to_end(SIGINT);
    EXPECT_TRUE(job.must_end());
    EXPECT_TRUE(job.ledger.is_told_to_end());
    job.end(0, killed(SIGTERM)).end(1, killed(SIGTERM)).launcher();
    EXPECT_EQ(job.outcome(), (Outcome{130, "told to end by signal 2 (Interrupt)"}));
}

TEST(JobLedger, WrappersOfTheProgram) {
    // A shell runs the program: another pid than the one that was launched says hello.
    Job job(1, 0);
    job.launch();
    JobEvent event;
    event.kind = JobEventKind::hello;
    event.rank = 0;
    event.pid = 555;
    job.ledger.event(event, 1);
    EXPECT_EQ(job.ledger.rank_of(555), 0);
    EXPECT_EQ(job.ledger.rank_of(Job::pid(0)), -1);
    event.kind = JobEventKind::initialized;
    job.ledger.event(event, 2);
    event.kind = JobEventKind::finalized;
    job.ledger.event(event, 3);
    job.ledger.process_ended(555, kGood, 4);
    job.end(0, exited(9));  // the shell's own affair
    EXPECT_EQ(job.launcher().outcome(), (Outcome{0, ""}));
}

TEST(JobLedger, AKernelThatDoesNotTell) {
    Job job(2, 0);
    job.start().report(0, JobEventKind::finalized).end(0, {FailureKind::died, 0});
    job.report(1, JobEventKind::exiting, 5).end(1, {FailureKind::died, 0});
    EXPECT_EQ(job.launcher().outcome(), (Outcome{5, "PE 1 exited with code 5 without calling shmem_finalize"}));
}

TEST(JobLedger, NonsenseIsIgnored) {
    Job job(1, 0);
    job.start();
    job.report(-1, JobEventKind::hello).report(17, JobEventKind::global_exit, 3);
    job.report(0, JobEventKind::pe_taken, 0, 99).report(0, static_cast<JobEventKind>(77));
    job.ledger.process_ended(4711, killed(9), 0);
    EXPECT_FALSE(job.must_end());
    EXPECT_EQ(job.finish(0).launcher().outcome(), (Outcome{0, ""}));
}

}  // namespace
}  // namespace sft::tools
