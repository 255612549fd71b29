// Locks in the user's symmetric long: a ticket lock on the instance of one PE, the lock's home.
//
// The whole state is in symmetric memory, so a rollback restores it. First come, first served. Several threads of a PE
// may wait for one lock, which is why waiters do not queue up in their PEs' instances; where the home is on another
// node they ask for its state again and again, the less often the further back they stand.
// Fault rule: set_lock returns without the lock when a fault is pending; what is done in the critical section is then
// taken back by the rollback, as is the ticket.
#pragma once

#include "shmem_ft/ops/engine.hpp"

namespace sft {

void set_lock(Engine& e, long* lock) noexcept;
// True if the lock has been acquired.
[[nodiscard]] bool try_lock(Engine& e, long* lock) noexcept;
void clear_lock(Engine& e, long* lock) noexcept;

}  // namespace sft
