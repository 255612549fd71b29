// From the words given to oshcc or oshc++ to the compiler's command line: a pure function.
//
// Compiling needs the folder of the headers; linking needs the library too, where to find it at run time, and -no-pie:
// a program at fixed addresses keeps its globals in the same place in every process by itself, where a
// position-independent one depends on address randomisation being off. What is passed on is otherwise left as it is.
#pragma once

#include <string>
#include <vector>

namespace sft::tools {

struct WrapperFacts {
    std::vector<std::string> compiler;  // with its own options
    std::string include_dir;
    std::string lib_dir;
    std::vector<std::string> common_flags;  // for compiling and linking (sanitizers of an uninstalled library)
    std::vector<std::string> static_libs;   // what the static library needs
    bool is_system_dir = false;             // compiler and linker look there anyway
};

struct WrapperRequest {
    std::vector<std::string> words;  // for the compiler, ours taken out
    bool show = false;               // print the command instead of running it
    bool link_statically = false;    // the library, not the rest
    bool wants_help = false;
    std::string refusal;  // not empty: one line, nothing is run
};

[[nodiscard]] WrapperRequest parse_wrapper_words(const std::vector<std::string>& words);

// Will the compiler link with these words?
[[nodiscard]] bool links(const std::vector<std::string>& words);

[[nodiscard]] std::vector<std::string> compiler_command(const WrapperRequest& request, const WrapperFacts& facts);

}  // namespace sft::tools
