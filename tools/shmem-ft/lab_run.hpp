// Runs one job under a fault schedule and collects everything that can be known about it afterwards: what it printed,
// how it ended, which fault points its processes came to, which faults happened when, what was committed, and what it
// has left behind.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/faults/fault_schedule.hpp"
#include "base/faults/fault_visits.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"

namespace sft::tools {

struct JobCommand {
    std::string oshrun;  // path
    int pes = 4;
    int spares = 2;
    std::vector<std::string> program;  // with its arguments
};

// The command line that runs the job under the schedule, to be typed into a shell.
[[nodiscard]] std::string reproduction(const JobCommand& job, const FaultSchedule& schedule);

struct HappenedFault {
    std::size_t entry = 0;                    // of the schedule
    int process = -1;                         // the victim
    int pe = -1;                              // that it was; -1: a spare
    int keeper = -1;                          // process that kept the PE's copy; -1: none or unknown
    std::int64_t time_ns = 0;                 // when the victim was about to do it
    ProgramPhase phase = ProgramPhase::none;  // of the victim
    // When the job saw the victim dead. A busy machine may let it go on for a while with its own death before it.
    std::int64_t seen_ns = INT64_MAX;
};

using VisitCounts = std::map<FaultPoint, std::uint32_t>;

struct ProcessRecord {
    int process = -1;
    int pe = -1;  // the last one it was
    unsigned incarnation = 0;
    ProgramPhase phase = ProgramPhase::none;
    std::string last_point;  // where it was seen last; empty: nowhere
    VisitCounts visits;
};

struct TimeSpan {
    std::uint64_t version = 0;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
};

// A start-up, or its repetition in a substitute.
struct PhaseSpan {
    ProgramPhase phase = ProgramPhase::none;
    int pe = -1;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
};

// As in reports; empty: none.
[[nodiscard]] const char* phase_name(ProgramPhase phase) noexcept;

struct RunRecord {
    bool is_hang = false;       // it did not end in time and was ended
    bool is_cancelled = false;  // by a signal to this program
    int exit_code = -1;
    double seconds = 0;
    std::string output;  // standard output
    std::string errors;  // standard error
    std::vector<ProcessRecord> processes;
    std::vector<HappenedFault> faults;  // by time
    std::vector<TimeSpan> commits;
    std::vector<TimeSpan> restarts;
    std::vector<TimeSpan> initialisations;  // blocks begun after a commit, and its version
    std::vector<PhaseSpan> phases;          // that came to their ends
    // By process; of those whose copies lie in memory of their node. Who died before that was made is not in it.
    std::map<int, NodeId> nodes;
    std::vector<int> left_behind;  // pids
};

struct RunLimits {
    double timeout_s = 0;
    int cancel_fd = -1;  // readable: end the job and return
};

// `folder` is an empty one of this run's own.
[[nodiscard]] Result<> run_job(const JobCommand& job, const FaultSchedule& schedule, const std::string& folder,
                               const RunLimits& limits, RunRecord& record);

}  // namespace sft::tools
