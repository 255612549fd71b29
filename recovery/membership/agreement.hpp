// Agreement on one JobState after the other, by messages along a tree, without I/O.
//
// Fault model: any participant may die at any step, the leader included, any number of them. A process that is declared
// dead is dead (it was killed before, or stops itself when it learns of it); deaths reach somebody's process_died()
// sooner or later. Messages between two living processes arrive once and in order; nothing is said about different
// pairs. A dead process's messages may or may not arrive. Nobody lies. Under a partition at most one side decides
// anything, the one that has more than half of the participants, or half of them with the first one among these
// (quorum.hpp); the other side stops itself.
//
// Participants are the living holders of the PEs, in the order of their turns (a job of one PE adds the spare that
// keeps its copy). The first one leads; since the dead do not come back and substitutes get higher turns than everybody
// before them, leadership only moves on to higher turns. They form a tree of fan-out k over their order, so
// a step down or up takes O(log P) messages one after the other and no process sends more than k at a time.
//
// Without failures a value costs one sweep up and one down: whoever is ready, and whose subtree is, says so to its
// parent; when the leader has heard of everybody it decides what follows, and tells. Being ready is accepting. That is
// enough where it does not matter whether a process that died was ready (needs_proposal: no). Where it does, because a
// value claims something about everybody (all copies of the version exist), the leader first proposes the value and
// collects acceptances, which costs one more sweep up and down; then no value is decided that rests on the readiness of
// a process that was not ready.
//
// A spare that comes while the job runs asks everybody (message join), so that whoever leads, now or later, has heard
// of it; the leader proposes a value that differs only in having it among `joined`. From then on it is a spare like
// others. They join in the order of their numbers, so that what is said above about substitutes stays true; one that
// comes too late is sent away.
//
// Words of readiness. On one node the steps of a checkpoint take no message: each process has a word in memory that
// outlives it, and whoever finds the words of all participants there decides. A ballot about a value ends that for this
// value (docs/protocols.md, "Words of readiness").
//
// When a participant dies, or the leader does, whoever leads now begins a ballot: it collects from every living
// participant what it knows to be decided, what it has accepted and what it is ready for. Then
//   - somebody knows a later value: it was decided, so the ballot begins again from it;
//   - all have accepted the same next value: it may have been decided, so it is decided;
//   - else it cannot have been decided, since deciding takes the acceptance of all that live: the leader chooses what
//     the deaths demand (JobRules), proposes it, and decides it when all have accepted.
//
// News. Between nodes only those who watch a node learn that it is lost, and tell whoever they take for the leader. If
// several nodes are lost at once that may be a dead one of which others know, who in turn tell one that these know to
// be dead: everybody waits then. So who knows of a participant's death and gets no sign that a leader knows of it tells
// those who would lead next as well, in their order, twice as many in every further period, each of them once. It can
// do no harm that telling the next leader would not have done: whoever hears of a death this way could have heard of it
// from a leader, had there been one.
//
// Invariants (checked by tests/sim)
//  1. Two processes never decide different values with one index.
//  2. A process decides the values in the order of their indices and skips one only by adopting a later decided one.
//  3. A value with index i + 1 is decided only if every participant of value i that lives has accepted it.
//  4. What a process has accepted is changed only by a proposal of a higher ballot, and forgotten only when the next
//     value is decided.
//
// Memory: O(deaths + fan-out) per process; nothing grows with the number of PEs.
//
// Threads: none of its own; the owner calls it from one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "recovery/membership/job_state.hpp"
#include "recovery/membership/message.hpp"
#include "recovery/membership/mutation.hpp"
#include "recovery/membership/tree.hpp"

namespace sft {

// Whether what follows from readiness for `goal` has to be proposed before it is decided.
[[nodiscard]] constexpr bool needs_proposal(Goal goal) noexcept {
    return goal == Goal::replicate || goal == Goal::protect || goal == Goal::finish || goal == Goal::restart;
}

// The goal that may lead on from a stage without a proposal; none: there is no such goal.
[[nodiscard]] constexpr Goal goal_without_proposal(Stage stage) noexcept {
    return stage == Stage::running    ? Goal::arrive
           : stage == Stage::updating ? Goal::update
           : stage == Stage::planned  ? Goal::restore
                                      : Goal::none;
}

// The goal that may lead on from a stage by words of readiness: a step of a checkpoint; none: there is no such goal.
[[nodiscard]] constexpr Goal goal_by_words(Stage stage) noexcept {
    return stage == Stage::running       ? Goal::arrive
           : stage == Stage::replicating ? Goal::replicate
           : stage == Stage::updating    ? Goal::update
                                         : Goal::none;
}

// What follows from what: pure, the same everywhere. Implemented by recovery/rules.hpp.
class Rules {
public:
    virtual ~Rules() = default;

