// Collective operations over a strided group of PEs: the world, a team, or an active set.
//
// All of them are made of channel messages (order and completion) and direct stores into the mapped memory of the
// others (data). Who may touch what, and when:
//  1. A PE that has entered may write the destination of any member: the interface makes the caller promise that all
//     destinations are ready. So data is pushed, and one message behind it tells the receiver that it is there.
//  2. A source of another PE may be read only after a message from that PE, which shows that it has entered; and that
//     PE may return only after a message which shows that the reading is over.
//  3. In place (reductions, scans): a destination is a source as well, so rule 2 holds for writing it, too.
//
// In a group that spans nodes (nodes.hpp) data goes to other nodes by puts that the message behind them does not
// overtake; a routine returns when they are done, because the source may be changed then.
//
// On one node no routine allocates. At most three messages of a pair are under way in any of them, fewer than a channel
// holds, so nobody waits for room unless it is several operations ahead.
//
// Fault rule: false when a fault is pending, at entry or while waiting; the contents of destinations are then
// undefined until the rollback. All members call. Groups with different lanes may be in use by different threads of a
// PE at once; a lane serves one thread at a time, so a PE calls them from one thread at a time for the same team, and
// for all active sets.
#pragma once

#include <cstddef>

#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/rma.hpp"

namespace sft {

// Everybody has arrived.
[[nodiscard]] bool sync(Engine& e, const PeGroup& group) noexcept;

// The same after a quiet of the default context.
bool barrier(Engine& e, const PeGroup& group) noexcept;

inline PeGroup world(const Engine& e) noexcept {
    return {0, 1, e.peers.n_pes, e.peers.me.value(), lane_of(kTeamWorld)};
}

// The team form writes the destination of the root, too; the active-set form leaves it alone.
enum class RootDest { written, untouched };
struct BroadcastRoot {
    std::int32_t index;
    RootDest dest;
};
[[nodiscard]] bool broadcast(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes,
                             BroadcastRoot root) noexcept;

// Concatenation in the order of the group: the same number of bytes from all, or any number from each.
[[nodiscard]] bool fcollect(Engine& e, const PeGroup& group, void* dest, const void* source,
                            std::size_t bytes) noexcept;
[[nodiscard]] bool collect(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes) noexcept;

// Block l of member k becomes block k of member l.
[[nodiscard]] bool alltoall(Engine& e, const PeGroup& group, void* dest, const void* source,
                            std::size_t block_bytes) noexcept;

// The same with gaps between elements.
struct StridedBlock {
    std::size_t nelems;
    Strides strides;            // in elements
    std::size_t element_bytes;  // 1, 2, 4, 8 or 16
};
[[nodiscard]] bool alltoalls(Engine& e, const PeGroup& group, void* dest, const void* source,
                             StridedBlock block) noexcept;

}  // namespace sft
