#include "shmem_ft/transport/shm/channels.hpp"

namespace sft {

bool Channels::wait_for_room(Pair& pair) noexcept {
    const auto has_room = [&] {
        pair.peer_consumed = pair.outgoing->consumed.load(std::memory_order_acquire);
        return pair.sent - pair.peer_consumed < kChannelDepth;
    };
    return waiter_->block_until(has_room);
}

}  // namespace sft
