#include "symheap/elf_foreign.hpp"

#include <algorithm>
#include <utility>

namespace sft {
namespace {

// The symbols that the relocations of a section name.
class NamedSymbols {
public:
    NamedSymbols(const ElfFile& file, const GElf_Shdr& relocations) : file_(file) {
        Elf_Scn* section = elf_getscn(file.get(), relocations.sh_link);
        if (section != nullptr && gelf_getshdr(section, &header_) != nullptr) {
            data_ = elf_getdata(section, nullptr);
        }
    }

    [[nodiscard]] bool get(const GElf_Rela& relocation, GElf_Sym& symbol, std::string& name) const {
        const auto index = static_cast<int>(GELF_R_SYM(relocation.r_info));
        if (data_ == nullptr || index == 0 || gelf_getsym(data_, index, &symbol) == nullptr) {
            return false;
        }
        const char* text = elf_strptr(file_.get(), header_.sh_link, symbol.st_name);
        name = text == nullptr ? "" : text;
        return true;
    }

private:
    const ElfFile& file_;
    GElf_Shdr header_{};
    Elf_Data* data_ = nullptr;
};

// The bytes that a relocation writes.
std::uint64_t width_of(const GElf_Rela& relocation, const GElf_Sym& symbol) {
    switch (GELF_R_TYPE(relocation.r_info)) {
        case R_X86_64_COPY: return symbol.st_size;
        case R_X86_64_32:
        case R_X86_64_32S:
        case R_X86_64_PC32: return sizeof(std::uint32_t);
        default: return sizeof(std::uint64_t);
    }
}

bool is_left_out(const ElfImage& image, std::uint64_t address) {
    return std::any_of(image.left_out.begin(), image.left_out.end(),
                       [=](const ElfRange& range) { return range.begin <= address && address < range.end; });
}

void leave_out(ElfImage& image, const GElf_Rela& relocation, const GElf_Sym& symbol, const std::string& name) {
    const bool is_copy = GELF_R_TYPE(relocation.r_info) == R_X86_64_COPY;
    // An undefined symbol with a value is a function that this executable has an entry of its own for, and a defined
    // one is its own: both are where they are in every process.
    const bool is_own = symbol.st_shndx != SHN_UNDEF || symbol.st_value != 0;
    const std::uint64_t at = relocation.r_offset;
    if ((!is_copy && is_own) || at < image.begin || at >= image.end || is_left_out(image, at)) {
        return;
    }
    image.left_out.push_back({at, at + width_of(relocation, symbol), is_copy ? name : kAddressOf + name});
}

}  // namespace

void collect_linked_addresses(const ElfFile& file, ElfImage& image) {
    file.each_section([&](Elf_Scn* section, const GElf_Shdr& header) {
        if (header.sh_type != SHT_RELA || (header.sh_flags & SHF_ALLOC) == 0 || header.sh_entsize == 0) {
            return;
        }
        Elf_Data* relocations = elf_getdata(section, nullptr);
        const NamedSymbols symbols(file, header);
        for (std::size_t i = 0; relocations != nullptr && i < header.sh_size / header.sh_entsize; ++i) {
            GElf_Rela relocation;
            GElf_Sym symbol;
            std::string name;
            if (gelf_getrela(relocations, static_cast<int>(i), &relocation) != nullptr &&
                symbols.get(relocation, symbol, name)) {
                leave_out(image, relocation, symbol, name);
            }
        }
    });
}

void collect_private_guards(const std::vector<ElfSymbol>& symbols, ElfImage& image) {
    // By their names and, where the function is not seen outside of its source file, that file.
    std::vector<std::pair<std::string, std::string>> wanted;
    for (const ElfSymbol& symbol : symbols) {
        if (symbol.section == "shmem_ft_private" && symbol.name.starts_with("_Z")) {
            wanted.emplace_back("_ZGV" + symbol.name.substr(2), symbol.file);
        }
    }
    std::sort(wanted.begin(), wanted.end());
    for (const ElfSymbol& symbol : symbols) {
        if (symbol.name.starts_with("_ZGV") && !is_left_out(image, symbol.address) &&
            std::binary_search(wanted.begin(), wanted.end(), std::pair(symbol.name, symbol.file))) {
            image.left_out.push_back({symbol.address, symbol.address + symbol.bytes, symbol.name});
        }
    }
}

}  // namespace sft
