// Ordering and completion. Every operation of this transport is a load, a store or an atomic of the calling thread,
// so it is issued when the call returns; what is left is the processor's own freedom to reorder.
#pragma once

#include <atomic>

#include "shmem_ft/ops/engine.hpp"

#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && !defined(__clang__)
// The sanitizer does not model fences; stores that other PEs wait for are release stores as well, which it knows.
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace sft {

// Stores before it are seen before stores after it, by any PE.
inline void fence() noexcept { std::atomic_thread_fence(std::memory_order_acq_rel); }

// Everything before it is visible to all PEs. Per-PE and per-context forms are the same here.
inline void quiet() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

}  // namespace sft