    // Everybody is ready for `goal`. Not called for Goal::restart.
    [[nodiscard]] virtual JobState after_ready(const JobState& state, Goal goal) const = 0;
    // Everybody is ready for a restart with the list that `hash` stands for, or `is_mixed`: with different ones.
    // Nothing: not now (a spare is awaited).
    [[nodiscard]] virtual std::optional<JobState> after_restart(const JobState& state, const Readiness& ready,
                                                                std::span<const Death> dead) const = 0;
    // What has to be decided because of deaths that `state` does not have. Nothing: go on without them.
    [[nodiscard]] virtual std::optional<JobState> after_deaths(const JobState& state,
                                                               std::span<const Death> dead) const = 0;
    [[nodiscard]] virtual JobState after_end_request(const JobState& state, const EndRequest& request,
                                                     std::span<const Death> dead) const = 0;
    // Nothing can be repaired before a spare has come.
    [[nodiscard]] virtual bool awaits_spares(const JobState& /*state*/, std::span<const Death> /*dead*/) const {
        return false;
    }
    // Every holder is dead, and what they had agreed on is not known.
    [[nodiscard]] virtual JobState after_loss_of_all(const JobState& state, std::span<const Death> dead) const = 0;
    // Every holder is dead, and `state` is what they had agreed on last.
    [[nodiscard]] virtual JobState after_loss_of_holders(const JobState& state, std::span<const Death> dead) const {
        return after_loss_of_all(state, dead);
    }
};

// Why a process has to stop although its job may go on elsewhere.
struct Stop {
    enum class Reason : std::uint8_t {
        excluded,   // the others have declared it dead
        no_quorum,  // too few are left that can be reached: the others may be going on without them
        gives_way,  // its node cannot reach another one that counts for more (node_watch.hpp)
    };
    Reason reason = Reason::excluded;
    // no_quorum: holders of PEs (and the witness) that can be reached, this one among them; those that may be alive.
    std::int32_t n_reachable = 0;
    std::int32_t n_all = 0;
};

// What the agreement does to the world outside. Called from within the calls below, in order.
class AgreementWorld {
public:
    virtual ~AgreementWorld() = default;

    virtual void send(ProcId to, const Message& message) = 0;
    // This process goes on from that value; nothing is said or done because of it before this has returned.
    virtual void record(const JobState& /*value*/) {}
    // `after` is decided; the agreement holds it already.
    virtual void decided(const JobState& before, const JobState& after) = 0;
    // A death that this process has not known, from whomever it was heard.
    virtual void heard_of_death(const Death& death) = 0;
    // This process must stop at once, and knows why.
    virtual void must_stop(const Stop& why) = 0;
    // Nobody on another node can have declared this process dead (node_watch.hpp); without that no death that others
    // tell is certain.
    [[nodiscard]] virtual bool has_lease() const { return true; }
    // The last value that one of the dead has decided, if what they have recorded outlives them (value_records.hpp);
    // the one that the job has started with if none of them has decided any. Nothing: it does not. On several nodes the
    // dead are those of this process's node.
    [[nodiscard]] virtual std::optional<JobState> decided_by(std::span<const Death> /*dead*/) const { return {}; }
    // Words of readiness (above): whether every process has one in memory that outlives it. The same for all.
    [[nodiscard]] virtual bool has_ready_words() const { return false; }
    // The own one, which only grows. Others see it before this returns.
    virtual void write_ready_word(std::uint64_t /*word*/) {}
    [[nodiscard]] virtual std::uint64_t ready_word_of(ProcId /*process*/) const { return 0; }
    // All participants' words are there: the others are to look().
    virtual void wake_for_words() {}
    // What this process knows of a node (node_watch.hpp), for others that ask.
    [[nodiscard]] virtual Testimony testimony_about(NodeId /*node*/) const { return Testimony::none; }
};

// What a process that is ready for a step by words writes; 0, as words begin, is of no value.
[[nodiscard]] inline std::uint64_t word_of(const JobState& state) noexcept { return state.index + 1; }

class Agreement {
public:
    struct Options {
        JobShape shape;
        ProcId self = kNoProc;
        std::int32_t fan_out = kFanOut;
        const Rules* rules = nullptr;
        AgreementWorld* world = nullptr;
        JobState first;  // what everybody starts with
    };
    explicit Agreement(const Options& options);

