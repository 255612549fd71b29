#include "tools/shmem-ft/risky_types.hpp"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "tools/common/fd.hpp"
#include "tools/shmem-ft/dwarf_types.hpp"
#include "tools/shmem-ft/risky_members.hpp"

namespace sft::tools {
namespace {

// How deep a type is looked into; deeper nesting is rare and could be without end in broken debug information.
constexpr int kDepthMax = 12;

enum class Risk { none, function, pointer, once, handle, container };

struct Finding {
    Risk risk = Risk::none;
    std::string type;  // its name, where it has one
};

// String constants are what such pointers nearly always point to.
bool is_pointer_to_const_char(Dwarf_Die* pointer) {
    Dwarf_Attribute attribute;
    Dwarf_Die target;
    if (dwarf_attr_integrate(pointer, DW_AT_type, &attribute) == nullptr ||
        dwarf_formref_die(&attribute, &target) == nullptr || dwarf_tag(&target) != DW_TAG_const_type) {
        return false;
    }
    auto letter = type_of(pointer);
    return letter && name_of(&*letter) == "char";
}

Finding classify_pointer(Dwarf_Die* pointer) {
    if (is_pointer_to_const_char(pointer)) {
        return {};
    }
    auto target = type_of(pointer);
    if (!target) {
        return {Risk::pointer, "void *"};
    }
    const int tag = dwarf_tag(&*target);
    if (tag == DW_TAG_subroutine_type) {
        return {Risk::function, "pointer to a function"};
    }
    const std::string name = name_of(&*target);
    if (name == "_IO_FILE") {
        return {Risk::handle, "FILE *"};
    }
    if (name == "__dirstream") {
        return {Risk::handle, "DIR *"};
    }
    return {Risk::pointer, name.empty() ? "pointer" : name + " *"};
}

// The name of a type as it is written, before what it stands for is looked at.
bool is_named_once(Dwarf_Die* variable) {
    Dwarf_Attribute attribute;
    Dwarf_Die type;
    Dwarf_Die* at = variable;
    for (int depth = 0; depth < kDepthMax && dwarf_attr_integrate(at, DW_AT_type, &attribute) != nullptr &&
                        dwarf_formref_die(&attribute, &type) != nullptr;
         ++depth) {
        const std::string name = name_of(&type);
        if (name == "pthread_once_t" || name == "once_flag" || name == "__once_flag") {
            return true;
        }
        const int tag = dwarf_tag(&type);
        if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type) {
            return false;
        }
        at = &type;
    }
    return false;
}

Finding classify(Dwarf_Die* type, int depth);

// The worst that is found among the members.
Finding classify_members(Dwarf_Die* type, int depth) {
    Finding worst;
    Dwarf_Die child;
    if (dwarf_child(type, &child) != 0) {
        return worst;
    }
    do {
        const int tag = dwarf_tag(&child);
        Dwarf_Attribute ignored;
        const bool is_static = dwarf_attr(&child, DW_AT_external, &ignored) != nullptr;
        if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || is_static) {
            continue;
        }
        if (name_of(&child).starts_with("_vptr")) {
            continue;  // tables of virtual functions lie at the same addresses everywhere
        }
        if (auto member = type_of(&child)) {
            Finding finding =
                is_named_once(&child) ? Finding{Risk::once, "a once flag"} : classify(&*member, depth + 1);
            if (finding.risk > worst.risk) {
                worst = std::move(finding);
            }
        }
    } while (dwarf_siblingof(&child, &child) == 0);
    return worst;
}

Finding classify(Dwarf_Die* type, int depth) {
    if (depth > kDepthMax) {
        return {};
    }
    switch (dwarf_tag(type)) {
        case DW_TAG_pointer_type:
        case DW_TAG_reference_type:
        case DW_TAG_rvalue_reference_type: return classify_pointer(type);
        case DW_TAG_array_type: {
            auto element = type_of(type);
            return element ? classify(&*element, depth + 1) : Finding{};
        }
        case DW_TAG_structure_type:
        case DW_TAG_class_type:
        case DW_TAG_union_type: {
            Finding finding = classify_members(type, depth);
            // Named by the outermost type: the pointers are deep inside a container.
            const bool may_hold_pointers = finding.risk == Risk::function || finding.risk == Risk::pointer ||
                                           finding.risk == Risk::container ||
                                           dwarf_hasattr(type, DW_AT_declaration) != 0;  // described elsewhere
            if (may_hold_pointers && is_in_std(type)) {
                const std::string name = name_of(type);
                return {Risk::container, "std::" + name.substr(0, name.find('<'))};
            }
            return finding;
        }
        default: return {};
    }
}

