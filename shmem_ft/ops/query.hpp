// What can be reached from here.
#pragma once

#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/heap_calls.hpp"

namespace sft {

[[nodiscard]] inline bool is_pe(const Engine& e, int pe) noexcept { return pe >= 0 && pe < e.peers.n_pes; }

[[nodiscard]] inline bool pe_accessible(const Engine& e, int pe) noexcept {
    return is_pe(e, pe) && e.peers.is_reachable(PeId(pe));
}

[[nodiscard]] inline bool addr_accessible(const Engine& e, const void* address, int pe) noexcept {
    return e.peers.is_symmetric(address) && pe_accessible(e, pe);
}

// shmem_ptr: for loads and stores on another PE's object; null where that is not possible.
[[nodiscard]] inline void* pointer_to(const Engine& e, const void* address, int pe) noexcept {
    if (!addr_accessible(e, address, pe)) {
        return nullptr;
    }
    void* const pointer = e.peers.locate(address, PeId(pe));
    if (pointer != nullptr && e.peers.notes.is_set() && !e.peers.is_exposed(address, PeId(pe))) {
        e.peers.expose(e.heap->reach_of_pointer(address), PeId(pe));
    }
    return pointer;
}

}  // namespace sft
