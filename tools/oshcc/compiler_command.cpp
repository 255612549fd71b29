#include "tools/oshcc/compiler_command.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace sft::tools {
namespace {

// Options whose value is the next word; without this list the value would look like an input file.
constexpr std::array<std::string_view, 30> kOptionsWithValue = {"-o",           "-I",
                                                                "-L",           "-l",
                                                                "-D",           "-U",
                                                                "-include",     "-imacros",
                                                                "-isystem",     "-iquote",
                                                                "-idirafter",   "-iprefix",
                                                                "-iwithprefix", "-isysroot",
                                                                "--sysroot",    "-MF",
                                                                "-MT",          "-MQ",
                                                                "-x",           "-Xlinker",
                                                                "-Xassembler",  "-Xpreprocessor",
                                                                "-Xclang",      "-T",
                                                                "-u",           "-z",
                                                                "-e",           "-aux-info",
                                                                "--param",      "-target"};

constexpr std::array<std::string_view, 7> kStopsBeforeLinking = {
    "-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--precompile"};

// With one of these the user has decided how the output is addressed, or it is no program.
constexpr std::array<std::string_view, 10> kDecidesAddressing = {
    "-pie", "-no-pie", "-nopie", "-fPIE", "-fpie", "-static-pie", "-shared", "-r", "--shared", "-Wl,-r"};

// No program comes out that would need the library.
constexpr std::array<std::string_view, 3> kNoProgram = {"-r", "-Wl,-r", "-nostdlib"};

template <class Array>
bool contains(const Array& array, std::string_view word) {
    return std::find(array.begin(), array.end(), word) != array.end();
}

template <class Array>
bool has_any(const std::vector<std::string>& words, const Array& array) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return contains(array, word); });
}

bool has_input(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "-" || word.empty() || word[0] != '-') {
            return true;
        }
        if (word == "-l" || (word.starts_with("-l") && word.size() > 2)) {
            return true;
        }
        i += contains(kOptionsWithValue, word) ? 1 : 0;
    }
    return false;
}

}  // namespace

WrapperRequest parse_wrapper_words(const std::vector<std::string>& words) {
    WrapperRequest request;
    request.wants_help = words.size() == 1 && words.front() == "--help";
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "--showme" || word == "-showme" || word == "-show" || word == "--show") {
            request.show = true;
        } else if (word == "--shmem-static" || word == "-static-libshmem") {
            request.link_statically = true;
        } else {
            request.words.push_back(word);
            if (contains(kOptionsWithValue, word) && i + 1 < words.size()) {
                request.words.push_back(words[++i]);
                continue;
            }
            if (word == "-static" || word == "--static" || word == "-static-pie") {
                request.refusal =
                    word +
                    ": not possible, because PMIx loads parts of itself at run time; --shmem-static links "
                    "this library statically and the rest as usual";
            }
        }
    }
    return request;
}

bool links(const std::vector<std::string>& words) {
    return has_input(words) && !has_any(words, kStopsBeforeLinking) && !has_any(words, kNoProgram);
}

std::vector<std::string> compiler_command(const WrapperRequest& request, const WrapperFacts& facts) {
    std::vector<std::string> command = facts.compiler;
    if (!facts.is_system_dir) {
        command.push_back("-I" + facts.include_dir);
    }
    command.insert(command.end(), facts.common_flags.begin(), facts.common_flags.end());
    command.insert(command.end(), request.words.begin(), request.words.end());
    if (!links(request.words)) {
        return command;
    }
    if (!has_any(request.words, kDecidesAddressing)) {
        command.emplace_back("-no-pie");
    }
    if (!facts.is_system_dir) {
        command.push_back("-L" + facts.lib_dir);
    }
    if (request.link_statically) {
        // As -l and not as a file name: a preceding "-x c" would make a source of it.
        command.emplace_back("-l:libshmem_ft.a");
        command.insert(command.end(), facts.static_libs.begin(), facts.static_libs.end());
    } else {
        if (!facts.is_system_dir) {
            command.push_back("-Wl,-rpath," + facts.lib_dir);
        }
        command.emplace_back("-lshmem_ft");
    }
    return command;
}

}  // namespace sft::tools
