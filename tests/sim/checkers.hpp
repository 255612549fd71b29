// The checkers: one class per kind of invariant of the target architecture. They see events only, keep their own
// account of what happened, and share nothing with the code under test but the types of decided values.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "tests/sim/events.hpp"
#include "tests/sim/scenario.hpp"

namespace sft::sim {

// What every checker needs to know: who is there, and which values exist.
class Account {
public:
    explicit Account(const Scenario& of) : scenario(of), is_gone(static_cast<std::size_t>(n_slots(of))) {}

    const Scenario& scenario;
    std::vector<bool> is_gone;
    std::set<ProcId> declared;  // dead, by the world to somebody
    std::size_t n_deaths = 0;
    bool has_uncertain = false;  // somebody was declared dead and may live

    [[nodiscard]] bool counts(ProcId process) const { return lives(process) && !declared.contains(process); }
    // What it keeps for others, or its node does.
    [[nodiscard]] bool has_memory(ProcId process) const {
        return counts(process) || (scenario.has_node_memory && is_anybody_on(node_of(scenario, process)));
    }
    [[nodiscard]] bool is_anybody_on(NodeId node) const {
        for (std::int32_t process = 0; process < n_slots(scenario); ++process) {
            if (lives(ProcId(process)) && node_of(scenario, ProcId(process)) == node) {
                return true;
            }
        }
        return false;
    }
    [[nodiscard]] bool lives(ProcId process) const { return process != kNoProc && !is_gone[process.index()]; }
};

// Who has to keep a share of each PE under the holders of this value, found without the code under test. Nobody: empty.
using Keepers = std::vector<std::vector<ProcId>>;
[[nodiscard]] Keepers expected_keepers(const Scenario& scenario, const JobState& state);
// Where the scenario has parity: the other members of each PE's group.
[[nodiscard]] std::vector<std::vector<PeId>> expected_groups(const Scenario& scenario);
// Where a keeper of that value keeps.
[[nodiscard]] Place local_place_of(const Scenario& scenario, ProcId holder, PeId pe);
[[nodiscard]] Place place_at(const Scenario& scenario, ProcId keeper, PeId pe, Version version);

// Empty, or what is wrong in a value that follows `before`: computed from the deaths that are new in it, and from
// nothing that the code under test has worked out. What the rules are free to choose is checked for being a good
// choice.
[[nodiscard]] std::string wrong_step(const Scenario& scenario, const JobState& before, const JobState& after);
// The same for the value that a job starts with.
[[nodiscard]] std::string wrong_start(const Scenario& scenario, const JobState& first);

// Invariant 1 and 6: the same values everywhere, in order, each following from the one before; one holder per PE.
class AgreementChecker final : public Observer {
public:
    AgreementChecker(const Account& account, Verdict& verdict);

    void decided(ProcId process, const JobState& before, const JobState& after) override;
    void returned(ProcId process, PeId pe, Call call, Participant::Do result, std::uint32_t view,
                  Version version) override;
    void sent(ProcId from, ProcId to, const Message& message, std::int32_t hops) override;
    void recorded(ProcId process, const JobState& value) override;

private:
    void check_first(ProcId process, const JobState& before, const JobState& after);
    [[nodiscard]] bool is_of_orphans(ProcId process, const JobState& before, const JobState& after) const;

    const Account& account_;
    Verdict& verdict_;
    std::map<std::uint64_t, JobState> values_;
    std::set<Stage> ends_;                                     // that somebody has come to
    std::map<ProcId, std::uint64_t> known_index_;              // of the last value that a process has decided
    std::map<std::pair<std::uint32_t, PeId>, ProcId> actors_;  // who has returned as that PE, by view
};

// Invariant 6: the same outcome of a call and the same list of the failed, whoever asks.
class OutcomeChecker final : public Observer {
public:
    OutcomeChecker(const Account& account, Verdict& verdict) : account_(account), verdict_(verdict) {}

    void returned(ProcId process, PeId pe, Call call, Participant::Do result, std::uint32_t view,
                  Version version) override;
    void gave_list(ProcId process, std::uint32_t view, const std::vector<FailedPe>& list) override;
    void gave_list_as_substitute(PeId pe, const std::vector<FailedPe>& list) override;
    void gone(ProcId process, Gone how) override;
    void over() override;

private:
    const Account& account_;
    Verdict& verdict_;
    std::map<std::tuple<std::uint32_t, Version, Call>, Participant::Do> outcomes_;
    std::map<std::uint32_t, std::vector<FailedPe>> lists_;
    bool has_finished_ = false;
    bool has_ended_ = false;
};

// Invariants 2 to 5: copies exist when they have to, and hold what they have to; no stale write lands.
class MemoryChecker final : public Observer {
public:
    MemoryChecker(const Account& account, Verdict& verdict) : account_(account), verdict_(verdict) {}

