#include "tools/shmem-ft/risky_members.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "tools/shmem-ft/dwarf_types.hpp"

namespace sft::tools {
namespace {

constexpr std::size_t kShownMax = 8;
constexpr int kNestingMax = 6;

bool is_struct(Dwarf_Die& type) {
    const int tag = dwarf_tag(&type);
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

class Members {
public:
    // `path` leads to an object of the type; a dot or an arrow is added to it.
    void look_into(Dwarf_Die type, const std::string& path, int depth) {
        if (depth > kNestingMax || found.size() > kShownMax) {
            return;
        }
        switch (dwarf_tag(&type)) {
            case DW_TAG_array_type:
                if (auto element = type_of(&type)) {
                    look_into(*element, path + "[]", depth + 1);
                }
                return;
            case DW_TAG_pointer_type: follow(type, path, depth); return;
            default:
                if (is_struct(type) && !is_in_std(&type)) {
                    look_at_members(type, path.empty() || path.ends_with("->") ? path : path + ".", depth);
                }
        }
    }

    std::vector<std::string> found;

private:
    void follow(Dwarf_Die type, const std::string& path, int depth) {
        auto target = type_of(&type);
        if (target && is_struct(*target) && seen_.insert(dwarf_dieoffset(&*target)).second) {
            look_into(*target, path + "->", depth + 1);
        }
    }

    void look_at_members(Dwarf_Die type, const std::string& prefix, int depth) {
        Dwarf_Die child;
        if (dwarf_child(&type, &child) != 0) {
            return;
        }
        do {
            Dwarf_Attribute ignored;
            auto member = type_of(&child);
            const std::string name = name_of(&child);
            const bool is_member = dwarf_tag(&child) == DW_TAG_member || dwarf_tag(&child) == DW_TAG_inheritance;
            if (!is_member || !member || name.starts_with("_vptr") ||
                dwarf_attr(&child, DW_AT_external, &ignored) != nullptr) {
                continue;
            }
            if (dwarf_tag(&*member) == DW_TAG_pointer_type && !leads_to_code_or_text(*member)) {
                found.push_back(prefix + name);
            }
            look_into(*member, prefix + name, depth + 1);
        } while (dwarf_siblingof(&child, &child) == 0);
    }

    // Which are right in every process: functions of the executable and, as a rule, text that does not change.
    static bool leads_to_code_or_text(Dwarf_Die pointer) {
        Dwarf_Attribute attribute;
        Dwarf_Die written;
        auto target = type_of(&pointer);
        const bool is_const = dwarf_attr_integrate(&pointer, DW_AT_type, &attribute) != nullptr &&
                              dwarf_formref_die(&attribute, &written) != nullptr &&
                              dwarf_tag(&written) == DW_TAG_const_type;
        return target && (dwarf_tag(&*target) == DW_TAG_subroutine_type || (is_const && name_of(&*target) == "char"));
    }

    std::set<Dwarf_Off> seen_;
};

}  // namespace

std::string risky_members(Dwarf_Die type) {
    Members members;
    if (dwarf_tag(&type) == DW_TAG_pointer_type || is_struct(type) || dwarf_tag(&type) == DW_TAG_array_type) {
        members.look_into(type, "", 0);
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(members.found.size(), kShownMax); ++i) {
        text += (i == 0 ? "; members: " : ", ") + members.found[i];
    }
    return text + (members.found.size() > kShownMax ? ", ..." : "");
}

}  // namespace sft::tools
