#include "shmem_ft/ops/collectives.hpp"

#include <algorithm>
#include <cstdint>

#include "base/assert.hpp"
#include "shmem_ft/ops/links.hpp"
#include "shmem_ft/ops/order.hpp"

namespace sft {
namespace {

// The k-th member after (before) this one, going round.
PeId member_after(const PeGroup& group, std::int32_t k) noexcept {
    SFT_ASSERT_SLOW(k > 0 && k < group.size);
    const std::int32_t index = group.me + k;
    return group.pe(index < group.size ? index : index - group.size);
}

std::int32_t index_before(const PeGroup& group, std::int32_t k) noexcept {
    SFT_ASSERT_SLOW(k > 0 && k < group.size);
    const std::int32_t index = group.me - k;
    return index < 0 ? index + group.size : index;
}

// Every member gives every other one message: send(k, pe) for the k-th member after this one, then receive(index).
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

// The same with data: push(k, pe), then an empty message. A message to another node waits for the data in front of it,
// so there all of the data is on its way before the first message.
template <class Links, class Push>
bool exchange_data(const Links& links, const PeGroup& group, Push&& push) noexcept {
    for (std::int32_t k = 1; Links::kPushesFirst && k < group.size; ++k) {
        push(k, member_after(group, k));
    }
    return exchange(
        group,
        [&](std::int32_t k, PeId pe) {
            if (!Links::kPushesFirst) {
                push(k, pe);
            }
            return links.lane().notify(pe);
        },
        [&](std::int32_t index) { return links.lane().await(group.pe(index)); });
}

// In every other barrier a member has to run several times before all can leave it. Out of line: sync() is shorter
// without it.
[[gnu::noinline]] bool sync_crowd(Engine& e, const PeGroup& group) noexcept {
    SFT_ASSERT_SLOW(group.size > 1 && group.lane != kLaneOfActiveSets);
    const Channels::Lane lane = e.channels.lane(group.lane);
    return lane.meet({group.pe(0), static_cast<std::uint32_t>(group.size)}, [&](auto&& ring) {
        for (std::int32_t k = 1; k < group.size; ++k) {
            ring(member_after(group, k));
        }
    });
}

// Dissemination: after round r everybody has heard, directly or not, of 2^(r+1) members.
[[gnu::always_inline]] inline bool sync_on_node(Engine& e, const PeGroup& group) noexcept {
    if (e.waiter.is_crowded() && group.size > 2 && group.lane != kLaneOfActiveSets) [[unlikely]] {
        return sync_crowd(e, group);
    }
    const Channels::Lane lane = e.channels.lane(group.lane);
    SFT_ASSERT_SLOW(group.me >= 0 && group.me < group.size);
    for (std::int32_t distance = 1; distance < group.size; distance *= 2) {
        if (!lane.notify(member_after(group, distance)) || !lane.await(group.pe(index_before(group, distance)))) {
            return false;
        }
    }
    return true;
}

// The members of a node tell their leader along a tree that they are there, the leaders tell each other as above, and
// then all are let go along the tree. A member waits no more often than it has neighbours in the tree.
bool sync_wide(Engine& e, const PeGroup& group) noexcept {
    constexpr std::int32_t kBranches = 8;
    const GroupView& view = e.nodes.view(group);
    SFT_ASSERT(static_cast<std::size_t>(view.node) < view.leaders.size());
    const WideLane lane(e.channels, e.waiter, e.nodes, group.lane);
    const auto here = [&](std::int32_t place) { return group.pe(view.here[static_cast<std::size_t>(place)]); };
    const auto leader = [&](std::int32_t node) { return group.pe(view.leaders[static_cast<std::size_t>(node)]); };
    const auto n_here = static_cast<std::int32_t>(view.here.size());
    const auto n_nodes = static_cast<std::int32_t>(view.leaders.size());
    SFT_ASSERT(view.place >= 0 && view.place < n_here && n_nodes > 1);
    const std::int32_t first_child = std::min(n_here, view.place * kBranches + 1);
    const std::int32_t last_child = std::min(n_here, first_child + kBranches);
    for (std::int32_t child = first_child; child < last_child; ++child) {
        if (!lane.await(here(child))) {
            return false;
        }
    }
    if (view.place != 0) {
        const PeId parent = here((view.place - 1) / kBranches);
        if (!lane.notify(parent) || !lane.await(parent)) {
            return false;
        }
    } else {
        for (std::int32_t distance = 1; distance < n_nodes; distance *= 2) {
            if (!lane.notify(leader((view.node + distance) % n_nodes)) ||
                !lane.await(leader((view.node - distance + n_nodes) % n_nodes))) {
                return false;
            }
        }
    }
    for (std::int32_t child = first_child; child < last_child; ++child) {
        if (!lane.notify(here(child))) {
            return false;
        }
    }
    return true;
}

[[gnu::cold, gnu::noinline]] bool sync_elsewhere(Engine& e, const PeGroup& group) noexcept {
    if (e.waiter.fault_pending()) {
        return false;
    }
    return is_wide(e, group) ? sync_wide(e, group) : sync_on_node(e, group);
}

}  // namespace

bool sync(Engine& e, const PeGroup& group) noexcept {
    return e.gate.is_plain() ? sync_on_node(e, group) : sync_elsewhere(e, group);
}

bool barrier(Engine& e, const PeGroup& group) noexcept {
    quiet_here();
    if (!e.gate.is_plain()) [[unlikely]] {
        quiet_elsewhere(e);
        return sync_elsewhere(e, group);
    }
    return sync_on_node(e, group);
}

bool fcollect(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes) noexcept {
    if (bytes == 0) {
        return !e.waiter.fault_pending();
    }
    return with_links(e, group, [&](const auto& links) {
        const auto& lane = links.lane();
        const auto place_of = [&](std::int32_t index) { return at(dest, static_cast<std::size_t>(index) * bytes); };
        copy_own(e, place_of(group.me), source, bytes);
        if (bytes <= kChannelPayloadBytes) {
            return exchange(
                group, [&](std::int32_t, PeId pe) { return lane.send(pe, source, bytes); },
                [&](std::int32_t index) { return lane.recv(group.pe(index), place_of(index), bytes); });
        }
        return exchange_data(links, group,
                             [&](std::int32_t, PeId pe) { links.push(pe, place_of(group.me), source, bytes); });
    });
}

bool collect(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes) noexcept {
    return with_links(e, group, [&](const auto& links) {
        const auto& lane = links.lane();
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
        SFT_ASSERT(group.me != 0 || offset == 0);
        if (bytes != 0) {
            copy_own(e, at(dest, offset), source, bytes);
        }
        return exchange_data(links, group, [&](std::int32_t, PeId pe) {
            if (bytes != 0) {
                links.push(pe, at(dest, offset), source, bytes);
            }
        });
    });
}

bool alltoall(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t block_bytes) noexcept {
    if (block_bytes == 0) {
        return !e.waiter.fault_pending();
    }
    return with_links(e, group, [&](const auto& links) {
        const auto& lane = links.lane();
        const auto offset_of = [&](std::int32_t index) { return static_cast<std::size_t>(index) * block_bytes; };
        const auto block_after = [&](std::int32_t k) { return at(source, offset_of((group.me + k) % group.size)); };
        copy_own(e, at(dest, offset_of(group.me)), at(source, offset_of(group.me)), block_bytes);
        if (block_bytes <= kChannelPayloadBytes) {
            return exchange(
                group, [&](std::int32_t k, PeId pe) { return lane.send(pe, block_after(k), block_bytes); },
                [&](std::int32_t index) {
                    return lane.recv(group.pe(index), at(dest, offset_of(index)), block_bytes);
                });
        }
        return exchange_data(links, group, [&](std::int32_t k, PeId pe) {
            links.push(pe, at(dest, offset_of(group.me)), block_after(k), block_bytes);
        });
    });
}

bool alltoalls(Engine& e, const PeGroup& group, void* dest, const void* source, StridedBlock block) noexcept {
    if (block.nelems == 0) {
        return !e.waiter.fault_pending();
    }
    return with_links(e, group, [&](const auto& links) {
        const auto offset_of = [&](std::int32_t index, std::ptrdiff_t stride) {
            return static_cast<std::size_t>(index) * block.nelems * static_cast<std::size_t>(stride) *
                   block.element_bytes;
        };
        void* const place = at(dest, offset_of(group.me, block.strides.dest));
        const auto block_for = [&](std::int32_t index) { return at(source, offset_of(index, block.strides.source)); };
        copy_elements(place, block_for(group.me), block);
        return exchange_data(links, group, [&](std::int32_t k, PeId pe) {
            links.push(pe, place, block_for((group.me + k) % group.size), block);
        });
    });
}

}  // namespace sft