    // This process's PE is ready for the goal that leads on from decided(). A process that holds no PE has none; a
    // witness is always ready. Ignored when the value has moved on (index differs).
    void ready(std::uint64_t index, Goal goal, std::uint64_t hash = 0);
    // Decides by the words of readiness, if all are there.
    void look();
    // Whether decided() may be followed by look(), without any message. Participants of it whose words are missing.
    [[nodiscard]] bool is_open() const noexcept;
    [[nodiscard]] std::vector<ProcId> missing_words() const;
    void process_died(const Death& death);
    // `process` has left the job because it is over. how: finished or ended.
    void process_left(ProcId process, Stage how);
    void receive(ProcId from, const Message& message);
    void request_end(EndReason reason, std::int32_t exit_status);
    // This process, which is none of those that the job started with, asks to be one of its spares. REQUIRES: it can be
    // sent to, and runs on `node`, one of the job's. Everybody is asked, so that it does not matter who dies; once more
    // when this process hears of a death.
    void request_join(std::vector<ProcId> everybody, NodeId node);
    // The node of this process cannot reach another one that counts for more: all of it stops.
    void give_way();
    // To be called in every period of the watch between nodes (see "News" above).
    void remind();

    [[nodiscard]] const JobState& decided() const noexcept { return state_; }
    [[nodiscard]] const std::vector<Death>& known_deaths() const noexcept { return dead_; }  // sorted by process
    [[nodiscard]] const JobShape& shape() const noexcept { return shape_; }
    [[nodiscard]] ProcId self() const noexcept { return self_; }
    // Who leads, as far as this process knows; kNoProc: nobody is left to.
    [[nodiscard]] ProcId leader() const;
    // Somebody whose silence would keep this process waiting for ever, so its life should be watched; kNoProc: nobody.
    [[nodiscard]] ProcId depends_on() const;
    [[nodiscard]] Ballot ballot() const noexcept { return ballot_; }
    // This process leads, and everybody is ready for a restart with one list.
    [[nodiscard]] bool leads_restart() const noexcept;
    // For the table of costs.
    [[nodiscard]] std::size_t bytes() const noexcept;

private:
    struct Child {
        ProcId process = kNoProc;
        bool has_reported = false;
        bool has_accepted = false;  // the proposal that is on its way
        Readiness ready;
        Acceptance accepted;
        std::optional<Readiness> next_ready;  // for what leads on from the next value, which it has heard of already
    };

    // agreement.cpp: what comes in
    void take_collect(ProcId from, const Message& message);
    void take_report(ProcId from, const Message& message);
    void take_ready(ProcId from, const Message& message);
    void take_propose(ProcId from, const Message& message);
    void take_accepted(ProcId from, const Message& message);
    void take_decide(const Message& message);
    void take_deaths(ProcId from, const Message& message);
    void take_census(ProcId from, const Message& message);
    void tell_of_later_value(ProcId to) const;
    void take_end_request(const Message& message);
    void take_ping(ProcId from, const Message& question);
    void take_join(ProcId from, NodeId node);
    void say_join() const;
    void take_later_state(const Message& message);
    [[nodiscard]] bool learn(const Death& death);
    [[nodiscard]] bool learn_all(std::span<const Death> deaths);
    [[nodiscard]] bool learn_told(std::span<const Death> deaths);
    void react_to_deaths();
    void report_deaths();
    void stop(const Stop& why);

    // agreement_words.cpp: words of readiness
    [[nodiscard]] bool has_word(ProcId process) const;
    void vote();
    void want_ballot();
    void take_ballot_wanted(const Message& message);
    [[nodiscard]] bool are_all_words_there() const;
    [[nodiscard]] bool has_to_choose() const;

    // agreement_news.cpp: deaths of which no leader seems to know
    void take_news(ProcId from, const Message& message);
    [[nodiscard]] Message news() const;
    void note_what_leader_knows(ProcId from, std::span<const Death> deaths);
    [[nodiscard]] bool is_participant(ProcId process) const;
    [[nodiscard]] bool is_in_doubt(ProcId leading) const;

