// Which PEs are on which nodes, and messages among PEs wherever they are: what collectives of a job of several nodes
// are made of. A job on one node uses nothing of this.
//
// Every PE has the same table, so all members of a group find the same leaders without a word. It changes only inside
// a recovery, when everybody knows the new one before anybody goes on.
//
// Thread safety: set() while no thread is in a collective that has not met a fault. A view belongs to a lane, which
// serves one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "shmem_ft/ops/handles.hpp"
#include "transport/net/network.hpp"
#include "transport/shm/channels.hpp"

namespace sft {

// How the members of a group are spread. Members are named by their index in the group.
struct GroupView {
    PeGroup group;
    std::uint32_t table = 0;             // the one that this was made from
    std::vector<std::int32_t> here;      // members on this node, ascending
    std::vector<std::int32_t> leaders;   // the first member of each node, ascending
    std::int32_t place = 0;              // of this PE in `here`
    std::int32_t node = 0;               // of this node's leader in `leaders`
    std::unique_ptr<std::byte[]> space;  // for data that comes and goes; grows only
    std::size_t space_bytes = 0;

    [[nodiscard]] bool is_one_node() const noexcept { return leaders.size() == 1; }
    [[nodiscard]] std::byte* at_least(std::size_t bytes);
};

class PeNodes {
public:
    void set(std::span<const NodeId> node_of_pe, PeId me);

    [[nodiscard]] bool is_here(PeId pe) const noexcept {
        SFT_ASSERT_SLOW(pe.value() >= 0 && pe.value() < n_pes_);
        return nodes_[pe.index()].load(std::memory_order_relaxed) == mine_.load(std::memory_order_relaxed);
    }
    // The PEs of this node if their numbers are a progression, else this PE alone: the same answer on all PEs of a
    // node.
    [[nodiscard]] PeGroup group_here(PeId me, LaneId lane) const noexcept;
    // The first member on the node of `pe`, a member.
    [[nodiscard]] std::int32_t leader_of(const GroupView& view, PeId pe) const noexcept;
    // Good until the next call for the same lane. REQUIRES: this PE is a member.
    [[nodiscard]] GroupView& view(const PeGroup& group);

private:
    [[nodiscard]] std::unique_ptr<GroupView> make_view(const PeGroup& group) const;

    std::unique_ptr<std::atomic<std::int32_t>[]> nodes_;  // by PE
    std::int32_t n_pes_ = 0;
    std::atomic<std::int32_t> mine_{0};
    std::atomic<std::uint32_t> table_{0};  // how often it has been set
    std::unique_ptr<GroupView> views_[kLanesMax];
};

// A lane that leads to PEs of all nodes (Channels::Lane: of one).
class WideLane {
public:
    WideLane(Channels& channels, Waiter& waiter, const PeNodes& nodes, LaneId id) noexcept
        : lane_(channels.lane(id)), waiter_(waiter), network_(*waiter.network()), nodes_(nodes), id_(id) {}

    [[nodiscard]] bool send(PeId to, const void* payload, std::size_t bytes) const noexcept;
    [[nodiscard]] bool recv(PeId from, void* payload, std::size_t bytes) const noexcept;
    [[nodiscard]] bool notify(PeId to) const noexcept { return send(to, nullptr, 0); }
    [[nodiscard]] bool await(PeId from) const noexcept { return recv(from, nullptr, 0); }

private:
    const Channels::Lane lane_;
    Waiter& waiter_;
    Network& network_;
    const PeNodes& nodes_;
    LaneId id_;
};

}  // namespace sft
