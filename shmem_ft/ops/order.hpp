// Ordering and completion. Every operation inside a node is a load, a store or an atomic of the calling thread, so it
// is issued when the call returns; what is left is the processor's own freedom to reorder. What goes to other nodes is
// under way longer: the network orders and completes it.
//
// Fault rule: both come back when a fault is pending; what is outstanding to living PEs is done then.
#pragma once

#include <atomic>

#include "base/sanitizers.hpp"
#include "shmem_ft/ops/engine.hpp"

#if SFT_THREAD_SANITIZER && defined(__GNUC__) && !defined(__clang__)
// The sanitizer does not model fences; stores that other PEs wait for are release stores as well, which it knows.
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace sft {

// Of what the processor does: stores before it are seen before stores after it, by any PE of the node; and everything
// before it is visible to all of them.
inline void fence_here() noexcept { std::atomic_thread_fence(std::memory_order_acq_rel); }
inline void quiet_here() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

// Of what the network does, if there is one.
[[gnu::cold]] void fence_elsewhere(Engine& e) noexcept;
[[gnu::cold]] void quiet_elsewhere(Engine& e) noexcept;

inline void fence(Engine& e) noexcept {
    fence_here();
    if (!e.gate.is_plain()) [[unlikely]] {
        fence_elsewhere(e);
    }
}

// Per-PE and per-context forms are the same here.
inline void quiet(Engine& e) noexcept {
    quiet_here();
    if (!e.gate.is_plain()) [[unlikely]] {
        quiet_elsewhere(e);
    }
}

}  // namespace sft
