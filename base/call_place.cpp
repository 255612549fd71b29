#include "base/call_place.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <link.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/checksum.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

constexpr unsigned kOffsetBits = 40;
constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kOffsetBits) - 1;
static_assert(kOffsetBits + 24 == 64, "a name has 24 bits");

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

void CodePlaces::find_modules() {
    modules_.clear();
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* context) {
            auto& modules = *static_cast<std::vector<Module>*>(context);
            const std::string_view name = file_name(info->dlpi_name);
            // The executable comes first. 23 bits of a checksum and one that is set tell the others apart.
            const std::uint64_t number = modules.empty() ? 0 : (checksum(name.data(), name.size()) >> 41) | 1U << 23U;
            bool is_first = modules.empty();
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const ElfW(Phdr)& part = info->dlpi_phdr[i];
                if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) {
                    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
                    modules.push_back({begin, begin + part.p_memsz, info->dlpi_addr, is_first ? 0 : number});
                }
            }
            return 0;
        },
        &modules_);
    last_ = 0;
}

std::uint64_t CodePlaces::number_of(const void* address) noexcept {
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    if (place == 0) {
        return 0;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
        for (std::size_t n = 0; n < modules_.size(); ++n) {
            const std::size_t i = last_ + n < modules_.size() ? last_ + n : last_ + n - modules_.size();
            const Module& module = modules_[i];
            if (place - module.begin < module.end - module.begin) {
                last_ = i;
                return module.name == 0 ? place : module.name << kOffsetBits | ((place - module.base) & kOffsetMask);
            }
        }
        find_modules();  // the first time, or the program has loaded a library
    }
    return 0;  // code that was made at run time
}

const void* CodePlaces::address_of(std::uint64_t number) noexcept {
    const std::uint64_t name = number >> kOffsetBits >> 23U == 0 ? 0 : number >> kOffsetBits;
    if (name == 0) {
        return reinterpret_cast<const void*>(number);
    }
    find_modules();
    for (const Module& module : modules_) {
        if (module.name == name) {
            return reinterpret_cast<const void*>(module.base + (number & kOffsetMask));
        }
    }
    return nullptr;
}

// The frames below the call are the library's own, and others when a call is repeated.
std::uint64_t CodePlaces::number_of_stack(const void* from) noexcept {
    constexpr int kFramesMax = 64;
    struct Walk {
        CodePlaces* places;
        std::uintptr_t from;
        bool has_begun = false;
        std::uint64_t number = 0;
        int frames = 0;
    } walk{this, reinterpret_cast<std::uintptr_t>(from)};
    ::_Unwind_Backtrace(
        [](_Unwind_Context* frame, void* context) {
            Walk& so_far = *static_cast<Walk*>(context);
            const std::uintptr_t place = ::_Unwind_GetIP(frame);
            if (place == 0 || ++so_far.frames > kFramesMax) {
                return _URC_END_OF_STACK;
            }
            so_far.has_begun = so_far.has_begun || place == so_far.from;
            if (!so_far.has_begun) {
                return _URC_NO_REASON;
            }
            so_far.number = (so_far.number ^ so_far.places->number_of(reinterpret_cast<const void*>(place))) *
                            std::uint64_t{0x9e3779b97f4a7c15};
            so_far.number ^= so_far.number >> 29U;
            return _URC_NO_REASON;
        },
        &walk);
    return walk.number | 1U;
}

namespace {

// The library does without libdw, which only this line needs; where it is installed, it is used.
template <class Function>
bool find_function(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    return function != nullptr;
}

struct Source {
    std::string function;  // also one that is not exported
    std::string line;
};

Source find_source(const void* address) {
    void* const library = ::dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return {};
    }
    decltype(&::dwfl_begin) begin = nullptr;
    decltype(&::dwfl_linux_proc_report) report = nullptr;
    decltype(&::dwfl_report_end) report_end = nullptr;
    decltype(&::dwfl_addrmodule) addrmodule = nullptr;
    decltype(&::dwfl_module_addrname) addrname = nullptr;
    decltype(&::dwfl_getsrc) getsrc = nullptr;
    decltype(&::dwfl_lineinfo) lineinfo = nullptr;
    decltype(&::dwfl_linux_proc_find_elf) find_elf = nullptr;
    decltype(&::dwfl_standard_find_debuginfo) find_debuginfo = nullptr;
    if (!find_function(library, "dwfl_begin", begin) || !find_function(library, "dwfl_linux_proc_report", report) ||
        !find_function(library, "dwfl_report_end", report_end) ||
        !find_function(library, "dwfl_addrmodule", addrmodule) ||
        !find_function(library, "dwfl_module_addrname", addrname) || !find_function(library, "dwfl_getsrc", getsrc) ||
        !find_function(library, "dwfl_lineinfo", lineinfo) ||
        !find_function(library, "dwfl_linux_proc_find_elf", find_elf) ||
        !find_function(library, "dwfl_standard_find_debuginfo", find_debuginfo)) {
        return {};
    }
    char* no_path = nullptr;
    Dwfl_Callbacks callbacks{};
    callbacks.find_elf = find_elf;
    callbacks.find_debuginfo = find_debuginfo;
    callbacks.debuginfo_path = &no_path;
    Dwfl* const session = begin(&callbacks);  // the process is about to end, or says this once
    if (session == nullptr || report(session, ::getpid()) != 0 || report_end(session, nullptr, nullptr) != 0) {
        return {};
    }
    Source source;
    const auto place = reinterpret_cast<Dwarf_Addr>(address);
    if (Dwfl_Module* const module = addrmodule(session, place)) {
        const char* const name = addrname(module, place);
        source.function = name == nullptr ? "" : name;
    }
    Dwfl_Line* const line = getsrc(session, place);
    int number = 0;
    const char* const file = line == nullptr ? nullptr : lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
    if (file != nullptr) {
        source.line = format("%s:%d", std::string(file_name(file)).c_str(), number);
    }
    return source;
}

}  // namespace

std::string describe_place(const void* address) {
    if (address == nullptr) {
        return "an unknown place";
    }
    // The address behind the call may belong to the next line.
    const void* const call = static_cast<const char*>(address) - 1;
    Dl_info info{};
    const bool is_known = ::dladdr(call, &info) != 0;
    const auto& [function, line] = find_source(call);
    std::string name = function;
    if (name.empty() && is_known && info.dli_sname != nullptr) {
        name = info.dli_sname;
    }
    if (!name.empty()) {
        int status = 0;
        char* const readable = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
        name = status == 0 && readable != nullptr ? readable : name;
        std::free(readable);
    }
    if (!name.empty()) {
        return line.empty() ? name : name + " (" + line + ")";
    }
    if (!line.empty()) {
        return line;
    }
    return !is_known || info.dli_fname == nullptr
               ? format("%p", call)
               : format("%s+%#lx", std::string(file_name(info.dli_fname)).c_str(),
                        static_cast<unsigned long>(static_cast<const char*>(call) -
                                                   static_cast<const char*>(info.dli_fbase)));
}

}  // namespace sft
