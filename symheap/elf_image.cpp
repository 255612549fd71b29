#include "symheap/elf_image.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/report.hpp"
#include "symheap/elf_file.hpp"
#include "symheap/elf_foreign.hpp"
#include "symheap/sanitizer_runtime.hpp"

namespace sft {
namespace {

// Sections among the writable ones whose bytes belong to the loader, the C runtime or an instrumentation, or that
// the user and this library keep private.
constexpr std::array<std::string_view, 17> kForeignSections = {".got",
                                                               ".got.plt",
                                                               ".plt.got",
                                                               ".dynamic",
                                                               ".init_array",
                                                               ".fini_array",
                                                               ".preinit_array",
                                                               ".ctors",
                                                               ".dtors",
                                                               ".jcr",
                                                               ".tm_clone_table",
                                                               ".data.rel.ro",
                                                               ".data.rel.ro.local",
                                                               "shmem_ft_private",
                                                               "asan_globals",
                                                               "__sancov_guards",
                                                               "__llvm_prf_cnts"};

template <class Visit>
void each_program_header(const ElfFile& file, Visit&& visit) {
    std::size_t count = 0;
    elf_getphdrnum(file.get(), &count);
    for (std::size_t i = 0; i < count; ++i) {
        GElf_Phdr header;
        if (gelf_getphdr(file.get(), static_cast<int>(i), &header) != nullptr) {
            visit(header);
        }
    }
}

struct Segments {
    std::vector<ElfRange> writable;
    ElfRange relro;
    std::uint64_t file_end = 0;
};

Segments read_segments(const ElfFile& file) {
    Segments segments;
    each_program_header(file, [&](const GElf_Phdr& header) {
        if (header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0) {
            segments.writable.push_back({page_floor(header.p_vaddr), whole_pages(header.p_vaddr + header.p_memsz), ""});
            segments.file_end = std::max(segments.file_end, whole_pages(header.p_vaddr + header.p_filesz));
        } else if (header.p_type == PT_GNU_RELRO) {
            // The loader protects whole pages only, rounding the end down.
            segments.relro = {page_floor(header.p_vaddr), page_floor(header.p_vaddr + header.p_memsz), ""};
        }
    });
    return segments;
}

// The one contiguous range behind the part that is read-only after relocation.
Result<> find_range(const Segments& segments, ElfImage& image) {
    for (ElfRange range : segments.writable) {
        if (segments.relro.begin <= range.begin && segments.relro.end > range.begin) {
            range.begin = segments.relro.end;
        }
        if (range.begin >= range.end) {
            continue;
        }
        if (image.end != 0 && range.begin != image.end) {
            return fails(
                "its globals lie in several separate segments, which is not supported: link with the default script");
        }
        if (image.end == 0) {
            image.begin = range.begin;
        }
        image.end = range.end;
        SFT_ASSERT(image.begin < image.end && image.begin % kPageBytes == 0 && image.end % kPageBytes == 0);
    }
    image.file_end = std::clamp(segments.file_end, image.begin, image.end);
    return {};
}

bool is_foreign(std::string_view name) {
    return std::find(kForeignSections.begin(), kForeignSections.end(), name) != kForeignSections.end();
}

void collect_sections(const ElfFile& file, ElfImage& image, std::vector<ElfRange>& candidates) {
    file.each_section([&](Elf_Scn*, const GElf_Shdr& header) {
        const bool writable = (header.sh_flags & SHF_WRITE) != 0 && (header.sh_flags & SHF_ALLOC) != 0;
        if (!writable || (header.sh_flags & SHF_TLS) != 0 || header.sh_size == 0) {
            return;
        }
        ElfRange range{std::max(header.sh_addr, image.begin), std::min(header.sh_addr + header.sh_size, image.end),
                       file.section_name(header)};
        if (range.begin < range.end) {
            (is_foreign(range.what) ? image.left_out : candidates).push_back(range);
        }
    });
}

bool exports_sanitizer(const ElfFile& file) {
    bool found = false;
    file.each_section([&](Elf_Scn* section, const GElf_Shdr& header) {
        Elf_Data* symbols = header.sh_type == SHT_DYNSYM ? elf_getdata(section, nullptr) : nullptr;
        GElf_Sym symbol;
        for (int i = 0; symbols != nullptr && !found && gelf_getsym(symbols, i, &symbol) != nullptr; ++i) {
            const char* name = elf_strptr(file.get(), header.sh_link, symbol.st_name);
            found = symbol.st_shndx != SHN_UNDEF && name != nullptr && is_of_sanitizer_interface(name);
        }
    });
    return found;
}

// The table of all symbols, which may be long, is read for such programs only.
Result<> collect_sanitizer_state(const ElfFile& file, const std::string& path, ElfImage& image) {
    if (!exports_sanitizer(file)) {
        return {};
    }
    const std::vector<ElfRange> state = find_sanitizer_state(read_data_symbols(path));
    if (state.empty()) {
        return fails(
            "a sanitizer is linked into it and its symbols are stripped, so its globals cannot be told from the "
            "sanitizer's: do not strip it, or link with -shared-libsan");
    }
    for (const ElfRange& range : state) {
        const ElfRange inside{std::max(range.begin, image.begin), std::min(range.end, image.end), range.what};
        if (inside.begin < inside.end) {
            image.left_out.push_back(inside);
        }
    }
    return {};
}

// saved = candidates minus left_out; both get sorted.
void subtract_left_out(ElfImage& image, std::vector<ElfRange>& candidates) {
    const auto by_begin = [](const ElfRange& a, const ElfRange& b) { return a.begin < b.begin; };
    std::sort(candidates.begin(), candidates.end(), by_begin);
    std::sort(image.left_out.begin(), image.left_out.end(), by_begin);
    for (const ElfRange& candidate : candidates) {
        std::uint64_t at = candidate.begin;
        for (const ElfRange& hole : image.left_out) {
            if (hole.end <= at || hole.begin >= candidate.end) {
                continue;
            }
            if (hole.begin > at) {
                image.saved.push_back({at, hole.begin, candidate.what});
            }
            at = std::max(at, hole.end);
            SFT_ASSERT(at > candidate.begin);
        }
        if (at < candidate.end) {
            image.saved.push_back({at, candidate.end, candidate.what});
        }
    }
    for (const ElfRange& range : image.saved) {
        SFT_ASSERT(range.begin < range.end && range.begin >= image.begin && range.end <= image.end);
        SFT_ASSERT_SLOW(std::none_of(image.left_out.begin(), image.left_out.end(), [&](const ElfRange& hole) {
            return hole.begin < range.end && range.begin < hole.end;
        }));
    }
}

Result<> read_header(const ElfFile& file, const std::string& path, GElf_Ehdr& header) {
    if (!file.is_open()) {
        return fails(format("cannot open %s: %s", path.c_str(), std::strerror(errno)));
    }
    if (!file.is_executable() || gelf_getehdr(file.get(), &header) == nullptr || header.e_machine != EM_X86_64) {
        return fails(format("%s is not an x86-64 ELF executable", path.c_str()));
    }
    return {};
}

// Where in the file the bytes of an address are; the end of the file if nowhere.
std::uint64_t file_offset_of(const ElfFile& file, std::uint64_t address, std::uint64_t file_bytes) {
    std::uint64_t offset = file_bytes;
    each_program_header(file, [&](const GElf_Phdr& header) {
        if (header.p_type == PT_LOAD && address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz) {
            offset = std::min(file_bytes, header.p_offset + (address - header.p_vaddr));
        }
    });
    return offset;
}

// The shared libraries that the executable names. By the program headers, which it has even without section headers.
std::vector<std::string> needed_libraries(const ElfFile& file) {
    std::size_t file_bytes = 0;
    const char* bytes = elf_rawfile(file.get(), &file_bytes);
    std::uint64_t names_at = 0;
    std::vector<std::uint64_t> offsets;
    each_program_header(file, [&](const GElf_Phdr& header) {
        Elf_Data* data = header.p_type != PT_DYNAMIC
                             ? nullptr
                             : elf_getdata_rawchunk(file.get(), static_cast<std::int64_t>(header.p_offset),
                                                    header.p_filesz, ELF_T_DYN);
        GElf_Dyn entry;
        for (int i = 0; data != nullptr && gelf_getdyn(data, i, &entry) != nullptr && entry.d_tag != DT_NULL; ++i) {
            if (entry.d_tag == DT_NEEDED) {
                offsets.push_back(entry.d_un.d_val);
            } else if (entry.d_tag == DT_STRTAB) {
                names_at = file_offset_of(file, entry.d_un.d_ptr, file_bytes);
            }
        }
    });
    std::vector<std::string> names;
    for (const std::uint64_t offset : offsets) {
        if (bytes != nullptr && names_at < file_bytes && offset < file_bytes - names_at) {
            const char* name = bytes + names_at + offset;
            names.emplace_back(name, ::strnlen(name, file_bytes - names_at - offset));
        }
    }
    return names;
}

// The same names as in shmem_ft/api/exports.map.
bool is_routine(std::string_view name) {
    constexpr std::array<std::string_view, 7> kOldNames = {"start_pes", "_my_pe",    "_num_pes",  "shmalloc",
                                                           "shfree",    "shrealloc", "shmemalign"};
    if (name.starts_with("p") && name != "p") {
        const std::string_view behind = name.substr(1);
        if (behind.starts_with("shmem_") || std::find(kOldNames.begin(), kOldNames.end(), behind) != kOldNames.end()) {
            return true;
        }
    }
    return name.starts_with("shmem_") || std::find(kOldNames.begin(), kOldNames.end(), name) != kOldNames.end();
}

// The first symbol that the executable expects from a shared library and that is wanted; empty: none.
template <class Wanted>
std::string expected_symbol(const ElfFile& file, Wanted&& is_wanted) {
    std::string found;
    file.each_section([&](Elf_Scn* section, const GElf_Shdr& header) {
        if (header.sh_type != SHT_DYNSYM || header.sh_entsize == 0 || !found.empty()) {
            return;
        }
        Elf_Data* symbols = elf_getdata(section, nullptr);
        for (std::size_t i = 0; symbols != nullptr && i < header.sh_size / header.sh_entsize; ++i) {
            GElf_Sym symbol;
            if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr || symbol.st_shndx != SHN_UNDEF) {
                continue;
            }
            const char* name = elf_strptr(file.get(), header.sh_link, symbol.st_name);
            if (name != nullptr && is_wanted(std::string_view(name))) {
                found = name;
                return;
            }
        }
    });
    return found;
}

bool has_private_section(const ElfFile& file) {
    bool found = false;
    file.each_section([&](Elf_Scn*, const GElf_Shdr& header) {
        found = found || ((header.sh_flags & SHF_ALLOC) != 0 && file.section_name(header) == "shmem_ft_private");
    });
    return found;
}

}  // namespace

