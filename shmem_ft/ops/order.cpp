#include "shmem_ft/ops/order.hpp"

#include "shmem_ft/ops/p2p.hpp"
#include "transport/net/network.hpp"

namespace sft {

void fence_elsewhere(Engine& e) noexcept {
    if (e.network != nullptr) {
        e.network->fence();
    }
}

void quiet_elsewhere(Engine& e) noexcept {
    if (e.network != nullptr) {
        e.network->quiet();
    }
}

int after_failed_test_elsewhere(Engine& e) noexcept {
    if (e.network != nullptr) {
        e.network->poll();
    }
    return e.gate.is_pending() ? 1 : 0;
}

}  // namespace sft
