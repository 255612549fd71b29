#include "shmem_ft/ops/collectives.hpp"

#include <cstdint>
#include <cstring>

#include "shmem_ft/ops/order.hpp"

namespace sft {
namespace {

// The k-th member after (before) this one, going round.
PeId member_after(const PeGroup& group, std::int32_t k) noexcept {
    const std::int32_t index = group.me + k;
    return group.pe(index < group.size ? index : index - group.size);
}

std::int32_t index_before(const PeGroup& group, std::int32_t k) noexcept {
    const std::int32_t index = group.me - k;
    return index < 0 ? index + group.size : index;
}

// Copies to another member. Nothing happens if it is unreachable: the fault shows in the message that follows.
void push(Engine& e, PeId pe, void* dest, const void* source, std::size_t bytes) noexcept {
    if (void* const remote = e.peers.locate(dest, pe)) [[likely]] {
        e.copy(remote, source, bytes);
    }
}

void copy_own(Engine& e, void* dest, const void* source, std::size_t bytes) noexcept {
    if (dest != source) {
        e.copy(dest, source, bytes);
    }
}

unsigned char* at(void* base, std::size_t offset) noexcept { return static_cast<unsigned char*>(base) + offset; }
const unsigned char* at(const void* base, std::size_t offset) noexcept {
    return static_cast<const unsigned char*>(base) + offset;
}

void copy_elements(void* dest, const void* source, const StridedBlock& block) noexcept {
    switch (block.element_bytes) {
        case 1: return copy_strided<1>(dest, source, block.strides, block.nelems);
        case 2: return copy_strided<2>(dest, source, block.strides, block.nelems);
        case 4: return copy_strided<4>(dest, source, block.strides, block.nelems);
        case 8: return copy_strided<8>(dest, source, block.strides, block.nelems);
        default: return copy_strided<16>(dest, source, block.strides, block.nelems);
    }
}

// A binomial tree below the root. Data that fits a message travels in it; larger data is pushed into the destination
// of the child, which passes it on from there.
class BroadcastTree {
public:
    BroadcastTree(Engine& e, const PeGroup& group, std::int32_t root) noexcept
        : engine_(e),
          group_(group),
          lane_(e.channels.lane(group.lane)),
          root_(root),
          rank_(group.me - root + (group.me < root ? group.size : 0)) {}

    [[nodiscard]] bool is_root() const noexcept { return rank_ == 0; }

    // payload: filled by the parent, then handed to the children.
    [[nodiscard]] bool pass_message(void* payload, std::size_t bytes) const noexcept {
        std::int32_t step = first_step();
        if (!is_root() && !lane_.recv(pe_of_rank(rank_ - step), payload, bytes)) {
            return false;
        }
        for (step /= 2; step > 0; step /= 2) {
            if (rank_ + step < group_.size && !lane_.send(pe_of_rank(rank_ + step), payload, bytes)) {
                return false;
            }
        }
        return true;
    }

    // data: the root's source, or the own destination.
    [[nodiscard]] bool pass_memory(void* dest, const void* data, std::size_t bytes) const noexcept {
        std::int32_t step = first_step();
        if (!is_root() && !lane_.await(pe_of_rank(rank_ - step))) {
            return false;
        }
        for (step /= 2; step > 0; step /= 2) {
            if (rank_ + step < group_.size) {
                const PeId child = pe_of_rank(rank_ + step);
                push(engine_, child, dest, data, bytes);
                if (!lane_.notify(child)) {
                    return false;
                }
            }
        }
        return true;
    }

private:
    // The lowest set bit of the rank, which is the distance to the parent; for the root a power of two >= size.
    [[nodiscard]] std::int32_t first_step() const noexcept {
        std::int32_t step = 1;
        while (step < group_.size && (rank_ & step) == 0) {
            step *= 2;
        }
        return step;
    }

    [[nodiscard]] PeId pe_of_rank(std::int32_t rank) const noexcept {
        const std::int32_t index = rank + root_;
        return group_.pe(index < group_.size ? index : index - group_.size);
    }

