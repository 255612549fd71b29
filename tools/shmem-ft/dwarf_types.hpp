// What is asked of types in debug information.
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace sft::tools {

inline std::string name_of(Dwarf_Die* die) {
    const char* name = dwarf_diename(die);
    return name == nullptr ? "" : name;
}

// Without typedefs and qualifiers; none: void.
inline std::optional<Dwarf_Die> type_of(Dwarf_Die* die) {
    Dwarf_Attribute attribute;
    Dwarf_Die type;
    Dwarf_Die peeled;
    if (dwarf_attr_integrate(die, DW_AT_type, &attribute) == nullptr ||
        dwarf_formref_die(&attribute, &type) == nullptr || dwarf_peel_type(&type, &peeled) != 0) {
        return std::nullopt;
    }
    return peeled;
}

inline bool is_in_std(Dwarf_Die* die) {
    Dwarf_Die* scopes = nullptr;
    const int count = dwarf_getscopes_die(die, &scopes);
    bool found = false;
    for (int i = 0; i < count; ++i) {
        found = found || (dwarf_tag(&scopes[i]) == DW_TAG_namespace && name_of(&scopes[i]) == "std");
    }
    std::free(scopes);
    return found;
}

}  // namespace sft::tools
