// A program may use MPI beside OpenSHMEM. The library is not linked with MPI and asks the one that the program brings.
//
// MPI's world is all launched processes, so there can be no spares; and no MPI of today goes on after a death, so
// whoever is inside an MPI call then would stay there: the job ends with one line instead.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace sft {

// An MPI library is loaded. It need not be in use.
[[nodiscard]] bool has_mpi() noexcept;

// Between MPI_Init and MPI_Finalize. Any thread.
[[nodiscard]] bool is_inside_mpi() noexcept;

// False with an error: MPI is in use, and the job has spares.
[[nodiscard]] Result<> check_mpi(std::uint32_t spares);

}  // namespace sft
