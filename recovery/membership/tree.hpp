// The tree of the participants of a ballot: pure arithmetic.
//
// Participants in the order of their turns: the living processes that hold the PE of their own number, in the order of
// these, then the living substitutes and, in a job of one PE, its witness. They form a complete tree with a given
// fan-out: the children of place i are i * k + 1 ... i * k + k. Only the dead and the substitutes take memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "recovery/membership/job_state.hpp"

namespace sft {

inline constexpr std::int32_t kFanOut = 4;

class Tree {
public:
    // dead: sorted by process.
    Tree(const JobShape& shape, const JobState& state, std::span<const Death> dead, std::int32_t fan_out);

    [[nodiscard]] std::int32_t size() const noexcept;
    // -1: no participant.
    [[nodiscard]] std::int32_t place_of(ProcId process) const;
    // REQUIRES: 0 <= place < size().
    [[nodiscard]] ProcId process_at(std::int32_t place) const;
    // kNoProc: there are no participants.
    [[nodiscard]] ProcId root() const { return size() > 0 ? process_at(0) : kNoProc; }
    // REQUIRES: a participant. kNoProc for the root.
    [[nodiscard]] ProcId parent_of(ProcId process) const;
    // REQUIRES: a participant.
    [[nodiscard]] std::vector<ProcId> children_of(ProcId process) const;

private:
    std::int32_t n_pes_;
    std::int32_t fan_out_;
    std::vector<std::int32_t> absent_;  // of 0 ... n_pes - 1, ascending
    std::vector<ProcId> extra_;         // from n_pes on, by turn
};

}  // namespace sft
