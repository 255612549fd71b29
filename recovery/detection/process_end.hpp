// What it means that a process of this node has ended: pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/process_watch.hpp"
#include "recovery/membership/job_state.hpp"
#include "transport/shm/control.hpp"

namespace sft {

struct EndSigns {
    FailureReason by_kernel;  // reason_of_end()
    // What is in its slot: read after everything has been taken in that it had sent.
    ProcessState state = ProcessState::ready;
    bool is_hung = false;
    std::uint32_t exit_status = 0;  // last words
};

struct ProcessEnd {
    std::optional<Stage> left;  // it was through with the job: no death. finished or ended
    FailureReason reason;       // of the death, else
};

[[nodiscard]] ProcessEnd meaning_of_end(const EndSigns& signs) noexcept;

// How it has left, by what it said goodbye with (Coordinator::leave).
[[nodiscard]] Stage stage_of_goodbye(std::uint64_t goodbye) noexcept;

}  // namespace sft
