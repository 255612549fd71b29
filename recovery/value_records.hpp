// What each process of a node has decided last, in memory that outlives it: when every holder of a PE is dead, the
// spares that are left find there what the job had agreed on.
//
// Fault model: a process may die at any instruction while it writes. It has two places, and writes the older one, whose
// checksum fits only when all of it is there.
//
// Invariant: a process writes a value before anything is done because of it. So what nobody has written has had no
// effect, and the highest value among all that the dead have written is what the job had come to.
//
// Threads: write() one at a time; latest() any, of processes that are dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "recovery/membership/job_state.hpp"
#include "symheap/segment.hpp"

namespace sft {

class ValueRecords {
public:
    // Of a file in which they lie behind what is in front of `offset` (whole pages).
    [[nodiscard]] static std::size_t bytes_for(std::int32_t n_slots) noexcept;
    // fd: of that file; stays open as long as this is used.
    [[nodiscard]] Result<> open(int fd, std::size_t offset, std::int32_t n_slots, ProcId self);
    [[nodiscard]] bool is_open() const noexcept { return own_.address() != nullptr; }

    void write(const JobState& value) noexcept;
    // The one with the highest index that one of the dead has written; nothing: none of them has written any.
    [[nodiscard]] std::optional<JobState> latest(std::span<const Death> dead) const;
    // For who looks from outside: of all processes, which may be writing.
    [[nodiscard]] static std::optional<JobState> latest(int fd, std::size_t offset, std::int32_t n_slots);

private:
    int fd_ = -1;
    std::size_t offset_ = 0;
    std::int32_t n_slots_ = 0;
    Window own_;
    std::size_t next_place_ = 0;
};

}  // namespace sft
