// shmem-ft globals PROGRAM: which globals a checkpoint of the program holds, which it leaves out and why, and which of
// those it holds are unlikely to mean anything after a recovery.

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "symheap/elf_image.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "tools/shmem-ft/risky_types.hpp"

namespace sft::tools {
namespace {

constexpr std::size_t kShownMax = 30;
constexpr std::string_view kPrivateSection = "shmem_ft_private";

const ElfRange* range_of(const std::vector<ElfRange>& ranges, std::uint64_t address) {
    const auto found = std::find_if(ranges.begin(), ranges.end(), [address](const ElfRange& range) {
        return range.begin <= address && address < range.end;
    });
    return found == ranges.end() ? nullptr : &*found;
}

std::uint64_t total_bytes(const std::vector<ElfRange>& ranges) {
    std::uint64_t bytes = 0;
    for (const ElfRange& range : ranges) {
        bytes += range.bytes();
    }
    return bytes;
}

// Why a range is left out, in words for the reader; `what` is the name of a section or of a symbol.
std::string reason_for(const std::string& what) {
    if (what == kPrivateSection) {
        return "marked SHMEM_FT_PRIVATE, or this library's own state";
    }
    if (what.starts_with(".got") || what == ".plt.got") {
        return "addresses of functions in shared libraries";
    }
    if (what == ".dynamic" || what.starts_with(".data.rel.ro")) {
        return "of the loader, or constant after loading";
    }
    if (what == ".init_array" || what == ".fini_array" || what == ".preinit_array" || what == ".ctors" ||
        what == ".dtors" || what == ".jcr" || what == ".tm_clone_table") {
        return "of the C runtime";
    }
    if (what.starts_with("asan") || what.starts_with("__sancov") || what.starts_with("__llvm")) {
        return "of an instrumentation";
    }
    if (what.starts_with(kAddressOf)) {
        return "which lies in a shared library: the loader's business in each process";
    }
    if (what.starts_with("_ZGV")) {
        return "whether a variable marked SHMEM_FT_PRIVATE has been initialised";
    }
    return "lives in a shared library or the C runtime; the program holds a copy of it";
}

std::string readable(const std::string& symbol) {
    if (!symbol.starts_with("_Z")) {
        return symbol;  // the demangler would take a plain "f" for the type float
    }
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
    return status == 0 && name ? name.get() : symbol;
}

void print_saved(const ElfImage& image, std::vector<ElfSymbol> symbols, bool show_all) {
    std::erase_if(symbols, [&](const ElfSymbol& symbol) {
        return symbol.bytes == 0 || range_of(image.saved, symbol.address) == nullptr;
    });
    fmt::print("Saved: {} bytes", total_bytes(image.saved));
    if (symbols.empty()) {
        fmt::print("{}\n", image.saved.empty() ? "" : "; the program has no symbols that would name them (stripped)");
        for (const ElfRange& range : image.saved) {
            fmt::print("  {:>12}  {}\n", range.bytes(), range.what);
        }
        return;
    }
    fmt::print(" in {} named objects, the largest first\n", symbols.size());
    std::stable_sort(symbols.begin(), symbols.end(),
                     [](const ElfSymbol& a, const ElfSymbol& b) { return a.bytes > b.bytes; });
    const std::size_t shown = show_all ? symbols.size() : std::min(symbols.size(), kShownMax);
    for (std::size_t i = 0; i < shown; ++i) {
        fmt::print("  {:>12}  {:<40} {}\n", symbols[i].bytes, readable(symbols[i].name), symbols[i].section);
    }
    if (shown < symbols.size()) {
        fmt::print("  and {} more (--all shows them)\n", symbols.size() - shown);
    }
}

// An address of something in a shared library, by the variable that holds it.
std::string name_left_out(const ElfRange& range, const std::vector<ElfSymbol>& symbols) {
    if (!range.what.starts_with(kAddressOf)) {
        return readable(range.what);
    }
    const auto holder = std::find_if(symbols.begin(), symbols.end(), [&](const ElfSymbol& symbol) {
        return symbol.address <= range.begin && range.begin < symbol.address + symbol.bytes;
    });
    const std::string target = kAddressOf + readable(range.what.substr(std::string_view(kAddressOf).size()));
    return holder == symbols.end() ? target : fmt::format("{}, {}", readable(holder->name), target);
}

void print_left_out(const ElfImage& image, const std::vector<ElfSymbol>& symbols) {
    fmt::print("\nLeft out: {} bytes\n", total_bytes(image.left_out));
    for (const ElfRange& range : image.left_out) {
        fmt::print("  {:>12}  {:<28} {}\n", range.bytes(), name_left_out(range, symbols), reason_for(range.what));
    }
    const bool has_private = std::any_of(image.left_out.begin(), image.left_out.end(),
                                         [](const ElfRange& range) { return range.what == kPrivateSection; });
    if (has_private && symbols.empty()) {
        fmt::print(
            "  Without symbols (stripped) it cannot be told what says whether variables of functions that are marked "
            "SHMEM_FT_PRIVATE have been initialised: it is saved and goes back.\n");
    }
}

void print_warnings(const ElfImage& image, const std::string& program) {
    const TypeReport report = find_risky_globals(program);
    if (!report.has_debug_info) {
        fmt::print("\nNo debug information: compile with -g to be warned of pointers and handles among the globals.\n");
        return;
    }
    const bool uses_dlsym = refers_to(program, "dlsym");
    bool is_first = true;
    for (const TypedGlobal& global : report.risky) {
        if (range_of(image.saved, global.address) == nullptr || (global.is_function && !uses_dlsym)) {
            continue;
        }
        fmt::print("{}  {}: {}\n", is_first ? "\nTo be looked at:\n" : "", global.name, global.warning);
        is_first = false;
    }
    if (is_first) {
        fmt::print("\nNo pointers or handles among the saved globals.\n");
    }
}

void print_private(const std::string& program, GlobalsMode mode) {
    if (mode == GlobalsMode::no) {
        fmt::print("{}: SHMEM_FT_GLOBALS=no\n\n", program);
    } else {
        fmt::print("{}: does not use OpenSHMEM itself: it neither needs libshmem_ft nor refers to a routine of it\n\n",
                   program);
    }
    fmt::print(
        "Its globals are private: they are not symmetric, not saved and not restored. SHMEM_FT_GLOBALS={} changes "
        "that.\n",
        mode == GlobalsMode::no ? "auto or yes" : "yes");
}

void print_why_symmetric(const LibraryUse& use) {
    fmt::print("Its globals are symmetric: {}\n\n", use.is_used ? use.how : "SHMEM_FT_GLOBALS=yes");
}

}  // namespace

int run_globals(const GlobalsCommand& command) {
    ElfImage image;
    LibraryUse use;
    Config config;
    const Result<> read = load_config(config).then([&] { return read_library_use(command.program, use); });
    if (!read) {
        print_line("shmem-ft: error: " + read.error().line);
        return 1;
    }
    if (config.globals == GlobalsMode::no || (config.globals == GlobalsMode::automatic && !use.is_used)) {
        print_private(command.program, config.globals);
        return 0;
    }
    if (const Result<> found = read_elf_image(command.program, image); !found) {
        print_line("shmem-ft: error: " + found.error().line);
        return 1;
    }
    fmt::print("{}: {}\n", command.program,
               image.position_independent ? "position-independent (oshrun loads it at the same address everywhere)"
                                          : "at fixed addresses");
    print_why_symmetric(use);
    const std::vector<ElfSymbol> symbols = read_data_symbols(command.program);
    print_saved(image, symbols, command.show_all);
    print_left_out(image, symbols);
    print_warnings(image, command.program);
    return 0;
}

}  // namespace sft::tools
