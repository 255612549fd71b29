#include "recovery/membership/memory_holder.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"

namespace sft {
namespace {

class ProcessMemory final : public MemoryHolder {
public:
    [[nodiscard]] bool dies_with_process(Memory /*what*/) const noexcept override { return true; }
    [[nodiscard]] bool dies_with_node(Memory /*what*/) const noexcept override { return true; }
};

constexpr ProcessMemory kProcessMemory;

class NodeMemory final : public MemoryHolder {
public:
    [[nodiscard]] bool dies_with_process(Memory what) const noexcept override { return what == Memory::heap; }
    [[nodiscard]] bool dies_with_node(Memory /*what*/) const noexcept override { return true; }
};

constexpr NodeMemory kNodeMemory;

}  // namespace

const MemoryHolder& process_memory() noexcept { return kProcessMemory; }
const MemoryHolder& node_memory() noexcept { return kNodeMemory; }

LeftMemory::LeftMemory(const JobShape& shape, const JobState& state) : shape_(shape), state_(state) {
    for (const Death& death : state.deaths) {
        insert_sorted(dead_, death);
        has_vacancies_ |= shape.held_by(state, death.process) != kNoPe;
    }
}

bool LeftMemory::lives(ProcId process) const {
    return !contains(dead_, process) && (lost_node_ == kNoNode || shape_.node_of(state_, process) != lost_node_);
}

bool LeftMemory::is_anybody_on(NodeId node) const {
    for (std::int32_t process = 0; process < shape_.n_processes; ++process) {
        if (shape_.node_of(state_, ProcId(process)) == node && lives(ProcId(process))) {
            return true;
        }
    }
    return std::any_of(state_.joined.begin(), state_.joined.end(),
                       [&](const Joined& joined) { return joined.node == node && lives(joined.process); });
}

ProcId LeftMemory::holder_on(NodeId node) const {
    ProcId lowest = kNoProc;
    for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
        const ProcId holder = shape_.holder(state_, PeId(pe));
        if (shape_.node_of(state_, holder) == node && lives(holder) && (lowest == kNoProc || holder < lowest)) {
            lowest = holder;
        }
    }
    return lowest;
}

bool LeftMemory::is_served(NodeId node) const {
    if (shape_.is_one_node() || has_vacancies_) {
        return is_anybody_on(node);
    }
    return holder_on(node) != kNoProc;
}

bool LeftMemory::has(ProcId process, Memory what) const {
    SFT_ASSERT(process != kNoProc);
    if (lives(process)) {
        return true;
    }
    const MemoryHolder& holder = *shape_.memory;
    if (holder.dies_with_process(what)) {
        return false;
    }
    if (shape_.node_of(state_, process) == lost_node_) {
        return !holder.dies_with_node(what);  // nobody is there
    }
    return !holder.dies_with_node(what) || is_served(shape_.node_of(state_, process));
}

ProcId LeftMemory::heir_of(ProcId process) const {
    if (lives(process) || shape_.memory->dies_with_process(Memory::kept_shadows) || is_mutated(Mutation::no_heir)) {
        return process;
    }
    JobState then;
    then.replacements = state_.protected_layout;
    const PeId pe = shape_.held_by(then, process);
    if (pe == kNoPe) {
        return process;
    }
    const NodeId node = shape_.node_of(state_, process);
    const ProcId heir = shape_.holder(state_, pe);
    if (shape_.node_of(state_, heir) == node && (shape_.is_one_node() || lives(heir))) {
        return heir;
    }
    const ProcId neighbour = shape_.is_one_node() ? kNoProc : holder_on(node);
    return neighbour != kNoProc ? neighbour : process;
}

}  // namespace sft
