#include "tools/oshrun/job_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

#include "tools/oshrun/agent_wire.hpp"

namespace sft::tools {
namespace {

std::string value_of(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "" : value;
}

// Of Open MPI and PRRTE those that say where a process is in its job; other settings of theirs (OMPI_MCA_btl, say) are
// the user's. Their launchers refuse to start, or look for the surrounding job's daemon, when they find these.
bool is_of_launcher(std::string_view name) {
    constexpr std::array<std::string_view, 13> kPrefixes = {
        "PMIX_",        "PRTE_",          "OMPI_COMM_WORLD_",  "OMPI_APP_CTX_", "OMPI_FILE_LOCATION",
        "OMPI_COMMAND", "OMPI_ARGV",      "OMPI_FIRST_RANKS",  "OMPI_NUM_APP_", "OMPI_UNIVERSE_SIZE",
        "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_initial_w"};
    constexpr std::array<std::string_view, 5> kNames = {"OMPI_MCA_pmix", "OMPI_MCA_mpi_oversubscribe",
                                                        "OMPI_MCA_rmaps_base_oversubscribe",
                                                        "OMPI_MCA_hwloc_base_binding_policy",
                                                        "OMPI_MCA_shmem_RUNTIME_QUERY_hint"};
    // Settings of the user's that only look like them.
    constexpr std::array<std::string_view, 2> kKept = {"PMIX_MCA_", "OMPI_MCA_orte_default_hostfile"};
    const auto begins = [name](std::string_view prefix) { return name.starts_with(prefix); };
    return std::none_of(kKept.begin(), kKept.end(), begins) &&
           (std::any_of(kPrefixes.begin(), kPrefixes.end(), begins) ||
            std::find(kNames.begin(), kNames.end(), name) != kNames.end());
}

}  // namespace

void set_for_job(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    const std::string before = value_of(kSetForJobVariable);
    setenv(kSetForJobVariable, (before + (before.empty() ? "" : " ") + name + "=" + value).c_str(), 1);
}

void leave_surrounding_job() {
    std::istringstream pairs(value_of(kSetForJobVariable));
    std::string pair;
    while (pairs >> pair) {
        const std::size_t equals = pair.find('=');
        const std::string name = pair.substr(0, equals);
        if (equals != std::string::npos && value_of(name) == pair.substr(equals + 1)) {
            unsetenv(name.c_str());
        }
    }
    unsetenv(kSetForJobVariable);
    // These mean one job whoever has set them.
    for (const char* name : {"SHMEM_FT_JOB_SOCKET", "SHMEM_FT_JOIN", "SHMEM_FT_ON_DEMAND", "OSHRUN_MEMBER",
                             "OSHRUN_LAUNCHED", kGuardianVariable}) {
        unsetenv(name);
    }
    if (std::getenv("PMIX_RANK") == nullptr) {
        return;
    }
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string name(*entry, std::strcspn(*entry, "="));
        if (is_of_launcher(name)) {
            names.push_back(name);
        }
    }
    for (const std::string& name : names) {
        unsetenv(name.c_str());
    }
}

}  // namespace sft::tools
