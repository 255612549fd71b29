// What the processes of a job agree on: one value after the other, each with the next index.
//
// Plain data and pure questions to it. Who decides the next value, and how, is agreement.hpp; which value follows
// from what is recovery/rules.hpp.
//
//      running --all arrived--> replicating --all replicated--> updating --all updated--> running      (version + 1)
//      running | replicating --a holder died--> faulted
//      running | faulted --all restart with one list--> planned        (lists that differ: the same stage again)
//      planned --all restored--> restored --all protected--> running   (view + 1)
//      planned | restored --a holder or the witness died--> planned    (attempt + 1)
//      running --all finish--> finished;  any but these two --> ended
//
// A PE is a number; who holds it follows from the list of replacements: process p holds PE p unless it is listed.
// So a job without failures has no table of PEs anywhere, whatever its size. Which processes keep shares of a PE's
// state follows from the holders, by the scheme of redundancy (scheme.hpp). While a recovery moves PEs about, the
// shares stay where they were when everybody was protected last: that is what `protected_layout` remembers, and the
// shares there are valid until everybody is protected elsewhere.
//
// Invariants (check_invariants)
//  1. deaths grows at its end only; every process is in it at most once.
//  2. replacements and unprotected are sorted by PE, each PE once; no PE is held by two processes; no two holders have
//  the same turn, and who becomes a holder has a higher one than everybody before it.
//  3. version grows by one from updating to running, at first to first_version, and by no other step.
//  4. view grows by one from restored to running, and by no other step.
//  5. joined grows at its end only, and is sorted; its processes are none of those that the job started with.
//  6. protected_layout is sorted by PE; it becomes what replacements are from restored to running, and changes by no
//  other step.
//  7. A PE of which there are shares and that is not unprotected can be brought back after the deaths; the witness is
//  not among them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/area_map.hpp"
#include "base/domain_map.hpp"
#include "base/ids.hpp"
#include "base/node_map.hpp"
#include "base/process_watch.hpp"
#include "recovery/membership/partner_scheme.hpp"

namespace sft {

enum class Stage : std::uint8_t {
    running = 1,
    replicating = 2,
    updating = 3,
    faulted = 4,
    planned = 5,
    restored = 6,
    finished = 7,
    ended = 8
};
[[nodiscard]] const char* name_of(Stage stage) noexcept;

// What a holder is ready for. All of them ready for the same goal makes the next value.
enum class Goal : std::uint8_t { none = 0, arrive, replicate, update, restart, restore, protect, finish, any };
[[nodiscard]] const char* name_of(Goal goal) noexcept;

enum class EndReason : std::uint8_t {
    none = 0,
    requested,          // shmem_global_exit, or an error that one process tells
    nothing_committed,  // a PE died before the first commit
    no_spare,           // nobody left to take over
    copies_lost,        // a PE is dead, and too much of what others kept of it is gone
    all_died,           // no process is left that holds a PE; whether anything was committed is not known
    mismatched_calls,   // PEs are in different collective calls, for ever
    past_the_end,       // a PE died while others were in the last shmem_finalize
};

struct Death {
    ProcId process = kNoProc;
    FailureReason reason;
    // The kernel says so, or it was killed before it was declared. Not certain: unreachable, may be alive elsewhere.
    bool is_certain = true;

    friend bool operator==(const Death&, const Death&) noexcept = default;
};

// Why a PE gets another holder.
enum class ReplacementReason : std::uint8_t {
    death,  // of the one that it has
};

// A PE that has to get another holder.
struct Vacancy {
    PeId pe = kNoPe;
    ReplacementReason why{};

    friend bool operator==(Vacancy, Vacancy) noexcept = default;
};

// A spare that has become the holder of a PE.
struct Replacement {
    PeId pe = kNoPe;
    ProcId process = kNoProc;
    // Its place in the order of leaders: behind everybody who has taken part before.
    std::int32_t turn = process.value();

    friend bool operator==(Replacement, Replacement) noexcept = default;
};

// A spare that came while the job ran.
struct Joined {
    ProcId process = kNoProc;
    NodeId node = kNoNode;  // one of the job's

    friend bool operator==(Joined, Joined) noexcept = default;
};

struct FailedPe {
    PeId pe = kNoPe;
    FailureReason reason;

    friend bool operator==(FailedPe, FailedPe) noexcept = default;
};

struct JobState {
    std::uint64_t index = 0;
    Stage stage = Stage::running;
    Version version = kNoVersion;
    std::uint32_t view = 0;
    std::uint32_t attempt = 0;     // of the current restart; 0: none
    std::uint32_t rejections = 0;  // restarts that were refused because the lists of the callers differed
    ProcId witness = kNoProc;      // of an only PE: the spare that keeps for it (Scheme::witness_for)
    EndReason end_reason = EndReason::none;
    ProcId ended_by = kNoProc;
    std::int32_t exit_status = 0;
    std::vector<Death> deaths;  // in agreed order
    std::vector<Replacement> replacements;
    std::vector<Replacement>
        protected_layout;           // as of the last time that everybody was protected: they say where shares are
    std::vector<PeId> unprotected;  // PEs of which others have too little; they have their local copy
    std::vector<FailedPe> failed;   // the list of shmem_query_fault, until the restart is over
    std::vector<FailedPe> further;  // who failed after that list was decided
    std::vector<PeId> lost;         // end_reason copies_lost, no_spare: whose
    std::vector<Joined> joined;     // by process

