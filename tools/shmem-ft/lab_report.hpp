// What `shmem-ft lab` prints and writes about its runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tools/shmem-ft/lab_options.hpp"
#include "tools/shmem-ft/lab_run.hpp"
#include "tools/shmem-ft/lab_verdict.hpp"

namespace sft::tools {

struct LabRun {
    int number = 0;
    std::optional<std::uint64_t> seed;  // of random schedules
    FaultSchedule schedule;
    RunRecord record;
    Verdict verdict;
};

[[nodiscard]] bool is_failure(const LabRun& run, const LabOptions& options) noexcept;

// One line; for failures also why, and how to repeat it.
[[nodiscard]] std::string describe(const LabRun& run, const LabOptions& options);

// The points that no process of any of these runs has come to.
[[nodiscard]] std::vector<FaultPoint> points_never_visited(const std::vector<LabRun>& runs);

[[nodiscard]] std::string summary(const std::vector<LabRun>& runs);

[[nodiscard]] Result<> write_json(const std::vector<LabRun>& runs, const Reference& reference,
                                  const LabOptions& options);

}  // namespace sft::tools