Result<> read_library_use(const std::string& path, LibraryUse& use) {
    const ElfFile file(path);
    GElf_Ehdr header;
    if (Result<> done = read_header(file, path, header); !done) {
        return done;
    }
    use = LibraryUse{};
    for (const std::string& name : needed_libraries(file)) {
        if (name.starts_with("libshmem_ft.so")) {
            use = {true, "it needs " + name};
        }
    }
    if (!use.is_used && has_private_section(file)) {
        // First, because the library itself refers to a routine that a program need not have.
        use = {true, "it has the library, or variables marked SHMEM_FT_PRIVATE, inside"};
    } else if (!use.is_used) {
        const std::string routine = expected_symbol(file, is_routine);
        if (!routine.empty()) {
            use = {true, "it refers to " + routine};
        }
    }
    return {};
}

Result<> read_elf_image(const std::string& path, ElfImage& image) {
    const ElfFile file(path);
    GElf_Ehdr header;
    if (Result<> done = read_header(file, path, header); !done) {
        return done;
    }
    image = ElfImage{};
    image.position_independent = header.e_type == ET_DYN;
    if (Result<> found = find_range(read_segments(file), image); !found) {
        return found;
    }
    std::vector<ElfRange> candidates;
    collect_sections(file, image, candidates);
    if (candidates.empty() && image.begin != image.end) {
        return fails(
            "it has no section headers, so its globals cannot be told from the loader's data: do not strip them, or "
            "set SHMEM_FT_GLOBALS=no if none of them is symmetric");
    }
    collect_linked_addresses(file, image);
    if (has_private_section(file)) {
        collect_private_guards(read_data_symbols(path), image);
    }
    if (Result<> done = collect_sanitizer_state(file, path, image); !done) {
        return done;
    }
    subtract_left_out(image, candidates);
    return {};
}

