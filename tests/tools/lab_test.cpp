// The parts of the fault laboratory that decide: which schedules are made, how runs are judged, what the options mean.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/result.hpp"
#include "tools/shmem-ft/lab_draw.hpp"
#include "tools/shmem-ft/lab_options.hpp"
#include "tools/shmem-ft/lab_report.hpp"
#include "tools/shmem-ft/lab_verdict.hpp"

namespace sft::tools {
namespace {

FaultSchedule parsed(const std::string& text) {
    FaultSchedule schedule;
    EXPECT_TRUE(good(parse_fault_schedule(text, schedule)));
    return schedule;
}

// ---- verdicts ----

// A job of 4 PEs and 2 spares that prints two lines and commits 10 versions, at 100, 200, ... 1000.
class VerdictTest : public testing::Test {
public:
    VerdictTest() {
        reference.lines = {"4 PEs", "result 42"};
        reference.last_version = 10;
        record.exit_code = 0;
        record.output = "4 PEs\nresult 42\n";
        for (std::uint64_t version = 1; version <= 10; ++version) {
            const auto end = static_cast<std::int64_t>(version) * 100;
            record.commits.push_back({version, end - 10, end});
        }
    }

    VerdictTest& fault(std::size_t entry, int process, int pe, int keeper, std::int64_t time_ns) {
        record.faults.push_back({entry, process, pe, keeper, time_ns, ProgramPhase::running, time_ns + 5});
        return *this;
    }
    VerdictTest& ends_with_error() {
        record.exit_code = 137;
        record.output = "";
        record.errors = "shmem-ft: fault: ...\noshrun: PE 1 was killed by signal 9 (Killed)\n";
        return *this;
    }
    [[nodiscard]] Verdict verdict() const { return judge(record, {reference, ignored, schedule, spares, 4}); }
    [[nodiscard]] RunClass run_class() const { return verdict().run_class; }

