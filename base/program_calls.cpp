#include "base/program_calls.hpp"

#include <link.h>

#include <cstring>
#include <string_view>

namespace sft {
namespace {

struct Search {
    std::string_view name;
    bool is_found = false;
    bool has_others = false;  // routines of this library
};

void look_at(Search& search, std::string_view symbol) {
    if (symbol.substr(0, 6) == "pshmem") {
        symbol.remove_prefix(1);
    }
    search.is_found = search.is_found || symbol == search.name;
    search.has_others = search.has_others || symbol.substr(0, 6) == "shmem_" || symbol == "start_pes";
}

// What the relocations of a module refer to.
struct Module {
    const ElfW(Sym) * symbols = nullptr;
    const char* names = nullptr;
    const ElfW(Rela) * relocations[2] = {};
    std::size_t bytes[2] = {};

    void look(Search& search) const {
        for (int i = 0; symbols != nullptr && names != nullptr && i < 2; ++i) {
            for (std::size_t n = 0; relocations[i] != nullptr && n < bytes[i] / sizeof(ElfW(Rela)); ++n) {
                const auto symbol = ELF64_R_SYM(relocations[i][n].r_info);
                // Defined symbols are what the module offers.
                if (symbol != 0 && symbols[symbol].st_shndx == SHN_UNDEF) {
                    look_at(search, names + symbols[symbol].st_name);
                }
            }
        }
    }
};

int visit(dl_phdr_info* info, std::size_t, void* context) {
    const std::string_view path = info->dlpi_name;
    if (path.find("linux-vdso") != std::string_view::npos) {
        return 0;  // its table is not relocated, and it calls nobody
    }
    Module module;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) {
            continue;
        }
        const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; ++entry) {
            switch (entry->d_tag) {
                case DT_SYMTAB: module.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
                case DT_STRTAB: module.names = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
                case DT_RELA: module.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
                case DT_RELASZ: module.bytes[0] = entry->d_un.d_val; break;
                case DT_JMPREL: module.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
                case DT_PLTRELSZ: module.bytes[1] = entry->d_un.d_val; break;
                default: break;
            }
        }
    }
    module.look(*static_cast<Search*>(context));
    return 0;
}

}  // namespace

bool program_may_call(const char* name) noexcept {
    Search search{name};
    ::dl_iterate_phdr(visit, &search);
    return search.is_found || !search.has_others;
}

}  // namespace sft
