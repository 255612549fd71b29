// The words of --launcher-args, as the launcher will read them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/oshrun/options.hpp"

namespace sft::tools {

// A word that the launcher would take for the program, so that it would start that instead of the job's processes; it
// says nothing then, because processes of a job may fail. Only what is certain: words behind an option that may have a
// value are believed to be its.
[[nodiscard]] std::optional<std::string> word_taken_for_program(LauncherKind launcher,
                                                                const std::vector<std::string>& words);

}  // namespace sft::tools
