// What the globals of an executable consist of: read from its section headers and dynamic relocations.
//
// The symmetric data objects of a program are the globals of its executable, not of shared objects (specification,
// memory model). This tells which address ranges hold them, and which bytes in between belong to somebody else and
// must not be written back at a rollback: linkage tables, objects copied from shared libraries (stdout, environ) and
// addresses in them, what the user marked SHMEM_FT_PRIVATE with what guards it, and the state of this library or of a
// sanitizer when it is linked statically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/result.hpp"

namespace sft {

// Of a word that holds the address of something in a shared library.
inline constexpr const char* kAddressOf = "address of ";

struct ElfRange {
    std::uint64_t begin = 0;  // virtual address as in the file (add the load bias for a running PIE)
    std::uint64_t end = 0;
    std::string what;  // section or symbol name, or the latter behind kAddressOf

    [[nodiscard]] std::uint64_t bytes() const noexcept {
        SFT_ASSERT(begin <= end);
        return end - begin;
    }
};

struct ElfSymbol {
    std::string name;
    std::string section;
    std::string file;  // the source file, of a symbol that is local to one
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
};

struct ElfImage {
    bool position_independent = false;
    // The page-aligned address range that holds every writable global behind the read-only-after-relocation part.
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t file_end = 0;      // from here on everything is zero at first, and not in the file
    std::vector<ElfRange> saved;     // ascending, disjoint: what a version holds
    std::vector<ElfRange> left_out;  // ascending: why is in `what`
};

// The error says why, in words for the user of the program.
[[nodiscard]] Result<> read_elf_image(const std::string& path, ElfImage& image);

// Whether the executable itself uses this library: it names it among the libraries that it needs, refers to one of the
// routines (a program that was linked with another OpenSHMEM, say), or has the library or its marks inside. What its
// shared libraries need does not count, nor what it loads when it runs.
struct LibraryUse {
    bool is_used = false;
    std::string how;  // for the user of the program
};
[[nodiscard]] Result<> read_library_use(const std::string& path, LibraryUse& use);

// Whether the executable expects this symbol from a shared library.
[[nodiscard]] bool refers_to(const std::string& path, std::string_view name);

// Named data objects with their sections, sorted by address; empty when the executable is stripped.
[[nodiscard]] std::vector<ElfSymbol> read_data_symbols(const std::string& path);

}  // namespace sft