    Reference reference;
    IgnoredLines ignored;
    FaultSchedule schedule =
        parsed("kill pe 1 at replicate_begin; kill pe 2 at replicate_begin; delay 1 ms pe 0 at arrived");
    RunRecord record;
    int spares = 2;
};

TEST_F(VerdictTest, TheRightAnswerWithAndWithoutFaults) {
    EXPECT_EQ(run_class(), RunClass::nothing_happened);
    fault(0, 1, 1, 2, 550);
    EXPECT_EQ(run_class(), RunClass::recovered);
}

TEST_F(VerdictTest, LinesMayComeAgainAndInAnyOrder) {
    fault(0, 1, 1, 2, 550);
    record.output = "result 42\n4 PEs\nresult 42\nresult 42";
    EXPECT_EQ(run_class(), RunClass::recovered);
}

TEST_F(VerdictTest, AnUnknownLineIsWrongWhateverTheExitCode) {
    record.output += "result 43\n";
    EXPECT_EQ(verdict().why, "printed 'result 43', which the run without faults does not");
    EXPECT_EQ(run_class(), RunClass::wrong_answer);
    fault(0, 1, 1, 2, 50).ends_with_error();
    record.output = "result 43\n";
    EXPECT_EQ(run_class(), RunClass::wrong_answer);
}

TEST_F(VerdictTest, AMissingLineIsWrong) {
    record.output = "4 PEs\n";
    EXPECT_EQ(verdict().why, "did not print 'result 42'");
    EXPECT_EQ(run_class(), RunClass::wrong_answer);
}

TEST_F(VerdictTest, IgnoredLinesDoNotCount) {
    record.output += "took 3 s\n";
    EXPECT_EQ(run_class(), RunClass::wrong_answer);
    ignored.patterns.emplace_back("^took ");
    EXPECT_EQ(run_class(), RunClass::nothing_happened);
}

TEST_F(VerdictTest, AnErrorWithoutANameIsWrong) {
    fault(0, 1, 1, 2, 50).ends_with_error();
    record.errors = "Segmentation fault\n";
    EXPECT_EQ(run_class(), RunClass::wrong_answer);
}

TEST_F(VerdictTest, HangsAndLeftOversAreFailures) {
    record.left_behind = {4711};
    EXPECT_EQ(run_class(), RunClass::wrong_answer);
    record.is_hang = true;
    ProcessRecord process;
    process.process = 3;
    process.pe = 1;
    process.last_point = "arrived";
    record.processes = {process};
    EXPECT_EQ(run_class(), RunClass::hang);
    EXPECT_NE(verdict().why.find("process 3 (PE 1) at arrived"), std::string::npos);
}

TEST_F(VerdictTest, OneDeathInTheMiddleIsNoExcuse) {
    fault(0, 1, 1, 2, 550).ends_with_error();
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    EXPECT_EQ(verdict().why, "oshrun: PE 1 was killed by signal 9 (Killed)");
}

TEST_F(VerdictTest, ADelayIsNoExcuse) {
    fault(2, 0, 0, 1, 10).ends_with_error();
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictTest, DeathsBeforeTheFirstAndAfterTheLastCommitAreExcused) {
    ends_with_error().fault(0, 1, 1, 2, 50);
    EXPECT_EQ(run_class(), RunClass::expected_error);
    record.faults.front().time_ns = 995;
    record.faults.front().seen_ns = 998;
    EXPECT_EQ(run_class(), RunClass::expected_error);
    record.faults.front().time_ns = 150;
    record.faults.front().seen_ns = 170;
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

// What a victim does between its own decision and its death may be a good part of the program.
TEST_F(VerdictTest, AVictimThatABusyMachineLetLiveOnMayHaveDiedAfterTheLastCommit) {
    ends_with_error().fault(0, 1, 1, 2, 880);
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    record.faults.front().seen_ns = 1010;
    EXPECT_EQ(run_class(), RunClass::expected_error);
    record.faults.front().seen_ns = INT64_MAX;  // when the others had left already
    EXPECT_EQ(run_class(), RunClass::expected_error);
}

TEST_F(VerdictTest, WhoHasSeenTheCommitHasNoExcuseThatThereWasNone) {
    schedule = parsed("kill pe 1 at update_begin");
    ends_with_error().fault(0, 1, 1, 2, 95);  // others are still inside the first checkpoint
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictTest, BetweenALaterInitialisationAndItsCheckpointADeathIsExcused) {
    ends_with_error().fault(0, 1, 1, 2, 550);
    record.initialisations.push_back({5, 520, 520});
    EXPECT_EQ(run_class(), RunClass::expected_error);
    record.initialisations.front() = {4, 420, 420};  // in version 5, which was committed at 500
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    record.initialisations.front() = {5, 580, 580};
    record.restarts.push_back({5, 555, 570});  // the death was repaired before
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictTest, TheCommitProtectsAnInitialisationBeforeEverybodyHasLeftTheCheckpoint) {
    schedule = parsed("kill pe 1 at update_begin");
    ends_with_error().fault(0, 1, 1, 2, 595);
    record.initialisations.push_back({5, 520, 520});
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictTest, PartnersAtOnceAreExcusedButNotOneAfterTheOther) {
    ends_with_error().fault(0, 1, 1, 2, 550).fault(1, 2, 2, 3, 560);
    EXPECT_EQ(run_class(), RunClass::expected_error);
    record.restarts.push_back({5, 552, 558});
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    record.restarts.back().end_ns = 570;  // not complete when the second one died
    EXPECT_EQ(run_class(), RunClass::expected_error);
}

// Processes 0, 1 and 4 on node 0, 2, 3 and 5 on node 1.
class VerdictOnNodes : public VerdictTest {
public:
    VerdictOnNodes() {
        for (const int process : {0, 1, 2, 3, 4, 5}) {
            record.nodes[process] = NodeId(process == 2 || process == 3 || process == 5 ? 1 : 0);
        }
        ends_with_error();
    }
};

TEST_F(VerdictOnNodes, CopiesInMemoryOfANodeAreLostWithAllOfIt) {
    fault(0, 1, 1, 2, 550).fault(1, 2, 2, 1, 560);
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    schedule = parsed("kill pe 1 at arrived; kill pe 2 at arrived; kill pe 3 at arrived; kill spare 1 at arrived");
    fault(2, 3, 3, 1, 570).fault(3, 5, -1, -1, 580);
    spares = 4;
    EXPECT_EQ(run_class(), RunClass::expected_error);
    record.nodes[6] = NodeId(1);  // one more there, which lives
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    record.nodes.erase(6);
    record.restarts.push_back({5, 552, 558});  // between PE 1 and its keeper
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictOnNodes, InTheMiddleOfARecoveryToo) {
    fault(0, 2, 2, 1, 550).fault(1, 1, 1, -1, 560);
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    record.nodes.clear();
    EXPECT_EQ(run_class(), RunClass::expected_error);
}

TEST_F(VerdictOnNodes, AllPesAtOnceAreExcusedIfANodeHasNobodyLeft) {
    spares = 4;
    schedule = parsed("kill pe 0 at arrived; kill pe 1 at arrived; kill pe 2 at arrived; kill pe 3 at arrived");
    fault(0, 0, 0, 1, 550).fault(1, 1, 1, 0, 551).fault(2, 2, 2, 0, 552).fault(3, 3, 3, 1, 553);
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
    record.nodes.erase(5);
    EXPECT_EQ(run_class(), RunClass::expected_error);
    EXPECT_NE(verdict().why.find("all PEs died at once"), std::string::npos) << verdict().why;
    record.restarts.push_back({5, 550, 551});
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictTest, OthersAtOnceAreNotExcused) {
    ends_with_error().fault(0, 1, 1, 2, 550).fault(1, 3, 3, 0, 560);
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictTest, MoreDeathsThanSparesAreExcused) {
    schedule = parsed("kill pe 0 at arrived; kill pe 2 at arrived; kill spare 0 at arrived");
    ends_with_error().fault(0, 0, 0, 1, 550).fault(1, 2, 2, 3, 650).fault(2, 4, -1, -1, 660);
    EXPECT_EQ(run_class(), RunClass::expected_error);
    record.faults.pop_back();
    EXPECT_EQ(run_class(), RunClass::unexpected_error);
}

TEST_F(VerdictTest, StrictnessDecidesWhatAFailureIs) {
    LabOptions options;
    LabRun run;
    run.verdict.run_class = RunClass::unexpected_error;
    EXPECT_TRUE(is_failure(run, options));
    options.allows_errors = true;
    EXPECT_FALSE(is_failure(run, options));
    for (const RunClass always : {RunClass::wrong_answer, RunClass::hang}) {
        run.verdict.run_class = always;
        EXPECT_TRUE(is_failure(run, options));
    }
    for (const RunClass never : {RunClass::recovered, RunClass::nothing_happened, RunClass::expected_error}) {
        run.verdict.run_class = never;
        EXPECT_FALSE(is_failure(run, {}));
    }
}

// ---- schedules ----

ProcessRecord record_of(int process, int pe, VisitCounts visits) {
    ProcessRecord record;
    record.process = process;
    record.pe = pe;
    record.visits = std::move(visits);
    return record;
}

Terrain terrain() {
    Terrain terrain{4, 2, {}, {}, std::nullopt};
    for (int process = 0; process < 4; ++process) {
        terrain.calm.push_back(
            record_of(process, process, {{FaultPoint::init_begin, 1}, {FaultPoint::replicate_begin, 40}}));
    }
    terrain.calm.push_back(record_of(4, -1, {{FaultPoint::init_begin, 1}}));
    terrain.calm.push_back(record_of(5, -1, {{FaultPoint::init_begin, 1}}));
    terrain.probe = terrain.calm;
    terrain.probe[0].visits[FaultPoint::restore_begin] = 1;
    terrain.probe[4] =
        record_of(4, 2,
                  {{FaultPoint::init_begin, 1}, {FaultPoint::replicate_begin, 20}, {FaultPoint::restore_begin, 1}});
    terrain.trigger = choose_trigger(terrain.calm, 4);
    return terrain;
}

TEST(LabDraw, TheTriggerIsInTheMiddle) {
    ASSERT_TRUE(terrain().trigger);
    EXPECT_EQ(to_string(*terrain().trigger), "kill pe 2 at replicate_begin visit 21");
    EXPECT_FALSE(choose_trigger({record_of(0, 0, {{FaultPoint::init_begin, 1}})}, 1));
}

TEST(LabDraw, TheSameSeedGivesTheSameSchedule) {
    // On every machine: these texts are in reports of bugs.
    EXPECT_EQ(to_string(draw_schedule(3, terrain())), to_string(draw_schedule(3, terrain())));
    std::set<std::string> different;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        different.insert(to_string(draw_schedule(seed, terrain())));
    }
    EXPECT_GT(different.size(), 80U);
}

TEST(LabDraw, RandomSchedulesAimAtVisitsThatExist) {
    bool has_several = false;
    bool has_recovery = false;
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        const FaultSchedule schedule = draw_schedule(seed, terrain());
        ASSERT_FALSE(schedule.empty());
        EXPECT_EQ(parsed(to_string(schedule)), schedule);
        has_several = has_several || schedule.size() > 1;
        for (const FaultEntry& entry : schedule) {
            EXPECT_LE(entry.visit, entry.point == FaultPoint::replicate_begin ? 40U : 1U) << to_string(schedule);
            EXPECT_FALSE(entry.kind == FaultKind::stop && entry.duration_ms == kForEver) << "that is a hang by design";
            has_recovery = has_recovery || entry.point == FaultPoint::restore_begin;
        }
    }
    EXPECT_TRUE(has_several);
    EXPECT_TRUE(has_recovery);
}

TEST(LabDraw, AThirdStrikesInCodeOfTheProgram) {
    Terrain with_visits = terrain();
    for (int process = 0; process < 4; ++process) {
        with_visits.calm[static_cast<std::size_t>(process)].visits[FaultPoint::init_ready] = 1;
        with_visits.calm[static_cast<std::size_t>(process)].visits[FaultPoint::checkpoint_leave] = 40;
    }
    int later = 0;
    std::set<std::int64_t> times;
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        const FaultSchedule schedule = draw_schedule(seed, with_visits);
        EXPECT_EQ(parsed(to_string(schedule)), schedule);
        later += schedule[0].after_us != 0 ? 1 : 0;
        for (const FaultEntry& entry : schedule) {
            EXPECT_LE(entry.after_us, 0);  // percent
            EXPECT_GE(entry.after_us, -125);
            EXPECT_TRUE(entry.after_us == 0 || is_deadly(entry.kind));
            times.insert(entry.after_us / 10);
        }
    }
    EXPECT_GT(later, 120);
    EXPECT_LT(later, 240);
    EXPECT_GE(times.size(), 10U);  // all over the time between two checkpoints
}

