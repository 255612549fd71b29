// Which bytes among the program's globals are not the program's: what the loader has written there because of a shared
// library, and what belongs to a variable that is private. Added to ElfImage::left_out.
#pragma once

#include <vector>

#include "symheap/elf_file.hpp"
#include "symheap/elf_image.hpp"

namespace sft {

// Objects of shared libraries for which the linker reserved room in the executable, and words that hold an address in a
// shared library from the beginning: where that is loaded is a matter of each process. (Position-independent code that
// catches exceptions has one, DW.ref.__gxx_personality_v0.) The program may have put something else into such a word
// since; it cannot be told, and is private as well.
void collect_linked_addresses(const ElfFile& file, ElfImage& image);

// The flags by which the compiler knows that a private variable of a function has been initialised: a flag that goes
// back without its variable lets it be initialised again, and one that comes without it leaves it empty.
// REQUIRES: image has what is left out because of its section.
void collect_private_guards(const std::vector<ElfSymbol>& symbols, ElfImage& image);

}  // namespace sft
