// What can be reached from here.
#pragma once

#include "shmem_ft/ops/engine.hpp"

namespace sft {

[[nodiscard]] inline bool is_pe(const Engine& e, int pe) noexcept { return pe >= 0 && pe < e.peers.n_pes; }

[[nodiscard]] inline bool pe_accessible(const Engine& e, int pe) noexcept {
    return is_pe(e, pe) && e.peers.is_reachable(PeId(pe));
}

[[nodiscard]] inline bool addr_accessible(const Engine& e, const void* address, int pe) noexcept {
    return e.peers.is_symmetric(address) && pe_accessible(e, pe);
}

// pointer_to() where PEs are to know that somebody has a pointer to their memory.
[[nodiscard]] void* noted_pointer_to(const Engine& e, const void* address, int pe) noexcept;

// shmem_ptr: for loads and stores on another PE's object; null where that is not possible.
[[nodiscard]] inline void* pointer_to(const Engine& e, const void* address, int pe) noexcept {
    if (e.peers.own_notes.is_set()) [[unlikely]] {
        return noted_pointer_to(e, address, pe);
    }
    return addr_accessible(e, address, pe) ? e.peers.locate(address, PeId(pe)) : nullptr;
}

}  // namespace sft
