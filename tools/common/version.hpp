// The version of the tools, which is that of the library they come with.
#pragma once

namespace sft::tools {

inline constexpr const char* kVersion = SFT_VERSION;

}  // namespace sft::tools
