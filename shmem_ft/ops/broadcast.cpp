// The broadcast of collectives.hpp.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/links.hpp"

namespace sft {
namespace {

// A binomial tree below the root, on one node. Data that fits a message travels in it; larger data is pushed into the
// destination of the child, which passes it on from there.
class BroadcastTree {
public:
    BroadcastTree(const MemoryLinks& links, const PeGroup& group, std::int32_t root) noexcept
        : links_(links),
          group_(group),
          lane_(links.lane()),
          root_(root),
          rank_(group.me - root + (group.me < root ? group.size : 0)) {
        SFT_ASSERT_SLOW(root >= 0 && root < group.size && rank_ >= 0 && rank_ < group.size);
    }

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
                links_.push(child, dest, data, bytes);
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
        SFT_ASSERT_SLOW(rank >= 0 && rank < group_.size);
        const std::int32_t index = rank + root_;
        return group_.pe(index < group_.size ? index : index - group_.size);
    }

    const MemoryLinks& links_;
    const PeGroup& group_;
    const Channels::Lane& lane_;
    std::int32_t root_;
    std::int32_t rank_;
};

// The same over nodes: a binomial tree of one member each, the head, and below each head one of the members of its
// node. The root is the head of its node, the leader that of another one. Large data goes in chunks, so that all of
// the tree is at work at once.
class WideTree {
public:
    WideTree(Engine& e, const WideLinks& links, const PeGroup& group, std::int32_t root)
        : links_(links), group_(group), is_root_(group.me == root) {
        const GroupView& view = e.nodes.view(group);
        const auto index_of = [](const std::vector<std::int32_t>& list, std::int32_t member) {
            return static_cast<std::int32_t>(std::find(list.begin(), list.end(), member) - list.begin());
        };
        const bool root_is_here = e.nodes.is_here(group.pe(root));
        const std::int32_t head = root_is_here ? root : view.leaders[static_cast<std::size_t>(view.node)];
        if (group.me == head) {
            const std::int32_t root_leader = e.nodes.leader_of(view, group.pe(root));
            add(view.leaders, view.node, index_of(view.leaders, root_leader), root_leader, root);
        }
        add(view.here, view.place, index_of(view.here, head), head, head);
    }

    [[nodiscard]] bool is_root() const noexcept { return is_root_; }

    [[nodiscard]] bool pass_message(void* payload, std::size_t bytes) const noexcept {
        const auto& lane = links_.lane();
        SFT_ASSERT(is_root_ || parent_ != kNoPe);
        if (!is_root_ && !lane.recv(parent_, payload, bytes)) {
            return false;
        }
        return std::all_of(children_.begin(), children_.end(),
                           [&](PeId child) { return lane.send(child, payload, bytes); });
    }

    // data: the root's source, or the own destination.
    [[nodiscard]] bool pass_memory(void* dest, const void* data, std::size_t bytes) const noexcept {
        constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
        static_assert(kChunkBytes > kChannelPayloadBytes);
        const auto& lane = links_.lane();
        SFT_ASSERT(is_root_ || parent_ != kNoPe);
        for (std::size_t offset = 0; offset < bytes; offset += kChunkBytes) {
            if (!is_root_ && !lane.await(parent_)) {
                return false;
            }
            // A message to another node waits for the data in front of it.
            for (const PeId child : children_) {
                links_.push(child, at(dest, offset), at(data, offset), std::min(kChunkBytes, bytes - offset));
            }
            if (!std::all_of(children_.begin(), children_.end(), [&](PeId child) { return lane.notify(child); })) {
                return false;
            }
        }
        return true;
    }

private:
    // The parent, if there is none yet, and the children of `mine` in a binomial tree over `list` whose root stands at
    // `first`. `instead` stands for `replaced`, a member of the list.
    void add(const std::vector<std::int32_t>& list, std::int32_t mine, std::int32_t first, std::int32_t replaced,
             std::int32_t instead) {
        const auto size = static_cast<std::int32_t>(list.size());
        const std::int32_t rank = mine - first + (mine < first ? size : 0);
        SFT_ASSERT(first >= 0 && first < size && rank >= 0 && rank < size);  // all of them are in the list
        const auto pe_of = [&](std::int32_t at_rank) {
            const std::int32_t member = list[static_cast<std::size_t>((at_rank + first) % size)];
            return group_.pe(member == replaced ? instead : member);
        };
        std::int32_t step = 1;
        while (step < size && (rank & step) == 0) {
            step *= 2;
        }
        if (rank != 0) {
            SFT_ASSERT(parent_ == kNoPe);
            parent_ = pe_of(rank - step);
        }
        for (step /= 2; step > 0; step /= 2) {
            if (rank + step < size) {
                children_.push_back(pe_of(rank + step));
            }
        }
    }

    const WideLinks& links_;
    const PeGroup& group_;
    const bool is_root_;
    PeId parent_ = kNoPe;
    std::vector<PeId> children_;  // those of other nodes first
};

// Together they are the broadcast of a tree of either kind.
template <class Tree>
bool broadcast_along(Engine& e, const Tree& tree, void* dest, const void* source, std::size_t bytes,
                     RootDest root_dest) noexcept {
    const bool is_written = !tree.is_root() || root_dest == RootDest::written;
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

}  // namespace

bool broadcast(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t bytes,
               BroadcastRoot root) noexcept {
    return with_links(
        e, group,
        [&](const MemoryLinks& links) {
            const BroadcastTree tree(links, group, root.index);
            return bytes == 0 || broadcast_along(e, tree, dest, source, bytes, root.dest);
        },
        [&](const WideLinks& links) {
            const WideTree tree(e, links, group, root.index);
            return bytes == 0 || broadcast_along(e, tree, dest, source, bytes, root.dest);
        });
}

}  // namespace sft
