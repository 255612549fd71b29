// What the tools end with, as shells and their users know it.
#pragma once

namespace sft::tools {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCannotRun = 126;
inline constexpr int kExitNotFound = 127;

}  // namespace sft::tools
