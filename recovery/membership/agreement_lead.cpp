// The leader's side of the agreement, and what every participant sums up and passes on.

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "recovery/membership/agreement.hpp"
#include "recovery/membership/quorum.hpp"
#include "recovery/membership/state_invariants.hpp"

namespace sft {

Message Agreement::make(MessageKind kind) const {
    Message message;
    message.kind = kind;
    message.ballot = ballot_;
    message.index = state_.index;
    return message;
}

// ---- ballots ----

void Agreement::join(Ballot ballot, const JobState& state, std::vector<Death> dead, ProcId parent) {
    SFT_ASSERT(ballot > ballot_);  // a process joins higher ballots only (lemma 2)
    SFT_ASSERT((parent == kNoProc) == (ballot.leader == self_.value()));
    SFT_ASSERT(parent == kNoProc || shape_.turn_of(state, parent) < shape_.turn_of(state, self_));
    ballot_ = ballot;
    ballot_dead_ = std::move(dead);
    parent_ = parent;
    closed_index_ = state.index;
    take_place(Tree(shape_, state, ballot_dead_, fan_out_));
    has_answered_ = parent == kNoProc;
    is_proposing_ = false;
    SFT_ASSERT(is_participant_ || is_stopped_);  // who is asked takes part
    if (is_mutated(Mutation::forget_acceptance)) {
        proposal_.reset();
    }
}

void Agreement::take_place(const Tree& tree) {
    is_participant_ = tree.place_of(self_) >= 0;
    children_.clear();
    if (is_participant_) {
        for (const ProcId process : tree.children_of(self_)) {
            children_.emplace_back().process = process;
        }
    }
    SFT_ASSERT(children_.size() <= static_cast<std::size_t>(fan_out_));
}

// Who counts follows from the value alone: its participants less the deaths that it lists, of whom nobody takes part in
// a ballot about it. So two ballots that both have enough share a member, whatever either leader has heard and when:
// more than half, or half with the first one. Without deaths that are uncertain and new nobody can be elsewhere.
Agreement::Votes Agreement::count_votes() const {
    std::vector<Death> agreed;
    for (const Death& death : state_.deaths) {
        insert_sorted(agreed, death);
    }
    const bool is_anybody_elsewhere = std::any_of(dead_.begin(), dead_.end(), [&](const Death& death) {
        return !death.is_certain && !contains(agreed, death.process);
    });
    const Tree all(shape_, state_, agreed, fan_out_);
    const Tree reachable(shape_, state_, dead_, fan_out_);
    Votes votes{.n_reachable = reachable.size(), .n_all = all.size(), .is_enough = true};
    if (is_anybody_elsewhere && !is_mutated(Mutation::minority_decides)) {
        const bool has_first = reachable.root() == all.root() || is_mutated(Mutation::tie_for_both);
        votes.is_enough = is_quorum(votes.n_reachable, votes.n_all, has_first) && !is_mutated(Mutation::majority_stops);
    }
    SFT_ASSERT(votes.n_reachable <= votes.n_all);  // whom the value lists as dead is dead to this process
    return votes;
}

// REQUIRES: this process leads, as far as it knows. ENSURES: everybody else is asked; nobody has answered yet.
void Agreement::begin_ballot() {
    if (const Votes votes = count_votes(); !votes.is_enough) {
        stop({Stop::Reason::no_quorum, votes.n_reachable, votes.n_all});
        return;
    }
    SFT_ASSERT(!is_over());
    SFT_ASSERT(ballot_.number < UINT32_MAX);  // a leader never uses a number twice
    SFT_ASSERT_SLOW(leader() == self_);
    fault_point(FaultPoint::ballot_begin);
    join({self_.value(), ballot_.leader == self_.value() ? ballot_.number + 1 : 1, shape_.turn_of(state_, self_)},
         state_, dead_, kNoProc);
    Message collect = make(MessageKind::collect);
    collect.state = state_;
    collect.deaths = ballot_dead_;
    forward(collect);
    if (!shape_.is_one_node()) {
        tell_spares_of_deaths();
    }
}

// On one node the kernel tells everybody of every death. Between nodes a sleeping spare may be the only one left on its
// node to tell of a death there, and has to know whom.
void Agreement::tell_spares_of_deaths() const {
    Message message = make(MessageKind::deaths);
    message.deaths = ballot_dead_;
    for (const ProcId spare : shape_.idle_spares(state_, dead_)) {
        if (spare != state_.witness && !is_mutated(Mutation::leave_spares_untold)) {
            world_->send(spare, message);
        }
    }
}

void Agreement::forward(const Message& message) {
    for (const Child& item : children_) {
        world_->send(item.process, message);
    }
}

Agreement::Child* Agreement::child(ProcId process) noexcept {
    const auto at =
        std::find_if(children_.begin(), children_.end(), [&](const Child& item) { return item.process == process; });
    return at == children_.end() ? nullptr : &*at;
}

// ---- sums over the own subtree ----

// Who takes part without holding a PE has nothing of its own to get ready: a witness is not waited for, nor woken.
Readiness Agreement::readiness_without_word(ProcId process) const noexcept {
    return {shape_.held_by(state_, process) == kNoPe ? Goal::any : Goal::none, false, 0};
}

void Agreement::reset(Child& item) const noexcept {
    item.ready = readiness_without_word(item.process);
    item.accepted = {Acceptance::Kind::by_ready, {}};
}

bool Agreement::have_all_reported() const noexcept {
    return std::all_of(children_.begin(), children_.end(), [](const Child& item) { return item.has_reported; });
}

bool Agreement::have_all_accepted() const noexcept {
    return std::all_of(children_.begin(), children_.end(), [](const Child& item) { return item.has_accepted; });
}

Readiness Agreement::subtree_readiness() const noexcept {
    Readiness total = own_ready_.goal != Goal::none ? own_ready_ : readiness_without_word(self_);
    const std::size_t ignored = is_mutated(Mutation::decide_without_child) && !children_.empty() ? 1 : 0;
    for (std::size_t i = 0; i + ignored < children_.size(); ++i) {
        total = sum(total, children_[i].ready);
    }
    return total;
}

Acceptance Agreement::own_acceptance() const noexcept {
    return proposal_ ? Acceptance{Acceptance::Kind::proposal, proposal_ballot_}
                     : Acceptance{Acceptance::Kind::by_ready, {}};
}

Acceptance Agreement::subtree_acceptance() const noexcept {
    Acceptance total = own_acceptance();
    for (const Child& item : children_) {
        total = sum(total, item.accepted);
    }
    return total;
}

// ---- up the tree ----

void Agreement::progress() {
    if (is_over() || is_stopped_ || !is_participant_) {
        return;
    }
    assert_invariants();
    if (parent_ == kNoProc) {
        lead();
        return;
    }
    answer();
    say_ready();
    say_accepted();
}

void Agreement::answer() {
    if (has_answered_ || (!have_all_reported() && !is_mutated(Mutation::answer_before_children))) {
        return;
    }
    SFT_ASSERT(parent_ != kNoProc);
    Message report = make(MessageKind::report);
    report.ready = subtree_readiness();
    report.accepted = subtree_acceptance();
    report.end = end_request_.is_set ? end_request_ : heard_end_;
    report.deaths = deaths_since_ballot();
    fault_point(FaultPoint::collect_answered);
    has_answered_ = true;
    has_said_ready_ = report.ready.goal != Goal::none;
    world_->send(parent_, report);
}

void Agreement::say_ready() {
    if (!has_answered_ || has_said_ready_ || is_open()) {
        return;
    }
    Message message = make(MessageKind::ready);
    message.ready = subtree_readiness();
    if (message.ready.goal == Goal::none || message.ready.goal == Goal::any) {
        return;
    }
    message.accepted = subtree_acceptance();
    has_said_ready_ = true;
    world_->send(parent_, message);
}

void Agreement::say_accepted() {
    if (proposal_ && proposal_ballot_ == ballot_ && !has_said_accepted_ && have_all_accepted()) {
        fault_point(FaultPoint::propose_accepted);
        SFT_ASSERT(has_answered_);  // it has told what it had accepted before it accepts anything in this ballot
        has_said_accepted_ = true;
        Message message = make(MessageKind::accepted);
        message.index = proposal_->index;
        world_->send(parent_, message);
    }
}

// Between the steps of a commit and of a repair that gets on, the value is left alone: everybody would have to say
// again how far it is.
bool Agreement::can_join_now() const {
    return state_.stage == Stage::running || state_.stage == Stage::faulted || rules_->awaits_spares(state_, dead_);
}

// ---- decisions ----

void Agreement::lead() {
    if (is_open()) {
        if (!has_to_choose()) {
            return;
        }
        begin_ballot();
    }
    if (is_stopped_) {
        return;  // too few are left for a ballot
    }
    if (ballot_.leader != self_.value() || !have_all_reported()) {
        return;
    }
    if (is_proposing_) {
        if (have_all_accepted()) {
            decide(*proposal_);
        }
        return;
    }
    Readiness ready = subtree_readiness();
    const Acceptance accepted = subtree_acceptance();
    if (ready.goal == Goal::any) {
        ready.goal = goal_without_proposal(state_.stage);  // the witness alone is left: the holder may have decided
    }
    const bool are_all_ready = ready.goal != Goal::none;
    // What all have accepted may have been decided by a leader that died, so it is decided now.
    if (is_mutated(Mutation::words_before_proposals) && are_all_words_there()) {
        decide(rules_->after_ready(state_, goal_by_words(state_.stage)));
        return;
    }
    if (accepted.kind == Acceptance::Kind::proposal && !is_mutated(Mutation::ignore_forced_value)) {
        decide(*proposal_);
        return;
    }
    // Nothing was proposed to all, so nothing but words can have led on, and nobody writes a word for this value any
    // more. If all are there somebody may have gone on by them.
    if (are_all_words_there() && !is_mutated(Mutation::ignore_words)) {
        decide(rules_->after_ready(state_, goal_by_words(state_.stage)));
        return;
    }
    if (accepted.kind == Acceptance::Kind::by_ready && are_all_ready && !ready.is_mixed &&
        !needs_proposal(ready.goal) && !is_mutated(Mutation::ignore_forced_value)) {
        decide(rules_->after_ready(state_, ready.goal));
        return;
    }
    // Nothing has been decided after state_: the choice is free.
    if (auto next = rules_->after_deaths(state_, dead_)) {
        propose(std::move(*next));
    } else if (end_request_.is_set || heard_end_.is_set) {
        propose(rules_->after_end_request(state_, end_request_.is_set ? end_request_ : heard_end_, dead_));
    } else if (!joining_.empty() && can_join_now()) {
        JobState with_spares = state_;
        ++with_spares.index;
        with_spares.joined.insert(with_spares.joined.end(), joining_.begin(), joining_.end());
        propose(std::move(with_spares));
    } else if (are_all_ready && (ready.goal == Goal::restart || ready.is_mixed)) {
        if (auto restart = rules_->after_restart(state_, ready, dead_)) {
            propose(std::move(*restart));
        }
    } else if (are_all_ready && (!rules_->awaits_spares(state_, dead_) || is_mutated(Mutation::go_on_without_holder))) {
        // While somebody is awaited the others are ready without a PE that nobody holds.
        propose(rules_->after_ready(state_, ready.goal));
    }
}

void Agreement::assert_invariants() const noexcept {
    SFT_ASSERT(parent_ != self_);
    SFT_ASSERT(!is_leading() || ballot_.leader == self_.value());
    SFT_ASSERT(!proposal_ || proposal_->index == state_.index + 1);
    SFT_ASSERT(!proposal_ || proposal_ballot_ <= ballot_);
    SFT_ASSERT(!is_proposing_ || (is_leading() && proposal_ && proposal_ballot_ == ballot_));
    SFT_ASSERT(ballot_dead_.size() <= dead_.size());
    SFT_ASSERT(children_.size() <= static_cast<std::size_t>(fan_out_));
    SFT_ASSERT(joining_.empty() || state_.joined.empty() || joining_.front().process > state_.joined.back().process);
    // The tree of a ballot leaves out whom the ballot lists, and the ballot lists only who is known to be dead.
    SFT_ASSERT_SLOW(std::all_of(ballot_dead_.begin(), ballot_dead_.end(),
                                [&](const Death& death) { return contains(dead_, death.process); }));
    SFT_ASSERT_SLOW(std::none_of(children_.begin(), children_.end(),
                                 [&](const Child& item) { return contains(ballot_dead_, item.process); }));
    SFT_ASSERT_SLOW(std::all_of(state_.deaths.begin(), state_.deaths.end(),
                                [&](const Death& death) { return contains(dead_, death.process); }));
}

bool Agreement::leads_restart() const noexcept {
    const Readiness ready = subtree_readiness();
    return is_leading() && ballot_.leader == self_.value() && have_all_reported() && ready.goal == Goal::restart &&
           !ready.is_mixed;
}

void Agreement::propose(JobState next) {
    SFT_ASSERT(is_leading() && !is_proposing_);  // one proposal in a ballot (lemma 1)
    SFT_ASSERT(next.index == state_.index + 1);
    assert_step(shape_, state_, next);
    proposal_ = std::make_unique<JobState>(std::move(next));
    proposal_ballot_ = ballot_;
    is_proposing_ = true;
    for (Child& item : children_) {
        item.has_accepted = false;
    }
    Message message = make(MessageKind::propose);
    message.index = proposal_->index;
    message.state = *proposal_;
    forward(message);
    progress();
}

void Agreement::decide(JobState next) {
    SFT_ASSERT(is_leading() && ballot_.leader == self_.value());
    SFT_ASSERT(next.index == state_.index + 1);
    SFT_ASSERT(have_all_reported());  // nobody chooses before it knows what may have been decided
    const bool changes_tree = next.replacements != state_.replacements || next.witness != state_.witness;
    const bool is_end = sft::is_over(next);
    const bool concerns_spares =
        changes_tree || is_end || next.view != state_.view || next.joined.size() != state_.joined.size();
    const Lead lead = changes_tree && !is_end ? Lead::anew : Lead::as_before;
    adopt(std::move(next), lead);  // and records it, before anybody is told
    if (lead == Lead::as_before) {
        Message message = make(MessageKind::decide);
        message.state = state_;
        forward(message);
    }
    if (concerns_spares) {
        tell_spares();
    }
    progress();
}

// Those that sleep follow what concerns them: whom they would have to ask, and that the job is over.
void Agreement::tell_spares() const {
    Message message = make(MessageKind::decide);
    message.state = state_;
    for (const ProcId spare : shape_.idle_spares(state_, dead_)) {
        if (spare != self_) {
            world_->send(spare, message);
        }
    }
}

// The leader may die before it has told all spares that the job is over, and then nobody is left to ask.
void Agreement::tell_own_share_of_spares() const {
    const Tree tree(shape_, state_, ballot_dead_, fan_out_);
    const std::int32_t place = tree.place_of(self_);
    if (place < 0) {
        return;
    }
    Message message = make(MessageKind::decide);
    message.state = state_;
    const std::vector<ProcId> spares = shape_.idle_spares(state_, dead_);
    for (auto i = static_cast<std::size_t>(place); i < spares.size(); i += static_cast<std::size_t>(tree.size())) {
        if (spares[i] != self_) {  // the witness is among them
            world_->send(spares[i], message);
        }
    }
}

// `next` is decided. The votes about it are history. Lead::anew: the participants change, so the leader has to begin
// with the new ones before it may decide anything more.
void Agreement::adopt(JobState next, Lead lead) {
    const JobState before = std::exchange(state_, std::move(next));
    SFT_ASSERT(!sft::is_over(before));
    SFT_ASSERT(state_.index > before.index && state_.version >= before.version && state_.view >= before.view);
    if (!is_dismissed_) {  // a spare that is let go makes the end up from what it has heard last
        if (!is_mutated(Mutation::forget_to_record)) {
            world_->record(state_);
        }
        assert_value(shape_, state_);
    }
    if (!is_dismissed_ && state_.index == before.index + 1) {
        assert_step(shape_, before, state_);
    }
    if (!is_mutated(Mutation::view_check_missing)) {
        own_ready_ = {};
    }
    proposal_.reset();
    is_proposing_ = false;
    has_said_ready_ = false;
    for (Child& item : children_) {
        const std::optional<Readiness> early = std::exchange(item.next_ready, std::nullopt);
        reset(item);
        if (early && state_.index == before.index + 1) {
            item.ready = *early;
        }
    }
    std::erase_if(joining_, [&](const Joined& joined) {
        return contains(dead_, joined.process) ||
               (!state_.joined.empty() && joined.process <= state_.joined.back().process);
    });
    static_cast<void>(learn_all(state_.deaths));
    SFT_ASSERT(is_stopped_ || dead_.size() >= state_.deaths.size());
    if (lead == Lead::anew) {
        begin_ballot();
    }
    if (is_over()) {
        tell_own_share_of_spares();
    }
    world_->decided(before, state_);
}

void Agreement::request_end(EndReason reason, std::int32_t exit_status) {
    if (is_over()) {
        return;
    }
    SFT_ASSERT(reason != EndReason::none);
    end_request_ = {true, reason, self_, exit_status};
    told_leader_ = leader();
    if (told_leader_ == self_) {
        progress();
    } else if (told_leader_ != kNoProc) {
        Message message = make(MessageKind::end_request);
        message.end = end_request_;
        world_->send(told_leader_, message);
    }
}

}  // namespace sft
