// How shmem-ft refuses what it was given.
#pragma once

#include <string>

#include "tools/common/exit_codes.hpp"
#include "tools/common/text.hpp"

namespace sft::tools {

[[nodiscard]] inline int refuse(const std::string& line) {
    print_line("shmem-ft: error: " + line);
    return kExitUsage;
}

}  // namespace sft::tools