bool refers_to(const std::string& path, std::string_view name) {
    const ElfFile file(path);
    return file.is_executable() &&
           !expected_symbol(file, [name](std::string_view other) { return other == name; }).empty();
}

std::vector<ElfSymbol> read_data_symbols(const std::string& path) {
    std::vector<ElfSymbol> result;
    const ElfFile file(path);
    if (!file.is_executable()) {
        return result;
    }
    file.each_section([&](Elf_Scn* section, const GElf_Shdr& header) {
        if (header.sh_type != SHT_SYMTAB) {
            return;
        }
        Elf_Data* symbols = elf_getdata(section, nullptr);
        std::string source;  // of the local symbols that follow
        for (std::size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
            GElf_Sym symbol;
            GElf_Shdr home;
            if (gelf_getsym(symbols, static_cast<int>(i), &symbol) != nullptr &&
                GELF_ST_TYPE(symbol.st_info) == STT_FILE) {
                const char* name = elf_strptr(file.get(), header.sh_link, symbol.st_name);
                source = name == nullptr ? "" : name;
                continue;
            }
            if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr ||
                GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0 || symbol.st_shndx >= SHN_LORESERVE) {
                continue;
            }
            Elf_Scn* home_section = elf_getscn(file.get(), symbol.st_shndx);
            if (gelf_getshdr(home_section, &home) == nullptr || (home.sh_flags & SHF_WRITE) == 0 ||
                (home.sh_flags & SHF_TLS) != 0) {
                continue;
            }
            const char* name = elf_strptr(file.get(), header.sh_link, symbol.st_name);
            const bool is_local = GELF_ST_BIND(symbol.st_info) == STB_LOCAL;
            result.push_back({name == nullptr ? "" : name, file.section_name(home), is_local ? source : std::string(),
                              symbol.st_value, symbol.st_size});
        }
    });
    std::sort(result.begin(), result.end(),
              [](const ElfSymbol& a, const ElfSymbol& b) { return a.address < b.address; });
    return result;
}

}  // namespace sft
