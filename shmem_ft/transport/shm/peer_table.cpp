#include "shmem_ft/transport/shm/peer_table.hpp"

#include "shmem_ft/base/report.hpp"

namespace sft {

PeId PeerTable::unreachable() const noexcept {
    for (std::int32_t pe = 0; pe < n_pes; ++pe) {
        if (!is_reachable(PeId(pe))) {
            return PeId(pe);
        }
    }
    return kNoPe;
}

void* PeerTable::not_symmetric(const void* address, PeId pe) const noexcept {
    if (unreachable() != kNoPe) {
        return nullptr;
    }
    die("PE %d: address %p (target PE %d) is not symmetric: it lies neither in the symmetric heap nor in the globals "
        "of the executable",
        me.value(), address, pe.value());
}

}  // namespace sft
