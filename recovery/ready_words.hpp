// Words of readiness (recovery/membership/agreement.hpp) in the control segment of a node, and how a thread waits for
// them.
//
// Fault model: a process may die at any instruction. Its word is one store: it is there or not. Who dies between that
// and waking the others leaves them asleep until its death is known, which leads to a ballot.
//
// Threads: any; await() one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/ids.hpp"
#include "transport/shm/control.hpp"
#include "transport/shm/wait.hpp"

namespace sft {

class ReadyWords {
public:
    ReadyWords(const ControlSegment& control, ProcId self, Waiter& waiter) noexcept
        : control_(&control), self_(self), waiter_(&waiter) {}

    void write(std::uint64_t word) noexcept;
    [[nodiscard]] std::uint64_t of(ProcId process) const noexcept {
        return control_->ready_word(process).load(std::memory_order_seq_cst);
    }
    // Lets the thread look that sleeps there, if one does.
    void wake(ProcId process) const noexcept { control_->slot(process).doorbell.ring_if_sleeping(); }

    // A value has been decided: await() returns, and until the next one whoever asks with `moves` as of before does not
    // wait.
    void move_on() noexcept;
    [[nodiscard]] std::uint64_t moves() const noexcept { return moves_.load(std::memory_order_acquire); }
    // Until the words of all these are at least that. False: a fault is pending, or moves() is another number.
    [[nodiscard]] bool await(std::vector<ProcId> missing, std::uint64_t word, std::uint64_t moves) noexcept;

private:
    const ControlSegment* control_;
    ProcId self_;
    Waiter* waiter_;
    std::atomic<std::uint64_t> moves_{0};
};

}  // namespace sft