TEST(LabDraw, ASweepTriesEveryPointWithEveryVictim) {
    std::set<std::string> texts;
    for (const FaultSchedule& schedule : sweep_schedules(terrain())) {
        EXPECT_TRUE(texts.insert(to_string(schedule)).second) << "twice: " << to_string(schedule);
    }
    for (const char* text :
         {"kill leader at replicate_begin", "kill leader at replicate_begin visit 20",
          "kill leader at replicate_begin visit 40",
          "kill pe 2 at replicate_begin visit 21; kill substitute at replicate_begin visit 20",
          "kill pe 2 at replicate_begin visit 21; kill substitute at restore_begin", "kill process 4 at init_begin"}) {
        EXPECT_TRUE(texts.contains(text)) << text;
    }
}

TEST(LabDraw, WithoutAProbeOnlyPointsOfTheCalmRunAreSwept) {
    Terrain calm = terrain();
    calm.probe.clear();
    calm.trigger.reset();
    for (const FaultSchedule& schedule : sweep_schedules(calm)) {
        EXPECT_EQ(schedule.size(), 1U);
        EXPECT_NE(schedule.front().point, FaultPoint::restore_begin);
    }
}

// ---- options ----

std::string refused(const std::vector<std::string>& words) {
    LabOptions options;
    return line_of(parse_lab_options(words, options));
}

