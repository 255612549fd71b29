#include "shmem_ft/ops/copy_room.hpp"

#include <algorithm>
#include <map>

#include "base/assert.hpp"
#include "shmem_ft/ops/ask_first.hpp"

namespace sft {
namespace {

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
std::uint64_t rest_of(std::uint64_t all, std::uint64_t taken) { return all - std::min(all, taken); }

struct Node {
    RoomWanted sum;
    std::int32_t n_pes = 0;
};

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
    return ask_first<RoomVerdict>(e, own, {.asked = FaultPoint::room_asked, .told = FaultPoint::room_told},
                                  [&](std::span<const RoomWanted> wanted) { return judge_room(wanted, limit); });
}

}  // namespace sft
