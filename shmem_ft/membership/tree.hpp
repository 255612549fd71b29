// The tree of the participants of a ballot: pure arithmetic over slots.
//
// Slot s is PE s; a job of one PE has slot 1 for its witness. Slots whose process is dead are left out; the others,
// numbered in their order, form a complete tree with a given fan-out: i's children are i * k + 1 ... i * k + k. Only
// the slots that are left out take memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shmem_ft/membership/job_state.hpp"

namespace sft {

inline constexpr std::int32_t kFanOut = 4;

class Tree {
public:
    // dead: sorted by process.
    Tree(const JobShape& shape, const JobState& state, std::span<const Death> dead, std::int32_t fan_out);

    [[nodiscard]] std::int32_t n_slots() const noexcept { return n_slots_; }
    [[nodiscard]] std::int32_t n_living() const noexcept {
        return n_slots_ - static_cast<std::int32_t>(absent_.size());
    }
    // -1: the process has no slot, or is left out.
    [[nodiscard]] std::int32_t slot_of(ProcId process) const;
    [[nodiscard]] ProcId process_at(std::int32_t slot) const;
    // The lowest slot that is not left out; -1: none.
    [[nodiscard]] std::int32_t root_slot() const;
    // kNoProc for the root.
    [[nodiscard]] ProcId parent_of(std::int32_t slot) const;
    [[nodiscard]] std::vector<ProcId> children_of(std::int32_t slot) const;

private:
    [[nodiscard]] std::int32_t place_of(std::int32_t slot) const;
    [[nodiscard]] std::int32_t slot_at(std::int32_t place) const;

    const JobShape& shape_;
    const JobState& state_;
    std::int32_t fan_out_;
    std::int32_t n_slots_;
    std::vector<std::int32_t> absent_;  // slots left out, ascending
};

}  // namespace sft
