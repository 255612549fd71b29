#include "shmem_ft/ops/copy_room.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/nodes.hpp"

namespace sft {
namespace {

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
std::uint64_t rest_of(std::uint64_t all, std::uint64_t taken) { return all - std::min(all, taken); }

struct Node {
    RoomWanted sum;
    std::int32_t n_pes = 0;
};

template <class Lane>
std::optional<RoomVerdict> agree_on(const Lane& lane, const PeGroup& group, const RoomWanted& own,
                                    std::uint64_t limit) {
    static_assert(sizeof(RoomWanted) <= kChannelPayloadBytes && sizeof(RoomVerdict) <= kChannelPayloadBytes);
    const PeId first = group.pe(0);
    RoomVerdict verdict;
    if (group.me != 0) {
        if (!lane.send(first, &own, sizeof own)) {
            return std::nullopt;
        }
        fault_point(FaultPoint::room_asked);
        if (!lane.recv(first, &verdict, sizeof verdict)) {
            return std::nullopt;
        }
        fault_point(FaultPoint::room_told);
        return verdict;
    }
    std::vector<RoomWanted> wanted{own};
    fault_point(FaultPoint::room_asked);
    for (std::int32_t member = 1; member < group.size; ++member) {
        RoomWanted theirs;
        if (!lane.recv(group.pe(member), &theirs, sizeof theirs)) {
            return std::nullopt;
        }
        wanted.push_back(theirs);
    }
    verdict = judge_room(wanted, limit);
    for (std::int32_t member = 1; member < group.size; ++member) {
        if (!lane.send(group.pe(member), &verdict, sizeof verdict)) {
            return std::nullopt;
        }
        fault_point(FaultPoint::room_told);
    }
    return verdict;
}

}  // namespace

RoomVerdict judge_room(std::span<const RoomWanted> wanted, std::uint64_t limit) {
    SFT_ASSERT(!wanted.empty());
    std::map<std::int32_t, Node> nodes;
    for (const RoomWanted& item : wanted) {
        Node& node = nodes.try_emplace(item.node, Node{{.node = item.node, .left = UINT64_MAX}, 0}).first->second;
        ++node.n_pes;
        node.sum.used = sum_of(node.sum.used, item.used);
        node.sum.next = sum_of(node.sum.next, item.next);
        node.sum.most = sum_of(node.sum.most, item.most);
        node.sum.left = std::min(node.sum.left, item.left);
    }
    RoomVerdict verdict;
    std::uint64_t lack = 0;
    for (const auto& [number, node] : nodes) {
        std::uint64_t left = node.sum.left;
        if (limit != 0) {
            left = std::min(left, rest_of(limit, node.sum.used));
        }
        verdict.is_there = verdict.is_there && node.sum.next <= left;
        verdict.is_there_for_ever = verdict.is_there_for_ever && node.sum.most <= left;
        if (verdict.n_pes == 0 || rest_of(node.sum.next, left) > lack) {
            lack = rest_of(node.sum.next, left);
            verdict.node = number;
            verdict.n_pes = node.n_pes;
            verdict.used = node.sum.used;
            verdict.next = node.sum.next;
            verdict.left = left;
        }
    }
    SFT_ASSERT(verdict.is_there == (lack == 0));
    verdict.pause = verdict.is_there ? wanted.front().pause : 0;
    return verdict;
}

std::optional<RoomVerdict> agree_on_room(Engine& e, const RoomWanted& own, std::uint64_t limit) noexcept {
    const PeGroup group = world(e);
    if (e.waiter.fault_pending()) {
        return std::nullopt;
    }
    if (group.size == 1) {
        return judge_room(std::span(&own, 1), limit);
    }
    if (e.network != nullptr) {
        return agree_on(WideLane(e.channels, e.waiter, e.nodes, group.lane), group, own, limit);
    }
    return agree_on(e.channels.lane(group.lane), group, own, limit);
}

}  // namespace sft
