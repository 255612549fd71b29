// A job that runs on this node, as a task for a plan: what its processes have agreed on, read from outside.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "tools/oshrun/placement.hpp"
#include "tools/shmem-ft/plan.hpp"

namespace sft::tools {

struct FoundJob {
    PlacementTask placement;
    RunningJob state;
    std::int32_t pid = 0;  // of one of its processes
};

// word: as of `shmem-ft status`. The failure says what is wrong.
[[nodiscard]] Result<FoundJob> find_running(const std::string& word);

// The environment of this process gets the job's SHMEM_FT_* variables.
void use_settings_of(const FoundJob& job);

}  // namespace sft::tools
