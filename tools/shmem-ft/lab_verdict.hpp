// Judges a run with faults by a run without. Pure.
//
// Right ends are two: the answer of the run without faults, or one named error and no answer at all. The answer is the
// set of lines on the standard output: what is printed by steps that are computed again appears again, so how often a
// line is there does not count; a line that the run without faults does not have is a wrong answer, whatever the exit
// code. A named error is right only where the library promises nothing; what excuses it is worked out from what has
// happened, never from the text of the error.
#pragma once

#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tools/shmem-ft/lab_run.hpp"

namespace sft::tools {

enum class RunClass { recovered, nothing_happened, expected_error, unexpected_error, wrong_answer, hang };
inline constexpr std::size_t kRunClasses = 6;

[[nodiscard]] const char* class_name(RunClass run_class) noexcept;

// Lines that may differ from run to run, such as times.
struct IgnoredLines {
    std::vector<std::regex> patterns;

    [[nodiscard]] bool contains(const std::string& line) const;
};

[[nodiscard]] std::set<std::string> lines_of(const std::string& output, const IgnoredLines& ignored);

struct Reference {
    std::set<std::string> lines;
    std::uint64_t last_version = 0;
    double seconds = 0;
};

struct Verdict {
    RunClass run_class = RunClass::nothing_happened;
    std::string why;  // one line; empty for runs with the right answer
};

struct Judging {
    const Reference& reference;
    const IgnoredLines& ignored;
    const FaultSchedule& schedule;
    int spares = 0;
    int pes = 0;
};

[[nodiscard]] Verdict judge(const RunRecord& record, const Judging& judging);

// Why the job may rightly have ended with an error; empty: it should have gone on.
[[nodiscard]] std::string excuse_for(const RunRecord& record, const Judging& judging);

[[nodiscard]] bool is_deadly(FaultKind kind) noexcept;

}  // namespace sft::tools
