// Which members of a struct are pointers, also of structs inside it, and of those that its pointers lead to: an array
// from malloc behind a pointer in a struct is as private as one behind a global pointer.
#pragma once

#include <elfutils/libdw.h>

#include <string>

namespace sft::tools {

// "; members: cells, rows[].next, ->next->data"; empty if the type has none, or is of the standard library.
[[nodiscard]] std::string risky_members(Dwarf_Die type);

}  // namespace sft::tools
