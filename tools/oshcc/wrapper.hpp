// What oshcc and oshc++ have in common: all but the language.
#pragma once

namespace sft::tools {

struct WrapperLanguage {
    const char* tool;               // "oshcc"
    const char* compiler_variable;  // environment variable that names another compiler
    const char* default_compiler;
    const char* language;  // for the help text
};

[[nodiscard]] int run_wrapper(const WrapperLanguage& language, int argc, char** argv);

}  // namespace sft::tools
