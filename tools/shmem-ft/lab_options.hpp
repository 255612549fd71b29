// The command line of `shmem-ft lab`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tools/shmem-ft/lab_run.hpp"
#include "tools/shmem-ft/lab_verdict.hpp"

namespace sft::tools {

// In the program's words and in the names of files: a folder of each run's own.
inline constexpr const char* kLabFolder = "{folder}";

struct LabOptions {
    JobCommand job;
    int runs = 50;
    std::uint64_t seed = 0;  // of the first run; the next one has the next
    int jobs = 1;            // runs at the same time
    double timeout_s = 0;    // 0: derived from the run without faults
    bool is_sweep = false;
    bool allows_errors = false;
    std::string schedule_path;  // empty: random schedules
    std::string json_path;
    std::string keep_path;  // folder for the files of failed runs
    IgnoredLines ignored;
    std::vector<std::string> files;  // to be compared; each has kLabFolder in it
    bool wants_help = false;
};

// The error is the line for the user.
[[nodiscard]] Result<> parse_lab_options(const std::vector<std::string>& words, LabOptions& options);

[[nodiscard]] const char* lab_help_text() noexcept;

}  // namespace sft::tools
