// What comes in. What the leader makes of it, and what goes out, is in agreement_lead.cpp; news that has reached no
// leader in agreement_news.cpp.

#include "recovery/membership/agreement.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.hpp"

namespace sft {
Agreement::Agreement(const Options& options)
    : shape_(options.shape),
      self_(options.self),
      fan_out_(options.fan_out),
      rules_(options.rules),
      world_(options.world),
      state_(options.first) {
    SFT_ASSERT(rules_ != nullptr && world_ != nullptr);
    SFT_ASSERT(self_.value() >= 0 && fan_out_ > 0);
    const Tree tree(shape_, state_, {}, fan_out_);
    take_place(tree);
    if (is_participant_) {
        parent_ = tree.parent_of(self_);
    }
    for (Child& item : children_) {
        item.has_reported = true;  // there is nothing to report in the first ballot
        reset(item);
    }
}

std::size_t Agreement::bytes() const noexcept {
    const auto state_bytes = [](const JobState& state) {
        return state.deaths.capacity() * sizeof(Death) + state.replacements.capacity() * sizeof(Replacement) +
               state.unprotected.capacity() * sizeof(PeId) +
               (state.failed.capacity() + state.further.capacity()) * sizeof(FailedPe) +
               state.lost.capacity() * sizeof(PeId) + state.protected_layout.capacity() * sizeof(Replacement) +
               state.joined.capacity() * sizeof(Joined);
    };
    return sizeof *this + state_bytes(state_) + (dead_.capacity() + ballot_dead_.capacity()) * sizeof(Death) +
           children_.capacity() * sizeof(Child) +
           (census_.awaited.capacity() + census_.covered.capacity() + asked_.capacity()) * sizeof(ProcId) +
           joining_.capacity() * sizeof(Joined) + (proposal_ ? sizeof(JobState) + state_bytes(*proposal_) : 0);
}

ProcId Agreement::leader() const { return Tree(shape_, state_, dead_, fan_out_).root(); }

ProcId Agreement::depends_on() const {
    const ProcId leading = leader();
    return is_over() || leading == self_ ? kNoProc : leading;
}

void Agreement::stop(const Stop& why) {
    is_stopped_ = true;
    world_->must_stop(why);
}

void Agreement::ready(std::uint64_t index, Goal goal, std::uint64_t hash) {
    if (index != state_.index) {
        return;
    }
    SFT_ASSERT(goal != Goal::none && goal != Goal::any);  // these are sums
    // Who has heard of its PE before the ballot that calls it says this in its answer to that.
    own_ready_ = {goal, false, hash};
    if (goal == goal_by_words(state_.stage) && (is_open() || is_mutated(Mutation::vote_in_ballot))) {
        vote();
    } else if (is_open()) {
        want_ballot();
    }
    if (!is_open()) {
        progress();
    }
}

void Agreement::receive(ProcId from, const Message& message) {
    if (is_stopped_ || is_dismissed_) {
        return;
    }
    if (message.kind == MessageKind::excluded) {
        if (!is_mutated(Mutation::ignore_exclusion)) {
            stop({});
        }
        return;
    }
    if (contains(dead_, from)) {
        // What the dead have said has been heard by somebody who lives, or was never decided. Whoever was taken for
        // dead across a partition and speaks again is told to stop.
        const auto death = std::find_if(dead_.begin(), dead_.end(), [&](const Death& d) { return d.process == from; });
        if (!death->is_certain) {
            world_->send(from, make(MessageKind::excluded));
        }
        if (!is_mutated(Mutation::ignore_exclusion)) {
            return;
        }
    }
    switch (message.kind) {
        case MessageKind::ready: take_ready(from, message); break;
        case MessageKind::collect: take_collect(from, message); break;
        case MessageKind::report: take_report(from, message); break;
        case MessageKind::propose: take_propose(from, message); break;
        case MessageKind::accepted: take_accepted(from, message); break;
        case MessageKind::decide: take_decide(message); break;
        case MessageKind::deaths: take_deaths(from, message); break;
        case MessageKind::end_request: take_end_request(message); break;
        case MessageKind::census:
        case MessageKind::census_reply: take_census(from, message); break;
        case MessageKind::join: take_join(from, message.node); break;
        case MessageKind::ping: take_ping(from, message); break;
        case MessageKind::news: take_news(from, message); break;
        case MessageKind::ballot_wanted: take_ballot_wanted(message); break;
        case MessageKind::excluded:
        case MessageKind::stalled:  // the owner's business
        case MessageKind::heartbeat: break;
    }
}

void Agreement::take_ping(ProcId from, const Message& question) {
    Message answer = make(MessageKind::heartbeat);
    answer.asked_ns = question.asked_ns;
    answer.node = question.node;
    answer.testimony = question.node == kNoNode ? Testimony::none : world_->testimony_about(question.node);
    world_->send(from, answer);
}

// ---- spares that come while the job runs ----

void Agreement::request_join(std::vector<ProcId> everybody, NodeId node) {
    SFT_ASSERT(self_.value() >= shape_.n_processes && node != kNoNode);  // none of those that the job started with
    asked_ = std::move(everybody);
    own_node_ = node;
    say_join();
}

void Agreement::say_join() const {
    if (has_joined(state_, self_)) {
        return;
    }
    Message join = make(MessageKind::join);
    join.node = own_node_;
    for (const ProcId process : asked_) {
        if (!contains(dead_, process)) {
            world_->send(process, join);
        }
    }
}

void Agreement::take_join(ProcId from, NodeId node) {
    // Who has come after this process may be all that is left to say that it was counted in.
    const bool is_waiting = own_node_ != kNoNode && !has_joined(state_, self_);
    if (is_waiting && std::find(asked_.begin(), asked_.end(), from) == asked_.end()) {
        asked_.push_back(from);
    }
    const auto is_from = [&](const Joined& other) { return other.process == from; };
    if (from.value() < shape_.n_processes || std::any_of(joining_.begin(), joining_.end(), is_from)) {
        return;
    }
    const std::int32_t n_nodes = shape_.nodes != nullptr ? shape_.nodes->n_nodes() : 1;
    if (node.value() >= n_nodes) {
        world_->send(from, make(MessageKind::excluded));  // nobody would know whom to keep its copies away from
        return;
    }
    if (has_joined(state_, from)) {
        Message decide = make(MessageKind::decide);  // whoever was to tell it may have died
        decide.state = state_;
        world_->send(from, decide);
        return;
    }
    if (!state_.joined.empty() && from < state_.joined.back().process) {
        // All have to know who asks whom when nobody leads: the lowest of the sleeping spares asks.
        world_->send(from, make(MessageKind::excluded));
        return;
    }
    const auto is_lower = [](const Joined& other, ProcId process) { return other.process < process; };
    joining_.insert(std::lower_bound(joining_.begin(), joining_.end(), from, is_lower), {from, node});
    SFT_ASSERT_SLOW(std::is_sorted(joining_.begin(), joining_.end(),
                                   [](const Joined& a, const Joined& b) { return a.process < b.process; }));
    progress();
}

// ---- deaths ----

bool Agreement::learn(const Death& death) {
    if (death.process == self_) {
        if (!is_mutated(Mutation::ignore_exclusion)) {
            stop({});
        }
        return false;
    }
    if (!insert_sorted(dead_, death)) {
        return false;
    }
    SFT_ASSERT(!contains(dead_, self_));
    world_->heard_of_death(death);
    return true;
}

bool Agreement::learn_all(std::span<const Death> deaths) {
    bool is_news = false;
    for (const Death& death : deaths) {
        is_news = learn(death) || is_news;
    }
    return is_news;
}

// Who tells it may not have heard yet that this process was declared dead by the one that is dead now.
bool Agreement::learn_told(std::span<const Death> deaths) {
    bool is_news = false;
    for (Death death : deaths) {
        // Most are known, and to find out about the lease takes a look at every process of the node.
        if (!contains(dead_, death.process)) {
            death.is_certain = death.is_certain && world_->has_lease();
            is_news = true;
            static_cast<void>(learn(death));
        }
    }
    return is_news;
}

void Agreement::process_died(const Death& death) {
    if (learn(death)) {
        say_join();
        react_to_deaths();
    }
}

void Agreement::process_left(ProcId process, Stage how) {
    if (is_over() || contains(dead_, process)) {
        return;
    }
    // It cannot have left before that was decided, and every participant has accepted it before. Who has not was none
    // for the others: they have declared it dead across a partition. That includes a substitute that has been told of
    // its number by somebody else than its leader, and not been asked anything since.
    if (is_participant_ || is_participant(self_)) {
        if (proposal_ && proposal_->stage == how) {
            adopt(JobState(*proposal_));
        } else {
            stop({});
        }
    } else if (how == Stage::finished) {
        is_dismissed_ = true;  // that is not the value that was decided: what others send about that means nothing here
        adopt(rules_->after_ready(state_, Goal::finish));
    } else {
        is_dismissed_ = true;
        adopt(rules_->after_end_request(state_, {true, EndReason::requested, process, 1}, dead_));
    }
}

void Agreement::react_to_deaths() {
    if (is_over() || is_stopped_) {
        return;
    }
    const Tree tree(shape_, state_, dead_, fan_out_);
    if (tree.size() == 0) {
        look_after_orphans();
        return;
    }
    has_census_begun_ = false;
    if (tree.root() != self_) {
        report_deaths();
    } else if (is_mutated(Mutation::no_ballot_after_death)) {
        progress();
    } else {
        if (ballot_.leader != self_.value() || Tree(shape_, state_, ballot_dead_, fan_out_).size() != tree.size()) {
            begin_ballot();
        }
        progress();
    }
}

std::vector<Death> Agreement::deaths_since_ballot() const {
    std::vector<Death> since;
    std::copy_if(dead_.begin(), dead_.end(), std::back_inserter(since),
                 [&](const Death& death) { return !contains(ballot_dead_, death.process); });
    return since;
}

// Everything that the leader's ballot does not show it to know. Whenever something is added, or the leader is another
// one, all of it is said again: what was said to a leader that died is lost.
void Agreement::report_deaths() {
    const ProcId leading = leader();
    Message message = make(MessageKind::deaths);
    // A leader that has not begun its first ballot may know nothing of what its predecessor knew.
    message.deaths = ballot_.leader == leading.value() ? deaths_since_ballot() : dead_;
    if (!message.deaths.empty()) {
        world_->send(leading, message);
    }
    if (end_request_.is_set && told_leader_ != leading) {
        request_end(end_request_.reason, end_request_.exit_status);
    }
}

void Agreement::take_deaths(ProcId from, const Message& message) {
    // It takes this process for the leader, and has missed a value: perhaps the one that says who takes part.
    if (is_participant(from) && message.index < state_.index && !is_over() && leader() != self_) {
        tell_of_later_value(from);
    }
    const bool is_news = !is_mutated(Mutation::drop_deaths_of_others) && learn_told(message.deaths);
    note_what_leader_knows(from, message.deaths);
    if (is_news) {
        react_to_deaths();
    }
}

// ---- a ballot, from below ----

void Agreement::take_collect(ProcId from, const Message& message) {
    if (message.ballot <= ballot_ || !message.state || (is_mutated(Mutation::keep_lower_ballot) && !has_answered_)) {
        return;
    }
    const bool is_news = learn_told(message.deaths);
    if (message.index < state_.index) {
        // A later value has been decided than the leader knows: it will begin again with that.
        tell_of_later_value(ProcId(message.ballot.leader));
        if (is_news) {
            react_to_deaths();
        }
        return;
    }
    join(message.ballot, *message.state, message.deaths, from);
    if (!is_mutated(Mutation::adopt_without_forwarding) || message.index == state_.index) {
        forward(message);
    }
    if (message.index > state_.index) {
        adopt(*message.state);
    }
    if (dead_.size() != ballot_dead_.size()) {
        react_to_deaths();  // the leader may wait for one of them through this process
    }
    progress();
}

void Agreement::tell_of_later_value(ProcId to) const {
    Message later = make(MessageKind::report);
    later.state = state_;
    later.deaths = dead_;
    world_->send(to, later);
}

void Agreement::take_later_state(const Message& message) {
    if (message.index <= state_.index) {
        return;
    }
    adopt(*message.state);
    if (!is_over() && leader() == self_) {
        begin_ballot();
        progress();
    }
}

void Agreement::take_report(ProcId from, const Message& message) {
    if (message.state) {
        const bool is_news = learn_told(message.deaths);
        take_later_state(message);
        if (is_news) {
            react_to_deaths();
        }
        return;
    }
    Child* const sender = message.ballot == ballot_ ? child(from) : nullptr;
    if (sender == nullptr || message.index != state_.index) {
        return;
    }
    sender->has_reported = true;
    sender->ready = message.ready;
    sender->accepted = message.accepted;
    if (message.end.is_set) {
        heard_end_ = message.end;
    }
    if (!is_mutated(Mutation::drop_deaths_of_others) && learn_told(message.deaths)) {
        react_to_deaths();
    }
    progress();
}

void Agreement::take_ready(ProcId from, const Message& message) {
    Child* const sender = message.ballot == ballot_ ? child(from) : nullptr;
    if (sender != nullptr && message.index == state_.index + 1) {
        sender->next_ready = message.ready;  // somebody else than its parent has told it of that value
    }
    if (sender == nullptr || message.index != state_.index) {
        return;
    }
    sender->ready = message.ready;
    sender->accepted = message.accepted;
    progress();
}

void Agreement::take_propose(ProcId from, const Message& message) {
    const bool is_current = message.ballot == ballot_ && from == parent_;
    if ((!is_current && !is_mutated(Mutation::accept_old_ballot)) || !message.state ||
        message.index != state_.index + 1) {
        return;
    }
    proposal_ = std::make_unique<JobState>(*message.state);
    proposal_ballot_ = message.ballot;
    SFT_ASSERT(!is_proposing_);  // a ballot has one leader, which is its parent here
    has_said_accepted_ = false;
    for (Child& item : children_) {
        item.has_accepted = false;
    }
    forward(message);
    progress();
}

void Agreement::take_accepted(ProcId from, const Message& message) {
    Child* const sender = message.ballot == ballot_ ? child(from) : nullptr;
    if (sender != nullptr && message.index == state_.index + 1) {
        sender->has_accepted = true;
        progress();
    }
}

void Agreement::take_decide(const Message& message) {
    if (!message.state || message.index <= state_.index || is_over()) {
        return;
    }
    if (message.ballot == ballot_) {
        forward(message);
    }
    const bool is_news = learn_all(message.state->deaths);
    adopt(*message.state);
    // Nobody else may be left to lead by that value, of whose death this process has heard before.
    if (is_news || (!is_over() && leader() == kNoProc)) {
        react_to_deaths();
    }
    progress();
}

void Agreement::take_end_request(const Message& message) {
    if (!message.end.is_set || is_over()) {
        return;
    }
    heard_end_ = message.end;
    const ProcId leading = leader();
    if (leading == self_) {
        progress();
    } else if (leading != kNoProc) {
        world_->send(leading, message);
    }
}

}  // namespace sft
