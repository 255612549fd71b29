// What one process does in a collective fault-tolerance call: a state machine without I/O.
//
// It is told when the application enters shmem_checkpoint_all, shmem_restart_pes or the end of shmem_finalize, when a
// piece of work is done and when a value has been decided, and says what to do next: a piece of work on this process's
// memory, waiting, or returning to the application. What it is ready for goes to the agreement.
//
// Fault model: that of agreement.hpp. Every wait ends with a decision, and a death that matters leads to one.
//
// Invariants
//  1. replicate(v + 1) writes only the slot that does not hold v; v stays whole until v + 1 is committed.
//  2. A checkpoint returns success only after everybody has updated its local copy to v + 1, so that no put of the next
//     step can reach memory that is still being copied.
//  3. restore() reads copies of the committed version only and writes only the own memory; it is done once per restart,
//     however many attempts that takes, because no application code runs in between.
//  4. A restart returns only after everybody has been protected again.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "recovery/membership/job_state.hpp"

namespace sft {

class Participant {
public:
    enum class Do : std::uint8_t {
        wait,               // for the next decision; or the work that is under way, again, if there is any
        replicate,          // own live state -> shares of version + 1
        update_local_copy,  // own live state -> local copy, as version + 1
        restore,            // own memory <- version, from the local copy or, as a substitute, from the shares
        protect,            // map the new holders, replicate version where a share is missing, reset counters
        give_up,            // a copy is corrupt: end the job
        // The call returns:
        committed,
        fault,
        resumed,
        rejected,
        finished,
        ended,
    };
    enum class Outcome : std::uint8_t { ok, source_gone, corrupt };

    struct Ready {
        Goal goal = Goal::none;
        std::uint64_t hash = 0;
    };

    // The application enters a call. state: decided now.
    Do checkpoint(const JobState& state);
    // A substitute that joins passes joins; others the hash of the list that the application gave.
    Do restart(const JobState& state, std::uint64_t list_hash, bool joins);
    Do finish(const JobState& state);
    // The work that the last answer named is finished.
    Do done(const JobState& state, Outcome result);
    // A value has been decided (each in turn, or at least the last one).
    Do decided(const JobState& state);

    // What this process is ready for, under value `ready_index()`; goal none: nothing. Changes with the calls above.
    [[nodiscard]] Ready ready() const noexcept { return ready_; }
    [[nodiscard]] std::uint64_t ready_index() const noexcept { return index_; }

private:
    enum class Call : std::uint8_t { none, checkpoint, restart, finish };

    Do become_ready(const JobState& state, Goal goal, std::uint64_t hash = 0);
    Do work(const JobState& state, Do what);
    Do leave(Do result);
    Do step_checkpoint(const JobState& state);
    Do step_restart(const JobState& state);
    Do step_finish(const JobState& state);

    Call call_ = Call::none;
    Ready ready_;
    std::uint64_t index_ = 0;
    std::uint64_t list_hash_ = 0;
    std::uint32_t view_before_ = 0;
    std::uint32_t rejections_before_ = 0;
    bool joins_ = false;
    bool has_replicated_ = false;
    bool has_updated_ = false;
    bool has_restored_ = false;
    std::optional<std::uint64_t> protected_under_;  // the value: the next one may ask for other shares
    Do work_ = Do::wait;                            // under way
    std::uint64_t begun_index_ = 0;                 // of the value that it was begun for
};

}  // namespace sft
