// The spares when every holder is dead ("Memory of the node" in docs/protocols.md).

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/assert.hpp"
#include "recovery/membership/agreement.hpp"

namespace sft {

// The lowest of them asks the others what they have heard last: one of them may have become a PE.
void Agreement::look_after_orphans() {
    const std::vector<ProcId> idle = shape_.idle_spares(state_, dead_);
    if (idle.empty() || idle.front() != self_) {
        // Between nodes the lowest one may know of other deaths than this one, and believe that somebody leads; one
        // that came while the job ran may not know that it was counted in.
        if (!idle.empty() && (!shape_.is_one_node() || !state_.joined.empty())) {
            world_->send(idle.front(), news());
        }
        return;
    }
    if (!has_census_begun_) {
        has_census_begun_ = true;
        census_ = {};
    }
    for (const ProcId spare : idle) {
        if (spare != self_ && !census_.told.contains(spare)) {
            ask_in_census(spare);
        }
    }
    count_census();
}

void Agreement::ask_in_census(ProcId spare) {
    Message census = make(MessageKind::census);
    std::copy_if(dead_.begin(), dead_.end(), std::back_inserter(census.deaths),
                 [](const Death& death) { return death.is_certain && !is_mutated(Mutation::census_without_deaths); });
    census_.awaited.push_back(spare);
    census_.told[spare] = census.deaths;
    world_->send(spare, census);
}

void Agreement::take_census(ProcId from, const Message& message) {
    if (message.kind == MessageKind::census) {
        // What these have said and has not come yet is never heard after the answer, as in a ballot.
        const bool is_news = learn_told(message.deaths);
        const bool is_later = !shape_.is_one_node() && leader() == kNoProc && learn_left_value() == LeftValue::adopted;
        Message reply = make(MessageKind::census_reply);
        reply.state = state_;
        reply.deaths = dead_;
        world_->send(from, reply);
        if (is_news || is_later) {
            react_to_deaths();
        }
        return;
    }
    if (is_over()) {
        return;
    }
    static_cast<void>(learn_told(message.deaths));
    note_covered(from, message);
    if (message.state && message.index > state_.index) {
        adopt(*message.state);
        tell_holders();
    }
    std::erase(census_.awaited, from);
    react_to_deaths();
}

// Who knows nobody that leads has read what the dead of its node had decided last, and answers with no earlier value.
// They were dead by then if it says so for certain, or was told so: without a lease it is not sure itself.
void Agreement::note_covered(ProcId from, const Message& reply) {
    if (shape_.is_one_node() || !reply.state || Tree(shape_, *reply.state, reply.deaths, fan_out_).size() != 0) {
        return;
    }
    for (const Death& death : reply.deaths) {
        const NodeId node = shape_.node_of(*reply.state, death.process);
        const bool is_certain = death.is_certain || contains(census_.told[from], death.process);
        if (is_certain && node != kNoNode && node == shape_.node_of(*reply.state, from)) {
            census_.covered.push_back(death.process);
        }
    }
}

void Agreement::count_census() {
    std::erase_if(census_.awaited, [&](ProcId process) { return contains(dead_, process); });
    if (!census_.awaited.empty()) {
        return;
    }
    if (const Votes votes = count_votes(); !votes.is_enough) {
        stop({Stop::Reason::no_quorum, votes.n_reachable, votes.n_all});
        return;
    }
    SFT_ASSERT(!is_leading());  // a spare decides, since nobody leads
    if (shape_.is_one_node()) {
        if (const std::optional<JobState> value = world_->decided_by(dead_)) {
            go_on_from(*value);
            return;
        }
    } else if (go_on_from_nodes()) {
        return;
    }
    adopt(rules_->after_loss_of_all(state_, dead_));
    tell_spares();
}

// What the dead have decided last: nothing that follows from a later value has been done, so this spare may choose what
// does. It takes part by the plan that it makes, and leads, since no lower spare lives.
void Agreement::go_on_from(const JobState& value) {
    if (value.index > state_.index) {
        adopt(JobState(value));
        SFT_ASSERT(is_over() || leader() == kNoProc || leader() == self_);  // plans take the lowest spares
    } else {
        adopt(rules_->after_loss_of_holders(state_, dead_));
    }
    if (is_over()) {
        tell_spares();
    } else {
        react_to_deaths();
    }
}

// What the dead of this node had decided last. (If one of them lives after all, what it has written is decided, too.)
Agreement::LeftValue Agreement::learn_left_value() {
    const NodeId own = own_node_ != kNoNode ? own_node_ : shape_.node_of(state_, self_);
    std::vector<Death> here;
    std::copy_if(dead_.begin(), dead_.end(), std::back_inserter(here),
                 [&](const Death& death) { return shape_.node_of(state_, death.process) == own; });
    const std::optional<JobState> value = world_->decided_by(here);
    if (!value) {
        return LeftValue::no_records;
    }
    if (value->index <= state_.index) {
        return LeftValue::known;
    }
    adopt(JobState(*value));
    tell_holders();
    return LeftValue::adopted;
}

// Substitutes that live: whoever was to call them may have died first.
void Agreement::tell_holders() const {
    for (const Replacement& replacement : state_.replacements) {
        if (!is_over() && replacement.process != self_ && !contains(dead_, replacement.process)) {
            tell_of_later_value(replacement.process);
        }
    }
}

// The same on several nodes, if those who live have read what all of the dead have recorded. False: nobody can know
// what these had decided.
bool Agreement::go_on_from_nodes() {
    const LeftValue left = learn_left_value();
    if (left == LeftValue::no_records) {
        return false;
    }
    if (left == LeftValue::adopted) {
        react_to_deaths();
        return true;
    }
    const std::vector<ProcId> unread = whose_records_are_unread();
    if (!unread.empty() && !is_mutated(Mutation::count_unread_records)) {
        return ask_again(unread);
    }
    adopt(rules_->after_loss_of_holders(state_, dead_));
    tell_spares();
    tell_holders();
    if (!is_over()) {
        react_to_deaths();
    }
    return true;
}

// Who is dead by the last value had nothing to do with any later one; nor who has come and was not counted in, since a
// value is recorded first by one who takes part by the one before, or by a spare of that.
std::vector<ProcId> Agreement::whose_records_are_unread() const {
    const NodeId own = own_node_ != kNoNode ? own_node_ : shape_.node_of(state_, self_);
    std::vector<ProcId> unread;
    for (const Death& death : dead_) {
        const NodeId node = shape_.node_of(state_, death.process);
        const bool is_agreed = std::any_of(state_.deaths.begin(), state_.deaths.end(),
                                           [&](const Death& agreed) { return agreed.process == death.process; });
        const bool is_here = death.is_certain && node == own;
        const bool is_covered =
            std::find(census_.covered.begin(), census_.covered.end(), death.process) != census_.covered.end();
        if (node != kNoNode && !is_agreed && !is_here && !is_covered) {
            unread.push_back(death.process);
        }
    }
    return unread;
}

// Whoever answered before that one died there. False: nobody lives there, or he has been asked already.
bool Agreement::ask_again(const std::vector<ProcId>& unread) {
    const std::vector<ProcId> idle = shape_.idle_spares(state_, dead_);
    for (const ProcId process : unread) {
        const auto beside = std::find_if(idle.begin(), idle.end(), [&](ProcId spare) {
            return spare != self_ && shape_.node_of(state_, spare) == shape_.node_of(state_, process);
        });
        const bool is_asked =
            std::find(census_.asked_about.begin(), census_.asked_about.end(), process) != census_.asked_about.end();
        if (beside == idle.end() || is_asked) {
            return false;
        }
        census_.asked_about.push_back(process);
        if (std::find(census_.awaited.begin(), census_.awaited.end(), *beside) == census_.awaited.end()) {
            ask_in_census(*beside);
        }
    }
    return true;
}

}  // namespace sft
