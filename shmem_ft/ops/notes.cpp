// Notes of what is written to other PEs (transport/shm/change_notes.hpp), where they take more than one call.
#include "shmem_ft/ops/heap_calls.hpp"
#include "shmem_ft/ops/query.hpp"
#include "shmem_ft/ops/rma.hpp"

namespace sft {

void wrote_blocks(Target target, const void* dest, NetBlocks blocks) noexcept {
    const auto* at = static_cast<const unsigned char*>(dest);
    for (std::size_t block = 0; block < blocks.n_blocks; ++block, at += blocks.dest_step) {
        target.wrote(at, blocks.block_bytes);
    }
}

void* noted_pointer_to(const Engine& e, const void* address, int pe) noexcept {
    if (!addr_accessible(e, address, pe)) {
        return nullptr;
    }
    // Each time: another object may be there by now, which a pointer reaches further into.
    e.peers.expose(e.heap->reach_of_pointer(address), PeId(pe));
    return e.peers.locate(address, PeId(pe));
}

}  // namespace sft
