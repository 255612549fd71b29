// The state of a sanitizer that is linked into an executable (Clang's way unless -shared-libsan is given; GCC's are
// shared libraries). It lies among the program's globals, and must not be put back at a rollback: the allocator that
// the sanitizer brings along would forget what it has handed out since.
//
// Most of its objects are in name spaces of its own. The rest has no mark, but a sanitizer is linked in one piece: what
// lies between its first and its last object of a section is its own, and so is what follows without a gap from its
// source files.
#pragma once

#include <string_view>
#include <vector>

#include "symheap/elf_image.hpp"

namespace sft {

// Whether a symbol that an executable exports says that a sanitizer is linked into it.
[[nodiscard]] bool is_of_sanitizer_interface(std::string_view exported_name) noexcept;

// Of symbols that are sorted by address. One range for each section that has objects of a sanitizer.
[[nodiscard]] std::vector<ElfRange> find_sanitizer_state(const std::vector<ElfSymbol>& symbols);

}  // namespace sft