std::string warning_for(const Finding& finding) {
    switch (finding.risk) {
        case Risk::none: break;
        case Risk::pointer:
            return fmt::format(
                "{}: restored as it is; right only if it points to symmetric memory, functions or constants",
                finding.type);
        case Risk::function:
            return fmt::format(
                "{}: right if that is a function of the program, wrong if dlsym has given it; mark it SHMEM_FT_PRIVATE "
                "then",
                finding.type);
        case Risk::once:
            return "says what has been done once, and goes back in a rollback; mark it SHMEM_FT_PRIVATE if what was "
                   "done "
                   "then is private";
        case Risk::handle:
            return fmt::format("{}: belongs to one process and is wrong in any other; mark it SHMEM_FT_PRIVATE",
                               finding.type);
        case Risk::container:
            return fmt::format("{}: holds pointers to private memory, which is not saved with it", finding.type);
    }
    return {};
}

std::optional<std::uint64_t> address_of(Dwarf_Die* variable) {
    Dwarf_Attribute attribute;
    Dwarf_Op* operations = nullptr;
    std::size_t count = 0;
    if (dwarf_attr_integrate(variable, DW_AT_location, &attribute) == nullptr ||
        dwarf_getlocation(&attribute, &operations, &count) != 0 || count != 1) {
        return std::nullopt;
    }
    if (operations[0].atom == DW_OP_addr) {
        return operations[0].number;
    }
    // Clang keeps the addresses in a table of their own.
    Dwarf_Attribute indirect;
    Dwarf_Addr address = 0;
    if ((operations[0].atom == DW_OP_addrx || operations[0].atom == DW_OP_GNU_addr_index) &&
        dwarf_getlocation_attr(&attribute, operations, &indirect) == 0 && dwarf_formaddr(&indirect, &address) == 0) {
        return address;
    }
    return std::nullopt;
}

void visit(Dwarf_Die* die, TypeReport& report) {
    if (dwarf_tag(die) == DW_TAG_variable) {
        const auto address = address_of(die);
        auto type = type_of(die);
        if (address && type) {
            const Finding finding = is_named_once(die) ? Finding{Risk::once, "a once flag"} : classify(&*type, 0);
            if (finding.risk != Risk::none) {
                report.risky.push_back({name_of(die), *address, warning_for(finding) + risky_members(*type),
                                        finding.risk == Risk::function});
            }
        }
        return;
    }
    Dwarf_Die child;
    if (dwarf_child(die, &child) == 0) {
        do {
            visit(&child, report);
        } while (dwarf_siblingof(&child, &child) == 0);
    }
}

}  // namespace

TypeReport find_risky_globals(const std::string& program) {
    TypeReport report;
    const Fd file(open(program.c_str(), O_RDONLY | O_CLOEXEC));
    const std::unique_ptr<Dwarf, int (*)(Dwarf*)> dwarf(file ? dwarf_begin(file.get(), DWARF_C_READ) : nullptr,
                                                        dwarf_end);
    if (!dwarf) {
        return report;
    }
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    std::uint8_t unit_type = 0;
    while (dwarf_get_units(dwarf.get(), unit, &unit, nullptr, &unit_type, &die, nullptr) == 0) {
        if (unit_type == DW_UT_compile || unit_type == DW_UT_partial) {
            report.has_debug_info = true;
            visit(&die, report);
        }
    }
    std::sort(report.risky.begin(), report.risky.end(),
              [](const TypedGlobal& a, const TypedGlobal& b) { return a.address < b.address; });
    return report;
}

}  // namespace sft::tools
