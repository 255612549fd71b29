// The file of a job's program: what it needs, and where it is.
//
// What a spare executes that comes while the job runs. The file of the program may have been deleted or rebuilt since
// the job began; the processes of the job still run the old one, which exists as long as one of them does, and the
// kernel gives it to whoever asks.
#pragma once

#include <cstdint>
#include <string>

namespace sft::tools {

// path, or where to find what has been there. donor_pid: a process of the job on this host.
[[nodiscard]] std::string image_for_joiner(const std::string& path, std::int32_t donor_pid);

// Its processes are to find each other by MPI as well, for which they need a launcher. Not known of what is loaded
// later (a module of an interpreter).
[[nodiscard]] bool is_linked_with_mpi(const std::string& path);

}  // namespace sft::tools
