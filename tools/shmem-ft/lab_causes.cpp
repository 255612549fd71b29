#include "tools/shmem-ft/lab_causes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string_view>

#include "base/docs.hpp"
#include "tools/common/fd.hpp"

namespace sft::tools {
namespace {

constexpr std::string_view kStray = "shmem_checkpoint_all: ";
constexpr std::string_view kStrayMark = " is saved and holds ";

struct Suspect {
    std::string_view routine;
    std::string_view why;
};
constexpr std::string_view kStateInside = "keeps its state in a library, where it is not saved: ";
constexpr std::array<Suspect, 13> kSuspects = {{
    {"rand", "rand_r or nrand48 with its state in symmetric memory goes back with the data"},
    {"srand", "rand_r or nrand48 with its state in symmetric memory goes back with the data"},
    {"random", "nrand48 with its state in symmetric memory goes back with the data"},
    {"srandom", "nrand48 with its state in symmetric memory goes back with the data"},
    {"drand48", "erand48 with its state in symmetric memory goes back with the data"},
    {"lrand48", "nrand48 with its state in symmetric memory goes back with the data"},
    {"mrand48", "jrand48 with its state in symmetric memory goes back with the data"},
    {"strtok", "use strtok_r, or finish with a text between two checkpoints"},
    {"gamma", "use lgamma_r"},
    {"lgamma", "use lgamma_r if signgam is looked at"},
    {"hsearch", "use a table in symmetric memory"},
    {"ecvt", "use snprintf"},
    {"readdir", "read the folder between two checkpoints"},
}};
constexpr std::array<std::string_view, 4> kFiles = {"fopen", "fopen64", "freopen", "ftell"};

// What the executable expects of shared libraries.
std::set<std::string> routines_of(const std::string& program) {
    std::set<std::string> names;
    const Fd file(open(program.c_str(), O_RDONLY | O_CLOEXEC));
    elf_version(EV_CURRENT);
    const std::unique_ptr<Elf, int (*)(Elf*)> elf(file ? elf_begin(file.get(), ELF_C_READ, nullptr) : nullptr, elf_end);
    Elf_Scn* section = nullptr;
    while (elf && (section = elf_nextscn(elf.get(), section)) != nullptr) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM || header.sh_entsize == 0) {
            continue;
        }
        Elf_Data* data = elf_getdata(section, nullptr);
        for (std::size_t i = 0; data != nullptr && i < header.sh_size / header.sh_entsize; ++i) {
            GElf_Sym symbol;
            if (gelf_getsym(data, static_cast<int>(i), &symbol) != nullptr && symbol.st_shndx == SHN_UNDEF) {
                const char* name = elf_strptr(elf.get(), header.sh_link, symbol.st_name);
                names.insert(name == nullptr ? "" : name);
            }
        }
    }
    return names;
}

}  // namespace

std::vector<std::string> likely_causes(const std::string& program, const std::string& said) {
    std::vector<std::string> causes;
    for (std::size_t at = 0; at < said.size();) {
        const std::size_t end = std::min(said.find('\n', at), said.size());
        const std::string line = said.substr(at, end - at);
        const std::size_t begin = line.find(kStray);
        at = end + 1;
        if (begin == std::string::npos || line.find(kStrayMark) == std::string::npos) {
            continue;
        }
        // The same of every PE but for the address.
        const std::string cause = line.substr(begin + kStray.size());
        const std::string name = cause.substr(0, cause.find(kStrayMark));
        if (std::none_of(causes.begin(), causes.end(),
                         [&](const std::string& other) { return other.starts_with(name + std::string(kStrayMark)); })) {
            causes.push_back(cause);
        }
    }
    const std::set<std::string> routines = routines_of(program);
    for (const Suspect& suspect : kSuspects) {
        if (routines.contains(std::string(suspect.routine))) {
            causes.push_back(
                fmt::format("the program calls {}, which {}{}", suspect.routine, kStateInside, suspect.why));
        }
    }
    for (const std::string_view name : kFiles) {
        if (routines.contains(std::string(name))) {
            causes.push_back(fmt::format(
                "the program calls {}: a file opened with \"w\" is emptied by a substitute, and ftell without "
                "fflush counts what is not in the file yet",
                name));
            break;
        }
    }
    causes.push_back(
        with_doc_paths("what no tool sees: a counter or a flag in a local variable, memory from malloc that a local "
                       "variable points to (docs/survive.md)"));
    return causes;
}

}  // namespace sft::tools
