// What follows from what in a job: commits, faults, recovery plans, ends. Pure; whoever leads applies it, the others
// only accept the result (recovery/membership/agreement.hpp), so nothing here has to be computed alike by everybody.
//
// Fault model: the arguments may name any number of deaths, of holders, keepers, substitutes and spares, between any
// two calls.
//
// Invariants (besides those of job_state.hpp)
//  1. A PE keeps its holder as long as there is no reason for another (JobShape::reason_to_replace); so a spare that
//  was given a PE is never given another.
//  2. Every PE that gets a new holder can be brought back from what others have kept of it since everybody was
//  protected last.
//  3. A PE is unprotected from the death that leaves too little of it until everybody has been protected again.
//  4. The list of failed PEs that a fault was declared with never changes before the restart is over.
#pragma once

#include "recovery/detection/node_loss.hpp"
#include "recovery/membership/agreement.hpp"

namespace sft {

// What to do when a PE cannot be replaced.
enum class UnreplacedPolicy : std::uint8_t { abort, wait };

class JobRules final : public Rules {
public:
    explicit JobRules(JobShape shape) : shape_(shape) {}

    // The value that a job starts with.
    [[nodiscard]] static JobState first_state(const JobShape& shape);
    // Stands for the list of failed PEs that shmem_query_fault gives; order matters.
    [[nodiscard]] static std::uint64_t hash_of(std::span<const std::int32_t> pes) noexcept;
    [[nodiscard]] static std::uint64_t hash_of(std::span<const FailedPe> failed);

    void set_policy(UnreplacedPolicy policy) noexcept { policy_ = policy; }

    [[nodiscard]] JobState after_ready(const JobState& state, Goal goal) const override;
    [[nodiscard]] std::optional<JobState> after_restart(const JobState& state, const Readiness& ready,
                                                        std::span<const Death> dead) const override;
    [[nodiscard]] std::optional<JobState> after_deaths(const JobState& state,
                                                       std::span<const Death> dead) const override;
    [[nodiscard]] JobState after_end_request(const JobState& state, const EndRequest& request,
                                             std::span<const Death> dead) const override;
    [[nodiscard]] JobState after_loss_of_all(const JobState& state, std::span<const Death> dead) const override;
    [[nodiscard]] JobState after_loss_of_holders(const JobState& state, std::span<const Death> dead) const override;

    // The dead PEs that a restart has nobody for, in a job that waits for spares; empty: it does not wait for any.
    [[nodiscard]] std::vector<PeId> awaiting_spares(const JobState& state, std::span<const Death> dead) const;

    [[nodiscard]] bool awaits_spares(const JobState& state, std::span<const Death> dead) const override {
        return !awaiting_spares(state, dead).empty();
    }

    // How many further deaths of PEs, one after another or at once, whichever they are, the job survives now.
    [[nodiscard]] std::int32_t protected_losses(const JobState& state, std::span<const Death> dead) const;
    // The same for nodes. n_on_demand: spares that would be started when none is left. That the host of the launcher
    // must not be lost is not known here. Takes O(processes).
    [[nodiscard]] NodeLosses node_losses(const JobState& state, std::span<const Death> dead,
                                         std::int32_t n_on_demand) const;

private:
    // `state` once it has these deaths.
    [[nodiscard]] JobState with_deaths(const JobState& state, std::span<const Death> dead) const;
    std::vector<FailedPe> note_deaths(JobState& state, std::span<const Death> dead) const;
    void note_unprotected(JobState& state) const;
    [[nodiscard]] JobState faulted(const JobState& state, std::span<const Death> dead) const;
    [[nodiscard]] std::optional<JobState> planned(const JobState& state, std::span<const Death> dead) const {
        return planned(state, dead, policy_);
    }
    [[nodiscard]] std::optional<JobState> planned(const JobState& state, std::span<const Death> dead,
                                                  UnreplacedPolicy policy) const;
    [[nodiscard]] bool has_source(const JobState& state, const Vacancy& vacancy) const;
    [[nodiscard]] std::vector<Replacement> shared_out(const JobState& before, std::vector<PeId> pes,
                                                      std::vector<ProcId> spares) const;
    [[nodiscard]] JobState ended(const JobState& state, EndReason reason, std::vector<PeId> lost) const;

    JobShape shape_;
    UnreplacedPolicy policy_ = UnreplacedPolicy::abort;
};

}  // namespace sft
