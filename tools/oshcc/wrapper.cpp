#include "tools/oshcc/wrapper.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tools/common/exit_codes.hpp"
#include "tools/common/text.hpp"
#include "tools/oshcc/compiler_command.hpp"
#include "tools/oshcc/static_libs.hpp"

namespace sft::tools {
namespace {

constexpr const char* kHelp = R"(Usage: {tool} [OPTIONS OF THE COMPILER] FILES...

Compiles and links OpenSHMEM programs in {language}. Everything is passed on to the compiler;
the headers, and for linking the library, are added.

  --showme, -show    print the compiler's command line, run nothing
  --shmem-static     link this library statically (libshmem_ft.a)
  --help             print this text

{variable} in the environment names another compiler (now: {compiler}).

A program is linked with -no-pie unless one of -pie, -fPIE, -no-pie, -shared or -r is
given: its globals then lie at the same addresses in every process without any further
measure. Position-independent programs work under oshrun as well.

Example:
  {tool} -O2 -o hello hello.{suffix}
  oshrun -n 4 ./hello
)";

// The file `uninstalled` beside a tool in a build tree: lines NAME=VALUE.
bool read_uninstalled(const std::filesystem::path& path, WrapperFacts& facts) {
    std::ifstream file(path);
    std::string line;
    bool is_there = false;
    while (std::getline(file, line)) {
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos) {
            continue;
        }
        is_there = true;
        const std::string name = line.substr(0, equals);
        const std::string value = line.substr(equals + 1);
        if (name == "includedir") {
            facts.include_dir = value;
        } else if (name == "libdir") {
            facts.lib_dir = value;
        } else if (name == "flags") {
            facts.common_flags = split_words(value).value_or(std::vector<std::string>{});
        }
    }
    return is_there;
}

bool is_system_dir(const std::string& lib_dir) {
    constexpr std::array<std::string_view, 4> kSystem = {"/usr/lib", "/lib", "/usr/lib/x86_64-linux-gnu",
                                                         "/lib/x86_64-linux-gnu"};
    return std::find(kSystem.begin(), kSystem.end(), lib_dir) != kSystem.end();
}

WrapperFacts collect_facts(const WrapperLanguage& language) {
    WrapperFacts facts;
    const char* chosen = std::getenv(language.compiler_variable);
    const std::string compiler = chosen == nullptr || *chosen == '\0' ? language.default_compiler : chosen;
    facts.compiler = split_words(compiler).value_or(std::vector<std::string>{compiler});
    facts.static_libs = split_words(kStaticLibs).value_or(std::vector<std::string>{});
    const std::filesystem::path bin_dir = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    if (!read_uninstalled(bin_dir / "uninstalled", facts)) {
        facts.include_dir = (bin_dir / SFT_INCLUDEDIR_FROM_BINDIR).lexically_normal().string();
        facts.lib_dir = (bin_dir / SFT_LIBDIR_FROM_BINDIR).lexically_normal().string();
        facts.is_system_dir = is_system_dir(facts.lib_dir);
    }
    return facts;
}

}  // namespace

int run_wrapper(const WrapperLanguage& language, int argc, char** argv) {
    const WrapperRequest request = parse_wrapper_words({argv + 1, argv + argc});
    const WrapperFacts facts = collect_facts(language);
    if (request.wants_help) {
        const bool is_c = std::strcmp(language.language, "C") == 0;
        fmt::print(fmt::runtime(kHelp), fmt::arg("tool", language.tool), fmt::arg("language", language.language),
                   fmt::arg("variable", language.compiler_variable), fmt::arg("compiler", shell_quoted(facts.compiler)),
                   fmt::arg("suffix", is_c ? "c" : "cpp"));
        return EXIT_SUCCESS;
    }
    if (!request.refusal.empty()) {
        print_line(fmt::format("{}: {}", language.tool, request.refusal));
        return kExitUsage;
    }
    const std::vector<std::string> command = compiler_command(request, facts);
    if (request.show) {
        fmt::print("{}\n", shell_quoted(command));
        return EXIT_SUCCESS;
    }
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) {
        words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    execvp(words.front(), words.data());
    print_line(fmt::format("{}: cannot run the compiler {} ({} names another one): {}", language.tool, command.front(),
                           language.compiler_variable, strerrordesc_np(errno)));
    return kExitNotFound;
}

}  // namespace sft::tools