    friend bool operator==(const JobState&, const JobState&) = default;
};

[[nodiscard]] inline bool is_over(const JobState& state) noexcept {
    return state.stage == Stage::finished || state.stage == Stage::ended;
}

// What may be lost at once, and with it a state and its copy: in a job on several nodes an area of them, or one where
// nothing is known of areas; in a job on one node a memory domain, as far as it is known.
using GroupId = StrongId<struct GroupIdTag, std::int32_t>;
inline constexpr GroupId kNoGroup{-1};

class ParityGroups;  // parity_groups.hpp

class MemoryHolder;  // memory_holder.hpp
// The memory of a process is its own, and gone with it.
[[nodiscard]] const MemoryHolder& process_memory() noexcept;
// What it keeps for others is its node's, and gone when nobody of the job lives there any more.
[[nodiscard]] const MemoryHolder& node_memory() noexcept;

// What a job starts with, and the questions that need it.
struct JobShape {
    std::int32_t n_pes = 0;
    std::int32_t n_processes = 0;
    const NodeMap* nodes = nullptr;      // null: one node
    const DomainMap* domains = nullptr;  // null: not known. In a job on several nodes they do not matter.
    const AreaMap* areas = nullptr;      // null: nodes are lost one by one
    // Shadows stay on the nodes of their PEs: the memory of a keeper that has died can be read there by who has it
    // mapped, which is what jobs without local copies go back to. They do not survive the loss of a node.
    bool keeps_near = false;
    const ParityGroups* groups = nullptr;            // null: nobody keeps parity
    const Scheme* scheme = &one_partner();           // of redundancy
    const MemoryHolder* memory = &process_memory();  // of processes
    Version first_version{1};                        // a job that goes on from a stored version begins with that

    // The number of the version that is made when that is the last one.
    [[nodiscard]] Version version_after(Version version) const noexcept {
        return version == kNoVersion ? first_version : version.next();
    }
    [[nodiscard]] ProcId holder(const JobState& state, PeId pe) const noexcept;
    // The PE that `process` holds; kNoPe: none.
    [[nodiscard]] PeId held_by(const JobState& state, ProcId process) const noexcept;
    // The place of a holder, or of the witness, in the order of leaders: its own number, unless it had to be a higher
    // one when it took over.
    [[nodiscard]] std::int32_t turn_of(const JobState& state, ProcId process) const noexcept;
    // Why `holder` may not go on as `pe` under this value; nothing: it may.
    [[nodiscard]] std::optional<ReplacementReason> reason_to_replace(const JobState& state, PeId pe,
                                                                     ProcId holder) const noexcept;
    // The PEs that have to get other holders, in the order of what has happened to them.
    [[nodiscard]] std::vector<Vacancy> vacancies(const JobState& state) const;
    // An only PE keeps with a spare that takes part, unless its node has the copy.
    [[nodiscard]] bool has_witness() const noexcept;
    [[nodiscard]] bool is_one_node() const noexcept { return nodes == nullptr || nodes->is_one_node(); }
    // Of a process that the job started with, or that has joined.
    [[nodiscard]] NodeId node_of(const JobState& state, ProcId process) const noexcept;
    // False: they are all in one, as far as anybody knows.
    [[nodiscard]] bool has_groups() const noexcept { return !is_one_node() || domains != nullptr; }
    [[nodiscard]] GroupId group_of(const JobState& state, ProcId process) const noexcept;
    [[nodiscard]] bool has_areas() const noexcept { return areas != nullptr && !is_one_node() && !keeps_near; }
    // Started as a spare or joined as one, holds no PE and is not in `dead` (sorted by process).
    [[nodiscard]] std::vector<ProcId> idle_spares(const JobState& state, std::span<const Death> dead) const;
};

// The nodes that hold PEs come in the order of their numbers: which PEs are on the one that is so many places before
// that of `pe`; none: there is no such node.
[[nodiscard]] std::vector<PeId> pes_of_node_before(const JobShape& shape, const JobState& state, PeId pe,
                                                   std::int32_t n);

// Who holds and is held, by a list of replacements as of any time.
[[nodiscard]] ProcId holder_in(std::span<const Replacement> replacements, PeId pe) noexcept;
// The highest turn of these; below all others if there is none.
[[nodiscard]] std::int32_t last_turn_in(std::span<const Replacement> replacements) noexcept;
[[nodiscard]] bool has_joined(const JobState& state, ProcId process) noexcept;
[[nodiscard]] bool contains(std::span<const Death> sorted_by_process, ProcId process) noexcept;
// Keeps the list sorted by process; an entry that is there stays as it is. True: it was new.
bool insert_sorted(std::vector<Death>& deaths, const Death& death);

// Empty, or which invariant is violated. `before` is the value with the index below.
[[nodiscard]] std::string check_invariants(const JobShape& shape, const JobState& state, const JobState* before);
// One line for traces.
[[nodiscard]] std::string to_string(const JobState& state);

}  // namespace sft