TEST(LabOptions, OwnOptionsEndAtTheProgram) {
    LabOptions options;
    ASSERT_TRUE(good(parse_lab_options({"-n", "3", "--spares=1", "--runs", "7", "--seed", "9", "--sweep", "--ignore",
                                        "^t", "--ignore", "x", "./a", "--runs", "2"},
                                       options)));
    EXPECT_EQ(options.job.pes, 3);
    EXPECT_EQ(options.job.spares, 1);
    EXPECT_EQ(options.runs, 7);
    EXPECT_EQ(options.seed, 9U);
    EXPECT_TRUE(options.is_sweep);
    EXPECT_EQ(options.ignored.patterns.size(), 2U);
    EXPECT_EQ(options.job.program, (std::vector<std::string>{"./a", "--runs", "2"}));
    ASSERT_TRUE(good(parse_lab_options({"--", "-odd"}, options)));
    EXPECT_EQ(options.job.program, (std::vector<std::string>{"-odd"}));
}

TEST(LabOptions, ErrorsNameTheOption) {
    EXPECT_EQ(refused({}), "lab: no program given: shmem-ft lab [OPTIONS] -- PROGRAM [ARGUMENTS]");
    EXPECT_EQ(refused({"--run", "3", "./a"}), "--run: no such option; did you mean --runs?");
    EXPECT_EQ(refused({"--runs", "0", "./a"}), "--runs 0: not a number from 1 to 1000000");
    EXPECT_EQ(refused({"--seed", "x", "./a"}), "--seed x: not a number from 0 to 9223372036854775807");
    EXPECT_EQ(refused({"--timeout", "0", "./a"}), "--timeout 0: not a number of seconds from 1 to 86400");
    EXPECT_EQ(refused({"--ignore", "(", "./a"}), "--ignore (: not a regular expression");
    EXPECT_EQ(refused({"--runs"}), "--runs: its value is missing");
    EXPECT_EQ(refused({"--sweep", "--schedule", "f", "./a"}), "--sweep and --schedule: only one of them");
}

TEST(LabReport, TheCommandCanBeTypedIntoAShell) {
    JobCommand job{"/bin/oshrun", 4, 1, {"./a", "b c"}};
    EXPECT_EQ(reproduction(job, parsed("kill pe 1 at arrived; kill pe 2 at updated")),
              "SHMEM_FT_FAULTS='kill pe 1 at arrived; kill pe 2 at updated' /bin/oshrun -n 4 --spares 1 -- ./a 'b c'");
}

}  // namespace
}  // namespace sft::tools
