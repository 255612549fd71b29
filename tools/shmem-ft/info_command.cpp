// shmem-ft info: what a report about a problem needs to say of the library, the system and the settings.

#include <fmt/format.h>
#include <sys/personality.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/build_info.hpp"
#include "base/config.hpp"
#include "tools/common/exit_codes.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "transport/net/signed_ways.hpp"

namespace sft::tools {
namespace {

std::string find_in_path(const char* name) {
    const char* variable = std::getenv("PATH");
    std::string_view rest = variable == nullptr ? "" : variable;
    while (!rest.empty()) {
        const std::size_t colon = std::min(rest.find(':'), rest.size());
        const std::string candidate = fmt::format("{}/{}", rest.substr(0, colon), name);
        if (access(candidate.c_str(), X_OK) == 0) {
            return candidate;
        }
        rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return {};
}

// In some containers the system call is forbidden; programs that are not linked with -no-pie then have to be.
bool can_switch_randomisation_off() {
    const int persona = personality(0xffffffff);
    if (persona == -1 || personality(static_cast<unsigned long>(persona) | ADDR_NO_RANDOMIZE) == -1) {
        return false;
    }
    personality(static_cast<unsigned long>(persona));
    return true;
}

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Ordered as it is printed.
using Json = nlohmann::ordered_json;

constexpr BuildFact kTransports[] = {
    {"shm", "puts, gets, atomics and collectives: memory that the processes of the node map"},
    {"mail", "control messages: sockets between the processes of the node, TCP to those of others"},
};

Json as_object(std::span<const BuildFact> facts) {
    Json object = Json::object();
    for (const BuildFact& fact : facts) {
        object[fact.name] = fact.value;
    }
    return object;
}

// With the modules for several nodes that were built.
Json describe_transports() {
    Json object = as_object(kTransports);
    for (const BuildFact& fabric : build_info().fabrics) {
        if (*fabric.value != '\0') {
            object[fabric.name] =
                fmt::format("data between nodes: {} {}", std::string_view(fabric.name) == "ofi" ? "libfabric" : "UCX",
                            fabric.value);
        }
    }
    return object;
}

Json describe_system() {
    utsname system{};
    uname(&system);
    struct sysinfo memory {};
    sysinfo(&memory);
    std::string launcher = find_in_path("mpirun.openmpi");
    launcher = launcher.empty() ? find_in_path("mpirun") : launcher;
    Json object;
    object["tools"] = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
    object["launcher"] = launcher.empty() ? Json(nullptr) : Json(launcher);
    object["kernel"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
    object["cores"] = std::thread::hardware_concurrency();
    object["memory_bytes"] = std::uint64_t{memory.totalram} * memory.mem_unit;
    object["swap_bytes"] = std::uint64_t{memory.totalswap} * memory.mem_unit;
    object["can_switch_randomisation_off"] = can_switch_randomisation_off();
    return object;
}

// Who can connect to a job on several nodes, and what to set where users share these.
Json describe_guard(const Config& config) {
    Json object;
    switch (config.port_guard) {
        case PortGuard::none: object["ports"] = "everybody can connect to those of a job on several nodes"; break;
        case PortGuard::nodes:
            object["ports"] = "programs on the nodes of the job can connect, of other users as well; no other host can";
            break;
        case PortGuard::signatures: object["ports"] = "only who knows the secret of the job can connect"; break;
    }
    const bool is_possible = can_sign();
    if (config.port_guard == PortGuard::signatures) {
        object["shared nodes"] =
            is_possible ? "safe: connections are signed" : "this kernel cannot sign: jobs will not start";
    } else {
        object["shared nodes"] =
            is_possible ? "set SHMEM_FT_GUARD_PORTS=sign if a user of the nodes is not to be trusted"
                        : "this kernel cannot sign connections: keep users who are not to be trusted off the nodes";
    }
    return object;
}

Json describe_setting(const SettingInfo& setting, const Config& config) {
    const char* const variable = setting_origin(setting);
    Json object;
    object["name"] = setting.name;
    object["value"] = setting_value(setting, config);
    object["origin"] = variable == nullptr ? "default" : "environment";
    object["variable"] = variable == nullptr ? Json(nullptr) : Json(variable);
    object["default"] = setting.default_value;
    object["accepted"] = setting.range;
    object["unit"] = setting.unit;
    object["set_by_oshrun"] = setting.is_internal;
    return object;
}

Json describe_all(const Config& config) {
    const BuildInfo& build = build_info();
    Json object;
    object["version"] = build.version;
    object["specification"] = build.specification;
    object["build"] = {{"compiler", build.compiler},
                       {"options", as_object(build.options)},
                       {"dependencies", as_object(build.dependencies)}};
    object["transports"] = describe_transports();
    object["security"] = describe_guard(config);
    object["system"] = describe_system();
    object["settings"] = Json::array();
    for (const SettingInfo& setting : settings()) {
        object["settings"].push_back(describe_setting(setting, config));
    }
    return object;
}

void print_facts(const char* title, const Json& facts) {
    fmt::print("{}\n", title);
    for (const auto& [name, value] : facts.items()) {
        fmt::print("  {:<14}{}\n", name, value.get<std::string>());
    }
}

void print_system(const Json& system) {
    fmt::print("system\n");
    fmt::print("  {:<14}{}\n", "tools", system["tools"].get<std::string>());
    fmt::print("  {:<14}{}\n", "launcher",
               system["launcher"].is_null() ? "none (install the package openmpi-bin)"
                                            : system["launcher"].get<std::string>());
    fmt::print("  {:<14}{}\n", "kernel", system["kernel"].get<std::string>());
    fmt::print("  {:<14}{}\n", "cores", system["cores"].get<unsigned>());
    fmt::print("  {:<14}{:.1f} GiB and {:.1f} GiB swap\n", "memory",
               static_cast<double>(system["memory_bytes"].get<std::uint64_t>()) / kGiB,
               static_cast<double>(system["swap_bytes"].get<std::uint64_t>()) / kGiB);
    fmt::print("  {:<14}{}\n", "addresses",
               system["can_switch_randomisation_off"].get<bool>()
                   ? "their randomisation can be switched off for a job"
                   : "their randomisation cannot be switched off here: link programs with -no-pie, as oshcc does");
}

void print_settings(const Json& settings) {
    fmt::print("settings\n");
    for (const Json& setting : settings) {
        const auto value = setting["value"].get<std::string>();
        const std::string origin =
            setting["variable"].is_null() ? "default" : "environment: " + setting["variable"].get<std::string>();
        fmt::print("  {} = {} ({})\n", setting["name"].get<std::string>(), value.empty() ? "(none)" : value, origin);
    }
}

}  // namespace

int run_info(const InfoCommand& command) {
    Config config;
    if (const Result<> loaded = load_config(config); !loaded) {
        print_line("shmem-ft: error: " + loaded.error().line);
        return kExitUsage;
    }
    const Json all = describe_all(config);
    if (command.as_json) {
        fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
        return 0;
    }
    fmt::print("shmem-ft {}, OpenSHMEM {}\n", all["version"].get<std::string>(),
               all["specification"].get<std::string>());
    fmt::print("compiler        {}\n", all["build"]["compiler"].get<std::string>());
    print_facts("build", all["build"]["options"]);
    print_facts("built with", all["build"]["dependencies"]);
    print_facts("transports", all["transports"]);
    print_facts("security", all["security"]);
    print_system(all["system"]);
    print_settings(all["settings"]);
    return 0;
}

}  // namespace sft::tools
