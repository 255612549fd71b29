// Small files of the system, whole.
#pragma once

#include <string>

namespace sft {

// Empty: it cannot be read.
[[nodiscard]] std::string text_of(const char* path);

}  // namespace sft