    Engine& engine_;
    const PeGroup& group_;
    const Channels::Lane lane_;
    std::int32_t root_;
    std::int32_t rank_;
};

// Every member gives every other one block: send(k, pe) for the k-th member after this one, then receive(index).
template <class Send, class Receive>
bool exchange(const PeGroup& group, Send&& send, Receive&& receive) noexcept {
    for (std::int32_t k = 1; k < group.size; ++k) {
        if (!send(k, member_after(group, k))) {
            return false;
        }
    }
    for (std::int32_t k = 1; k < group.size; ++k) {
        if (!receive(index_before(group, k))) {
            return false;
        }
    }
    return true;
}

// In every other barrier a member has to run several times before all can leave it. Out of line: sync() is shorter
// without it.
[[gnu::noinline]] bool sync_crowd(Engine& e, const PeGroup& group) noexcept {
    const Channels::Lane lane = e.channels.lane(group.lane);
    return lane.meet({group.pe(0), static_cast<std::uint32_t>(group.size)}, [&](auto&& ring) {
        for (std::int32_t k = 1; k < group.size; ++k) {
            ring(member_after(group, k));
        }
    });
}

}  // namespace

// Dissemination: after round r everybody has heard, directly or not, of 2^(r+1) members.
bool sync(Engine& e, const PeGroup& group) noexcept {
    if (e.waiter.fault_pending()) [[unlikely]] {
        return false;
    }
    if (e.waiter.is_crowded() && group.size > 2 && group.lane != kLaneOfActiveSets) [[unlikely]] {
        return sync_crowd(e, group);
    }
    const Channels::Lane lane = e.channels.lane(group.lane);
    for (std::int32_t distance = 1; distance < group.size; distance *= 2) {
        if (!lane.notify(member_after(group, distance)) || !lane.await(group.pe(index_before(group, distance)))) {
            return false;
        }
    }
    return true;
}

bool barrier(Engine& e, const PeGroup& group) noexcept {
    quiet();
    return sync(e, group);
}

bool broadcast(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes,
               BroadcastRoot root) noexcept {
    if (e.waiter.fault_pending()) [[unlikely]] {
        return false;
    }
    if (bytes == 0) {
        return true;
    }
    const BroadcastTree tree(e, group, root.index);
    const bool is_written = !tree.is_root() || root.dest == RootDest::written;
    if (bytes <= kChannelPayloadBytes) {
        alignas(16) unsigned char payload[kChannelPayloadBytes];
        if (tree.is_root()) {
            std::memcpy(payload, source, bytes);
        }
        const bool ok = tree.pass_message(payload, bytes);
        if (ok && is_written) {
            std::memcpy(dest, payload, bytes);
        }
        return ok;
    }
    if (tree.is_root() && is_written) {
        copy_own(e, dest, source, bytes);
    }
    return tree.pass_memory(dest, tree.is_root() ? source : dest, bytes);
}

bool fcollect(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes) noexcept {
    if (e.waiter.fault_pending()) [[unlikely]] {
        return false;
    }
    if (bytes == 0) {
        return true;
    }
    const Channels::Lane lane = e.channels.lane(group.lane);
    const auto place_of = [&](std::int32_t index) { return at(dest, static_cast<std::size_t>(index) * bytes); };
    copy_own(e, place_of(group.me), source, bytes);
    if (bytes <= kChannelPayloadBytes) {
        return exchange(
            group, [&](std::int32_t, PeId pe) { return lane.send(pe, source, bytes); },
            [&](std::int32_t index) { return lane.recv(group.pe(index), place_of(index), bytes); });
    }
    return exchange(
        group,
        [&](std::int32_t, PeId pe) {
            push(e, pe, place_of(group.me), source, bytes);
            return lane.notify(pe);
        },
        [&](std::int32_t index) { return lane.await(group.pe(index)); });
}

bool collect(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes) noexcept {
    if (e.waiter.fault_pending()) [[unlikely]] {
        return false;
    }
    const Channels::Lane lane = e.channels.lane(group.lane);
    // First everybody tells its size, so that each knows where its part begins.
    std::uint64_t offset = 0;
    const std::uint64_t own = bytes;
    const bool sizes_known = exchange(
        group, [&](std::int32_t, PeId pe) { return lane.send(pe, &own, sizeof own); },
        [&](std::int32_t index) {
            std::uint64_t theirs = 0;
            if (!lane.recv(group.pe(index), &theirs, sizeof theirs)) {
                return false;
            }
            offset += index < group.me ? theirs : 0;
            return true;
        });
    if (!sizes_known) {
        return false;
    }
    if (bytes != 0) {
        copy_own(e, at(dest, offset), source, bytes);
    }
    return exchange(
        group,
        [&](std::int32_t, PeId pe) {
            if (bytes != 0) {
                push(e, pe, at(dest, offset), source, bytes);
            }
            return lane.notify(pe);
        },
        [&](std::int32_t index) { return lane.await(group.pe(index)); });
}

bool alltoall(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t block_bytes) noexcept {
    if (e.waiter.fault_pending()) [[unlikely]] {
        return false;
    }
    if (block_bytes == 0) {
        return true;
    }
    const Channels::Lane lane = e.channels.lane(group.lane);
    const auto offset_of = [&](std::int32_t index) { return static_cast<std::size_t>(index) * block_bytes; };
    const auto index_after = [&](std::int32_t k) { return (group.me + k) % group.size; };
    copy_own(e, at(dest, offset_of(group.me)), at(source, offset_of(group.me)), block_bytes);
    if (block_bytes <= kChannelPayloadBytes) {
        return exchange(
            group,
            [&](std::int32_t k, PeId pe) { return lane.send(pe, at(source, offset_of(index_after(k))), block_bytes); },
            [&](std::int32_t index) { return lane.recv(group.pe(index), at(dest, offset_of(index)), block_bytes); });
    }
    return exchange(
        group,
        [&](std::int32_t k, PeId pe) {
            push(e, pe, at(dest, offset_of(group.me)), at(source, offset_of(index_after(k))), block_bytes);
            return lane.notify(pe);
        },
        [&](std::int32_t index) { return lane.await(group.pe(index)); });
}

bool alltoalls(Engine& e, const PeGroup& group, void* dest, const void* source, StridedBlock block) noexcept {
    if (e.waiter.fault_pending()) [[unlikely]] {
        return false;
    }
    if (block.nelems == 0) {
        return true;
    }
    const Channels::Lane lane = e.channels.lane(group.lane);
    const auto offset_of = [&](std::int32_t index, std::ptrdiff_t stride) {
        return static_cast<std::size_t>(index) * block.nelems * static_cast<std::size_t>(stride) * block.element_bytes;
    };
    void* const place = at(dest, offset_of(group.me, block.strides.dest));
    const auto block_for = [&](std::int32_t index) { return at(source, offset_of(index, block.strides.source)); };
    copy_elements(place, block_for(group.me), block);
    return exchange(
        group,
        [&](std::int32_t k, PeId pe) {
            if (void* const remote = e.peers.locate(place, pe)) {
                copy_elements(remote, block_for((group.me + k) % group.size), block);
            }
            return lane.notify(pe);
        },
        [&](std::int32_t index) { return lane.await(group.pe(index)); });
}

}  // namespace sft
