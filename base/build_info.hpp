// What this build is: for SHMEM_VERSION, SHMEM_INFO and `shmem-ft info`. Written by Meson (build_info.cpp.in).
#pragma once

#include <span>

namespace sft {

struct BuildFact {
    const char* name;
    const char* value;
};

struct BuildInfo {
    const char* version;
    const char* specification;  // of OpenSHMEM
    const char* compiler;
    std::span<const BuildFact> options;
    std::span<const BuildFact> dependencies;  // the versions that it was built with
    std::span<const BuildFact> fabrics;       // the same, of the modules for several nodes; empty: not built
};

[[nodiscard]] const BuildInfo& build_info() noexcept;

}  // namespace sft
