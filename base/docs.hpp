// Where the documentation is that a line for the user names: "docs/launchers.md" means something in the source tree
// only, so it becomes the path of the installed file if there is one.
#pragma once

#include <string>

namespace sft {

// Every "docs/NAME.md" in the text, as a path that can be opened. Unchanged where nothing is installed.
[[nodiscard]] std::string with_doc_paths(std::string text);

}  // namespace sft
