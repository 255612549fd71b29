// Where Open MPI's launcher and its daemons listen: at one address of their host instead of all, by a module that is
// loaded into them (tools/launcher_door).
#pragma once

#include <string>
#include <string_view>

namespace sft::tools {

// For the module. It takes them out of the environment, and puts LD_PRELOAD back.
inline constexpr const char* kDoorVariable = "OSHRUN_DOOR";  // an address in digits
inline constexpr const char* kPreloadBeforeVariable =
    "OSHRUN_PRELOAD_BEFORE";  // LD_PRELOAD as it was; unset: it was not set

// A setting for the launcher that its daemons get on their command lines as well: its door's address.
inline constexpr const char* kDoorSetting = "oshrun_door";

// Open MPI's settings that name interfaces, and what stands in the first one for the interface of that address alone.
// Empty: there is nothing that could stand there.
inline constexpr const char* kInterfaceSetting = "oob_tcp_if_include";
inline constexpr std::string_view kInterfaceSettings = "oob_tcp_if_";
[[nodiscard]] std::string interface_setting_for(const std::string& address);

// The module, which lies where this program is or where it is installed; empty: it is missing.
[[nodiscard]] std::string door_module();

// For the program that this process becomes.
struct LauncherDoor {
    std::string module;
    std::string address;
};
void put_door(const LauncherDoor& door);

}  // namespace sft::tools
