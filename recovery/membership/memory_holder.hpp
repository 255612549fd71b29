// Who holds the memory of a process, and so what dies with what.
//
// Either the process itself, or its node: then what processes keep for others lies in memory that all of them have
// open, and lasts as long as one of them lives. So the death of a process and the loss of its node are two questions.
// The schemes of redundancy (scheme.hpp) ask what is left of the shares that processes keep, and the simulator what is
// left of its memory.
//
// What a process has kept in memory of its node belongs to the PE that it was, and so to the next holder of that PE on
// the node: nothing of it has to be sent again. If that is on another node, any holder of a PE that lives there can
// give it to others, and counts as the heir. A sleeping spare does not: nobody would notice its death. So in a job on
// several nodes what is left on a node counts while a holder lives there, or while PEs are without a holder and a spare
// lives there, which the next plan may make one.
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
    [[nodiscard]] bool lives(ProcId process) const;
    [[nodiscard]] bool has(ProcId process, Memory what) const;
    // From whom it can be had now what `process` has kept: itself, the next holder of its PE on its node, or the lowest
    // holder there.
    [[nodiscard]] ProcId heir_of(ProcId process) const;

private:
    [[nodiscard]] bool is_anybody_on(NodeId node) const;
    // The lowest that lives; kNoProc: none.
    [[nodiscard]] ProcId holder_on(NodeId node) const;
    [[nodiscard]] bool is_served(NodeId node) const;

    const JobShape& shape_;
    const JobState& state_;
    std::vector<Death> dead_;     // sorted by process
    bool has_vacancies_ = false;  // PEs whose holders are dead
    NodeId lost_node_ = kNoNode;
};

}  // namespace sft
