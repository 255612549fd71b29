// What the simulated jobs have done. A rule that is never applied breaks no checker: so a run of many seeds in which
// too little has happened fails, whatever the checkers say.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tests/sim/events.hpp"
#include "tests/sim/scenario.hpp"

namespace sft::sim {

enum class Feat : std::uint8_t {
    commits,
    faults,
    plans,
    later_plans,      // with a further death
    recoveries,       // everybody has gone on
    substitutes,      // that have gone on
    late_spares,      // that were counted in
    late_takeovers,   // of them, that were given a PE
    folds,            // local copies made
    own_restores,     // from local copies
    shadow_restores,  // by substitutes
    mends,            // a bad local copy replaced from the shadow
    new_shadows,      // sent to a new keeper
    new_witnesses,
    closed,  // memory of others that could not be opened
    rejections,
    give_ups,
    minorities,  // processes that stopped themselves because too few were left
    exclusions,  // processes that heard that the others had called them dead
    finished,
    no_spare,
    copies_lost,
    all_died,
    nothing_committed,
    past_the_end,
    requested,
    adoptions,   // restores from what the dead have left: of node memory
    revivals,    // plans after all holders had died: of node memory
    full_words,  // found by a process: of words of readiness
    stills,      // taken: of checkpoints while the program goes on
    settled,     // committed so
    failed_meanwhile,
    count_
};

class Coverage final : public Observer {
public:
    void begin(const Scenario& scenario) noexcept { n_pes_ = static_cast<std::size_t>(scenario.shape.n_pes); }
    void decided(ProcId process, const JobState& before, const JobState& after) override;
    void returned(ProcId process, PeId pe, Call call, Participant::Do result, std::uint32_t view,
                  Version version) override;
    void copy_done(const Place& place, Version version, const Content& content) override;
    void gave_up(ProcId process, PeId pe, const JobState& state) override;
    void must_stop(ProcId process, const JobState& state, const Stop& why) override;
    void restored(ProcId process, std::uint32_t view, RestoredFrom where) override;
    void could_not_open(ProcId process) override;
    void shadow_sent_anew(ProcId process) override;

    void found_all_words(ProcId process) override;
    void still_taken(ProcId process, PeId pe, Version version, const Content& content) override;
    void settled(ProcId process, Participant::Do result) override;

    void add(const Coverage& other) noexcept;
    [[nodiscard]] std::uint64_t operator[](Feat feat) const noexcept { return counts_[static_cast<std::size_t>(feat)]; }
    // Of jobs whose memory is their node's: seldom more than one of nine are.
    [[nodiscard]] bool has_used_node_memory(std::uint64_t n_jobs) const noexcept;
    // Of jobs that have words of readiness: seldom more than one of nine, if nodes have memory besides.
    [[nodiscard]] bool has_used_words(std::uint64_t n_jobs) const noexcept;
    [[nodiscard]] bool has_used_background(std::uint64_t n_jobs) const noexcept;
    // Empty, or what there has been too little of in so many jobs.
    [[nodiscard]] std::string what_is_missing(std::uint64_t n_jobs) const;
    [[nodiscard]] std::string to_string() const;

    // Fewer jobs say nothing about what is seldom.
    static constexpr std::uint64_t kJobsMin = 1000;

private:
    void count(Feat feat) noexcept { ++counts_[static_cast<std::size_t>(feat)]; }

    std::array<std::uint64_t, static_cast<std::size_t>(Feat::count_)> counts_{};
    std::uint64_t seen_index_ = 0;
    std::size_t n_pes_ = 0;
};

}  // namespace sft::sim
