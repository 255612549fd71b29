#include "shmem_ft/start/mpi_beside.hpp"

#include <dlfcn.h>

#include "base/docs.hpp"

namespace sft {
namespace {

// MPI_Initialized and MPI_Finalized, which have one signature in every MPI and may be called at any time by any thread.
bool ask(const char* routine) noexcept {
    int answer = 0;
    auto* const function = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, routine));
    return function != nullptr && function(&answer) == 0 && answer != 0;
}

}  // namespace

bool has_mpi() noexcept { return ::dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr; }

bool is_inside_mpi() noexcept { return ask("MPI_Initialized") && !ask("MPI_Finalized"); }

Result<> check_mpi(std::uint32_t spares) {
    if (spares == 0 || !is_inside_mpi()) {
        return {};
    }
    return fails(with_doc_paths(
        "this program has called MPI_Init, and MPI would count the spares and wait for them: start the job without "
        "spares (docs/launchers.md)"));
}

}  // namespace sft