    // agreement_lead.cpp: the leader's side, and what goes out
    void begin_ballot();
    void lead();
    void propose(JobState next);
    void decide(JobState next);
    void tell_spares() const;
    void tell_spares_of_deaths() const;
    void tell_own_share_of_spares() const;
    enum class Lead { as_before, anew };
    void adopt(JobState next, Lead lead = Lead::as_before);
    // The invariants of what this process keeps about its ballot and the next value.
    void assert_invariants() const noexcept;
    void join(Ballot ballot, const JobState& state, std::vector<Death> dead, ProcId parent);
    void take_place(const Tree& tree);
    // Of whom this process knows and its ballot does not.
    [[nodiscard]] std::vector<Death> deaths_since_ballot() const;
    void progress();
    void forward(const Message& message);
    void answer();
    void say_ready();
    void say_accepted();
    [[nodiscard]] bool have_all_reported() const noexcept;
    [[nodiscard]] bool have_all_accepted() const noexcept;
    [[nodiscard]] Readiness readiness_without_word(ProcId process) const noexcept;
    void reset(Child& item) const noexcept;
    [[nodiscard]] Readiness subtree_readiness() const noexcept;
    [[nodiscard]] Acceptance own_acceptance() const noexcept;
    [[nodiscard]] Acceptance subtree_acceptance() const noexcept;
    [[nodiscard]] bool can_join_now() const;
    struct Votes {
        std::int32_t n_reachable = 0;
        std::int32_t n_all = 0;
        bool is_enough = true;
    };
    [[nodiscard]] Votes count_votes() const;
    [[nodiscard]] bool is_leading() const noexcept { return parent_ == kNoProc && is_participant_; }
    [[nodiscard]] Child* child(ProcId process) noexcept;
    void look_after_orphans();
    [[nodiscard]] bool is_over() const noexcept { return sft::is_over(state_); }
    [[nodiscard]] Message make(MessageKind kind) const;
    // agreement_census.cpp
    void ask_in_census(ProcId spare);
    void note_covered(ProcId from, const Message& reply);
    void count_census();
    void go_on_from(const JobState& value);
    void tell_holders() const;
    enum class LeftValue : std::uint8_t { no_records, known, adopted };
    LeftValue learn_left_value();
    [[nodiscard]] bool go_on_from_nodes();
    [[nodiscard]] std::vector<ProcId> whose_records_are_unread() const;
    [[nodiscard]] bool ask_again(const std::vector<ProcId>& unread);

    JobShape shape_;
    ProcId self_;
    std::int32_t fan_out_;
    const Rules* rules_;
    AgreementWorld* world_;

    JobState state_;
    std::vector<Death> dead_;  // sorted by process: state_.deaths and what has been heard since

    // The ballot this process takes part in, and its place in the tree.
    Ballot ballot_;                   // at first that of process 0, who begins none
    std::vector<Death> ballot_dead_;  // sorted: whom the tree leaves out
    bool is_participant_ = false;
    ProcId parent_ = kNoProc;  // none: this process leads the ballot
    std::vector<Child> children_;
    bool has_answered_ = true;  // collect of this ballot (there is none in the first one)
    bool has_said_ready_ = false;
    bool has_said_accepted_ = false;  // of this proposal

    // About the next value.
    Readiness own_ready_;
    std::unique_ptr<JobState> proposal_;  // accepted
    Ballot proposal_ballot_;
    bool is_proposing_ = false;                  // leader: waits for acceptances
    std::optional<std::uint64_t> closed_index_;  // of the last value about which this process has joined a ballot
    std::optional<std::uint64_t> wanted_index_;  // of the last value for which somebody wants one

    EndRequest end_request_;        // own, until the job has ended
    EndRequest heard_end_;          // anybody's, on its way to the leader
    ProcId told_leader_ = kNoProc;  // who has been told of the own request
    bool is_stopped_ = false;       // nothing is said, heard or decided any more
    bool is_dismissed_ = false;     // a spare that has seen others leave the job: nothing is heard any more
    std::vector<Joined> joining_;   // whose request has been heard, and is not decided; by process
    std::vector<ProcId> asked_;     // this process wants to join: whom it has asked
    NodeId own_node_ = kNoNode;     // and where it runs
    // By the lowest sleeping spare when nobody leads.
    struct Census {
        std::map<ProcId, std::vector<Death>> told;  // who has been asked, and was told of whose certain deaths
        std::vector<ProcId> awaited;
        std::vector<ProcId> covered;      // dead ones of other nodes whose records somebody there has read
        std::vector<ProcId> asked_about;  // dead ones because of whom somebody has been asked again
    };
    Census census_;
    bool has_census_begun_ = false;

    // Deaths are never forgotten, so their number says which are meant.
    struct Doubt {
        ProcId leader = kNoProc;
        std::size_t n_deaths = 0;
        std::int32_t n_periods = 0;
    };
    Doubt doubt_;                    // whether `leader` knows of these
    ProcId confirmed_by_ = kNoProc;  // a leader that has told a sleeping spare of all the deaths it knew
    std::size_t n_confirmed_deaths_ = 0;
};

}  // namespace sft
