// The schemes of today (scheme.hpp), by SHMEM_FT_BACKUP_MODE.
#pragma once

#include <cstdint>

namespace sft {

class Scheme;

// single, double, replica:n: n partners, the keepers, have a copy each of the state of each PE, its shadows; as many as
// there are nodes for them. Who they are says placement.hpp; for an only PE it is the witness, a spare that takes part
// in the agreement, or where its node has copies the PE itself. A PE and all its keepers that die before a copy exists
// elsewhere are lost, unless their node has it (memory_holder.hpp). n: from 1 to kPartnersMax (base/config.hpp).
[[nodiscard]] const Scheme& partners(std::int32_t n) noexcept;
[[nodiscard]] const Scheme& one_partner() noexcept;
// none: nobody keeps anything, and no PE can be brought back. An only PE has its witness all the same, which says how
// the job has ended.
[[nodiscard]] const Scheme& no_copies() noexcept;

}  // namespace sft
