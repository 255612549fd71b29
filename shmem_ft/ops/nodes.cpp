#include "shmem_ft/ops/nodes.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sft {

std::byte* GroupView::at_least(std::size_t bytes) {
    if (space_bytes < bytes) {
        space = std::make_unique_for_overwrite<std::byte[]>(bytes);
        space_bytes = bytes;
    }
    return space.get();
}

void PeNodes::set(std::span<const NodeId> node_of_pe, PeId me) {
    if (nodes_ == nullptr) {
        nodes_ = std::make_unique<std::atomic<std::int32_t>[]>(node_of_pe.size());
        n_pes_ = static_cast<std::int32_t>(node_of_pe.size());
    }
    SFT_ASSERT(node_of_pe.size() == static_cast<std::size_t>(n_pes_));
    SFT_ASSERT(me.value() >= 0 && me.value() < n_pes_);
    for (std::size_t pe = 0; pe < node_of_pe.size(); ++pe) {
        SFT_ASSERT(node_of_pe[pe].value() >= 0);
        nodes_[pe].store(node_of_pe[pe].value(), std::memory_order_relaxed);
    }
    mine_.store(node_of_pe[me.index()].value(), std::memory_order_relaxed);
    table_.fetch_add(1, std::memory_order_release);
}

PeGroup PeNodes::group_here(PeId me, LaneId lane) const noexcept {
    PeGroup group{.start = 0, .stride = 1, .size = 0, .me = -1, .lane = lane};
    std::int32_t last = 0;
    for (std::int32_t pe = 0; pe < n_pes_; ++pe) {
        if (!is_here(PeId(pe))) {
            continue;
        }
        if (group.size == 0) {
            group.start = pe;
        } else if (group.size == 1) {
            group.stride = pe - group.start;
        } else if (pe - last != group.stride) {
            return {.start = me.value(), .stride = 1, .size = 1, .me = 0, .lane = lane};
        }
        last = pe;
        ++group.size;
    }
    group.me = group.index_of(me);
    SFT_ASSERT(group.size >= 1 && group.me >= 0);
    return group;
}

GroupView& PeNodes::view(const PeGroup& group) {
    SFT_ASSERT(group.lane.index() < kLanesMax);
    std::unique_ptr<GroupView>& view = views_[group.lane.index()];
    const bool is_it = view != nullptr && view->table == table_.load(std::memory_order_acquire) &&
                       view->group.start == group.start && view->group.stride == group.stride &&
                       view->group.size == group.size;
    if (!is_it) {
        view = make_view(group);
    }
    return *view;
}

std::unique_ptr<GroupView> PeNodes::make_view(const PeGroup& group) const {
    auto view = std::make_unique<GroupView>();
    SFT_ASSERT(group.size > 0 && group.start >= 0 && group.pe(group.size - 1).value() >= 0);
    SFT_ASSERT(group.start < n_pes_ && group.pe(group.size - 1).value() < n_pes_);
    view->group = group;
    view->table = table_.load(std::memory_order_acquire);
    const std::int32_t mine = mine_.load(std::memory_order_relaxed);
    std::vector<std::int32_t> seen;  // nodes, like leaders
    for (std::int32_t member = 0; member < group.size; ++member) {
        const std::int32_t node = nodes_[group.pe(member).index()].load(std::memory_order_relaxed);
        if (std::find(seen.begin(), seen.end(), node) == seen.end()) {
            if (node == mine) {
                view->node = static_cast<std::int32_t>(seen.size());
            }
            seen.push_back(node);
            view->leaders.push_back(member);
        }
        if (member == group.me) {
            view->place = static_cast<std::int32_t>(view->here.size());
        }
        if (node == mine) {
            view->here.push_back(member);
        }
    }
    SFT_ASSERT(!view->leaders.empty() && view->leaders.front() == 0);
    SFT_ASSERT(view->leaders.size() <= static_cast<std::size_t>(group.size));
    SFT_ASSERT_SLOW(std::is_sorted(view->leaders.begin(), view->leaders.end()));
    SFT_ASSERT_SLOW(std::is_sorted(view->here.begin(), view->here.end()));
    return view;
}

std::int32_t PeNodes::leader_of(const GroupView& view, PeId pe) const noexcept {
    const auto found = std::find_if(view.leaders.begin(), view.leaders.end(), [&](std::int32_t leader) {
        return nodes_[view.group.pe(leader).index()].load(std::memory_order_relaxed) ==
               nodes_[pe.index()].load(std::memory_order_relaxed);
    });
    SFT_ASSERT(found != view.leaders.end());
    return *found;
}

bool WideLane::send(PeId to, const void* payload, std::size_t bytes) const noexcept {
    SFT_ASSERT(bytes <= kChannelPayloadBytes);
    return nodes_.is_here(to) ? lane_.send(to, payload, bytes) : network_.send(to, id_, payload, bytes);
}

bool WideLane::recv(PeId from, void* payload, std::size_t bytes) const noexcept {
    SFT_ASSERT(bytes <= kChannelPayloadBytes);
    return nodes_.is_here(from)
               ? lane_.recv(from, payload, bytes)
               : waiter_.receive_until([&] { return network_.try_receive(from, id_, payload, bytes); });
}

}  // namespace sft
