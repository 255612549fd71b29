// How the members of a group reach each other in a collective operation: inside a node, and over nodes. The algorithms
// are templates over the two kinds, so the first is as if there were no second.
//
// Fault rule and threads: as in collectives.hpp. For its own files, not for others.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/assert.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/nodes.hpp"
#include "shmem_ft/ops/remote.hpp"

namespace sft {

// Whether the group has members on other nodes. For calls that find the gate not to be plain.
SFT_COLD inline bool is_wide(Engine& e, const PeGroup& group) noexcept {
    return e.network != nullptr && !e.nodes.view(group).is_one_node();
}

inline void copy_own(Engine& e, void* dest, const void* source, std::size_t bytes) noexcept {
    if (dest != source) {
        e.copy(dest, source, bytes);
    }
}

inline unsigned char* at(void* base, std::size_t offset) noexcept { return static_cast<unsigned char*>(base) + offset; }
inline const unsigned char* at(const void* base, std::size_t offset) noexcept {
    return static_cast<const unsigned char*>(base) + offset;
}

inline void copy_elements(void* dest, const void* source, const StridedBlock& block) noexcept {
    switch (block.element_bytes) {
        case 1: return copy_strided<1>(dest, source, block.strides, block.nelems);
        case 2: return copy_strided<2>(dest, source, block.strides, block.nelems);
        case 4: return copy_strided<4>(dest, source, block.strides, block.nelems);
        case 8: return copy_strided<8>(dest, source, block.strides, block.nelems);
        default:
            SFT_ASSERT(block.element_bytes == 16);
            return copy_strided<16>(dest, source, block.strides, block.nelems);
    }
}

// How the members of a group on one node reach each other.
class MemoryLinks {
public:
    static constexpr bool kPushesFirst = false;

    MemoryLinks(Engine& e, const PeGroup& group) noexcept : engine_(e), lane_(e.channels.lane(group.lane)) {}

    [[nodiscard]] const Channels::Lane& lane() const noexcept { return lane_; }

    // Copies to another member, in front of the next message to it. Nothing happens if it is unreachable: the fault
    // shows in that message.
    void push(PeId pe, void* dest, const void* source, std::size_t bytes) const noexcept {
        if (void* const remote = engine_.peers.locate(dest, pe)) [[likely]] {
            engine_.copy(remote, source, bytes);
            engine_.peers.wrote(dest, pe, bytes);
        }
    }
    void push(PeId pe, void* dest, const void* source, const StridedBlock& block) const noexcept {
        if (void* const remote = engine_.peers.locate(dest, pe)) {
            copy_elements(remote, source, block);
            if (engine_.peers.notes.is_set()) {
                const auto element = static_cast<std::ptrdiff_t>(block.element_bytes);
                wrote_blocks({engine_, pe}, dest,
                             {block.element_bytes, block.nelems, block.strides.dest * element,
                              block.strides.source * element});
            }
        }
    }
    // What was pushed may be changed behind this.
    void complete() const noexcept {}

private:
    Engine& engine_;
    const Channels::Lane lane_;
};

// The same where they are on several nodes.
class WideLinks {
public:
    static constexpr bool kPushesFirst = true;

    WideLinks(Engine& e, const PeGroup& group) noexcept
        : engine_(e), here_(e, group), lane_(e.channels, e.waiter, e.nodes, group.lane) {}

    [[nodiscard]] const WideLane& lane() const noexcept { return lane_; }

    void push(PeId pe, void* dest, const void* source, std::size_t bytes) const noexcept {
        if (engine_.nodes.is_here(pe)) {
            here_.push(pe, dest, source, bytes);
        } else {
            has_pushed_ = true;
            remote_put<Completion::by_quiet>({engine_, pe}, dest, source, bytes);
        }
    }
    void push(PeId pe, void* dest, const void* source, const StridedBlock& block) const noexcept {
        if (engine_.nodes.is_here(pe)) {
            here_.push(pe, dest, source, block);
        } else {
            const auto element = static_cast<std::ptrdiff_t>(block.element_bytes);
            remote_put_blocks({engine_, pe}, dest, source,
                              {block.element_bytes, block.nelems, block.strides.dest * element,
                               block.strides.source * element});
        }
    }
    void complete() const noexcept {
        if (has_pushed_) {
            engine_.network->quiet();
        }
    }

private:
    Engine& engine_;
    const MemoryLinks here_;
    const WideLane lane_;
    mutable bool has_pushed_ = false;
};

// Calls on_node(links) or, in a group that spans nodes, wide(links); false when a fault is pending.
template <class OnNode, class Wide>
[[gnu::always_inline]] inline bool with_links(Engine& e, const PeGroup& group, OnNode&& on_node, Wide&& wide) noexcept {
    SFT_ASSERT_SLOW(group.size > 0 && group.me >= 0 && group.me < group.size);
    if (!e.gate.is_plain()) [[unlikely]] {
        if (e.waiter.fault_pending()) {
            return false;
        }
        if (is_wide(e, group)) {
            const WideLinks links(e, group);
            const bool ok = wide(links);
            links.complete();
            return ok;
        }
    }
    return on_node(MemoryLinks(e, group));
}
// For an operation that does the same with both.
template <class Operation>
[[gnu::always_inline]] inline bool with_links(Engine& e, const PeGroup& group, Operation&& operation) noexcept {
    return with_links(e, group, operation, operation);
}

}  // namespace sft
