#include "tools/oshrun/launcher_door.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace sft::tools {
namespace {

constexpr const char* kModuleName = "launcher_door.so";
constexpr const char* kFolderInBuild = "tools/launcher_door";

}  // namespace

std::string interface_setting_for(const std::string& address) {
    // Of the other protocol version Open MPI 4 understands names only, which differ from host to host.
    const bool is_v4 = !address.empty() && address.find(':') == std::string::npos;
    return is_v4 ? address + "/32" : "";
}

std::string door_module() {
    std::error_code ignored;
    const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", ignored);
    for (std::filesystem::path folder = own.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
        for (const char* below : {SFT_FABRIC_FOLDER, kFolderInBuild}) {
            const std::filesystem::path module = folder / below / kModuleName;
            if (access(module.c_str(), R_OK) == 0) {
                return module.string();
            }
        }
    }
    return {};
}

void put_door(const LauncherDoor& door) {
    const char* before = std::getenv("LD_PRELOAD");
    std::string modules = door.module;
    if (before != nullptr) {
        setenv(kPreloadBeforeVariable, before, 1);
        modules.append(":").append(before);
    }
    setenv("LD_PRELOAD", modules.c_str(), 1);
    setenv(kDoorVariable, door.address.c_str(), 1);
}

}  // namespace sft::tools
