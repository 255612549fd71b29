#include "transport/shm/peer_table.hpp"

#include "base/report.hpp"

namespace sft {

void PeerTable::not_symmetric(const void* address, PeId pe) const noexcept {
    SFT_ASSERT(!is_symmetric(address) && entries != nullptr && n_pes > 0);
    for (std::int32_t other = 0; other < n_pes; ++other) {
        if (!is_reachable(PeId(other))) {
            return;
        }
    }
    const char* hint = globals.bytes == 0 ? ", which are private in this program (SHMEM_FT_GLOBALS)" : "";
    die("PE %d: address %p (target PE %d) is not symmetric: it lies neither in the symmetric heap nor in the globals "
        "of the executable%s",
        me.value(), address, pe.value(), hint);
}

void PeerTable::note(const void* address, PeId pe, std::size_t bytes) const noexcept {
    const std::intptr_t difference = entries[pe.index()].heap_difference.load(std::memory_order_relaxed);
    if (difference > kRemote && difference != 0) {
        notes.wrote(difference, address, bytes);
    }
}

void PeerTable::expose(const AddressRange& object, PeId pe) const noexcept {
    const std::intptr_t difference = entries[pe.index()].heap_difference.load(std::memory_order_relaxed);
    if (difference > kRemote && difference != 0) {
        own_notes.expose(difference, reinterpret_cast<const void*>(object.begin), object.bytes);
    }
}

}  // namespace sft
