// The collective fault-tolerance calls as protocols over the control segment: checkpoint and restart.
//
// Fault model: processes (PEs, substitutes, spares) may die at any instruction of these protocols, several of them,
// also the one that is about to decide. Deaths reach the others through the death log, sooner or later. Nobody lies.
// Not survived: the death of a PE's holder and of the keeper of its shadow before the shadow exists elsewhere; more
// deaths of holders than there are spares. Both end the job with one named error.
//
// How: every step of a process is announced by its marker, a word that only grows. Whoever sees that all markers are
// there, or that a PE's holder is in the death log, tries to change the agreed word; the first one decides, the
// others follow what it says. There is no coordinator process in spite of the name of this class.
//
// Invariants
//  1. ship() of version v+1 writes only the slot that does not hold v; v stays whole until v+1 is committed.
//  2. commit(v+1) is decided only after every PE's state of v+1 is in its keeper's memory.
//  3. No PE leaves checkpoint() with success before every living PE has folded v+1 into its local copy.
//  4. restore() reads only copies of the committed version and writes only the caller's own memory, so a restart can
//     be begun again after any number of further deaths.
//  5. No PE leaves restart() before every PE of the new view is restored and protected.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "recovery/plan.hpp"
#include "shmem_ft/base/ids.hpp"
#include "shmem_ft/membership/agreed.hpp"
#include "shmem_ft/transport/shm/control.hpp"
#include "shmem_ft/transport/shm/wait.hpp"

namespace sft {

// What the protocols ask the process to do with its memory. Called by the thread that called checkpoint or restart.
class Duties {
public:
    virtual ~Duties() = default;

    // own live state -> keeper's slot of `version`, which is not committed yet.
    virtual void ship(Version version) = 0;
    // `version` is committed: own live state -> local copy.
    virtual void fold(Version version) = 0;

    enum class Restored { done, source_gone, corrupt };
    // Brings the own memory to `version`: rolls back, or, as a substitute, fetches the PE's state from its keeper.
    virtual Restored restore(const Assignment& own, Version version) = 0;
    // The state of every PE is back; makes the own shadow exist at `keeper` (ships `version` there if `moved`), and
    // resets what the communication between PEs counts. False: the keeper is gone.
    virtual bool protect(ProcId keeper, bool moved, Version version) = 0;
};

enum class CheckpointOutcome { committed, fault, ended };
enum class RestartOutcome { resumed, rejected, ended };

class Coordinator {
public:
    Coordinator(ControlSegment& control, ProcId self, std::int32_t first_spare, Waiter waiter, Duties& duties)
        : control_(control), self_(self), first_spare_(first_spare), waiter_(waiter), duties_(duties) {}

    // The PE this process is; set before the first call, and by a spare when it is activated.
    void become(PeId pe) noexcept { me_ = pe; }

    CheckpointOutcome checkpoint();

    // list_hash: of the list of PEs the caller gave; expected_hash: of the agreed list. A substitute passes joins.
    struct RestartRequest {
        std::uint64_t list_hash = 0;
        std::uint64_t expected_hash = 0;
        bool joins = false;
    };
    RestartOutcome restart(const RestartRequest& request);

    // For sleeping spares: if every process that holds a PE is dead, nobody is left to begin a restart, and the spares
    // do it. Harmless at any other time.
    void take_over_orphaned_job();

    // Ends the job, every process with that status: the first caller of all processes wins and returns true.
    bool end_job(std::int32_t status);

    // Who holds and keeps what, in the epoch of `agreed`.
    [[nodiscard]] std::vector<Assignment> assignments(const Agreed& agreed) const;
    // PEs whose holders are among the first `deaths` of the log, in agreed order.
    struct Failed {
        PeId pe;
        FailureReason reason;
    };
    [[nodiscard]] std::vector<Failed> failed_pes(const Agreed& agreed, DeathCount deaths) const;
    [[nodiscard]] bool any_holder_died(const Agreed& agreed) const;
    // Living processes that started as spares and are bound to no PE.
    [[nodiscard]] std::vector<ProcId> idle_spares(DeathCount deaths) const;

    // Set when this process was the one that ended the job in restart(): why. `possible` means a corrupt copy.
    [[nodiscard]] const Plan* reason_to_end() const noexcept { return ended_here_ ? &failed_plan_ : nullptr; }
    // Times of the last restart for the summary (CLOCK_MONOTONIC, ns).
    struct Times {
        std::int64_t planned = 0;
        std::int64_t restored = 0;
        std::int64_t resumed = 0;
    };
    [[nodiscard]] const Times& times() const noexcept { return times_; }

private:
    enum class Await { reached, moved };

    void mark(DeathCount attempt, Step step);
    [[nodiscard]] bool all_marked(const std::vector<Assignment>& members, std::uint64_t marker, bool skip_dead) const;
    Await await_checkpoint_step(const Agreed& before, Step step);
    void adopt_round(const Agreed& agreed) noexcept;
    void join_round();
    [[nodiscard]] bool all_holders_dead(const Agreed& agreed) const;
    [[nodiscard]] Plan plan_for(const Agreed& seen) const;
    void propose_plan(const Agreed& seen, const RestartRequest& request);
    [[nodiscard]] bool lists_agree(const Agreed& seen, const RestartRequest& request) const;
    void work_on_plan(const Agreed& seen);
    void work_on_protection(const Agreed& seen);
    void await_attempt(const Agreed& seen, const std::vector<Assignment>& members, Step step);
    void await_further_death(const Agreed& seen);
    void write_tables(Epoch epoch, const std::vector<Assignment>& assignments) const;
    void bind(const Plan& plan) const;
    void decide(const Agreed& seen, const std::optional<Agreed>& next) const;
    [[nodiscard]] bool lost_a_member(const Agreed& seen, const std::vector<Assignment>& members) const;

    ControlSegment& control_;
    ProcId self_;
    std::int32_t first_spare_;
    PeId me_ = kNoPe;
    Waiter waiter_;
    Duties& duties_;
    std::uint32_t round_ = 0;
    bool restored_in_round_ = false;
    Plan failed_plan_;
    bool ended_here_ = false;
    Times times_;
};

}  // namespace sft
