// shmem-ft info: what a report about a problem needs to say of the system.

#include <fmt/format.h>
#include <sys/personality.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "shmem_ft/base/config.hpp"
#include "tools/common/version.hpp"
#include "tools/shmem-ft/commands.hpp"

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

}  // namespace

int run_info() {
    constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
    utsname system{};
    uname(&system);
    struct sysinfo memory {};
    sysinfo(&memory);
    std::string launcher = find_in_path("mpirun.openmpi");
    launcher = launcher.empty() ? find_in_path("mpirun") : launcher;

    fmt::print("shmem-ft {}\n", kVersion);
    fmt::print("tools         {}\n", std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
    fmt::print("launcher      {}\n", launcher.empty() ? "none (install the package openmpi-bin)" : launcher);
    fmt::print("kernel        {} {} {}\n", system.sysname, system.release, system.machine);
    fmt::print("cores         {}\n", std::thread::hardware_concurrency());
    fmt::print("memory        {:.1f} GiB and {:.1f} GiB swap\n",
               static_cast<double>(memory.totalram) * memory.mem_unit / kGiB,
               static_cast<double>(memory.totalswap) * memory.mem_unit / kGiB);
    fmt::print("randomisation of addresses {}\n", can_switch_randomisation_off()
                                                      ? "can be switched off for a job"
                                                      : "cannot be switched off here: link programs with -no-pie, as "
                                                        "oshcc does");
    return 0;
}

}  // namespace sft::tools
