// Scheme of redundancy: which processes keep what of the state of a PE, and what can be brought back after deaths.
//
// A PE has its local copy, and shares that other processes keep. A share is a copy of the PE's state, or of a part of
// it, or parity of several PEs: what it is only the scheme knows. Rules, status and the process ask; nobody but a
// scheme computes who keeps what.
//
// Where shares are follows from a layout (who holds which PE): that of the last time when everybody was protected
// (JobState::protected_layout) says where they are, that of now (replacements) where they are to be.
//
// Threads: schemes are constant after construction, and live as long as the job.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/config.hpp"
#include "recovery/membership/job_state.hpp"
#include "recovery/membership/memory_holder.hpp"

namespace sft {

struct Share {
    ProcId holder = kNoProc;
    std::int32_t part = 0;  // what it is of the PE: shares that differ in it do not stand for each other

    friend bool operator==(Share, Share) noexcept = default;
};

// Of all PEs under one layout. Made for one value, and asked as long as that is looked at.
class Shares {
public:
    virtual ~Shares() = default;

    // Empty: nobody is there who could keep any. Whoever fetches takes the first ones that will do.
    [[nodiscard]] virtual std::vector<Share> of(PeId pe) const = 0;
    // The PEs of which `process` keeps a share, ascending: who loses one with it.
    [[nodiscard]] virtual std::vector<PeId> kept_by(ProcId process) const = 0;
    // Whether the state of `pe` can be brought back from what is left, without its last holder.
    [[nodiscard]] virtual bool can_rebuild(PeId pe, const LeftMemory& left) const = 0;
};

// What has a default is the same in all that the library has.
class Scheme {
public:
    // layout: sorted by PE. Takes O(PEs).
    [[nodiscard]] virtual std::unique_ptr<const Shares> place(const JobShape& shape, const JobState& state,
                                                              std::span<const Replacement> layout) const = 0;
    // How many further deaths of processes at one moment, whichever they are, leave enough of every PE.
    [[nodiscard]] virtual std::int32_t losses_survived(const JobShape& shape, const JobState& state) const = 0;
    // Whether those that live can finish the stage of `before` as it is; `now` is the same value with more deaths, none
    // of them of a PE's holder. If not, everybody begins the stage again under another value.
    [[nodiscard]] virtual bool can_go_on(const JobState& before, const JobState& now) const;
    // In a job that has a witness (JobShape::has_witness): the spare that is to keep for it, and takes part in the
    // agreement; the one that does so already if it still can. kNoProc: nobody, or the job has several PEs.
    [[nodiscard]] virtual ProcId witness_for(const JobShape& shape, const JobState& state) const;
    // Who may take over, best first. dead: sorted by process.
    [[nodiscard]] virtual std::vector<ProcId> substitutes(const JobShape& shape, const JobState& state,
                                                          std::span<const Death> dead) const;
    // Whoever takes `pe` over had better not be on a node of these.
    [[nodiscard]] virtual std::vector<PeId> apart_from(const JobShape& shape, PeId pe) const;

protected:
    ~Scheme() = default;
};

// What follows from the shape's scheme for one PE. Each takes O(PEs) in a job of several groups (nodes or domains).

// The state of `pe` can be brought back if its holder dies now, or has died.
[[nodiscard]] bool can_be_rebuilt(const JobShape& shape, const JobState& state, PeId pe);
// From whom a new holder of `pe` fetches: the shares that are there. None while `pe` is unprotected.
[[nodiscard]] std::vector<Share> sources_of(const JobShape& shape, const JobState& state, PeId pe);
// Whom `pe` replicates to when everybody is protected again.
[[nodiscard]] std::vector<Share> targets_of(const JobShape& shape, const JobState& state, PeId pe);
// In `protect`: those of the targets that have not got their share yet.
[[nodiscard]] std::vector<Share> missing_shares(const JobShape& shape, const JobState& state, PeId pe);
// For those who look at one only; kNoProc: there is none.
[[nodiscard]] ProcId first_holder(std::span<const Share> shares) noexcept;

// As SHMEM_FT_BACKUP_MODE says; parity in a shape that has groups, and where it has none the scheme of one partner.
[[nodiscard]] const Scheme& scheme_of(const JobShape& shape, const Backup& backup) noexcept;

}  // namespace sft