    void decided(ProcId process, const JobState& before, const JobState& after) override;
    void returned(ProcId process, PeId pe, Call call, Participant::Do result, std::uint32_t view,
                  Version version) override;
    void live_memory(ProcId process, PeId pe, Version version, const Content& content) override;
    void still_taken(ProcId process, PeId pe, Version version, const Content& content) override;
    void copy_begun(const Place& place) override;
    void copy_done(const Place& place, Version version, const Content& content) override;
    void put_applied(ProcId from, std::uint32_t view, PeId pe, ProcId to, std::uint32_t view_there) override;
    void restored(ProcId process, std::uint32_t view, RestoredFrom where) override;
    void heard_of_death(ProcId process, const Death& death) override;
    void gave_up(ProcId process, PeId pe, const JobState& state) override;
    void bit_flipped(const Place& place) override;
    void shadow_sent_anew(ProcId process) override;

private:
    struct Stored {
        Version version = kNoVersion;
        Content content{};
    };
    [[nodiscard]] bool has_copy(const Place& place, Version version) const;
    void expect_shadows(const JobState& state, Version version, const char* when);
    void expect_local_copies(const JobState& state, Version version, const char* when);
    void expect_parity(const JobState& state, Version version, const char* when);
    [[nodiscard]] bool may_give_up_in_group(ProcId process, PeId pe, const JobState& state) const;

    const Account& account_;
    Verdict& verdict_;
    std::map<Place, Stored> stored_;
    std::set<Place> flipped_;                    // complete copies in which a bit is wrong
    std::set<std::pair<ProcId, ProcId>> heard_;  // who has heard of whose death
    std::map<ProcId, std::uint32_t> back_in_;    // the view in which a process has gone back last
    std::uint64_t seen_index_ = 0;
    JobState latest_;
};

// A job ends before its time only for a reason, found out here without the rules under test.
class EndChecker final : public Observer {
public:
    EndChecker(const Account& account, Verdict& verdict);

    void decided(ProcId process, const JobState& before, const JobState& after) override;
    void gone(ProcId process, Gone how) override;
    void heard_of_death(ProcId process, const Death& death) override;
    void requested_end(ProcId process, EndReason reason) override;
    void could_not_open(ProcId process) override;
    void blamed(ProcId process, ProcId culprit) override;
    void must_stop(ProcId process, const JobState& state, const Stop& why) override;
    void entered(ProcId process, PeId pe, Call call, std::uint32_t view, Version version) override;

private:
    void note_copies(const JobState& state);
    [[nodiscard]] bool is_deserted(ProcId decider, const JobState& before, NodeId node) const;
    [[nodiscard]] bool is_any_unread(ProcId decider, const JobState& before) const;
    [[nodiscard]] bool is_out_of_reach(ProcId decider, const JobState& before, ProcId keeper) const;
    [[nodiscard]] bool has_reason(ProcId decider, const JobState& before, const JobState& after) const;
    [[nodiscard]] bool is_out(ProcId decider, ProcId process) const;
    [[nodiscard]] bool is_any_group_lost(ProcId decider, const JobState& before) const;
    [[nodiscard]] bool is_too_late(ProcId process) const;

    const Account& account_;
    Verdict& verdict_;
    std::uint64_t seen_index_ = 0;
    std::vector<std::set<ProcId>> copies_;  // by PE, of the last committed version
    Version committed_ = kNoVersion;        // that anybody has heard of
    Keepers shadows_;                       // by PE, as of the last time that everybody was protected
    std::map<ProcId, std::map<ProcId, Death>> heard_;
    std::set<NodeId> given_way_;
    bool has_anybody_left_ = false;  // because the job is over
    std::set<std::pair<ProcId, EndReason>> requests_;
    std::set<ProcId> has_joined_;
    std::set<ProcId> could_not_open_;
    ProcId last_joined_ = kNoProc;
    bool is_anybody_finishing_ = false;
    bool is_ended_ = false;
};

// Invariant 8 and the cost of the agreement: spares sleep, messages per decision and hops are bounded.
class LoadChecker final : public Observer {
public:
    LoadChecker(const Account& account, Verdict& verdict) : account_(account), verdict_(verdict) {}

    void decided(ProcId process, const JobState& before, const JobState& after) override;
    void sent(ProcId from, ProcId to, const Message& message, std::int32_t hops) override;
    void handled(ProcId by, bool is_idle_spare, const Message& message) override;
    void over() override;

private:
    const Account& account_;
    Verdict& verdict_;
    std::uint64_t n_sent_ = 0;
    std::uint64_t n_decisions_ = 0;
    std::int32_t hops_max_ = 0;
    bool is_over_ = false;
    std::map<ProcId, std::uint64_t> handled_by_spares_;
};

// All of them, and the account that they share.
class Checkers {
public:
    Checkers(const Scenario& scenario, Verdict& verdict);
    ~Checkers();
    [[nodiscard]] std::vector<Observer*> observers();

private:
    class Bookkeeper;
    Account account_;
    std::vector<std::unique_ptr<Observer>> all_;
};

}  // namespace sft::sim
