// Who holds the memory of a process, and so what dies with what.
//
// Today the process itself: whatever dies with it, or with its node, takes its memory along. Memory that something else
// on the node holds would outlive the process, and not the node; so these are two questions. The schemes of redundancy
// (scheme.hpp) ask what is left of the shares that processes keep, and the simulator what is left of its memory.
//
// Threads: no state, or constant after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

// Of a process.
enum class Memory : std::uint8_t {
    heap,          // and globals: what the program sees
    local_copy,    // of its own state
    kept_shadows,  // what it keeps for others
};

class MemoryHolder {
public:
    // Whether it is gone when its process has died and somebody of the job lives on the same node.
    [[nodiscard]] virtual bool dies_with_process(Memory what) const noexcept = 0;
    // The same when nobody of the job is left on that node.
    [[nodiscard]] virtual bool dies_with_node(Memory what) const noexcept = 0;

protected:
    ~MemoryHolder() = default;
};

// The memory of a job after deaths.
class LeftMemory {
public:
    // After the deaths of `state`.
    LeftMemory(const JobShape& shape, const JobState& state);

    // As if that node were lost besides, with all that runs there.
    void lose(NodeId node) noexcept { lost_node_ = node; }
    [[nodiscard]] bool has(ProcId process, Memory what) const;

private:
    [[nodiscard]] bool lives(ProcId process) const;
    [[nodiscard]] bool is_anybody_on(NodeId node) const;

    const JobShape& shape_;
    const JobState& state_;
    std::vector<Death> dead_;  // sorted by process
    NodeId lost_node_ = kNoNode;
};

}  // namespace sft
