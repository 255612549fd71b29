// What `shmem-ft status` prints of a job.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/shmem-ft/status_find.hpp"

namespace sft::tools {

// Lines for a reader.
[[nodiscard]] std::string text_of(const SeenJob& job);
// For programs; docs/man/shmem-ft.1 describes it.
[[nodiscard]] nlohmann::ordered_json json_of(const SeenJob& job);

}  // namespace sft::tools
