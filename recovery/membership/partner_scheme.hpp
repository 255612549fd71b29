// The schemes of today (scheme.hpp), by SHMEM_FT_BACKUP_MODE.
#pragma once

namespace sft {

class Scheme;

// single, double: one partner, the keeper, has a copy of the state of each PE, its shadow. Who that is says
// placement.hpp; for an only PE it is the witness, a spare that takes part in the agreement. A PE and its keeper that
// die before the copy exists elsewhere are lost, unless their node has it (memory_holder.hpp).
[[nodiscard]] const Scheme& one_partner() noexcept;
// none: nobody keeps anything, and no PE can be brought back. An only PE has its witness all the same, which says how
// the job has ended.
[[nodiscard]] const Scheme& no_copies() noexcept;

}  // namespace sft
