// A holder of memory that only tests have: what the node has lasts as long as somebody of the job lives there.
#pragma once

#include "recovery/membership/memory_holder.hpp"

namespace sft {

class NodeMemory final : public MemoryHolder {
public:
    [[nodiscard]] bool dies_with_process(Memory what) const noexcept override { return what == Memory::heap; }
    [[nodiscard]] bool dies_with_node(Memory /*what*/) const noexcept override { return true; }
};

[[nodiscard]] inline const MemoryHolder& node_memory() noexcept {
    static constexpr NodeMemory memory;
    return memory;
}

}  // namespace sft
