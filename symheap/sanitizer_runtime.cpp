#include "symheap/sanitizer_runtime.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"

namespace sft {
namespace {

// As they are in mangled names.
constexpr std::array<std::string_view, 6> kNameSpaces = {"6__asan",  "6__tsan",       "6__lsan",
                                                         "7__ubsan", "11__sanitizer", "14__interception"};
constexpr std::array<std::string_view, 6> kFiles = {"asan_", "tsan_", "lsan_", "ubsan_", "sanitizer_", "interception"};

bool is_in_name_space(const ElfSymbol& symbol) {
    if (symbol.name.find("__ubsan_vptr") != std::string::npos) {
        return true;  // two tables for the types of objects, in no name space
    }
    return symbol.name.starts_with("_Z") &&
           std::any_of(kNameSpaces.begin(), kNameSpaces.end(),
                       [&](std::string_view part) { return symbol.name.find(part) != std::string::npos; });
}

bool is_of_its_files(const ElfSymbol& symbol) {
    return std::any_of(kFiles.begin(), kFiles.end(),
                       [&](std::string_view begin) { return symbol.file.starts_with(begin); });
}

}  // namespace

bool is_of_sanitizer_interface(std::string_view exported_name) noexcept {
    return exported_name.starts_with("__sanitizer_") || exported_name.starts_with("__ubsan_handle_");
}

std::vector<ElfRange> find_sanitizer_state(const std::vector<ElfSymbol>& symbols) {
    SFT_ASSERT_SLOW(std::is_sorted(symbols.begin(), symbols.end(),
                                   [](const ElfSymbol& a, const ElfSymbol& b) { return a.address < b.address; }));
    std::vector<ElfRange> found;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        const std::string& section = symbols[i].section;
        const bool is_known =
            std::any_of(found.begin(), found.end(), [&](const ElfRange& range) { return range.what == section; });
        if (is_known || !is_in_name_space(symbols[i])) {
            continue;
        }
        std::size_t first = i;
        while (first > 0 && symbols[first - 1].section == section && is_of_its_files(symbols[first - 1])) {
            --first;
        }
        std::size_t last = i;
        for (std::size_t k = i; k < symbols.size() && symbols[k].section == section; ++k) {
            if (is_in_name_space(symbols[k]) || (last + 1 == k && is_of_its_files(symbols[k]))) {
                last = k;
            }
        }
        SFT_ASSERT(first <= i && i <= last && last < symbols.size());
        found.push_back({symbols[first].address, symbols[last].address + symbols[last].bytes, section});
    }
    for (ElfRange& range : found) {
        range.what = "state of a sanitizer";
    }
    return found;
}

}  // namespace sft
