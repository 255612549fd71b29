// The language of fault schedules, and which visits an entry is due at.

#include "base/faults/fault_schedule.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "tests/result.hpp"

namespace sft {
namespace {

FaultSchedule parsed(const std::string& text) {
    FaultSchedule schedule;
    EXPECT_TRUE(good(parse_fault_schedule(text, schedule)));
    return schedule;
}

std::string error_of(const std::string& text) {
    FaultSchedule schedule(1);
    std::string error;
    error = line_of(parse_fault_schedule(text, schedule));
    EXPECT_NE(error, "") << text;
    EXPECT_EQ(schedule.size(), 1U) << "changed by a failed parse";
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
}

TEST(FaultPoints, NamesAndNumbersAreUnique) {
    std::set<std::string> names;
    std::set<FaultPoint> points;
    for (const FaultPointInfo& info : fault_point_infos()) {
        EXPECT_TRUE(names.insert(info.name).second) << info.name;
        EXPECT_TRUE(points.insert(info.point).second) << info.name;
        EXPECT_STREQ(fault_point_name(info.point), info.name);
        EXPECT_STRNE(info.description, "");
    }
}

TEST(FaultPoints, NumbersNeverChange) {
    // Schedules and counted visits of older versions refer to them.
    EXPECT_EQ(static_cast<int>(FaultPoint::init_begin), 10);
    EXPECT_EQ(static_cast<int>(FaultPoint::replicate_middle), 130);
    EXPECT_EQ(static_cast<int>(FaultPoint::plan_decided), 340);
    EXPECT_EQ(static_cast<int>(FaultPoint::finish_decided), 620);
    EXPECT_EQ(static_cast<int>(FaultPoint::propose_accepted), 740);
}

TEST(FaultSchedule, EveryFormIsReadAndPrintedAgain) {
    for (const char* text : {
             "kill pe 2 at replicate_begin visit 3",
             "kill pe 2 at checkpoint_leave visit 3 after 1500 us",
             "stop 20 ms pe 0 at init_ready incarnation 1 after 7 us",
             "segv pe 1 at restart_leave after 40 percent",
             "segv process 4 at plan_decided",
             "abort leader at commit_decided incarnation 1",
             "exit 3 spare 0 at spare_woken",
             "stop substitute at restore_begin",
             "stop 500 ms partner of pe 1 at arrived",
             "delay 20 ms pe any at arrived visit 2 every",
             "kill process any seed 77 at updated",
             "kill spare any at spare_woken",
             "flip shadow of pe 1 at commit_decided",
             "flip local seed 18446744073709551615 of pe 1 at updated",
             "cut pe 0 at message_send visit 1000000000",
             "cut 100 ms pe 0 at message_send",
         }) {
        const FaultSchedule schedule = parsed(text);
        EXPECT_EQ(to_string(schedule), text);
        EXPECT_EQ(parsed(to_string(schedule)), schedule);
    }
}

TEST(FaultSchedule, ShortFormsMeanTheSame) {
    EXPECT_EQ(to_string(parsed("exit:3 pe:1 at:arrived")), "exit 3 pe 1 at arrived");
    EXPECT_EQ(to_string(parsed("stop:500 pe 1 at arrived")), "stop 500 ms pe 1 at arrived");
    EXPECT_EQ(to_string(parsed("delay 2s pe 1 at arrived")), "delay 2000 ms pe 1 at arrived");
    EXPECT_EQ(to_string(parsed("delay 2 s pe 1 at arrived")), "delay 2000 ms pe 1 at arrived");
    EXPECT_EQ(to_string(parsed("kill any seed 5 at arrived")), "kill process any seed 5 at arrived");
    EXPECT_EQ(to_string(parsed("flip pe 1 at arrived")), "flip shadow of pe 1 at arrived");
    EXPECT_EQ(to_string(parsed("kill pe 1 visit 2 at arrived")), "kill pe 1 at arrived visit 2");
}

TEST(FaultSchedule, EntriesLinesAndComments) {
    EXPECT_TRUE(parsed("").empty());
    EXPECT_TRUE(parsed(" ; ;\n# only a comment\n\r\n").empty());
    EXPECT_EQ(to_string(parsed("# two\n kill pe 1 at arrived;\tkill pe 2 at updated # here\nabort pe 0 at query")),
              "kill pe 1 at arrived; kill pe 2 at updated; abort pe 0 at query");
}

TEST(FaultSchedule, ErrorsSayWhichEntryWhatIsWrongAndWhatIsMeant) {
    EXPECT_EQ(error_of("kill pe 1 at arrived; kil pe 2 at updated"),
              "entry 2 'kil pe 2 at updated': 'kil' is no fault; did you mean kill?");
    EXPECT_EQ(error_of("crash_the_machine"),
              "entry 1 'crash_the_machine': 'crash_the_machine' is no fault; there are kill, segv, abort, exit N, "
              "stop [N ms], delay N ms, flip [local|shadow], cut, fail ERRNO");
    EXPECT_EQ(
        error_of("kill pe 1 at replicate_begn"),
        "entry 1 'kill pe 1 at replicate_begn': 'replicate_begn' is no fault point; did you mean replicate_begin?");
    EXPECT_EQ(error_of("kill pe 1 at xyzzyxyzzy"),
              "entry 1 'kill pe 1 at xyzzyxyzzy': 'xyzzyxyzzy' is no fault point; `shmem-ft points` lists them");
    EXPECT_EQ(error_of("kill pe 1"), "entry 1 'kill pe 1': where is missing: at POINT (`shmem-ft points` lists them)");
    EXPECT_EQ(error_of("kill leadr at arrived"),
              "entry 1 'kill leadr at arrived': 'leadr' is no victim; did you mean leader?");
    EXPECT_EQ(error_of("kill pe at arrived"),
              "entry 1 'kill pe at arrived': pe is followed by its number or by any, not by 'at'");
    EXPECT_EQ(error_of("kill"),
              "entry 1 'kill': the end is no victim; there are pe N, process N, spare N, any, "
              "leader, substitute and partner of pe N; N may be any");
    EXPECT_EQ(error_of("exit 256 pe 1 at arrived"),
              "entry 1 'exit 256 pe 1 at arrived': the status of exit is a number from 0 to 255, not '256'");
    EXPECT_EQ(error_of("delay pe 1 at arrived"),
              "entry 1 'delay pe 1 at arrived': a duration is a number of ms or s, such as 500 ms, not 'pe'");
    EXPECT_EQ(error_of("delay 5min pe 1 at arrived"),
              "entry 1 'delay 5min pe 1 at arrived': a duration is a number of ms or s, such as 500 ms, not '5min'");
    EXPECT_EQ(error_of("kill pe 1 at arrived visit 0"),
              "entry 1 'kill pe 1 at arrived visit 0': visits are counted from 1");
    EXPECT_EQ(error_of("kill pe 1 at arrived at updated"),
              "entry 1 'kill pe 1 at arrived at updated': 'at' is there twice");
    EXPECT_EQ(error_of("kill pe 1 at arrived vist 2"),
              "entry 1 'kill pe 1 at arrived vist 2': 'vist' is not understood here; did you mean visit?");
    EXPECT_EQ(error_of("kill partner of 1 at arrived"),
              "entry 1 'kill partner of 1 at arrived': partner is followed by 'of pe N', not by '1'");
    EXPECT_EQ(error_of("kill pe 1 at arrived every incarnation 2"),
              "entry 1 'kill pe 1 at arrived every incarnation 2': every is for all incarnations: leave out one of the "
              "two");
    EXPECT_EQ(error_of(std::string("kill \x01\x7f") + std::string(300, 'x')).find('\x01'), std::string::npos);
}

TEST(FaultSchedule, LaterThanTheVisit) {
    EXPECT_EQ(parsed("kill pe 1 after 3 ms at arrived"), parsed("kill pe 1 at arrived after 3000 us"));
    EXPECT_EQ(parsed("kill pe 1 at arrived after 2s")[0].after_us, 2'000'000);
    EXPECT_NE(parsed("kill pe 1 at arrived after 1"), parsed("kill pe 1 at arrived"));
    EXPECT_EQ(error_of("kill pe 1 at arrived after soon"),
              "entry 1 'kill pe 1 at arrived after soon': after is followed by a time such as 500 us, 20 ms or 40 "
              "percent, not by "
              "'soon'");
    for (const char* text : {"delay 3 ms pe 1 at arrived after 1 ms", "flip pe 1 at arrived after 1 ms",
                             "kill pe 1 at arrived every after 1 ms"}) {
        EXPECT_NE(error_of(text).find("after is for one kill, segv, abort, exit or stop"), std::string::npos);
    }
}

TEST(FaultSchedule, HasAnEnd) {
    std::string text;
    for (std::size_t i = 0; i < kFaultEntriesMax; ++i) {
        text += "kill pe 1 at arrived;";
    }
    EXPECT_EQ(parsed(text).size(), kFaultEntriesMax);
    EXPECT_EQ(error_of(text + "kill pe 1 at arrived"), "65 entries; a schedule has at most 64");
}

TEST(FaultSchedule, FilesAndEntriesAreOneSchedule) {
    const std::string path = testing::TempDir() + "fault_schedule_test.txt";
    std::FILE* file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs("# from the file\nabort pe 0 at query\n", file);
    std::fclose(file);
    FaultSchedule schedule;
    std::string error;
    ASSERT_TRUE(good(load_fault_schedule("kill pe 1 at arrived", path, schedule)));
    EXPECT_EQ(to_string(schedule), "kill pe 1 at arrived; abort pe 0 at query");
    EXPECT_EQ(line_of(load_fault_schedule("", path + ".gone", schedule)),
              "SHMEM_FT_FAULTS_FILE: cannot read '" + path + ".gone': No such file or directory");
    error = line_of(load_fault_schedule("kill", path, schedule));
    EXPECT_NE(error, "");
    EXPECT_TRUE(error.starts_with("SHMEM_FT_FAULTS: entry 1 'kill': ")) << error;
    std::remove(path.c_str());
}

// ---- visits ----

// Four PEs and two spares; this is the first process of PE 1 at its second visit of `arrived`.
FaultVisit second_visit() { return {FaultPoint::arrived, ProcId(1), PeId(1), 0, 4, 6, 2, 2}; }
// Its substitute, which has come there for the third time in all and the first time as PE 1.
FaultVisit of_substitute() { return {FaultPoint::arrived, ProcId(4), PeId(1), 1, 4, 6, 3, 1}; }

bool due(const char* text, const FaultVisit& visit) { return is_due(parsed(text).front(), visit); }

TEST(FaultVisit, PointAndNumberMustBeRight) {
    EXPECT_TRUE(due("kill pe 1 at arrived visit 2", second_visit()));
    EXPECT_FALSE(due("kill pe 1 at arrived", second_visit()));
    EXPECT_FALSE(due("kill pe 1 at arrived visit 3", second_visit()));
    EXPECT_FALSE(due("kill pe 1 at updated visit 2", second_visit()));
    EXPECT_FALSE(due("kill pe 2 at arrived visit 2", second_visit()));
    EXPECT_TRUE(due("kill process 1 at arrived visit 2", second_visit()));
    EXPECT_FALSE(due("kill spare 0 at arrived visit 2", second_visit()));
    EXPECT_FALSE(due("kill substitute at arrived visit 2", second_visit()));
}

TEST(FaultVisit, ASubstituteDoesNotMeetTheFaultOfItsPredecessor) {
    EXPECT_FALSE(due("kill pe 1 at arrived", of_substitute()));
    EXPECT_TRUE(due("kill pe 1 at arrived incarnation 1", of_substitute()));
    EXPECT_FALSE(due("kill pe 1 at arrived incarnation 2", of_substitute()));
    EXPECT_TRUE(due("kill pe 1 at arrived every", of_substitute()));
}

TEST(FaultVisit, OnlyVisitsAsTheVictimCount) {
    EXPECT_FALSE(due("kill pe 1 at arrived visit 3 incarnation 1", of_substitute()));
    EXPECT_TRUE(due("kill process 4 at arrived visit 3", of_substitute()));
    EXPECT_TRUE(due("kill spare 0 at arrived visit 3", of_substitute()));
    EXPECT_TRUE(due("kill substitute at arrived visit 3", of_substitute()));
    EXPECT_FALSE(due("kill spare 1 at arrived visit 3", of_substitute()));
}

TEST(FaultVisit, EveryMeansFromThatVisitOn) {
    FaultVisit visit = second_visit();
    EXPECT_FALSE(due("delay 1 ms pe 1 at arrived visit 3 every", visit));
    visit.of_pe = 3;
    EXPECT_TRUE(due("delay 1 ms pe 1 at arrived visit 3 every", visit));
    visit.of_pe = 9;
    EXPECT_TRUE(due("delay 1 ms pe 1 at arrived visit 3 every", visit));
    EXPECT_FALSE(due("delay 1 ms pe 1 at arrived visit 3", visit));
}

TEST(FaultVisit, AnyIsOneVictimAndTheSeedChooses) {
    std::set<int> chosen;
    for (int seed = 0; seed < 50; ++seed) {
        const std::string text = "kill any seed " + std::to_string(seed) + " at arrived visit 2";
        int victims = 0;
        for (int process = 0; process < 6; ++process) {
            FaultVisit visit = second_visit();
            visit.process = ProcId(process);
            if (due(text.c_str(), visit)) {
                ++victims;
                chosen.insert(process);
            }
        }
        EXPECT_EQ(victims, 1) << text;
    }
    EXPECT_EQ(chosen.size(), 6U);
}

TEST(FaultVisit, BeforeTheJobIsKnownOnlyProcessesHaveNumbers) {
    const FaultVisit early{FaultPoint::init_begin, ProcId(1), kNoPe, 0, 0, 0, 1, 1};
    EXPECT_TRUE(due("kill process 1 at init_begin", early));
    EXPECT_FALSE(due("kill pe 1 at init_begin", early));
    EXPECT_FALSE(due("kill any at init_begin", early));
    EXPECT_FALSE(due("kill spare 1 at init_begin", early));
    EXPECT_FALSE(due("kill spare any at init_begin", early));
}

TEST(FailingCalls, AreReadAndWrittenAlike) {
    for (const std::string text :
         {"fail EMFILE pe 1 at call_open_memory", "fail EINTR 20 times process 0 at call_send visit 3",
          "fail ENOMEM spare 0 at call_map_memory visit 2 every"}) {
        FaultSchedule schedule;
        ASSERT_TRUE(good(parse_fault_schedule(text, schedule)));
        EXPECT_EQ(to_string(schedule), text);
    }
}

TEST(FailingCalls, OnlyCallsFail) {
    FaultSchedule schedule;
    std::string error;
    for (const char* text : {"fail EMFILE pe 1 at replicate_begin", "fail pe 1 at call_send",
                             "fail EINTR 0 times pe 1 at call_send", "fail EINTR 3 pe 1 at call_send"}) {
        error = line_of(parse_fault_schedule(text, schedule));
        EXPECT_NE(error, "") << text;
    }
}

TEST(FailingCalls, FailAsOftenAsTheScheduleSays) {
    FaultSchedule schedule;
    ASSERT_TRUE(good(parse_fault_schedule("fail EINTR 3 times process 2 at call_send visit 4", schedule)));
    FaultVisit visit;
    visit.point = FaultPoint::call_send;
    visit.process = ProcId(2);
    visit.n_processes = 6;
    for (std::uint32_t count = 1; count <= 10; ++count) {
        visit.of_process = count;
        EXPECT_EQ(is_due(schedule[0], visit), count >= 4 && count <= 6) << count;
    }
}

}  // namespace
}  // namespace sft
