// What a spare executes that comes while the job runs. The file of the program may have been deleted or rebuilt since
// the job began; the processes of the job still run the old one, which exists as long as one of them does, and the
// kernel gives it to whoever asks.
#pragma once

#include <cstdint>
#include <string>

namespace sft::tools {

// path, or where to find what has been there. donor_pid: a process of the job on this host.
[[nodiscard]] std::string image_for_joiner(const std::string& path, std::int32_t donor_pid);

}  // namespace sft::tools
