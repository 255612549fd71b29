// Finds and loads the modules of fabrics. A job on one node never comes here, so it needs neither UCX nor libfabric.
//
// A module is never unloaded: the libraries below it leave threads and exit handlers behind.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/instruments.hpp"
#include "transport/net/environment_defaults.hpp"
#include "transport/net/fabric_build.hpp"
#include "transport/net/fabric_module.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

// UCX reads these while it is loaded, before any function of it can be called. It shall not catch the program's
// signals, change its malloc and mmap, or start a thread that watches a file system; and when a peer dies, that is this
// library's business to report.
constexpr std::array<EnvironmentDefault, 8> kUcxDefaults{{
    {"UCX_HANDLE_ERRORS=none"},
    {"UCX_ERROR_SIGNALS="},
    {"UCX_DEBUG_SIGNO=0"},
    {"UCX_LOG_LEVEL=fatal"},
    {"UCX_MEM_EVENTS=n"},
    {"UCX_MEMTYPE_CACHE=n"},
    {"UCX_VFS_ENABLE=n"},
    {"UCX_WARN_UNUSED_ENV_VARS=n"},
}};

// A driver below libfabric (psm) catches signals as soon as it is loaded, on machines without its hardware too.
constexpr std::array<EnvironmentDefault, 1> kOfiDefaults{{
    {"IPATH_NO_BACKTRACE=1"},
}};

struct Provider {
    std::string_view name;
    const char* build_package;
    const char* package;
    std::span<const EnvironmentDefault> defaults;
};

constexpr std::array<Provider, 2> kProviders{{
    {"ucx", "libucx-dev", "libucx0", kUcxDefaults},
    {"ofi", "libfabric-dev", "libfabric1", kOfiDefaults},
}};

bool is_built(std::string_view name) {
    const std::string names = std::string(", ") + kFabricNames + ",";
    return names.find(" " + std::string(name) + ",") != std::string::npos;
}

std::string folder_of(std::string path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Of the file that this code is in: the shared library, or a program that is linked statically.
std::string own_folder() {
    Dl_info info{};
    void* entry = nullptr;
    std::string file = "/proc/self/exe";  // what the loader says of the program itself is only how it was called
    if (::dladdr1(reinterpret_cast<const void*>(&fabric_names), &info, &entry, RTLD_DL_LINKMAP) != 0 &&
        entry != nullptr) {
        const char* name = static_cast<const link_map*>(entry)->l_name;
        file = name != nullptr && *name != '\0' ? name : file;
    }
    char path[PATH_MAX];
    return ::realpath(file.c_str(), path) != nullptr ? folder_of(path) : ".";
}

std::vector<std::string> files_of(const Provider& provider) {
    const std::string name(provider.name);
    const std::string file = "/transport_" + name + ".so";
    std::string folder = own_folder();
    std::vector<std::string> files{folder + "/shmem-ft" + file};
    // In a build tree: the library is at its root, tests are up to three folders further down.
    for (int depth = 0; depth <= 3 && !folder.empty(); ++depth, folder = folder_of(folder)) {
        files.push_back(folder + "/transport/" + name + file);
    }
    files.push_back(kFabricFolder + file);
    return files;
}

Result<std::unique_ptr<Fabric>> load(const Provider& provider, const std::string& file) {
    void* module = nullptr;
    const OthersLeaks leaks;
    {
        const EnvironmentDefaults defaults(provider.defaults);
        module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    if (module == nullptr) {
        const char* reason = ::dlerror();
        return fails(file + " does not load: " + (reason != nullptr ? reason : "no reason given") + " (package " +
                     provider.package + ")");
    }
    const auto* layout = static_cast<const int*>(::dlsym(module, "sft_fabric_layout"));
    const auto make = reinterpret_cast<decltype(&sft_make_fabric)>(::dlsym(module, "sft_make_fabric"));
    if (layout == nullptr || make == nullptr || *layout != kFabricLayout) {
        return fails(file + " belongs to another build of shmem-ft: install the library and its modules together");
    }
    std::unique_ptr<Fabric> fabric(make());
    SFT_ASSERT(fabric != nullptr);
    return fabric;
}

Result<std::unique_ptr<Fabric>> load(const Provider& provider) {
    const std::string name(provider.name);
    if (!is_built(name)) {
        return fails("this library was built without " + name + " (package " + provider.build_package + ")");
    }
    const std::vector<std::string> files = files_of(provider);
    for (const std::string& file : files) {
        if (::access(file.c_str(), R_OK) == 0) {
            return load(provider, file);
        }
    }
    return fails("transport_" + name + ".so is neither in " + folder_of(files.front()) + " nor in " + kFabricFolder +
                 ": install the modules with the library");
}

}  // namespace

std::string fabric_names() { return kFabricNames; }

Result<std::unique_ptr<Fabric>> make_fabric(const std::string& name) {
    std::string reasons;
    for (const Provider& provider : kProviders) {
        if (name != "auto" && name != provider.name) {
            continue;
        }
        Result<std::unique_ptr<Fabric>> fabric = load(provider);
        if (fabric) {
            return fabric;
        }
        reasons += (reasons.empty() ? "" : "; ") + fabric.error().line;
    }
    return fails(reasons.empty() ? "there is no fabric called '" + name + "' (auto, ucx, ofi)" : reasons);
}

}  // namespace sft
