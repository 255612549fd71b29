#include "shmem_ft/transport/shm/peer_table.hpp"

#include "shmem_ft/base/report.hpp"

namespace sft {

void PeerTable::report_not_symmetric(const void* address, PeId pe) const noexcept {
    die("PE %d: address %p (target PE %d) is not symmetric: it lies neither in the symmetric heap nor in the globals "
        "of the executable",
        me.value(), address, pe.value());
}

}  // namespace sft
